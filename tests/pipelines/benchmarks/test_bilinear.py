import json

import numpy as np
import pytest
from scipy import sparse

from dranking.bilinear.texts.make_collection import collection
from pipelines.benchmarks import bilinear, harness
from pipelines.reproduce.bilinear.corpora import Corpus
from tests.reference import bilinear as reference


def documents(n_words, n=80, n_classes=4):
    rng = np.random.default_rng(0)
    vectors = sparse.random_array((n, n_words), density=0.4, rng=rng)
    return collection(vectors, labels=rng.integers(n_classes, size=n))


def test_the_peer_takes_the_steps_of_the_paper():
    docs = documents(10)
    csr = bilinear.csr_of(docs.vectors)
    tuples = bilinear.Tuples(*np.random.default_rng(1).integers(80, size=(3, 300)))
    steps = bilinear.STEPS._replace(learning_rate=0.5, regularization=1e-3)
    W = np.eye(10, dtype=np.float32)
    room = np.empty(20, dtype=np.int32), np.empty(20)
    assert bilinear.eager_steps(W, csr, tuples, steps, 0, *room) == 300
    wanted = np.eye(10).tolist()
    vectors = docs.vectors.toarray().astype(float).tolist()
    listed = zip(*(a.tolist() for a in tuples), strict=True)
    reference.train(wanted, vectors, vectors, listed, C=0.5, lam=1e-3)
    np.testing.assert_allclose(W, wanted, atol=1e-5)


def test_short_documents_have_as_many_words_each():
    made = bilinear.short(documents(200))
    assert set(np.diff(made.vectors.indptr)) == {bilinear.FLAT_WORDS}
    np.testing.assert_allclose(made.vectors.power(2).sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_there", [True, False])
def test_every_figure_is_measured(is_there, monkeypatch, tmp_path):
    monkeypatch.setattr(bilinear, "WARM_UP", 200)
    monkeypatch.setattr(bilinear, "TIMED", 20)
    if is_there:
        made = {n: Corpus(documents(n), documents(n)) for n in (1_000, 3_000, 5_000)}
        monkeypatch.setattr(bilinear, "newsgroups", lambda _, n: made[n])
    options = harness.parser("").parse_args(["--quick", "--data", str(tmp_path)])
    figures = bilinear.measure(options)
    assert len({f.name for f in figures}) == len(figures) == (11 if is_there else 2)
    assert all((f.skipped is None) == is_there for f in figures)
    json.dumps([f.as_json() for f in figures])
