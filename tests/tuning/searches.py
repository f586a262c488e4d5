"""Small searches, and what their grids must hold."""

import numpy as np
import pytest

import dranking as dr
from tests.models.problems import random_problem
from tests.reference import tuning as reference

LAMBDAS = [0.5, 4.0, 32.0]

SIZE = 4


def problem_of(seed=0, n_queries=14):
    return random_problem(seed, n_queries=n_queries, n_features=6, max_documents=7)


def part(problem, queries):
    """(X, y, query_ptr, weights) of some queries, for the references."""
    rows = queries[problem.qid]
    query_ptr = np.concatenate(([0], np.cumsum(problem.sizes[queries])))
    return problem.X[rows], problem.y[rows], query_ptr, problem.weights[queries]


def everything(problem):
    return part(problem, np.ones(len(problem.sizes), dtype=bool))


def assert_grid(result, values, weights):
    """The grid has the mean and standard error of `values[lambda][k - 1]`, lambda by lambda."""
    keys = [(p["regularization"], p["n_features"]) for p in result.grid]
    assert keys == [(value, k) for value in values for k in range(1, SIZE + 1)]
    for point in result.grid:
        of_queries = values[point["regularization"]][point["n_features"] - 1]
        mean, error = reference.mean_and_error(of_queries, weights)
        assert point["score"] == pytest.approx(mean, rel=1e-10)
        assert point["standard_error"] == pytest.approx(error, rel=1e-8)
        counted = [w for w, value in zip(weights, of_queries, strict=True) if value is not None]
        effective = sum(counted) ** 2 / sum(w * w for w in counted)
        assert point["n_effective"] == pytest.approx(effective, rel=1e-8)


def assert_best(result):
    """The best score; ties to the smallest lambda, then to the fewest features."""
    best = max(
        result.grid, key=lambda p: (round(p["score"], 11), -p["regularization"], -p["n_features"])
    )
    assert result.chosen == {k: best[k] for k in ("regularization", "n_features", "score")}


def query_values(ranker, data, measure):
    """Values of a fitted ranker on the queries of some data, None for those left out; weights."""
    table = dr.evaluate(ranker, data, [measure]).per_query.to_table()
    values = [None if v is None or np.isnan(v) else v for v in table[measure].to_pylist()]
    weights = np.concatenate([data.block(b).weights for b in range(data.n_blocks)])
    return values, weights.tolist()
