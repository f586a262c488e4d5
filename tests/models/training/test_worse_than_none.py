"""Training step by step that ends above the objective of zero weights says so."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import dranking as dr
from dranking.bilinear.texts.make_collection import collection
from dranking.max_margin.estimator import MaxMarginRanker
from tests.models.problems import random_problem

STEPS = dr.SGD(eta0=10.0, steps_per_epoch=200, n_epochs=1, average="none")
RANKERS = {
    "SPD": dr.SPD(loss="hinge", sgd=STEPS),
    "LCRA": dr.LCRA(loss="hinge", sgd=STEPS, mu=0.0),
    "max-margin of pairs": MaxMarginRanker(1e-3, "pairwise", solver=STEPS),
    "max-margin of lists": MaxMarginRanker(1e-3, "ndcg", solver=STEPS),
}


def raw_data():
    problem = random_problem(0, n_features=4)
    X = problem.X * np.array([1.0, 1e4, 1.0, 1e-2], dtype=np.float32)
    return problem._replace(X=X.astype(np.float32)).dataset()


@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.filterwarnings("ignore:documents of a query differ")
def test_a_model_worse_than_zero_weights_is_named(name):
    """`eta0` is as for scaled columns; the losses of zero weights are those of the margins."""
    said = r"[0-9] without any weights: the model is worse than none\. Lower eta0 .*in f2\."
    with pytest.warns(ConvergenceWarning, match=said):
        RANKERS[name].fit(raw_data())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ranker", [dr.SPD(), dr.LCRA(mu=0.0)], ids=str)
def test_nothing_is_said_of_steps_that_fit_the_data(ranker):
    ranker.fit(random_problem(0, n_features=4).dataset())


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_of_the_noise_of_the_last_steps():
    """The features predict nothing, and the last iterate is 3 % above zero weights."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    y = rng.integers(0, 3, 200).astype(float)
    sgd = dr.SGD(steps_per_epoch=1_000, n_epochs=1, average="none")
    ranker = dr.SPD(1e-4, loss="logistic", sgd=sgd).fit(X, y, qid=np.repeat(np.arange(10), 20))
    assert 1.01 * np.log(2) < ranker.objective_ < 1.05 * np.log(2)


def texts(length):
    """Vectors of documents of three classes, whose words follow from their class."""
    rng = np.random.default_rng(0)
    classes = rng.integers(3, size=60)
    vectors = (rng.random((60, 12)) < rng.random((3, 12))[classes] ** 3) * rng.random((60, 12))
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors *= length / np.maximum(norms, 1e-9)
    return collection(vectors, labels=classes, words=[f"w{i}" for i in range(12)])


@pytest.mark.parametrize("refit", [False, True])
def test_a_bilinear_model_worse_than_zero_weights_is_named(refit):
    """Vectors are not of unit length; the mean hinge of zero weights is 1."""
    ranker = dr.BilinearRanker(learning_rate=1.0, n_steps=1_000, refit=refit)
    said = (
        r"^after 1,000 steps the objective is [1-9].*e\+.*, and 1 without any weights: the model "
    )
    said += (
        r"is worse than none\. Lower learning_rate \(it is 1\), or scale the vectors to length 1"
    )
    with pytest.warns(ConvergenceWarning, match=said.replace("1,000", "2,000") if refit else said):
        ranker.fit(texts(1_000.0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{}, {"learning_rate": 1.0}, {"refit": True}], ids=str)
def test_nothing_is_said_of_vectors_of_unit_length(options):
    dr.BilinearRanker(n_steps=2_000, **options).fit(texts(1.0))
