"""Bilinear models: scores, words and explanations against dense products; files that are whole."""

import statistics

import numpy as np
import pytest
from scipy import sparse

from dranking.bilinear.estimator import BilinearRanker
from dranking.bilinear.evaluation import evaluate_bilinear, ranked_blocks
from dranking.bilinear.model import BilinearModel, load_bilinear_model
from dranking.bilinear.texts.make_collection import collection, text_collection
from dranking.bilinear.texts.preferences import (
    preferences_from_judgments,
    preferences_from_table,
    same_class,
)
from dranking.errors import DataError, UsageError
from tests.reference.bilinear import exact_scores

TEXTS = ["cat and mouse", "cat and dog", "dog and bone", "stock and bond", "bond and share"]
WORDS = ("bone", "cat", "dog", "mouse")
W = np.array(
    [[1.0, 0.2, 0.9, 0.0], [0.0, 1.0, 0.4, 0.8], [0.5, -0.7, 0.6, 0.1], [0.0, 0.3, 0.0, 1.0]],
    dtype=np.float32,
)


def model(**others):
    return BilinearModel(sparse.csr_array(W), WORDS, WORDS, **others)


def test_related_words_leave_out_the_word_itself_and_what_is_negative():
    assert [(p.word, pytest.approx(p.value)) for p in model().related("dog", 3)] == [
        ("bone", 0.5), ("mouse", 0.1),
    ]  # fmt: skip
    assert [p.word for p in model().related("cat", 1)] == ["mouse"]
    with pytest.raises(UsageError, match="'fish' is not among the model's 4 words"):
        model().related("fish")


def test_top_pairs():
    pairs = [(p.query_word, p.word) for p in model().top_pairs(3)]
    assert pairs == [("bone", "dog"), ("cat", "mouse"), ("dog", "cat")]


def test_scores_and_explanations_are_dense_products():
    rng = np.random.default_rng(0)
    q, d = (sparse.random_array((n, 4), density=0.6, format="csr", rng=rng) for n in (3, 5))
    scores = model().scores(q, d)
    np.testing.assert_allclose(scores, q @ W @ d.toarray().T, rtol=1e-5)
    for i in range(3):
        for j in range(5):
            shares = model().explain(q[[i]], d[[j]])
            assert sum(s.value for s in shares) == pytest.approx(scores[i, j], abs=1e-6)
            for share in shares:
                a, b = WORDS.index(share.query_word), WORDS.index(share.word)
                wanted = q[i, a] * W[a, b] * d[j, b]
                assert share.value == pytest.approx(wanted, rel=1e-5)
            assert model().explain(q[[i]], d[[j]], 1) == shares[:1]


def test_saved_and_loaded_and_text_in(tmp_path):
    documents = text_collection(TEXTS, labels=["pet", "pet", "pet", "money", "money"])
    trained = BilinearRanker(1e-4, learning_rate=1.0, n_steps=500).fit(documents).to_model()
    trained.save(tmp_path / "model")
    assert {f.suffix for f in (tmp_path / "model").iterdir()} == {".npy", ".json"}
    read = load_bilinear_model(tmp_path / "model")
    np.testing.assert_array_equal(read.weights.toarray(), trained.weights.toarray())
    assert read.provenance["parameters"]["n_steps"] == 500
    scores = read.scores(["a mouse"], ["a bone", "a share"])
    np.testing.assert_array_equal(scores, trained.scores(["a mouse"], ["a bone", "a share"]))
    assert scores[0, 0] > scores[0, 1]
    assert read.explain("a mouse", "a bone")[0][:2] == ("mouse", "bone")


def test_damaged_and_foreign_directories(tmp_path):
    with pytest.raises(DataError, match=r"no manifest\.json: not a bilinear-model"):
        load_bilinear_model(tmp_path)
    text_collection(TEXTS).save(tmp_path / "docs")
    with pytest.raises(DataError, match="not the manifest of a bilinear-model"):
        load_bilinear_model(tmp_path / "docs")
    model().save(tmp_path / "model")
    file = tmp_path / "model" / "indices.npy"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"is damaged: indices\.npy"):
        load_bilinear_model(tmp_path / "model")


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match="vectors of documents have 3 words, but the model has 4"):
        model().scores(sparse.csr_array((1, 4)), sparse.csr_array((1, 3)))
    other = collection(np.eye(4), words=["a", "b", "c", "d"])
    with pytest.raises(DataError, match="the queries have other words"):
        model().scores(other, sparse.csr_array((1, 4)))
    with pytest.raises(DataError, match="vectors of documents have values that are NaN"):
        model().scores(sparse.eye_array(1, 4), sparse.csr_array([[0.0, np.nan, 0.0, 0.0]]))
    with pytest.raises(DataError, match="no vectorizer for the text of queries"):
        model().scores(["cat"], sparse.csr_array((1, 4)))
    with pytest.raises(UsageError, match="no names"):
        BilinearModel(sparse.csr_array(W)).top_pairs()


def brute_error(scores, relevance):
    documents = list(zip(scores, relevance, strict=True))
    return np.mean([s <= o for s, r in documents for o, other in documents if r > other])


def test_evaluation_of_classes():
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=40)
    # Few different values: many ties, which are errors. Rationals tell ties from small differences.
    documents = collection(rng.integers(3, size=(40, 4)), labels=labels)
    result = evaluate_bilinear(model(), documents, same_class(documents))
    vectors = documents.vectors.toarray()
    used = np.flatnonzero(vectors.any(axis=1))
    exact, _ = exact_scores(vectors.tolist(), vectors.tolist(), W.tolist())
    errors = []
    for q in used:
        others = used[used != q]
        scores = [exact[q][other] for other in others]
        errors.append(brute_error(scores, labels[others] == labels[q]))
    assert result.error == pytest.approx(np.mean(errors), rel=1e-12)
    wanted = statistics.stdev(errors) / len(errors) ** 0.5
    assert result.standard_error == pytest.approx(wanted, rel=1e-12)
    alike = [int((labels[used] == labels[q]).sum()) - 1 for q in used]
    assert result.n_tuples == sum(n * (len(used) - 1 - n) for n in alike)
    assert 0.0 < result.metrics["map"] < 1.0


def test_evaluation_of_judgments():
    rng = np.random.default_rng(2)
    queries, documents = collection(rng.random((3, 4))), collection(rng.random((20, 4)))
    query_ids, doc_ids = np.repeat([0, 1, 2], 10), np.tile(np.arange(10), 3)
    grades = rng.integers(3, size=30)
    preferences = preferences_from_judgments(queries, documents, query_ids, doc_ids, grades)
    result = evaluate_bilinear(model(), documents, preferences, queries=queries)
    scores = queries.vectors.toarray() @ W @ documents.vectors.toarray()[:10].T
    wanted = [brute_error(scores[q], grades[10 * q : 10 * q + 10]) for q in range(3)]
    assert result.error == pytest.approx(np.mean(wanted))
    aps = []
    for q in range(3):
        order = np.argsort(-scores[q])
        relevant = (grades[10 * q : 10 * q + 10] > 0)[order]
        ranks = np.flatnonzero(relevant) + 1
        aps.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    assert result.metrics["map"] == pytest.approx(np.mean(aps))
    [(block, _)] = ranked_blocks(model(), documents, preferences, queries=queries)
    assert block.doc_ids.to_pylist() == doc_ids.tolist()
    table = preferences_from_table(queries, documents, [0], [1], [2])
    with pytest.raises(UsageError, match="has no rankings"):
        evaluate_bilinear(model(), documents, table, queries=queries)
