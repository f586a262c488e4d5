"""Validation of a whole grid of linear models in one pass over the validation data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.steps import restricted_steps
from dranking.engine.map_blocks import map_blocks
from dranking.engine.progress import report
from dranking.metrics.conventions import Convention
from dranking.metrics.evaluate import evaluate_models
from dranking.models.linear.scoring import Transforms, linear_scores, locate_features
from dranking.tuning.choice import GridPoint, ModelPath, ScoredPath

Array = NDArray[np.float64]

N_SUMS = 6
"""Rows of sums that every model has; one row for each model of the same path follows."""


class Criterion(NamedTuple):
    """The measure of a validation, and its convention."""

    measure: str
    convention: Convention


def validation_sums(
    paths: Sequence[ModelPath],
    train: Dataset,
    validation: Dataset,
    criterion: Criterion,
    executor: Any,
) -> Array:
    """Measure every model of some paths on every query of a data set.

    Parameters
    ----------
    paths
        Models trained on `train`.
    train
        Gives the names and the scaling of the features.
    validation
        Judged queries. Each block is read once, with only the features of the paths.
    criterion
        Measure and convention.
    executor
        Executor that reads and measures the blocks.

    Returns
    -------
    (N_SUMS + t, n_models) float64 sums over the queries for `grid_points`, as in `query_sums`, the
    models of the first path first; t is the length of the longest path. NaN for a model whose
    training diverged. Sums of several data sets can be added.

    Raises
    ------
    DataError
        If the validation data does not fit the training data.
    """
    used = np.unique(np.concatenate([path.selected for path in paths]))
    names = [train.feature_names[i] for i in used]
    needed = restricted_steps(train.preparation, used)
    columns, missing = locate_features(names, needed, validation)
    local = [path._replace(selected=np.searchsorted(used, path.selected)) for path in paths]
    lengths = [len(path.weights) for path in paths]
    total = np.zeros((N_SUMS + max(lengths), sum(lengths)))
    parts = map_blocks(
        block_sums,
        validation,
        executor,
        local,
        missing,
        criterion,
        columns=columns,
        combine=list,
        name="measure",
    )
    for done, sums in enumerate(chain.from_iterable(parts), start=1):
        total += sums
        report("validate", done, validation.n_blocks)
    return total


def block_sums(
    block: QueryBlock, paths: Sequence[ModelPath], transforms: Transforms, criterion: Criterion
) -> Array:
    """Sums over the queries of one block; `selected` of the paths are columns of the block."""
    for transform in transforms:
        block = transform.apply(block)
    columns = block.features.tocsc() if block.is_sparse else np.asfortranarray(block.features)
    longest, sums = max(len(path.weights) for path in paths), []
    for path in paths:
        scores = np.stack([_scores(columns, path.selected, weights) for weights in path.weights])
        sums.append(score_sums(block, scores, criterion, longest))
    return np.concatenate(sums, axis=1)


def _scores(columns: Any, selected: NDArray[np.intp], weights: Array) -> Array:
    """(n_documents,) scores by a model, NaN if its training diverged."""
    if np.isnan(weights).any():
        return np.full(columns.shape[0], np.nan)
    # Scores are summed in the order of a model file's features, so that ties are the same.
    order = np.argsort(selected[: len(weights)])
    return linear_scores(columns[:, selected[order]], weights[order])


def score_sums(block: QueryBlock, scores: Array, criterion: Criterion, n_rows: int) -> Array:
    """Sums over the queries of a block with (t, n_documents) scores; see `query_sums`."""
    measure, convention = criterion
    diverged = np.isnan(scores).any(axis=1)
    values = np.zeros((len(scores), block.n_queries))
    values[~diverged] = evaluate_models(block, scores[~diverged], measure, convention)
    sums = query_sums(values, block.weights, n_rows)
    sums[:, diverged] = np.nan
    return sums


def query_sums(values: Array, weights: Array, n_rows: int) -> Array:
    """Sums over queries of the (t, n_queries) values v of t models, with (n_queries,) weights w.

    Returns
    -------
    (N_SUMS + n_rows, t): for each model the number of queries that count; their sums of w, w^2,
    w v, w^2 v and w^2 v^2; and the sums of w^2 v u with the values u of the first model, the second
    and so on, with zeros in the rows behind the last model.
    """
    n_models = len(values)
    sums = np.zeros((N_SUMS + n_rows, n_models))
    counted = ~np.isnan(values) & (weights > 0)
    v = np.where(counted, values, 0.0)
    w = np.where(counted, weights, 0.0)
    sums[:N_SUMS] = (
        counted.sum(axis=1),
        w.sum(axis=1),
        (w * w).sum(axis=1),
        (w * v).sum(axis=1),
        (w * w * v).sum(axis=1),
        (w * w * v * v).sum(axis=1),
    )
    sums[N_SUMS : N_SUMS + n_models] = (w * v) @ (w * v).T
    return sums


def grid_points(paths: Sequence[ModelPath], sums: Array) -> tuple[GridPoint, ...]:
    """Mean and standard error of every model, from the sums over all queries."""
    return tuple(chain.from_iterable(path.points for path in scored_paths(paths, sums)))


def scored_paths(
    paths: Sequence[ModelPath], sums: Array, of_splits: Sequence[Sequence[ModelPath]] = ()
) -> list[ScoredPath]:
    """Mean and errors of the models of every path, from the sums over all queries.

    `of_splits` has the paths of each split, in the order of `paths`.
    """
    scored, first = [], 0
    for number, path in enumerate(paths):
        own = sums[:, first : first + len(path.weights)]
        first += len(path.weights)
        means, errors = mean_and_error(own)
        counts = np.nan_to_num(own[0]).astype(int)
        columns = means.tolist(), errors.tolist(), counts.tolist(), effective_queries(own).tolist()
        points = tuple(
            GridPoint(
                **path.setting,
                n_features=len(weights),
                score=mean,
                standard_error=error,
                n_queries=n,
                n_effective=effective,
            )
            for weights, mean, error, n, effective in zip(path.weights, *columns, strict=True)
        )
        models = [each[number] for each in of_splits]
        scored.append(ScoredPath(points, paired_errors(own), models))
    return scored


def paired_errors(sums: Array) -> Array:
    """(t, t) standard errors of the differences of the means of t models of a path.

    The values of a query are paired; the error is that of `mean_and_error` for the differences.
    """
    n, w, w2, wv, w2v, _ = sums[:N_SUMS]
    products = sums[N_SUMS : N_SUMS + len(n)]
    squares = np.diag(products)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = wv / w
        by = means[:, None] - means
        spread = squares[:, None] + squares - products - products.T
        spread = spread - 2.0 * by * (w2v[:, None] - w2v) + by * by * w2
        error = np.sqrt(np.maximum(spread, 0.0) * (n / (n - 1))) / w
    found: Array = np.where(n > 1, error, np.nan)
    return found


def effective_queries(sums: Array) -> Array:
    """(n_models,) number of queries of equal weight that say as much, ``(sum w)^2 / sum w^2``.

    Parameters
    ----------
    sums
        (at least N_SUMS, n_models) sums of `query_sums`. Where no query counts, the number is NaN.
    """
    with np.errstate(invalid="ignore"):
        # Rounding must not make 19.999... of 20 equal weights.
        found: Array = np.round(sums[1] ** 2 / sums[2], 9)
    return found


def mean_and_error(sums: Array) -> tuple[Array, Array]:
    """Weighted mean over queries and its standard error.

    The error is the linearised one, ``sqrt(n / (n - 1) sum w^2 (v - mean)^2) / sum w``, which sums
    over blocks give; for equal weights, the sample standard deviation over the root of n. The
    jackknife error of `dranking.metrics.comparison.significance` has sum w - w in place of sum w,
    which needs all weights before the first value. It is larger by a factor of at most 1 / (1 - s),
    where s is the largest share of a query in the weights.

    Parameters
    ----------
    sums
        (at least N_SUMS, n_models) sums of `query_sums`.

    Returns
    -------
    Two (n_models,) arrays; both are NaN where no query counts, the error also where one query
    counts.
    """
    n, w, w2, wv, w2v, w2v2 = sums[:N_SUMS]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = wv / w
        # Rounding can make a variance of 0 negative.
        spread = np.maximum(w2v2 - 2 * mean * w2v + mean * mean * w2, 0.0)
        error = np.sqrt(spread * (n / (n - 1))) / w
    return mean, np.where(n > 1, error, np.nan)
