"""The bilinear ranker against plain loops over the same tuples, and what its options promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dranking.bilinear.estimator import BilinearRanker
from dranking.bilinear.texts.make_collection import collection
from dranking.bilinear.texts.preferences import (
    preferences_from_judgments,
    preferences_from_table,
    same_class,
)
from dranking.bilinear.training import DRAWN_AT_ONCE, epoch_ends
from dranking.bilinear.tuples import tuple_sampler
from dranking.engine.executor import ThreadExecutor
from dranking.errors import DataError, UsageError
from dranking.models.training.learning_curve import curve_facts
from tests.reference import bilinear as reference

N_WORDS = 12


def topics(n=60, n_words=N_WORDS, seed=0):
    """Documents whose words follow from their class."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=n)
    likely = np.random.default_rng(99).random((3, n_words)) ** 3
    vectors = (rng.random((n, n_words)) < likely[classes]) * rng.random((n, n_words))
    words = [f"w{i}" for i in range(n_words)]
    return collection(vectors / 2, labels=classes, words=words)


def draws(preferences, ranker, n_steps):
    """The tuples of a fit with one shard, epoch after epoch."""
    tuples, first = [], 0
    ends = epoch_ends(n_steps, ranker.n_epochs, ranker.period)
    for epoch, end in enumerate(ends):
        rng = np.random.default_rng((ranker.random_state, epoch, 0))
        assert end - first <= DRAWN_AT_ONCE
        batch = tuple_sampler(preferences).draw(rng, end - first)
        tuples += zip(*(a.tolist() for a in batch), strict=True)
        first = end
    return tuples


def plain(documents):
    return documents.vectors.toarray().astype(float).tolist()


@settings(max_examples=25)
@given(
    n_steps=st.integers(1, 300),
    n_epochs=st.integers(1, 6),
    period=st.integers(1, 40),
    schedule=st.sampled_from(["decaying", "constant"]),
    start=st.sampled_from(["identity", "zero"]),
    refit=st.booleans(),
)
def test_fit_is_the_algorithm_of_the_paper(n_steps, n_epochs, period, schedule, start, refit):
    documents = topics()
    ranker = BilinearRanker(
        2e-3, learning_rate=0.7, schedule=schedule, period=period, n_steps=n_steps,
        n_epochs=n_epochs, start=start, refit=refit, random_state=n_steps,
    ).fit(documents)  # fmt: skip
    tuples = draws(same_class(documents), ranker, n_steps)
    W = (np.eye(N_WORDS) if start == "identity" else np.zeros((N_WORDS, N_WORDS))).tolist()
    options = {"C": 0.7, "constant": schedule == "constant", "period": period}
    reference.train(W, plain(documents), plain(documents), tuples, lam=2e-3, **options)
    if refit:
        # Float32 may have an entry that float64 has not: the support is taken as it was found.
        once = clone(ranker).set_params(refit=False).fit(documents).weights_
        support = set(zip(*(a.tolist() for a in once.nonzero()), strict=True))
        reference.train(W, plain(documents), plain(documents), tuples, support=support, **options)
    np.testing.assert_allclose(ranker.weights_.toarray(), W, atol=2e-5)


def test_it_learns_what_words_go_together():
    documents, others = topics(200), topics(200, seed=1)
    judged = (others, same_class(others))
    ranker = BilinearRanker(1e-3, learning_rate=2.0, n_steps=3_000).fit(
        documents, validation=judged
    )
    cosine = BilinearRanker(n_steps=1, learning_rate=1e-9).fit(documents, validation=judged)
    assert ranker.learning_curve_[-1].validation < 0.75 * cosine.learning_curve_[-1].validation
    assert [point.n_steps for point in ranker.learning_curve_] == list(range(300, 3_001, 300))
    assert ranker.learning_curve_[-1].n_stored == ranker.weights_.nnz < N_WORDS**2
    loss = [point.objective for point in ranker.learning_curve_]
    assert loss[-1] < 0.9 * loss[0]


@pytest.mark.parametrize("refit", [False, True])
def test_checkpoint_goes_on_to_the_same_bits(tmp_path, refit, monkeypatch):
    documents = topics()
    options = {"learning_rate": 0.7, "n_steps": 1_050, "n_epochs": 5, "refit": refit}
    whole = BilinearRanker(1e-3, **options).fit(documents)
    n_epochs = 5 * (1 + refit)
    assert len(whole.learning_curve_) == n_epochs
    for stop in range(n_epochs):
        ranker = BilinearRanker(1e-3, **options, checkpoint=tmp_path / f"c{stop}")
        with pytest.raises(KeyboardInterrupt):
            ranker.fit(documents, executor=Interrupted(stop))
        ranker.fit(documents)
        np.testing.assert_array_equal(ranker.weights_.data, whole.weights_.data)
        np.testing.assert_array_equal(ranker.weights_.indices, whole.weights_.indices)
        assert curve_facts(ranker.learning_curve_) == curve_facts(whole.learning_curve_)
    with pytest.raises(UsageError, match="other random_state; remove it"):
        ranker.set_params(random_state=1).fit(documents)
    with pytest.raises(UsageError, match="other data; remove it"):
        ranker.set_params(random_state=0).fit(topics(seed=2))


class Interrupted(ThreadExecutor):
    """Is interrupted after so many epochs."""

    def __init__(self, n_epochs):
        super().__init__(1)
        self.left = n_epochs

    def submit(self, function, /, *args, name):
        if name == "weights":
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        return super().submit(function, *args, name=name)


@pytest.mark.parametrize("refit", [False, True])
def test_shards_do_not_depend_on_workers(refit):
    documents = topics()
    options = {"learning_rate": 0.7, "n_steps": 1_200, "n_epochs": 3, "n_shards": 3, "refit": refit}
    runs = []
    for n_threads in (1, 2, 4):
        executor = ThreadExecutor(n_threads)
        runs.append(BilinearRanker(1e-3, **options).fit(documents, executor=executor))
        executor.close()
    for run in runs[1:]:
        np.testing.assert_array_equal(run.weights_.toarray(), runs[0].weights_.toarray())
    assert runs[0].learning_curve_[2].n_steps == 1_200


def test_shards_are_averaged_by_their_queries():
    """One epoch: the mean of what each shard's plain loop comes to, small entries dropped."""
    documents = topics(61)
    preferences = same_class(documents)
    ranker = BilinearRanker(2e-3, learning_rate=0.7, n_steps=400, n_epochs=1, n_shards=2, period=50)
    ranker.fit(documents)
    mean = np.zeros((N_WORDS, N_WORDS))
    for shard in range(2):
        sampler = tuple_sampler(preferences, shard, 2)
        tuples = sampler.draw(np.random.default_rng((0, 0, shard)), 200)
        W = np.eye(N_WORDS).tolist()
        reference.train(
            W, plain(documents), plain(documents),
            zip(*(a.tolist() for a in tuples), strict=True), C=0.7, lam=2e-3, period=50,
        )  # fmt: skip
        mean += len(sampler.queries) / len(tuple_sampler(preferences).queries) * np.array(W)
    threshold = 2e-3 * 0.7 * np.sum(1 / np.sqrt(np.arange(1, 201))) / 4
    mean[np.abs(mean) < threshold] = 0.0
    np.testing.assert_allclose(ranker.weights_.toarray(), mean, atol=2e-5)


def test_supports():
    documents = topics()
    diagonal = BilinearRanker(1e-4, learning_rate=0.7, n_steps=500, support="diagonal").fit(
        documents
    )
    assert (diagonal.weights_.toarray()[~np.eye(N_WORDS, dtype=bool)] == 0).all()
    band = sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(N_WORDS, N_WORDS))
    banded = BilinearRanker(0.0, learning_rate=0.7, n_steps=500, support=band).fit(documents)
    assert set(zip(*banded.weights_.nonzero(), strict=True)) <= set(
        zip(*band.nonzero(), strict=True)
    )
    assert banded.weights_.nnz > N_WORDS
    with pytest.raises(UsageError, match=r"support is of shape \(2, 2\)"):
        BilinearRanker(support=sparse.eye_array(2)).fit(documents)


def test_groups_of_rows_and_blocks_vanish_together():
    documents = topics()
    options = {"learning_rate": 0.7, "n_steps": 500, "start": "zero"}
    rows = BilinearRanker(3e-3, penalty="rows", **options).fit(documents).weights_.toarray()
    used = set(documents.vectors.indices.tolist())
    entrywise = BilinearRanker(3e-3, **options).fit(documents).weights_.toarray()
    vanished = (rows == 0).all(axis=1)
    assert vanished[list(used)].any()
    assert (rows[~vanished] != 0).mean() > (entrywise[~vanished] != 0).mean()
    groups = np.arange(N_WORDS) // 4
    blocks = BilinearRanker(2e-2, penalty=(groups, groups), **options).fit(documents)
    W = blocks.weights_.toarray().reshape(3, 4, 3, 4)
    vanished = (W == 0).all(axis=(1, 3))
    assert vanished.any()
    assert not vanished.all()
    with pytest.raises(UsageError, match="penalty groups 2 rows and 12 columns"):
        BilinearRanker(penalty=([0, 1], groups)).fit(documents)


def test_rectangular_from_judgments_and_tables():
    rng = np.random.default_rng(3)
    queries = collection(rng.random((5, 4)), ids=list("abcde"))
    documents = collection(rng.random((30, 9)))
    query_ids, doc_ids = np.repeat(list("abcde"), 6), np.arange(30)
    grades = np.tile([0, 1, 2], 10)
    preferences = preferences_from_judgments(queries, documents, query_ids, doc_ids, grades)
    ranker = BilinearRanker(0.0, learning_rate=0.5, n_steps=2_000, start="zero")
    ranker.fit(documents, preferences, queries=queries)
    scores = ranker.predict(queries, documents)
    assert ranker.weights_.shape == (4, 9)
    assert scores.shape == (5, 30)
    np.testing.assert_allclose(
        scores, queries.vectors @ ranker.weights_.toarray() @ documents.vectors.toarray().T,
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    table = preferences_from_table(queries, documents, ["a"], [3], [7])
    learned = clone(ranker).fit(documents, table, queries=queries).predict(queries, documents)
    assert learned[0, 3] - learned[0, 7] > 0.9
    with pytest.raises(DataError, match="have 4 words and the documents 9"):
        ranker.set_params(start="identity").fit(documents, preferences, queries=queries)
    with pytest.raises(DataError, match="queries need judgments"):
        ranker.set_params(start="zero").fit(documents, queries=queries)


def test_partial_fit_goes_on():
    first, later = topics(), topics(seed=5)
    ranker = BilinearRanker(1e-3, learning_rate=0.7, n_steps=300, n_epochs=1)
    ranker.partial_fit(first).partial_fit(later, n_steps=200)
    W = np.eye(N_WORDS).tolist()
    tuples = draws(same_class(first), ranker, 300)
    reference.train(W, plain(first), plain(first), tuples, C=0.7, lam=1e-3)
    drawn = tuple_sampler(same_class(later)).draw(np.random.default_rng((0, 1, 0)), 200)
    reference.train(
        W, plain(later), plain(later), zip(*(a.tolist() for a in drawn), strict=True),
        C=0.7, lam=1e-3, t0=300,
    )  # fmt: skip
    np.testing.assert_allclose(ranker.weights_.toarray(), W, atol=2e-5)
    assert ranker.learning_curve_[-1].n_steps == 500
    with pytest.raises(DataError, match="have 3 words"):
        ranker.partial_fit(topics(n_words=3))


def test_an_unfitted_ranker_says_so():
    with pytest.raises(NotFittedError, match="call fit first"):
        BilinearRanker().to_model()


def test_what_does_not_belong_together_is_refused():
    documents, fewer = topics(), topics(20)
    with pytest.raises(DataError, match="are of 20 documents, but there are 60"):
        BilinearRanker().fit(documents, same_class(fewer))
    table = preferences_from_table(documents, documents, [0, 3], [1, 50], [2, 4])
    with pytest.raises(DataError, match="name row 50 of the documents, but there are 20"):
        BilinearRanker().fit(fewer, table)
    judgments = preferences_from_judgments(documents, documents, [40, 40], [1, 2], [0, 1])
    with pytest.raises(DataError, match="name row 40 of the queries, but there are 20"):
        BilinearRanker().fit(fewer, judgments)
    with pytest.raises(DataError, match="queries need judgments"):
        BilinearRanker().fit(documents, same_class(documents), queries=fewer)
    others = topics(n_words=14)
    with pytest.raises(DataError, match="words of the validation documents are not those"):
        BilinearRanker().fit(documents, validation=(others, same_class(others)))
    with pytest.raises(DataError, match="are of 60 documents, but there are 20"):
        BilinearRanker().fit(documents, validation=(fewer, same_class(documents)))


def test_empty_documents_and_those_alone_in_their_class_are_counted_and_never_drawn():
    vectors = topics().vectors.toarray() + 0.01
    classes = np.arange(60) % 3
    vectors[[4, 9]] = 0.0
    classes[30] = 7
    documents = collection(vectors, labels=classes)
    preferences = same_class(documents)
    assert preferences.n_excluded == 3
    drawn = np.unique(tuple_sampler(preferences).draw(np.random.default_rng(0), 5_000))
    assert drawn.tolist() == [row for row in range(60) if row not in {4, 9, 30}]
    ranker = BilinearRanker(learning_rate=0.7, n_steps=200).fit(documents)
    assert ranker.to_model().provenance["data"]["n_excluded"] == 3
    assert ranker.to_model().provenance["relative_rounding"] is None
