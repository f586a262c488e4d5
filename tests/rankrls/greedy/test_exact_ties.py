"""Ties in exact arithmetic, where rounding would decide: features, documents and mean measures."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out.predictions import with_exact_ties
from tests.rankrls.greedy.selections import select
from tests.reference.exact_predictions import exact_map, exact_scores
from tests.reference.exact_selection import ExactRefits

pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")

LAMBDA = 0.5


def twin_columns(seed):
    """Columns 0 and 2 hold the values of columns 5 and 3, in other documents of equal relevance.

    The other columns do not tell documents of equal relevance apart, so that an error with one
    twin is the error with the other twin in exact arithmetic; the sums are in another order.
    """
    rng = np.random.default_rng(seed)
    y = np.tile([0.0, 0, 0, 0, 1, 1, 1, 2, 2, 2], 6)
    group = np.arange(60) // 10 * 3 + y.astype(int)
    X = np.empty((60, 6))
    X[:, [1, 4]] = rng.normal(size=(18, 2))[group]
    X[:, [0, 2]] = (rng.normal(size=(60, 2)) + y[:, None]) * (rng.random((60, 2)) < 0.7)
    for g in range(18):
        rows = np.flatnonzero(group == g)
        X[rows, 5], X[rows, 3] = X[rng.permutation(rows), 0], X[rng.permutation(rows), 2]
    return X.astype(np.float32), y, np.repeat(np.arange(6), 10)


@pytest.mark.parametrize("search", ["forward", "floating", "backward"])
def test_dense_and_sparse_searches_break_exact_ties_alike(search):
    """The lowest index is added, and the highest index dropped."""
    n_ties = 0
    for seed in range(8):
        X, y, qid = twin_columns(seed)
        refits = ExactRefits(X, y, np.arange(0, 61, 10), np.ones(6), LAMBDA)
        n_features = 1 if search == "backward" else 4
        dense, csr = (
            select(from_arrays(layout(X), y, qid=qid), n_features, LAMBDA, search=search)
            for layout in (np.asarray, sparse.csr_array)
        )
        assert dense.kept == csr.kept
        for before, after in pairwise([[], *dense.kept] if search != "backward" else dense.kept):
            if len(after) > len(before):
                sets = {i: [*before, i] for i in sorted(set(range(6)) - set(before))}
                found = after[-1]
            else:
                droppable = before[:-1] if search == "floating" else before
                sets = {i: sorted({*before} - {i}) for i in sorted(droppable, reverse=True)}
                [found] = set(before) - set(after)
            errors = {i: refits.error(each) for i, each in sets.items()}
            best = min(errors.values())
            n_ties += sum(error == best for error in errors.values()) - 1
            assert found == next(i for i, error in errors.items() if error == best)
    assert n_ties >= 4, "rounds should have exact ties"


def mirrored_problem(seed):
    """Every document has a mirror, with columns 0 and 1 exchanged, of the same relevance.

    The weights of these columns are equal in exact arithmetic, so that documents with equal sums
    of both columns tie; rounding makes the weights differ.
    """
    rng = np.random.default_rng(seed)
    rows, y = [], []
    for _ in range(7):
        for a, b, c, d in rng.integers(0, 3, (3, 4)).tolist():
            rows += [(a, b, c, d), (b, a, c, d)]
            y += [int(rng.integers(0, 4))] * 2
    return np.array(rows, dtype=np.float32) * np.float32(4097 / 4096), np.array(y, dtype=float)


SIZE, N_QUERIES = 6, 7
NEAR_TIES = [*range(8), 257, 290, 376]
"""Seeds; with the last three, the order of rounding errors changes the best mean."""
POINTERS = np.arange(0, SIZE * N_QUERIES + 1, SIZE)


def mirrored_dataset(X, y, layout=np.asarray):
    return from_arrays(layout(X), y, qid=np.repeat(np.arange(N_QUERIES), SIZE))


def test_documents_tie_where_exact_scores_tie():
    n_ties = 0
    for seed in range(6):
        X, y = mirrored_problem(seed)
        seen = []

        def measure(block, scores, seen=seen):
            seen.append((scores[-1], with_exact_ties(block, scores[-1])))
            return np.ones(1)

        rules = SelectionRules(2, start=[0, 1])
        select_paths(mirrored_dataset(X, y), [LAMBDA], rules, measure=measure)
        [(raw, tied)] = seen
        np.testing.assert_allclose(tied, raw, rtol=1e-9)
        for q, own in enumerate(exact_scores(X, y, POINTERS, [0, 1], LAMBDA)):
            here, there = (each[q * SIZE : (q + 1) * SIZE] for each in (tied, raw))
            if not any(own):  # weights that are 0 but for rounding: no size to compare with
                continue
            for i, j in permutations(range(SIZE), 2):
                assert (here[i] == here[j]) == (own[i] == own[j])
                n_ties += own[i] == own[j] and there[i] != there[j]
    assert n_ties, "rounding should tell some documents apart"


def test_documents_beside_one_with_a_huge_prediction_do_not_tie():
    dataset = from_arrays(np.zeros((4, 1), np.float32), np.zeros(4), qid=np.zeros(4))
    scores = np.array([1e9, 1.0, 1.0 + 1e-4, -3.0])
    np.testing.assert_array_equal(with_exact_ties(dataset.block(0), scores), scores)


@pytest.mark.parametrize("huge", [np.inf, -np.inf, np.nan])
def test_documents_beside_one_with_an_infinite_prediction_tie_as_without_it(huge):
    dataset = from_arrays(np.zeros((6, 1), np.float32), np.zeros(6), qid=np.zeros(6))
    scores = np.array([huge, 1.0, 1.0 + 1e-13, 2.0, huge, -3.0])
    expected = np.array([huge, 1.0, 1.0, 2.0, huge, -3.0])
    np.testing.assert_array_equal(with_exact_ties(dataset.block(0), scores), expected)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_rescoring_picks_by_the_exact_measure(layout):
    """The pick has the best mean average precision in fractions."""
    for seed in NEAR_TIES:
        X, y = mirrored_problem(seed)
        ranker = dr.GreedyRankRLS(2, LAMBDA, start=[0], rescore=dr.Rescore("map", 3))
        pick = ranker.fit(mirrored_dataset(X, y, layout)).selected_[1]
        values = {
            i: exact_map(y, POINTERS, exact_scores(X, y, POINTERS, [0, i], LAMBDA))
            for i in (1, 2, 3)
        }
        assert values[pick] == max(values.values()), seed


def test_equal_means_of_other_queries_tie():
    """Column 2 holds in each query what column 1 holds in the query before; all else is equal."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = np.tile(rng.integers(0, 9, (SIZE, 3)), (N_QUERIES, 1)).astype(np.float32)
        X[:, 1] = rng.integers(0, 9, len(X))
        X[:, 2] = np.roll(X[:, 1], SIZE)
        y = np.tile([0.0, 0, 1, 1, 2, 0], N_QUERIES)
        refits = ExactRefits(X, y, POINTERS, np.ones(N_QUERIES), LAMBDA)
        assert refits.error([0, 1]) == refits.error([0, 2])
        one, other = (
            exact_map(y, POINTERS, exact_scores(X, y, POINTERS, [0, i], LAMBDA)) for i in (1, 2)
        )
        assert one == other
        ranker = dr.GreedyRankRLS(2, LAMBDA, start=[0], rescore=dr.Rescore("map", 2))
        assert ranker.fit(mirrored_dataset(X, y)).selected_ == [0, 1]
