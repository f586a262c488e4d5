"""MaxMarginRanker at its optimum, against the definitions by plain loops and other solvers."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_checks

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from dranking.engine.progress import reporting
from dranking.errors import DataError
from tests.models.linear.test_estimator import DO_NOT_APPLY, NO_PAIR, Plain
from tests.models.problems import random_problem
from tests.reference import max_margin as reference

LAMBDA = 0.02
SOLVERS = [
    ("pairwise", "newton"),
    ("pairwise", "cutting-planes"),
    ("pairwise", "sgd"),
    ("ap", "cutting-planes"),
    ("ap", "sgd"),
    ("ndcg", "cutting-planes"),
    ("ndcg", "sgd"),
]


@pytest.fixture(scope="module")
def problem():
    return random_problem(4, n_queries=25, n_features=4, max_documents=6)


def queries(problem):
    X, y, query_ptr, weights = problem.labelled()
    for q, (start, end) in enumerate(itertools.pairwise(query_ptr)):
        yield X[start:end].astype(float), y[start:end], weights[q]


def objective(problem, w, loss, margins="levels"):
    """The objective by plain loops."""
    total = mass = 0.0
    n_levels = int(np.nanmax(problem.y)) + 1
    for X, y, weight in queries(problem):
        if len(set(y > 0 if loss == "ap" else y)) < 2:
            continue
        scores = (X @ w).tolist()
        if loss == "pairwise":
            total += weight * reference.pairwise_losses(scores, y.tolist(), margins, n_levels)[2]
            mass += weight * len(list(reference.margin_pairs(y.tolist(), margins, n_levels)))
        else:
            gains = [float(g > 0) if loss == "ap" else 2.0**g - 1 for g in y]
            total += weight * reference.argmax_hinge(loss, scores, gains)
            mass += weight
    return total / mass + LAMBDA / 2 * w @ w


@pytest.fixture(scope="module")
def optima(problem):
    """A fit to a small duality gap for each loss."""
    return {
        loss: dr.MaxMarginRanker(LAMBDA, loss, solver="cutting-planes", tol=1e-7).fit(
            problem.dataset()
        )
        for loss in ("pairwise", "ap", "ndcg")
    }


@pytest.mark.parametrize("loss", ["pairwise", "ap", "ndcg"])
def test_objective_is_that_of_the_definition_and_nothing_is_below_the_gap(loss, problem, optima):
    ranker = optima[loss]
    assert ranker.objective_ == pytest.approx(objective(problem, ranker.coef_, loss), rel=1e-9)
    assert 0 <= ranker.gap_ <= 1e-7 * objective(problem, np.zeros(4), loss)
    found = minimize(
        lambda w: objective(problem, w, loss),
        ranker.coef_,
        method="Nelder-Mead",
        options={"maxfev": 15},
    )
    assert found.fun >= ranker.objective_ - ranker.gap_ - 1e-12


@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
def test_solvers_agree(loss, solver, problem, optima):
    ranker = dr.MaxMarginRanker(LAMBDA, loss, solver=solver).fit(problem.dataset())
    least = optima[loss].objective_ - optima[loss].gap_
    assert least <= ranker.objective_ <= least * 1.01
    at_coef = objective(problem, ranker.coef_, loss)
    assert ranker.objective_ == pytest.approx(at_coef, rel=1e-9)
    assert len(ranker.learning_curve_) == (10 if solver == "sgd" else 0)
    assert np.isnan(ranker.gap_) == (solver not in ("cutting-planes", "newton"))
    np.testing.assert_allclose(ranker.coef_, optima[loss].coef_, atol=0.1)


@pytest.mark.parametrize("loss", ["pairwise", "ap"])
def test_margins_by_rank(loss, problem):
    ranker = dr.MaxMarginRanker(LAMBDA, loss, solver="cutting-planes", margins="ranks", tol=1e-6)
    ranker.fit(problem.dataset())
    expected = objective(problem, ranker.coef_, loss, "ranks")
    assert ranker.objective_ == pytest.approx(expected, rel=1e-9)
    assert ranker.n_levels_ == 0


@pytest.mark.parametrize(("loss", "definition"), [("ap", "class_sum"), ("ndcg", "sum")])
def test_sum_form_is_that_of_the_definitions(loss, definition, problem):
    ranker = dr.MaxMarginRanker(LAMBDA, loss, form="sum").fit(problem.dataset())
    hinge = getattr(reference, f"{definition}_hinge")
    total = mass = 0.0
    for X, y, weight in queries(problem):
        gains = [float(g > 0) if loss == "ap" else 2.0**g - 1 for g in y]
        if len(set(gains)) > 1:
            total += weight * hinge(loss, (X @ ranker.coef_).tolist(), gains)
            mass += weight
    expected = total / mass + LAMBDA / 2 * ranker.coef_ @ ranker.coef_
    assert ranker.objective_ == pytest.approx(expected, rel=1e-9)


def test_sum_form_of_long_lists_is_refused():
    problem = random_problem(0, n_queries=3, max_documents=30)
    with pytest.raises(dr.UsageError, match=r"query \d has \d+ documents .* Use the arg-max form"):
        dr.MaxMarginRanker(loss="ndcg", form="sum").fit(problem.dataset())


@pytest.mark.parametrize(("loss", "solver"), [*SOLVERS[1:], ("pairwise", "newton")])
def test_layouts_blocks_and_threads_change_little_or_nothing(loss, solver, problem):
    steps = dr.SGD(n_epochs=1, steps_per_epoch=500, n_shards=2)
    ranker = dr.MaxMarginRanker(LAMBDA, loss, solver=steps if solver == "sgd" else solver)
    dataset = problem.dataset(max_documents=20)
    expected = clone(ranker).fit(dataset, executor=ThreadExecutor(1)).coef_
    np.testing.assert_array_equal(
        clone(ranker).fit(dataset, executor=ThreadExecutor(3)).coef_, expected
    )
    for layout in (np.asfortranarray, sparse.csr_array):
        # Rounding moves the planes; the optimum is the same within the gap.
        other = clone(ranker).fit(problem.dataset(layout, max_documents=20)).coef_
        np.testing.assert_allclose(
            other, expected, atol=0.02 if solver == "cutting-planes" else 1e-5
        )


def test_unlabelled_documents_and_queries_without_a_mistake_to_make_change_nothing(problem):
    X = np.vstack([problem.X, np.full((4, 4), 9.0, dtype=np.float32)])
    y = np.concatenate([problem.y, [1, 1, np.nan, np.nan]])
    qid = np.concatenate([problem.qid, [100, 100, 100, 101]])
    weights = np.concatenate([problem.weights, [2, 2]])
    for loss, solver in SOLVERS:
        steps = dr.SGD(n_epochs=1, steps_per_epoch=500)
        solver = steps if solver == "sgd" else solver
        ranker = dr.MaxMarginRanker(LAMBDA, loss, solver=solver, tol=1e-11)
        alone = clone(ranker).fit(problem.dataset()).coef_
        both = clone(ranker).fit(X, y, qid=qid, query_weights=weights).coef_
        np.testing.assert_allclose(both, alone, rtol=1e-5, atol=1e-5)


def test_convention_says_what_is_relevant(problem):
    graded = np.where(problem.y >= 2, 1.0, 0.0)
    mslr = dr.MaxMarginRanker(LAMBDA, "ap", convention="mslr").fit(problem.dataset())
    binary = dr.MaxMarginRanker(LAMBDA, "ap").fit(problem._replace(y=graded).dataset())
    np.testing.assert_allclose(mslr.coef_, binary.coef_, rtol=1e-9)


def test_levels_given_change_the_margins(problem):
    found = [
        dr.MaxMarginRanker(LAMBDA, "pairwise", n_levels=n).fit(problem.dataset()) for n in (None, 9)
    ]
    assert [ranker.n_levels_ for ranker in found] == [4, 9]
    assert not np.allclose(found[0].coef_, found[1].coef_)
    with pytest.raises(dr.DataError, match="with 3 levels it must be from 0 to 2"):
        dr.MaxMarginRanker(LAMBDA, "pairwise", n_levels=3).fit(problem.dataset())


class InterruptedFitError(Exception):
    """Stands for a crash of the process."""


def interrupt(stage, done, total, facts):
    if stage == "training" and done == 2:
        raise InterruptedFitError


@pytest.mark.parametrize("loss", ["pairwise", "ap", "ndcg"])
def test_an_interrupted_descent_resumes_to_the_same_bits(loss, problem, tmp_path):
    dataset = problem.dataset(max_documents=20)
    validation = dr.Validation(random_problem(9).dataset(), patience=4)
    options = {"solver": dr.SGD(n_epochs=4, steps_per_epoch=200, n_shards=2)}
    expected = dr.MaxMarginRanker(LAMBDA, loss, **options).fit(dataset, validation=validation)
    ranker = dr.MaxMarginRanker(LAMBDA, loss, **options, checkpoint=tmp_path / "c")
    with reporting(interrupt), pytest.raises(InterruptedFitError):
        ranker.fit(dataset, validation=validation)
    epochs = []
    with reporting(lambda stage, done, total, facts: epochs.append((stage, done))):
        ranker.fit(dataset, validation=validation)
    assert [done for stage, done in epochs if stage == "training"] == [3, 4]
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)
    assert ranker.objective_ == expected.objective_
    for change in ({"loss": "ap" if loss != "ap" else "ndcg"}, {"regularization": 0.5}):
        with pytest.raises(dr.UsageError, match="checkpoint is of a training with other"):
            clone(ranker).set_params(**change).fit(dataset, validation=validation)


@pytest.mark.parametrize(
    "change", [{"loss": "pairwise", "n_levels": 7}, {"convention": "trec"}, {"form": "sum"}]
)
def test_a_checkpoint_of_other_margins_is_refused(change, problem, tmp_path):
    """Loss, convention and form are no parameters of SPD, but settings of its checkpoint here."""
    steps = dr.SGD(n_epochs=1, steps_per_epoch=20)
    options = {"solver": steps, "checkpoint": tmp_path / "c"}
    loss = change.get("loss", "ndcg")
    dr.MaxMarginRanker(LAMBDA, loss, **options).fit(problem.dataset())
    with pytest.raises(dr.UsageError, match="checkpoint is of a training with other"):
        dr.MaxMarginRanker(**{"loss": loss, "regularization": LAMBDA, **options, **change}).fit(
            problem.dataset()
        )


@pytest.mark.filterwarnings("ignore:after .* steps the objective is")
@pytest.mark.parametrize("loss", ["pairwise", "ap"])
def test_patience_ends_early_and_keeps_the_best(loss, problem):
    validation = random_problem(9).dataset()
    steps = {"average": "none", "eta0": np.inf, "steps_per_epoch": 20}
    ranker = dr.MaxMarginRanker(1e-3, loss, solver={**steps, "n_epochs": 100})
    judged = dr.Validation(validation, "pairwise_error", patience=4)
    ranker.fit(problem.dataset(), validation=judged)
    scores = [point.validation for point in ranker.learning_curve_]
    assert 5 <= len(scores) < 100
    assert int(np.argmin(scores)) == len(scores) - 5
    best = dr.MaxMarginRanker(1e-3, loss, solver={**steps, "n_epochs": len(scores) - 4})
    np.testing.assert_array_equal(ranker.coef_, best.fit(problem.dataset()).coef_)
    found = dr.evaluate(ranker.to_model(), validation, ["pairwise_error"]).metrics
    assert found["pairwise_error"] == min(scores)
    curve = ranker.to_model().provenance["learning_curve"]
    assert [point["validation"] for point in curve] == scores


@pytest.mark.parametrize("loss", ["pairwise", "ap"])
def test_interrupted_cutting_planes_resume_to_the_same_bits(loss, problem, tmp_path):
    options = {"regularization": 1e-3, "loss": loss, "solver": "cutting-planes"}
    expected = dr.MaxMarginRanker(**options).fit(problem.dataset())
    ranker = dr.MaxMarginRanker(**options, checkpoint=tmp_path / "c", max_iter=4)
    with pytest.warns(ConvergenceWarning, match="after 4 rounds"):
        ranker.fit(problem.dataset())
    rounds = []
    with reporting(lambda stage, done, total, facts: rounds.append((stage, done))):
        ranker.set_params(max_iter=1_000).fit(problem.dataset())
    first, *_ = [done for stage, done in rounds if stage == "cutting planes"]
    assert first == 5
    assert ranker.n_iter_ == expected.n_iter_ > 5
    assert (ranker.objective_, ranker.gap_) == (expected.objective_, expected.gap_)
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)


def test_cutting_planes_of_another_training_are_refused(problem, tmp_path):
    ranker = dr.MaxMarginRanker(checkpoint=tmp_path / "c", tol=0.1)
    ranker.fit(problem.dataset())
    for change in (
        {"regularization": 0.5}, {"loss": "ndcg"}, {"form": "sum"}, {"convention": "mslr"},
        {"tol": 0.01}, {"loss": "pairwise", "solver": "cutting-planes"},
    ):  # fmt: skip
        with pytest.raises(dr.UsageError, match=f"with other .*{next(iter(change))}"):
            clone(ranker).set_params(**change).fit(problem.dataset())
    with pytest.raises(dr.UsageError, match="with other data; remove it"):
        clone(ranker).fit(random_problem(8, n_features=4).dataset())
    (tmp_path / "c" / "heights.npy").write_bytes(b"")
    with pytest.raises(dr.DataError, match=r"is damaged: heights\.npy"):
        clone(ranker).fit(problem.dataset())


def test_validation_and_checkpoints_are_refused_for_other_solvers(problem):
    for solver in ("auto", "cutting-planes"):
        with pytest.raises(dr.UsageError, match="validation is for solver sgd"):
            dr.MaxMarginRanker(solver=solver).fit(problem.dataset(), validation=problem.dataset())
    with pytest.raises(dr.UsageError, match="checkpoint is for solvers sgd and cutting-planes"):
        dr.MaxMarginRanker(loss="pairwise", checkpoint="c").fit(problem.dataset())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("solver", ["cutting-planes", "sgd"])
def test_a_list_too_long_for_ndcg_is_named(solver):
    """The list has 10,000 documents, most of them relevant; the loss AP accepts it."""
    rng = np.random.default_rng(0)
    n = 10_000
    X = np.vstack([rng.normal(size=(n, 2)), np.eye(2)]).astype(np.float32)
    y = np.concatenate([rng.integers(0, 4, n), [0, 1]])
    qid = np.concatenate([np.full(n, 17), [18, 18]])
    with pytest.raises(dr.UsageError, match=r"query 17 has 10,000 documents, 7,\d+ without .*Keep"):
        dr.MaxMarginRanker(loss="ndcg", solver=solver).fit(X, y, qid=qid)
    steps = dr.SGD(n_epochs=1, steps_per_epoch=3) if solver == "sgd" else solver
    dr.MaxMarginRanker(1.0, "ap", solver=steps, tol=0.5, max_iter=50).fit(X, y, qid=qid)


@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
def test_nothing_to_learn(loss, solver):
    with pytest.raises(dr.DataError, match="to learn"):
        dr.MaxMarginRanker(loss=loss, solver=solver).fit(np.eye(4), [1, 1, 0, 0], qid=[1, 1, 2, 2])


def test_rounds_that_do_not_suffice_are_warned_of(problem):
    with pytest.warns(ConvergenceWarning, match="duality gap is .* after 2 rounds") as caught:
        ranker = dr.MaxMarginRanker(1e-6, max_iter=2).fit(problem.dataset())
    assert ranker.gap_ > 0
    assert len(caught) == 1


def test_provenance_of_a_model(problem, optima):
    facts = optima["ap"].to_model().provenance
    assert facts["ranker"] == "MaxMarginRanker"
    assert facts["gap"] == optima["ap"].gap_
    assert facts["n_terms"] == optima["ap"].n_terms_
    sgd = dr.MaxMarginRanker(solver={"n_epochs": 1, "steps_per_epoch": 9}).fit(problem.dataset())
    assert "gap" not in sgd.to_model().provenance
    assert sgd.n_iter_ == 9


def test_two_documents_by_hand():
    """One relevant document, one not, features (x, 0): L is 1/2, the hinge (1/2 - 2 x w)_+.

    With x = 1, 2 and lambda = 1: the gradient at w < 1/8 is -(2 + 4)/2 = -3, past it -1 up to 1/4,
    which is where -1 + w < 0 still: the corner w = 1/4 is the minimum.
    """
    X = np.array([[0.0], [1.0], [0.0], [2.0]], dtype=np.float32)
    ranker = dr.MaxMarginRanker(1.0, "ap", tol=1e-6).fit(X, [0, 1, 0, 1], qid=[7, 7, 8, 8])
    assert ranker.coef_ == pytest.approx([0.25], abs=1e-5)
    assert ranker.objective_ == pytest.approx(0.25**2 / 2, abs=1e-5)
    assert math.isclose(ranker.n_terms_, 2.0)


class PlainMaxMarginRanker(Plain, dr.MaxMarginRanker):
    """scikit-learn's own checks call fit(X, y), with labels that may all be relevant."""

    def __init__(self, regularization=1.0, loss="ndcg", solver="auto"):
        super().__init__(regularization, loss, solver=solver)


@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API:sklearn.exceptions.SkipTestWarning")
@estimator_checks.parametrize_with_checks(
    [PlainMaxMarginRanker()], expected_failed_checks=lambda estimator: DO_NOT_APPLY | NO_PAIR
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("parameters", [{"loss": "pairwise"}, {"loss": "ndcg"}, {"loss": "ap"}])
def test_labels_from_clicks_are_refused_where_grades_are_needed(parameters):
    rng = np.random.default_rng(0)
    X, labels, qid = rng.normal(size=(60, 3)), rng.random(60), np.repeat(np.arange(10), 6)
    with pytest.raises(
        DataError, match=r"query 0 has the label 0\.\d+, and margins.*Train GreedyRankRLS"
    ):
        dr.MaxMarginRanker(**parameters).fit(X, labels, qid=qid)
    whole = dr.MaxMarginRanker(loss="pairwise", margins="ranks").fit(X, labels, qid=qid)
    assert np.any(whole.coef_)
