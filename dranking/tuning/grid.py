"""Validation of a whole grid of linear models in one pass over the validation data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.map_blocks import map_blocks
from dranking.engine.progress import report
from dranking.metrics.conventions import Convention
from dranking.metrics.evaluate import evaluate_queries
from dranking.models.linear.scoring import Transforms, linear_scores, locate_features
from dranking.tuning.choice import GridPoint
from dranking.tuning.settings import Setting

Array = NDArray[np.float64]

N_SUMS = 6


class ModelPath(NamedTuple):
    """Linear models of one setting, each on the first features of one order.

    Attributes
    ----------
    setting
        Lambda and the other tuned parameters of the models.
    selected
        (n_selected,) feature indices in the order of selection.
    weights
        One array for each model: the weights of the first features of `selected`. An array of NaN
        stands for a model whose training diverged.
    """

    setting: Setting
    selected: NDArray[np.intp]
    weights: Sequence[Array]


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
    (N_SUMS, n_models) float64 sums over the queries for `grid_points`, the models of the first path
    first; NaN for a model whose training diverged. Sums of several data sets can be added.

    Raises
    ------
    DataError
        If the validation data does not fit the training data.
    """
    used = np.unique(np.concatenate([path.selected for path in paths]))
    names = [train.feature_names[i] for i in used]
    needed = tuple(step.restricted(used) for step in train.preparation)
    columns, missing = locate_features(names, needed, validation)
    local = [path._replace(selected=np.searchsorted(used, path.selected)) for path in paths]
    total = np.zeros((N_SUMS, sum(len(path.weights) for path in paths)))
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
    models = ((path.selected, weights) for path in paths for weights in path.weights)
    sums = []
    for selected, weights in models:
        if np.isnan(weights).any():
            sums.append(np.full(N_SUMS, np.nan))
            continue
        # Scores are summed in the order of a model file's features, so that ties are the same.
        order = np.argsort(selected[: len(weights)])
        scores = linear_scores(columns[:, selected[order]], weights[order])
        sums.append(score_sums(block, scores, criterion))
    return np.stack(sums, axis=1)


def score_sums(block: QueryBlock, scores: Array, criterion: Criterion) -> Array:
    """(N_SUMS,) sums over the queries of a block with (n_documents,) scores."""
    measure, convention = criterion
    values = evaluate_queries(block, scores, [measure], convention)[measure]
    return query_sums(values, block.weights)


def query_sums(values: Array, weights: Array) -> Array:
    """(N_SUMS,) number of queries that count; their sums of w, w^2, w v, w^2 v and w^2 v^2."""
    counted = ~np.isnan(values) & (weights > 0)
    v, w = values[counted], weights[counted]
    return np.array(
        [len(v), w.sum(), (w * w).sum(), (w * v).sum(), (w * w * v).sum(), (w * w * v * v).sum()]
    )


def grid_points(paths: Sequence[ModelPath], sums: Array) -> tuple[GridPoint, ...]:
    """Mean and standard error of every model, from the sums over all queries."""
    means, errors = mean_and_error(sums)
    counts = np.nan_to_num(sums[0]).astype(int)
    models = [(path, len(weights)) for path in paths for weights in path.weights]
    columns = (means.tolist(), errors.tolist(), counts.tolist(), effective_queries(sums).tolist())
    return tuple(
        GridPoint(
            **path.setting,
            n_features=size,
            score=mean,
            standard_error=error,
            n_queries=n,
            n_effective=effective,
        )
        for (path, size), mean, error, n, effective in zip(models, *columns, strict=True)
    )


def effective_queries(sums: Array) -> Array:
    """(n_models,) number of queries of equal weight that say as much, ``(sum w)^2 / sum w^2``.

    Parameters
    ----------
    sums
        (N_SUMS, n_models) sums of `query_sums`. Where no query counts, the number is NaN.
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
        (N_SUMS, n_models) sums of `query_sums`.

    Returns
    -------
    Two (n_models,) arrays; both are NaN where no query counts, the error also where one query
    counts.
    """
    n, w, w2, wv, w2v, w2v2 = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = wv / w
        # Rounding can make a variance of 0 negative.
        spread = np.maximum(w2v2 - 2 * mean * w2v + mean * mean * w2, 0.0)
        error = np.sqrt(spread * (n / (n - 1))) / w
    return mean, np.where(n > 1, error, np.nan)
