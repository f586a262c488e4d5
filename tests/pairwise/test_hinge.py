"""The gap of the plain hinge, against steps on the dual variables of listed pairs."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import dranking as dr
from dranking.engine.choose_executor import get_executor
from dranking.max_margin.estimator import MaxMarginRanker
from dranking.pairwise.hinge import minimise_hinge
from dranking.pairwise.objective import PairwiseObjective
from tests.models.problems import random_problem
from tests.reference.pair_losses import hinge_by_pairs


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("regularization", [0.5, 0.02])
@pytest.mark.parametrize("form", ["RankSVM", "max-margin"])
def test_the_minimum_lies_within_the_gap(seed, regularization, form):
    problem = random_problem(seed, n_queries=12, n_features=3)
    if form == "RankSVM":
        ranker = dr.RankSVM(regularization, loss="hinge").fit(problem.dataset())
        found = hinge_by_pairs(*problem.labelled(), regularization, lambda a, b: 1.0)
    else:
        ranker = MaxMarginRanker(regularization, "pairwise").fit(problem.dataset())
        r = int(np.nanmax(problem.y)) + 1
        found = hinge_by_pairs(
            *problem.labelled(), regularization, lambda a, b: r / (r - a) - r / (r - b)
        )
    objective, lower = found
    assert objective - lower <= 1e-8 * objective
    assert ranker.objective_ >= lower * (1.0 - 1e-12)
    assert ranker.objective_ - ranker.gap_ <= objective * (1.0 + 1e-12)
    assert ranker.relative_rounding_ == ranker.gap_ / ranker.objective_ <= 1e-6


def test_a_gap_that_the_rounded_corner_leaves_comes_with_a_warning():
    """One pair, whose minimum near w = 1 is the corner of its hinge."""
    X = np.array([[0.0], [1.0]], dtype=np.float32)
    with pytest.warns(
        ConvergenceWarning, match=r"corner of the hinge is rounded.* may be \de-0\d of"
    ):
        ranker = dr.RankSVM(1e-3, loss="hinge").fit(X, [0, 1], qid=[7, 7])
    assert ranker.relative_rounding_ > 1e-6
    assert ranker.objective_ >= 4.9e-4


def test_a_gap_that_the_end_of_steps_leaves_comes_with_a_warning():
    problem = random_problem(0, n_features=6)
    with pytest.warns(ConvergenceWarning, match="not at the minimum after 1 steps"):
        dr.RankSVM(0.1, loss="hinge", max_iter=1).fit(problem.dataset())


@pytest.mark.parametrize("max_iter", [1, 2, 4])
def test_steps_that_end_far_from_the_minimum_state_no_bound_above_it(max_iter):
    """A direction that orders all pairs has an objective of lambda / 2 times its squared norm."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(60, 8)).astype(np.float32), np.repeat(np.arange(6), 10)
    w = rng.normal(size=8)
    scores = (X @ w).reshape(6, 10)
    grades = scores.argsort(axis=1).argsort(axis=1) // 4
    least = min((s[:, None] - s)[g[:, None] > g].min() for s, g in zip(scores, grades, strict=True))
    with pytest.warns(ConvergenceWarning):
        ranker = dr.RankSVM(1e-16, loss="hinge", max_iter=max_iter).fit(X, grades.ravel(), qid=qid)
    assert ranker.objective_ - ranker.gap_ <= 0.5e-16 * (w @ w) / least**2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scores_that_are_far_apart_hide_no_part_of_the_gap():
    """Grades in steps of one feature: w = 1 is the minimum, lambda / 2, if lambda is below 2 / n.

    The corner has neighbours alone, and their scores are up to 200 margins from the middle.
    """
    n, regularization = 400, 1e-6
    steps = np.arange(n, dtype=np.float32)
    ranker = dr.RankSVM(regularization, loss="hinge").fit(steps[:, None], steps, qid=np.zeros(n))
    assert ranker.objective_ >= regularization / 2.0 * (1.0 - 1e-12)
    assert ranker.objective_ - ranker.gap_ <= regularization / 2.0 * (1.0 + 1e-12)


def test_a_tolerance_that_is_reached_gives_no_warning():
    """The gap is stated all the same: the larger the tolerance, the fewer the widths."""
    problem = random_problem(0, n_features=6)
    rough = dr.RankSVM(0.1, loss="hinge", tol=1e-2).fit(problem.dataset())
    assert 1e-6 < rough.relative_rounding_ <= 1e-2


@pytest.mark.parametrize("first", [np.nan, np.inf, 1e200])
def test_first_weights_without_a_finite_objective_are_refused(first):
    objective = PairwiseObjective(random_problem(0).dataset(), 0.1, get_executor(None))
    with pytest.raises(dr.UsageError, match=r"first weights have the squared norm (nan|inf)"):
        minimise_hinge(objective, 1.0, np.full(len(objective.feature_names), first), 1e-6, 5)
