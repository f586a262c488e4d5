"""Every ranker states how far rounding moved its result, in the model's facts too."""

import numpy as np
import pytest
from sklearn.base import clone

import dranking as dr
from dranking.errors import AccuracyWarning
from dranking.rankers.gram.statistics_store import build_statistics
from dranking.rankers.max_margin.estimator import MaxMarginRanker
from tests.rankers.problems import random_problem
from tests.rankers.raw_problems import raw_problem

CERTIFIED = {
    "RankRLS": (dr.RankRLS(), 1e-12),
    "RankRLS by conjugate gradients": (dr.RankRLS(solver="cg"), 1e-8),
    "RankRLSCV": (dr.RankRLSCV([0.1, 1.0]), 1e-10),
    "forward": (dr.GreedyRankRLS(3), 1e-10),
    "backward": (dr.GreedyRankRLS(3, search="backward"), 1e-10),
    "back-fitting": (dr.GreedyRankRLS(3, search=dr.Search(fitting="back")), 1e-10),
    "GreedyRankRLSCV": (dr.GreedyRankRLSCV(3), 1e-10),
    "RankSVM": (dr.RankSVM(0.1), 1e-9),
    "RankLogistic": (dr.RankLogistic(0.1), 1e-9),
    "RankSVM with hinges": (dr.RankSVM(0.1, loss="hinge"), 1e-6),
    "max-margin of pairs": (MaxMarginRanker(0.1, "pairwise"), 1e-6),
    "max-margin of lists": (MaxMarginRanker(0.1, "ap"), 1e-2),
}


@pytest.mark.parametrize("name", CERTIFIED)
@pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")
def test_rankers_certify_what_they_state(name):
    ranker, largest = CERTIFIED[name]
    ranker.fit(random_problem(0, n_features=6).dataset())
    assert 0.0 <= ranker.relative_rounding_ <= largest
    assert ranker.to_model().provenance["relative_rounding"] == ranker.relative_rounding_


@pytest.mark.parametrize("ranker", [dr.SPD(), dr.LCRA(mu=0.0), MaxMarginRanker(0.1, solver="sgd")])
def test_rankers_of_random_steps_certify_nothing(ranker):
    ranker.fit(random_problem(0, n_features=6).dataset())
    assert np.isnan(ranker.relative_rounding_)
    assert ranker.to_model().provenance["relative_rounding"] is None


def test_statistics_name_the_features_behind_the_rounding(tmp_path):
    store = build_statistics(raw_problem(1).dataset(), tmp_path / "s")
    with pytest.warns(AccuracyWarning, match=r"predictions .*nearly depend on others: f\d+"):
        dr.RankRLS(2.0**-15).fit(store)


@pytest.mark.parametrize("name", CERTIFIED)
@pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")
@pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_largest_numbers_that_are_read_overflow_nowhere(name):
    """Grades of 1e50, weights of 1e50, and features of 1e38: no NaN, and no warning of NumPy."""
    problem = random_problem(0, n_features=6)
    ranker = clone(CERTIFIED[name][0])
    if "lists" in name:
        ranker.set_params(max_iter=50)  # by then the planes are as huge as they become
    grades = problem.y if "lists" in name or "max-margin" in name else problem.y * 2e49
    huge = problem._replace(
        X=(problem.X / np.abs(problem.X).max() * 3e38).astype(np.float32),
        y=grades,
        weights=np.full(len(problem.sizes), 1e50),
    )
    ranker.fit(huge.dataset())
    assert 0.0 <= ranker.relative_rounding_ <= 1.0
    assert np.isfinite(ranker.coef_).all()
