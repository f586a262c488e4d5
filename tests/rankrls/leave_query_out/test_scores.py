"""Leave-query-out scores against refits without each query in turn."""

import gc

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.base import is_dask_collection
from scipy import sparse

import dranking as dr
from dranking.errors import AccuracyWarning, DataError, TryAgainError, UsageError
from tests.models.problems import random_problem
from tests.reference.rankrls import pairwise_ridge

NAMES = [f"f{j + 1}" for j in range(6)]
LAMBDA = 0.7


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture(scope="module")
def problem():
    """Thirty queries with weights; some documents, and the third query, are unlabelled."""
    problem = random_problem(3, n_queries=30, n_features=6, zeros=0.3)
    problem.y[::11] = np.nan
    problem.y[problem.qid == 2] = np.nan
    return problem


def refits(problem, features, regularization=LAMBDA, X=None):
    """(n_documents,) scores of models that are fitted anew to all queries but one."""
    X = np.asarray(problem.X if X is None else X, dtype=np.float64)[:, features]
    scores = np.empty(len(X))
    for query in range(len(problem.sizes)):
        own = problem.qid == query
        others = ~own & ~np.isnan(problem.y)
        sizes = np.bincount(problem.qid[others], minlength=len(problem.sizes))
        query_ptr = np.concatenate(([0], np.cumsum(sizes)))
        w, _ = pairwise_ridge(
            X[others], problem.y[others], query_ptr, regularization, problem.weights
        )
        scores[own] = X[own] @ w
    return scores


RANKERS = {
    "RankRLS": lambda: dr.RankRLS(LAMBDA),
    "RankRLSCV": lambda: dr.RankRLSCV([LAMBDA]),
    "GreedyRankRLS": lambda: dr.GreedyRankRLS(3, LAMBDA),
    "GreedyRankRLSCV": lambda: dr.GreedyRankRLSCV(3, [LAMBDA]),
}


def fitted(problem, name="GreedyRankRLS"):
    return RANKERS[name]().fit(problem.dataset())


def features_of(ranker):
    return getattr(ranker, "selected_", list(range(6)))


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", RANKERS)
def test_scores_are_those_of_refits_without_the_query(problem, name, layout):
    ranker = fitted(problem, name)
    expected = refits(problem, features_of(ranker))
    found = dr.leave_query_out_scores(
        ranker, layout(problem.X), problem.y, qid=problem.qid, query_weights=problem.weights
    )
    close(found, expected)
    blocks = problem.dataset(layout, max_documents=20)
    close(dr.leave_query_out_scores(ranker, blocks), expected)


def test_errors_of_the_scores_are_the_leave_query_out_error(problem):
    """The criterion by which features are selected, from the scores that are returned."""
    ranker = fitted(problem)
    scores = dr.leave_query_out_scores(ranker, problem.dataset())
    error = 0.0
    for query, weight in enumerate(problem.weights):
        rows = (problem.qid == query) & ~np.isnan(problem.y)
        if rows.any():
            residual = problem.y[rows] - scores[rows]
            error += weight * np.square(residual - residual.mean()).sum()
    assert error == pytest.approx(ranker.lqo_error_[-1], rel=1e-9)


def test_a_query_that_alone_determines_a_feature(problem):
    X = problem.X.copy()
    X[problem.qid != 4, 2] = 0.0
    own = problem._replace(X=X)
    ranker = dr.RankRLS(1e-6).fit(own.dataset())
    found = dr.leave_query_out_scores(ranker, own.dataset())
    close(found, refits(own, list(range(6)), 1e-6))


def test_scores_without_a_digit_are_said_to_have_none(problem):
    X = problem.X.astype(np.float64)
    X[:, 1] = X[:, 0] * (1.0 + 1e-7)
    data = problem._replace(X=(X + 3e7).astype(np.float32)).dataset()
    said = "and those of the worst query so far that no digit is certain"
    with pytest.warns(AccuracyWarning, match=said):
        dr.leave_query_out_scores(dr.RankRLS(1e-30).fit(data), data)


@pytest.mark.parametrize("normalize", ["standard", "log", "query-minmax"])
def test_features_are_scaled_as_in_the_fit(problem, normalize):
    ranker = dr.GreedyRankRLS(2, LAMBDA, normalize=normalize).fit(problem.dataset())
    view = problem.dataset()
    scaled = view.transformed(ranker._transforms)
    X = np.concatenate([block.features for block in scaled.read_blocks()])
    expected = refits(problem, ranker.selected_, X=X)
    close(dr.leave_query_out_scores(ranker, view), expected)
    close(dr.leave_query_out_scores(ranker, scaled), expected)


def test_forms_of_features(problem):
    forms = ("raw", "log")
    ranker = dr.GreedyRankRLS(3, LAMBDA, forms=forms).fit(problem.dataset())
    X = problem.X.astype(np.float64)
    columns = np.stack([X, np.copysign(np.log1p(np.abs(X)), X)], axis=2).reshape(len(X), -1)
    expected = refits(problem, ranker.selected_, X=columns.astype(np.float32))
    close(dr.leave_query_out_scores(ranker, problem.dataset()), expected)
    X, y, qid = dask_arrays(problem, 40)
    weights = problem.weights
    found = dr.leave_query_out_scores(ranker, X, y, qid=qid, query_weights=weights)
    close(found.compute(), expected)


# Dask collections


def frame_of(problem, order=None):
    """The problem as a pandas frame in some order, with its place as index."""
    frame = pd.DataFrame(problem.X, columns=NAMES)
    frame["qid"], frame["relevance"] = problem.qid, problem.y
    frame["weight"] = problem.weights[problem.qid]
    return frame if order is None else frame.iloc[order]


def dask_arrays(problem, rows):
    given = (problem.X, problem.y, problem.qid)
    return [da.from_array(each, chunks=(rows, 2)[: each.ndim]) for each in given]


@pytest.fixture(params=["threads", "workers"])
def where(request):
    """Threads, or a client of two worker processes."""
    if request.param == "threads":
        return "threads"
    return request.getfixturevalue("client")


ORDERS = {
    "adjacent": lambda n: None,
    "any order": lambda n: np.random.default_rng(1).permutation(n),
}


@pytest.mark.cluster
@pytest.mark.parametrize("order", ORDERS)
def test_scores_of_a_frame_have_its_partitions_and_index(problem, where, order):
    """Rows of a query lie in several partitions."""
    ranker = fitted(problem)
    expected = pd.Series(refits(problem, ranker.selected_))
    frame = frame_of(problem, ORDERS[order](len(problem.X)))
    ddf = dd.from_pandas(frame, npartitions=5, sort=False)
    scores = dr.leave_query_out_scores(ranker, ddf, executor=where)
    assert is_dask_collection(scores)
    assert scores.name == "score"
    assert scores.npartitions == ddf.npartitions
    assert scores.divisions == ddf.divisions
    found = computed(scores, where)
    pd.testing.assert_index_equal(found.index, frame.index)
    close(found.sort_index(), expected)
    weights = dict(enumerate(problem.weights))
    unweighted = ddf.drop(columns="weight")
    scores = dr.leave_query_out_scores(ranker, unweighted, query_weights=weights, executor=where)
    close(computed(scores, where).sort_index(), expected)


def computed(scores, where):
    """The scores; what they do not keep is gone from the workers by then."""
    if where == "threads":
        return scores.compute()
    gc.collect()
    where.who_has()
    return where.compute(scores).result()


def test_ids_in_the_index_and_as_text(problem):
    ranker = fitted(problem)
    expected = refits(problem, ranker.selected_)
    frame = frame_of(problem)
    frame["qid"] = frame.qid.map("query {:02d}".format)
    ddf = dd.from_pandas(frame.set_index("qid"), npartitions=4)
    scores = dr.leave_query_out_scores(ranker, ddf)
    assert scores.divisions == ddf.divisions
    found = scores.compute()
    assert list(found.index) == list(frame.qid)
    close(found, expected)


def test_scores_stay_with_their_rows_behind_a_source_in_random_order(problem):
    """Joined to the frame in one expression, scores are those of the rows beside them."""
    ranker = fitted(problem)
    frame = frame_of(problem)
    frame["expected"] = refits(problem, ranker.selected_)
    rng = np.random.default_rng()

    def anew(rows):
        return rows.sample(frac=1, random_state=rng)

    ddf = dd.from_pandas(frame, npartitions=4).map_partitions(anew).shuffle("qid")
    scores = dr.leave_query_out_scores(ranker, ddf.drop(columns="expected"))
    found = ddf.assign(score=scores).compute()
    assert len(found) == len(frame)
    close(found.score, found.expected)


@pytest.mark.cluster
@pytest.mark.parametrize("layout", ["dense", "sparse", "unknown lengths"])
def test_scores_of_an_array_have_its_chunks(problem, where, layout):
    ranker = fitted(problem)
    X, y, qid = dask_arrays(problem, 37)
    if layout == "sparse":
        X = X.rechunk({1: -1}).map_blocks(sparse.csr_array)
    if layout == "unknown lengths":
        keep = da.from_array(np.arange(len(problem.X)) >= 0, chunks=37)
        X, y, qid = X[keep], y[keep], qid[keep]
    scores = dr.leave_query_out_scores(
        ranker, X, y, qid=qid, query_weights=problem.weights, executor=where
    )
    np.testing.assert_equal(scores.chunks, (X.chunks[0],))
    close(computed(scores, where), refits(problem, ranker.selected_))


def test_empty_partitions(problem):
    ranker = fitted(problem)
    ddf = dd.from_pandas(frame_of(problem), npartitions=3)
    empty = ddf[ddf.qid < 0]
    scores = dr.leave_query_out_scores(ranker, dd.concat([empty, ddf, empty]))
    assert scores.npartitions == 9
    close(scores.compute(), refits(problem, ranker.selected_))


def test_a_partition_with_other_queries_than_before_is_refused(problem):
    ranker, frame, calls = fitted(problem), frame_of(problem), []

    def another(rows):
        calls.append(len(rows))
        return rows if len(calls) < 2 else rows.assign(qid=rows.qid + 1)

    meta = frame.iloc[:0]
    ddf = dd.from_pandas(frame, npartitions=1).map_partitions(another, meta=meta)
    scores = dr.leave_query_out_scores(ranker, ddf)
    with pytest.raises(TryAgainError, match="holds query 30 and did not"):
        scores.compute()


def test_what_has_no_leave_query_out_scores_is_refused(problem):
    data = problem.dataset()
    with pytest.raises(UsageError, match="RankSVM has no leave-query-out scores; RankRLS"):
        dr.leave_query_out_scores(dr.RankSVM().fit(data), data)
    wide = random_problem(0, n_features=1_100, n_queries=3).dataset()
    with pytest.raises(UsageError, match=r"1100 features; .* at most 1,024"):
        dr.leave_query_out_scores(dr.RankRLS(solver="cg").fit(wide), wide)
    scaled = dr.RankRLS(normalize="rank").fit(data)
    X, y, qid = dask_arrays(problem, 37)
    with pytest.raises(UsageError, match="cannot be scaled within queries"):
        dr.leave_query_out_scores(scaled, X, y, qid=qid)
    ranker = fitted(problem)
    table = frame_of(problem).drop(columns=NAMES[ranker.selected_[0]])
    with pytest.raises(DataError, match="lacks 1 of the 3 features"):
        dr.leave_query_out_scores(ranker, table)
