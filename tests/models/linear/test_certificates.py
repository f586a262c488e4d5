"""Every ranker states how far rounding moved its result, in the model's facts too."""

import re

import numpy as np
import pytest
from sklearn.base import clone

import dranking as dr
from dranking.errors import AccuracyWarning
from dranking.max_margin.estimator import MaxMarginRanker
from dranking.pairwise import stochastic_ranker
from dranking.rankrls.gram.statistics_store import build_statistics
from tests.models.problems import random_problem
from tests.rankrls.raw_problems import raw_problem

STEPS = {"n_epochs": 2, "steps_per_epoch": 200}
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
    **{
        f"SPD with loss {loss}": (dr.SPD(0.1, loss=loss, sgd=STEPS), 1e-12)
        for loss in ("hinge", "squared-hinge", "logistic", "squared")
    },
    "LCRA": (dr.LCRA(0.1, mu=0.0, sgd=STEPS), 1e-12),
    "max-margin of pairs by steps": (MaxMarginRanker(0.1, "pairwise", solver=STEPS), 1e-12),
    "max-margin of AP by steps": (MaxMarginRanker(0.1, "ap", solver=STEPS), 1e-11),
    "max-margin of NDCG by steps": (MaxMarginRanker(0.1, "ndcg", solver=STEPS), 1e-11),
}


@pytest.mark.parametrize("name", CERTIFIED)
@pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")
def test_rankers_certify_what_they_state(name):
    ranker, largest = CERTIFIED[name]
    ranker.fit(random_problem(0, n_features=6).dataset())
    assert 0.0 <= ranker.relative_rounding_ <= largest
    assert ranker.to_model().provenance["relative_rounding"] == ranker.relative_rounding_


@pytest.mark.parametrize("name", [name for name in CERTIFIED if "SPD" in name or "steps" in name])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rankers_of_random_steps_name_the_columns_of_rounding(name, monkeypatch):
    """The two columns of the largest parts of scores; no number is stated to 1e-18."""
    monkeypatch.setattr(stochastic_ranker, "STATED_ACCURACY", 1e-18)
    problem = random_problem(0, n_features=6)
    problem.X[:, [2, 4]] *= np.float32(64.0)
    ranker = clone(CERTIFIED[name][0])
    with pytest.warns(AccuracyWarning, match="the objective by a share of .*e-1") as seen:
        ranker.fit(problem.dataset())
    sizes = np.abs(problem.X).max(axis=0) * np.abs(ranker.coef_)
    first, second = (f"f{i + 1}" for i in np.argsort(-sizes)[:2])
    said = rf"mostly in ({first} and {second}|{second} and {first})\. Scale the features"
    assert any(re.search(said, str(each.message)) for each in seen)


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
