"""RankSVM on raw features, against the minimum in 300-bit arithmetic."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import dranking as dr
from dranking.errors import AccuracyWarning
from tests.rankers.raw_problems import drawn_problem, raw_problem
from tests.reference.exact_pairs import least_squared_hinge


def assert_at_the_minimum(seed):
    problem = raw_problem(
        seed,
        scale=[1.0, 2.0**-40, 2.0**40][seed % 3],
        weighted=seed % 2 == 1,
        dominant=seed % 5 == 0,
    )
    features = np.sort(np.random.default_rng(seed).permutation(12)[:5])
    problem = problem._replace(X=np.ascontiguousarray(problem.X[:, features]))
    layout = sparse.csr_array if seed % 4 == 3 else np.asarray
    regularization = [2.0**-15, 2.0**-5, 1.0][seed // 3 % 3]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ranker = dr.RankSVM(regularization).fit(problem.dataset(layout, max_documents=60))
    least = least_squared_hinge(*problem.labelled(), regularization, ranker.coef_)
    stated = ranker.gap_ / ranker.objective_
    off = ranker.objective_ / least - 1.0
    assert off <= max(1e-9, 1.01 * stated)
    assert off <= 1e-6 or {AccuracyWarning, ConvergenceWarning} & {each.category for each in seen}


@pytest.mark.parametrize("seed", range(12))
def test_the_minimum_on_raw_features(seed):
    assert_at_the_minimum(seed)


@pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning")
@pytest.mark.parametrize("seed", [92, 120, 348])
def test_an_outlier_at_the_corner_of_the_hinge_does_not_end_the_descent(seed):
    problem, data, regularization = drawn_problem(seed, 4 + seed % 9)
    ranker = dr.RankSVM(regularization).fit(data)
    least = least_squared_hinge(*problem.labelled(), regularization, ranker.coef_)
    assert ranker.objective_ <= least * (1.0 + 1e-8)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(12, 1_012, 50))
def test_the_minimum_on_many_raw_data_sets(first):
    for seed in range(first, first + 50):
        assert_at_the_minimum(seed)


@pytest.mark.parametrize("loss", ["squared-hinge", "hinge", "logistic"])
def test_a_column_in_another_unit_takes_no_part_in_the_end(loss):
    """A column 1e7 times as large as the useful columns; the objective falls with lambda."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] - X[:, 1] + rng.normal(size=240), [-0.5, 1.0])
    X[:, 3] = np.round(np.exp(rng.normal(size=240)) * 1e7)
    qid = np.repeat(np.arange(24), 10)
    objectives = []
    for regularization in (1e-3, 1e-5, 1e-7):
        if loss == "logistic":
            ranker = dr.RankLogistic(regularization)
        else:
            ranker = dr.RankSVM(regularization, loss=loss)
        objectives.append(ranker.fit(X, y, qid=qid).objective_)
    assert objectives[0] > objectives[1] > objectives[2]
    scaled = X * np.float32([1, 1, 1, 2.0**-24])
    unit = dr.RankSVM(1e-9, loss="squared-hinge").fit(scaled, y, qid=qid)
    raw = dr.RankSVM(1e-9, loss="squared-hinge").fit(X, y, qid=qid)
    np.testing.assert_allclose(raw.coef_ * [1, 1, 1, 2.0**24], unit.coef_, rtol=1e-4, atol=1e-6)
