"""RankSVM and logistic ranking at their optimum, against solvers that list the pairs."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.executor import ThreadExecutor
from dranking.engine.progress import reporting
from dranking.pairwise.objective import PairwiseObjective
from tests.data.store.blocks import counted_reads
from tests.models.problems import random_problem
from tests.reference import pair_losses as reference

LISTED = {
    "squared-hinge": reference.squared_hinge,
    "hinge": reference.hinge,
    "logistic": reference.logistic,
}


def ranker_of(loss, regularization, **options):
    if loss == "logistic":
        return dr.RankLogistic(regularization, **options)
    return dr.RankSVM(regularization, loss=loss, **options)


def differences(X, y, query_ptr):
    """Rows x_a - x_b of all pairs."""
    listed = reference.pairs_of(y, query_ptr)
    return np.array([X[a].astype(float) - X[b] for _, a, b in listed])


@pytest.fixture
def problem():
    return random_problem(0, n_queries=25, n_features=5, max_documents=9)


@pytest.mark.parametrize("loss", ["squared-hinge", "hinge"])
@pytest.mark.parametrize("regularization", [0.01, 1.0])
def test_optimum_is_that_of_scikit_learn_on_listed_pairs(loss, regularization):
    problem = random_problem(1, n_queries=20, n_features=4, max_documents=8)
    query_ptr = np.concatenate(([0], np.cumsum(problem.sizes)))
    P = differences(problem.X, problem.y, query_ptr)
    signs = np.where(np.arange(len(P)) % 2, 1, -1)
    # Of their sum of C loss + |w|^2 / 2, ours is lambda times.
    C = 1 / (regularization * len(P))
    peer = LinearSVC(
        loss=loss.replace("-", "_"), C=C, fit_intercept=False, tol=1e-10, max_iter=10**6
    ).fit(P * signs[:, None], signs)
    ours = ranker_of(loss, regularization, tol=1e-8).fit(
        from_arrays(problem.X, problem.y, problem.qid)
    )
    listed = LISTED[loss]
    at_peer = reference.objective(
        listed, problem.X, problem.y, query_ptr, np.ones(20), peer.coef_[0], regularization
    )
    at_ours = reference.objective(
        listed, problem.X, problem.y, query_ptr, np.ones(20), ours.coef_, regularization
    )
    assert ours.objective_ == pytest.approx(at_ours, rel=1e-10)
    # The rounded corner of the hinge costs at most half its width, 0.001, and in practice less.
    assert at_ours == pytest.approx(at_peer, rel=1e-6 if loss == "squared-hinge" else 2e-4)
    assert ours.n_pairs_ == len(P)


@pytest.mark.parametrize("loss", LISTED)
@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_weighted_queries_and_unlabelled_documents(problem, loss, layout):
    X, y, query_ptr, weights = problem.labelled()
    ours = ranker_of(loss, 0.1, tol=1e-8).fit(problem.dataset(layout, max_documents=20))

    def objective(w):
        return reference.objective(LISTED[loss], X.astype(float), y, query_ptr, weights, w, 0.1)

    assert ours.objective_ == pytest.approx(objective(ours.coef_), rel=1e-10)
    found = minimize(objective, ours.coef_, method="Nelder-Mead", options={"maxiter": 60})
    assert found.fun >= ours.objective_ * (1 - (1e-3 if loss == "hinge" else 1e-7))


def test_layouts_and_blocks_agree(problem):
    fits = [
        dr.RankSVM(0.1, tol=1e-9).fit(problem.dataset(layout, max_documents=size)).coef_
        for layout in (np.asarray, np.asfortranarray, sparse.csr_array)
        for size in (5, 40, 1000)
    ]
    for coef in fits[1:]:
        np.testing.assert_allclose(coef, fits[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LISTED)
@pytest.mark.parametrize("scale", [1e-12, 1e3, 1e15])
def test_features_of_another_unit_take_the_same_steps(problem, loss, scale):
    expected = ranker_of(loss, 0.01).fit(problem.dataset())
    scaled = problem._replace(X=(np.float32(scale) * problem.X))
    found = ranker_of(loss, 0.01 * scale**2).fit(scaled.dataset())
    np.testing.assert_allclose(scale * found.coef_, expected.coef_, rtol=1e-3)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-5)
    assert abs(found.n_iter_ - expected.n_iter_) <= 2


@pytest.mark.parametrize("loss", LISTED)
def test_the_smallest_tolerance_ends_where_rounding_hides_descent(problem, loss):
    """Without a warning: nothing can be done about it."""
    exact = ranker_of(loss, 0.01, tol=1e-300).fit(problem.dataset())
    rough = ranker_of(loss, 0.01).fit(problem.dataset())
    assert exact.objective_ <= rough.objective_ * (1 + 1e-5)
    assert exact.n_iter_ < 200


def test_no_point_is_computed_twice(problem, monkeypatch):
    points = []
    original = PairwiseObjective.at
    monkeypatch.setattr(
        PairwiseObjective, "at", lambda self, loss, w: points.append(w) or original(self, loss, w)
    )
    ranker = dr.RankSVM(1e-4).fit(problem.dataset())
    assert len(points) == ranker.n_iter_ + 1  # zero weights, and every step


def test_steps_of_all_losses_count(problem):
    steps = []
    with reporting(lambda stage, done, total, facts: steps.append((stage, done))):
        ranker = dr.RankSVM(0.01, loss="hinge").fit(problem.dataset())
    newton = [done for stage, done in steps if stage == "newton"]
    assert len(newton) == ranker.n_iter_
    assert newton.count(1) > 1  # one for each width


@pytest.mark.parametrize("loss", LISTED)
def test_equal_documents_leave_nothing_to_learn(loss):
    ranker = ranker_of(loss, 1.0).fit(np.ones((4, 2)), [0, 1, 0, 1], qid=[1, 1, 2, 2])
    np.testing.assert_array_equal(ranker.coef_, 0.0)
    assert ranker.n_iter_ == 0
    assert ranker.objective_ == pytest.approx(np.log(2) if loss == "logistic" else 1.0)


@pytest.mark.parametrize("loss", LISTED)
@pytest.mark.parametrize(("regularization", "what"), [(1e-300, "small"), (1e300, "large")])
def test_a_regularization_beyond_reckoning_is_named(problem, loss, regularization, what):
    with pytest.raises(dr.UsageError, match=rf"regularization is 1e.300, too {what}"):
        ranker_of(loss, regularization).fit(problem.dataset())


def test_no_sum_of_losses_is_below_0():
    """Differences of large numbers, whose sum of squared hinges rounds below 0."""
    far = [6620422656, 20185380]
    X = [[0, 0, 2 * far[1]], [0, -far[0], -far[1]], [202.249, far[0], 0], [-202.249, *far]]
    ranker = dr.RankSVM(1e-3).fit(X, [1, 1, 2, 0], qid=[0] * 4)
    assert ranker.objective_ >= 0.0
    assert ranker.gap_ >= 0.0


@pytest.mark.parametrize("limit", [None, 1])
def test_blocks_that_do_not_fit_are_read_in_every_pass(problem, limit, tmp_path, monkeypatch):
    dataset = problem.dataset(max_documents=20)
    stored = dr.write_dataset(map(dataset.block, range(dataset.n_blocks)), tmp_path / "d")
    executor = ThreadExecutor(1)
    executor.memory_limit = limit
    read = counted_reads(stored, monkeypatch)
    dr.RankSVM(0.1).fit(stored, executor=executor)
    assert sorted(set(read)) == list(range(stored.n_blocks))
    # The last pass reads few columns: it is over the queries that the model was trained on.
    assert (len(read) == 2 * stored.n_blocks) == (limit is None)


def test_threads_and_reading_anew_change_no_bit(problem, tmp_path):
    dataset = problem.dataset(max_documents=20)
    stored = dr.write_dataset((dataset.block(b) for b in range(dataset.n_blocks)), tmp_path / "d")
    expected = dr.RankSVM(0.1).fit(stored).coef_
    for n_threads in (1, 3):
        executor = ThreadExecutor(n_threads)
        executor.memory_limit = 1 if n_threads == 3 else None
        np.testing.assert_array_equal(
            dr.RankSVM(0.1).fit(stored, executor=executor).coef_, expected
        )


def test_what_teaches_nothing_changes_nothing(problem):
    """Queries of one grade or one document, and queries of weight 0."""
    more_X = np.vstack([problem.X, np.full((4, 5), 9.0, dtype=np.float32)])
    more_y = np.concatenate([problem.y, [1, 1, 2, 0]])
    qid = np.concatenate([problem.qid, [100, 100, 101, 102]])
    weights = np.concatenate([problem.weights, [1, 1, 1]])
    alone = dr.RankSVM(0.1).fit(problem.dataset())
    both = dr.RankSVM(0.1).fit(more_X, more_y, qid=qid, query_weights=weights)
    np.testing.assert_allclose(both.coef_, alone.coef_, rtol=1e-7)
    doubled = dr.RankSVM(0.1).fit(
        np.vstack([problem.X] * 2),
        np.concatenate([problem.y, 2 - problem.y]),
        qid=np.concatenate([problem.qid, problem.qid + 1000]),
        query_weights=np.concatenate([problem.weights, 0 * problem.weights]),
    )
    np.testing.assert_allclose(doubled.coef_, alone.coef_, rtol=1e-7)


@pytest.mark.parametrize("loss", LISTED)
def test_no_pair_at_all(loss):
    with pytest.raises(dr.DataError, match="no pair to learn from"):
        ranker_of(loss, 1.0).fit(np.eye(4), [1, 1, 0, 0], qid=[1, 1, 2, 2])


def test_steps_that_do_not_suffice_are_warned_of(problem):
    with pytest.warns(ConvergenceWarning, match="not at the minimum after 1 steps"):
        dr.RankSVM(1e-6, tol=1e-12, max_iter=1).fit(problem.dataset())


def test_a_model_of_it_says_how_it_was_made(problem):
    ranker = dr.RankSVM(0.1).fit(problem.dataset())
    facts = ranker.to_model().provenance
    assert facts["ranker"] == "RankSVM"
    assert facts["objective"] == ranker.objective_
    assert facts["n_iter"] == ranker.n_iter_ > 0


@pytest.mark.slow
def test_mq2008_map_is_the_published_one(mq2008):
    """Five-fold mean test MAP 0.4696, C chosen on the validation folds (LETOR 4.0 baselines)."""
    grid = [2.0**e for e in range(-14, -1, 4)]
    files = [mq2008 / f"S{part}.txt" for part in range(1, 6)]
    opened = [dr.open_dataset(file) for file in files]
    scores = []
    for fold in range(5):
        train = dr.open_dataset([files[(fold + i) % 5] for i in range(3)])
        validation, test = (opened[(fold + i) % 5] for i in (3, 4))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rankers = [dr.RankSVM(value, loss="hinge", tol=1e-3) for value in grid]
            models = [ranker.fit(train).to_model() for ranker in rankers]
        by_map = [dr.evaluate(m, validation, ["map"], "letor4").metrics["map"] for m in models]
        best = models[int(np.argmax(by_map))]
        scores.append(dr.evaluate(best, test, ["map"], "letor4").metrics["map"])
    assert np.mean(scores) == pytest.approx(0.4696, abs=0.005)
