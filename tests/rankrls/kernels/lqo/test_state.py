"""The state of greedy RankRLS against its definition: dense solves without each query."""

from itertools import pairwise

import numpy as np
import pytest

from dranking.kernels.machine.compile import frozen
from dranking.rankrls.kernels.lqo import state as lqo
from dranking.rankrls.kernels.lqo.pivots import MOST_LANES, Picks, packed_matrices
from dranking.rankrls.kernels.lqo.state import BlockState, Start
from dranking.rankrls.leave_query_out.dense import add_features, announce
from tests.kernels.compiled import needs_compiled
from tests.reference.greedy import centred_queries, held_out_error, ridge_weights

LAMBDA = 0.75


class Problem:
    """Centred queries with their Gram matrices, all features' rows kept."""

    def __init__(self, seed=0, sizes=(4, 1, 6, 3, 5), n_features=7, weights=(1, 2, 0.5, 0, 1.5)):
        rng = np.random.default_rng(seed)
        query_ptr = np.concatenate(([0], np.cumsum(sizes)))
        X = rng.normal(size=(query_ptr[-1], n_features))
        y = rng.integers(0, 3, query_ptr[-1]).astype(np.float64)
        self.queries = centred_queries(X, y, query_ptr, weights)
        gram = np.array([w * X_q.T @ X_q for X_q, _, w in self.queries])
        self.gram = (gram + gram.transpose(0, 2, 1)) / 2  # as ours are, to the last bit
        self.rows = np.ascontiguousarray(self.gram.transpose(1, 0, 2))
        self.products = np.array([w * X_q.T @ y_q for X_q, y_q, w in self.queries])
        self.norms = np.array([w * y_q @ y_q for _, y_q, w in self.queries])
        self.n_features = n_features

    def start(self, size, columns=slice(None)):
        products = np.ascontiguousarray(self.products[:, columns])
        n_queries, n = products.shape
        diagonal = np.ascontiguousarray(np.diagonal(self.gram, axis1=1, axis2=2)[:, columns])
        totals = diagonal.sum(axis=0), products.sum(axis=0)
        start = Start(*map(frozen, (diagonal, products, *totals)))
        block = BlockState(
            start,
            np.empty((0, 4, n)),
            self.norms.copy(),
            packed_matrices(n_queries, size),
            packed_matrices(n_queries, size),
            np.empty((size, n)),
            np.empty((1, n + 1)),
            np.empty((1, n)),
        )
        errors = frozen(block.errors)
        lqo.initial_scores(start, errors, LAMBDA, block.scores[0], block.least[0])
        return block

    def select(self, block, selected, n_picks=1, rows=None, slots=None):
        """The block with the last picks as well, the state being of all features."""
        S = np.array(selected, dtype=np.int64)
        rows, slots = (self.rows, S) if rows is None else (rows, slots)
        total_rows = self.gram.sum(axis=0)[S[len(S) - n_picks :]]
        told = np.empty((0, len(self.queries)))
        return updated(
            block, Picks(slots, rows, total_rows, np.ascontiguousarray(total_rows[:, S]), S, told)
        )

    def defined_state(self, q, selected):
        """(s, r, u, v) of every feature and e, by solving with M_q[S, S]."""
        X_q, y_q, weight = self.queries[q]
        S = list(selected)
        M = self.gram.sum(axis=0) - self.gram[q] + LAMBDA * np.eye(self.n_features)
        c = self.products.sum(axis=0) - self.products[q]
        N = np.linalg.inv(M[np.ix_(S, S)]) if S else np.zeros((0, 0))
        s = np.diag(M) - np.einsum("ji,jk,ki->i", M[S], N, M[S])
        r = c - M[S].T @ N @ c[S]
        p = y_q - X_q[:, S] @ (N @ c[S])
        z = X_q - X_q[:, S] @ (N @ M[S])
        return np.array([s, r, weight * z.T @ p, weight * (z * z).sum(axis=0)]), weight * p @ p


def initial_state(block, q):
    """The state of a query before any feature is selected."""
    state = np.full((4, len(block.total_rows[0])), np.nan)
    lqo.initial_state(block.start, q, LAMBDA, state)
    return state


def updated(block, picks):
    """The block after some picks, itself as it was but for what rounds add to."""
    n_queries, n = block.start.products.shape
    after = block._replace(
        state=np.full((n_queries, 4, n), np.nan),
        errors=np.full_like(block.errors, np.nan),
        scores=np.full((len(picks.total_rows), n + 1), np.nan),
        least=np.full((len(picks.total_rows), n), np.nan),
    )
    # Read-only as in a search, so that Numba does not compile the kernel once more.
    picks = Picks(*map(frozen, picks))
    lqo.update(frozen(block.state), frozen(block.errors), picks, LAMBDA, after)
    return after


@pytest.mark.parametrize("order", [(2, 5, 0, 6, 1, 3, 4), (6, 5, 4, 3, 2, 1, 0)])
def test_state_and_scores_equal_their_definition_in_every_round(order):
    problem = Problem()
    block = problem.start(len(order))
    for t in range(len(order)):
        selected = list(order[:t])
        outside = [i for i in range(problem.n_features) if i not in selected]
        for q in range(len(problem.queries)):
            state, error = problem.defined_state(q, selected)
            found = block.state[q] if t > 0 else initial_state(block, q)
            np.testing.assert_allclose(found[:, outside], state[:, outside], atol=1e-12)
            assert block.errors[q] == pytest.approx(error, rel=1e-12)
        assert block.scores[0, -1] == pytest.approx(
            held_out_error(problem.queries, selected, LAMBDA), rel=1e-12
        )
        complements = [problem.defined_state(q, selected)[0][0] for q in range(len(block.errors))]
        least = np.min(complements, axis=0)
        for i in outside:
            expected = held_out_error(problem.queries, [*selected, i], LAMBDA)
            assert block.scores[0, i] == pytest.approx(expected, rel=1e-12)
            assert block.least[0, i] == pytest.approx(least[i], rel=1e-12)
        block = problem.select(block, order[: t + 1])
    assert block.scores[0, -1] == pytest.approx(held_out_error(problem.queries, order, LAMBDA))


@pytest.mark.parametrize("n_queries", [5, MOST_LANES, MOST_LANES + 3])
def test_factors_are_those_of_the_gram_matrix_without_the_query(n_queries):
    sizes, weights = np.resize((4, 1, 6, 3, 5), n_queries), np.ones(n_queries)
    problem, order = Problem(sizes=sizes, weights=weights), (3, 1, 5, 0)
    block = problem.start(len(order))
    for t in range(len(order)):
        block = problem.select(block, order[: t + 1])
    for q in range(n_queries):
        group, lane = divmod(q, block.factors.shape[2])
        M = problem.gram.sum(axis=0) - problem.gram[q] + LAMBDA * np.eye(problem.n_features)
        expected = np.linalg.cholesky(M[np.ix_(order, order)])
        found = block.factors[group, :, lane]
        np.testing.assert_allclose(found, expected[np.tril_indices(4)], rtol=1e-12)
        within = problem.gram[q][np.ix_(order, order)][np.tril_indices(4)]
        np.testing.assert_array_equal(block.within[group, :, lane], within)


def test_slots_say_where_a_row_is_kept():
    problem, order = Problem(), (3, 1, 5)
    rng = np.random.default_rng(0)
    slots = np.array([4, 0, 2])
    kept = rng.normal(size=(6, len(problem.queries), problem.n_features))
    kept[slots] = problem.rows[list(order)]
    blocks = [problem.start(3), problem.start(3)]
    for t in range(3):
        blocks[0] = problem.select(blocks[0], order[: t + 1])
        blocks[1] = problem.select(blocks[1], order[: t + 1], 1, kept, slots[: t + 1])
    for left, right in zip(*(block._replace(start=0) for block in blocks), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("borders", [(0, 3, 7), (0, 1, 2, 6, 7)])
def test_feature_blocks_that_are_told_of_a_pick_have_the_bits_of_all_features(borders):
    problem, order = Problem(), (2, 5, 0, 6, 1)
    columns = [slice(*pair) for pair in pairwise(borders)]
    whole = problem.start(len(order))
    parts = [problem.start(len(order), part) for part in columns]
    for t, f in enumerate(order):
        S = np.array(order[: t + 1])
        total_row = problem.gram.sum(axis=0)[f]
        owner = next(c for c, part in enumerate(columns) if part.start <= f < part.stop)
        here = (columns[owner].start <= S) & (columns[owner].stop > S)
        announced = announce(
            parts[owner],
            np.ascontiguousarray(problem.rows[:, :, columns[owner]]),
            S,
            np.where(here, S - columns[owner].start, -1),
        )
        whole = problem.select(whole, order[: t + 1])
        for c, part in enumerate(columns):
            rows = np.ascontiguousarray(problem.rows[:, :, part])
            elsewhere = np.full(t + 1, -1)
            told = Picks(S, rows, total_row[None, part], total_row[None, S], elsewhere, announced)
            block = parts[c] = updated(parts[c], told)
            np.testing.assert_array_equal(block.state, whole.state[:, :, part])
            np.testing.assert_array_equal(block.scores[0, :-1], whole.scores[0, :-1][part])
            assert block.scores[0, -1] == whole.scores[0, -1]
            np.testing.assert_array_equal(block.factors, whole.factors)


@pytest.mark.parametrize(
    ("n_queries", "cuts"),
    [
        *((5, cuts) for cuts in ((0, 7), (0, 3, 7), (0, 1, 6, 7))),
        (MOST_LANES + 3, (0, 3, 7)),  # as plain Python, too: a second group of lanes
        *(pytest.param(MOST_LANES + 3, c, marks=needs_compiled) for c in ((0, 7), (0, 1, 6, 7))),
    ],
)
def test_picks_together_have_the_bits_of_one_after_the_other(cuts, n_queries):
    sizes, weights = np.resize((4, 1, 6, 3, 5), n_queries), np.ones(n_queries)
    problem, order = Problem(sizes=sizes, weights=weights), (2, 5, 0, 6, 1, 3, 4)
    rounds = [problem.start(len(order))]
    for t in range(len(order)):
        rounds.append(problem.select(rounds[-1], order[: t + 1]))
    block = problem.start(len(order))
    for first, last in pairwise(cuts):
        block = problem.select(block, order[:last], last - first)
        np.testing.assert_array_equal(block.state, rounds[last].state)
        np.testing.assert_array_equal(block.errors, rounds[last].errors)
        scores = [rounds[t].scores[0] for t in range(first + 1, last + 1)]
        np.testing.assert_array_equal(block.scores, scores)
    np.testing.assert_array_equal(block.factors, rounds[-1].factors)


@pytest.mark.parametrize("first", [(), (4,)])
def test_picks_that_were_wrong_leave_nothing_behind(first):
    problem = Problem()

    def begin():
        block = problem.start(5)
        return problem.select(block, first) if first else block

    block = begin()
    before = block.state.copy(), block.errors.copy()
    problem.select(block, (*first, 2, 6, 1, 3), 4)
    np.testing.assert_array_equal(block.state, before[0])
    np.testing.assert_array_equal(block.errors, before[1])
    found = problem.select(block, (*first, 2, 5, 0), 3)
    expected = problem.select(begin(), (*first, 2, 5, 0), 3)
    t = len(first) + 3
    for name in ("state", "errors", "scores"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    n = t * (t + 1) // 2
    np.testing.assert_array_equal(found.factors[:, :n], expected.factors[:, :n])
    np.testing.assert_array_equal(found.within[:, :n], expected.within[:, :n])


def test_a_feature_without_any_effect_changes_no_bit():
    problem = Problem()
    problem.gram[:, 2] = problem.gram[:, :, 2] = 0.0
    for values in (problem.rows[2], problem.rows[:, :, 2], problem.products[:, 2]):
        values[:] = 0.0
    block = problem.start(3)
    before = problem.select(block, [4])
    assert before.scores[0, 2] == before.scores[0, -1]
    block = problem.select(before, [4, 2])
    np.testing.assert_array_equal(block.errors, before.errors)
    np.testing.assert_array_equal(block.scores, before.scores)
    np.testing.assert_array_equal(block.state, before.state)


@pytest.mark.parametrize("n_picks", [1, 3])
@pytest.mark.parametrize("n", [5, 12, 13, 24, 35])
@pytest.mark.parametrize("t", [0, 1, 6])
def test_elimination_equals_matrix_products(n, t, n_picks):
    rng = np.random.default_rng(t)
    size = t + n_picks
    rows, total_rows = rng.normal(size=(12, 3, n)), rng.normal(size=(size, n))
    slots, beta, delta = rng.permutation(12)[:size], *rng.normal(size=(2, n_picks, size, 2))
    own = rows[slots, 1]
    others = total_rows - own
    for pick in range(n_picks):
        sums = np.full((3, n), np.nan)
        f = t + pick
        lqo.eliminate(beta[pick], delta[pick], 1, rows, slots[: f + 1], total_rows, 1, sums)
        b, d = beta[pick, :f, 1], delta[pick, :f, 1]
        g = own[f] - b @ own[:f]
        np.testing.assert_allclose(sums[0], others[f] - b @ others[:f], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(sums[1], g - d @ others[:f], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(sums[2], g, rtol=1e-12, atol=1e-13)


def test_reference_weights_solve_the_ridge_problem():
    """The oracle itself: least squares on augmented rows equals the normal equations."""
    problem = Problem()
    S = [1, 4, 6]
    A, b = problem.gram.sum(axis=0)[np.ix_(S, S)], problem.products.sum(axis=0)[S]
    expected = np.linalg.solve(A + LAMBDA * np.eye(3), b)
    np.testing.assert_allclose(ridge_weights(problem.queries, S, LAMBDA), expected, rtol=1e-12)


@pytest.mark.parametrize("n_picks", [1, 3])
def test_the_last_update_gives_the_same_without_a_state_of_each_query(n_picks):
    problem, S = Problem(), np.array([4, 1, 6])
    A = problem.gram.sum(axis=0)
    blocks = []
    for size in (3, 4):  # as many as are selected, and one more
        block = problem.start(size)
        for t in range(1, 3 - n_picks + 1):
            block = problem.select(block, S[:t])
        own = A[S[3 - n_picks :]].copy()
        blocks.append(add_features(block, problem.rows, S, S, None, own, own[:, S].copy(), LAMBDA))
    last, before_others = blocks
    assert len(last.state) == 1 < len(before_others.state) == len(problem.queries)
    np.testing.assert_array_equal(last.scores, before_others.scores)
    np.testing.assert_array_equal(last.errors, before_others.errors)
    np.testing.assert_array_equal(last.factors, before_others.factors[:, :6])
