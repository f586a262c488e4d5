"""The kinds of linear models whose lambda and size can be tuned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.rankers.estimator import LinearRanker, check_training_data
from dranking.rankers.greedy import GreedyRankRLS
from dranking.rankers.linear import LinearModel
from dranking.rankers.path import Selection, SelectionRules
from dranking.rankers.rankrls import (
    DirectSolver,
    RankRLS,
    leave_query_out_errors,
    normal_equations_of,
)
from dranking.rankers.ranksvm import PairwiseRanker, RankLogistic, RankSVM
from dranking.rankers.selection import select_paths
from dranking.tuning.choice import GridPoint
from dranking.tuning.grid import Array, Criterion, ModelPath, score_sums

ModelName: TypeAlias = Literal[
    "greedy-rankrls", "rankrls", "ranksvm", "ranksvm-hinge", "ranklogistic"
]


GridPoints: TypeAlias = Sequence[GridPoint]


class Family(NamedTuple):
    """What a search needs of a kind of model.

    Attributes
    ----------
    paths
        From data, lambdas and a largest size to the models to try.
    fit
        From data and the point chosen to the final model and its features' indices.
    left_out_errors
        From data, lambdas and a largest size to the squared leave-query-out error of every model,
        summed over queries; None where only refits would tell.
    """

    paths: Callable[[Dataset, Sequence[float], int, Executor], list[ModelPath]]
    fit: Callable[[Dataset, GridPoint, Executor], tuple[LinearModel, Sequence[int]]]
    left_out_errors: Callable[[Dataset, Sequence[float], int, Executor], GridPoints] | None = None


def greedy_paths(
    train: Dataset, lambdas: Sequence[float], size: int, executor: Executor
) -> list[ModelPath]:
    """Greedy selections up to a size, all lambdas in lockstep."""
    return _model_paths(select_paths(train, lambdas, SelectionRules(size), executor=executor))


def leave_query_out_paths(
    train: Dataset, lambdas: Sequence[float], size: int, criterion: Criterion, executor: Executor
) -> tuple[list[ModelPath], Array]:
    """Greedy selections, and the sums of `validation_sums` of their leave-query-out predictions."""
    found = select_paths(
        train,
        lambdas,
        SelectionRules(size),
        measure=partial(held_out_sums, criterion),
        executor=executor,
    )
    return _model_paths(found), np.concatenate([path.held_out for path in found.paths], axis=1)


def held_out_sums(criterion: Criterion, block: QueryBlock, scores: Array) -> Array:
    """(N_SUMS, n_models) sums over the queries of a block, of (n_models, n_documents) scores."""
    return np.stack([score_sums(block, row, criterion) for row in scores], axis=1)


def _model_paths(found: Selection) -> list[ModelPath]:
    return [
        ModelPath(path.regularization, np.array(path.selected, dtype=np.intp), path.weights)
        for path in found.paths
    ]


def fit_greedy(
    train: Dataset, point: GridPoint, executor: Executor
) -> tuple[LinearModel, Sequence[int]]:
    """Greedy RankRLS with the values chosen."""
    ranker = GreedyRankRLS(
        n_features=point["n_features"], regularization=point["regularization"]
    ).fit(train, executor=executor)
    return ranker.to_model(), ranker.selected_


def greedy_errors(
    train: Dataset, lambdas: Sequence[float], size: int, executor: Executor
) -> GridPoints:
    """Squared leave-query-out errors of greedy selections up to a size."""
    found = select_paths(train, lambdas, SelectionRules(size), executor=executor)
    return [
        _error_point(path.regularization, k, error)
        for path in found.paths
        for k, error in enumerate(path.lqo_error, start=1)
    ]


def rankrls_errors(
    train: Dataset, lambdas: Sequence[float], size: int, executor: Executor
) -> GridPoints:
    """Squared leave-query-out errors of RankRLS on all features."""
    check_training_data(train)
    normal = DirectSolver(train, executor)
    errors = leave_query_out_errors(normal, train, lambdas, executor)
    return [
        _error_point(value, size, error)
        for value, error in zip(lambdas, errors.tolist(), strict=True)
    ]


def _error_point(regularization: float, size: int, error: float) -> GridPoint:
    return GridPoint(
        regularization=regularization, n_features=size, score=error, standard_error=math.nan
    )


def rankrls_paths(
    train: Dataset, lambdas: Sequence[float], size: int, executor: Executor
) -> list[ModelPath]:
    """RankRLS on all features, one model for each lambda, from one pass over the data."""
    normal = normal_equations_of(train, "auto", executor)
    everything = np.arange(size, dtype=np.intp)
    return [ModelPath(value, everything, [normal.solve(value)]) for value in lambdas]


def pairwise_paths(
    make: Callable[[float], PairwiseRanker],
    train: Dataset,
    lambdas: Sequence[float],
    size: int,
    executor: Executor,
) -> list[ModelPath]:
    """A ranker on all features, fitted for each lambda."""
    everything = np.arange(size, dtype=np.intp)
    fits = (make(value).fit(train, executor=executor) for value in lambdas)
    return [ModelPath(fit.regularization, everything, [fit.coef_]) for fit in fits]


def fit_on_all_features(
    make: Callable[[float], LinearRanker], train: Dataset, point: GridPoint, executor: Executor
) -> tuple[LinearModel, Sequence[int]]:
    """A ranker on all features with the lambda chosen."""
    ranker = make(point["regularization"])
    ranker.fit(train, executor=executor)
    return ranker.to_model(), range(train.n_features)


def _pairwise(make: Callable[[float], PairwiseRanker]) -> Family:
    return Family(partial(pairwise_paths, make), partial(fit_on_all_features, make))


FAMILIES: dict[str, Family] = {
    "greedy-rankrls": Family(greedy_paths, fit_greedy, greedy_errors),
    "rankrls": Family(rankrls_paths, partial(fit_on_all_features, RankRLS), rankrls_errors),
    "ranksvm": _pairwise(RankSVM),
    "ranksvm-hinge": _pairwise(partial(RankSVM, loss="hinge")),
    "ranklogistic": _pairwise(RankLogistic),
}
