"""Scaled views of data sets, and how scalings are fitted in one pass over the blocks.

A fit has two parts, so that it can run anywhere: a summary of one block (`feature_moments`,
`feature_sketch`), and the scaling from the summaries of all blocks, in order (`standard_of`,
`minmax_of`, `quantile_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dranking.data.affine_scalings import MinMax, Standard
from dranking.data.blocks import QueryBlock
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import ColumnForms, Scaling
from dranking.data.dataset import Dataset
from dranking.data.quantile_sketch import QuantileSketch, sketch_capacity
from dranking.data.steps import check_none_filled_within
from dranking.data.transforms import Form, Log, Quantile, QueryMinMax, QueryRank
from dranking.errors import DataError, UsageError

Normalize: TypeAlias = Literal[
    "none", "query-minmax", "standard", "minmax", "log", "rank", "quantile"
]

UNFITTED: dict[str, type[QueryMinMax | QueryRank | Log]] = {
    "query-minmax": QueryMinMax,
    "rank": QueryRank,
    "log": Log,
}
"""Scalings that are the same for all data, by name."""

MapBlocks: TypeAlias = Callable[[Callable[[QueryBlock], Any], Dataset], Iterable[Any]]
"""Calls a function of one block for all blocks of a data set, and yields the results in order."""


def blocks_here(function: Callable[[QueryBlock], Any], dataset: Dataset) -> Iterator[Any]:
    """Call a function for every block, in this thread."""
    return map(function, dataset.read_blocks())


def scaled(dataset: Dataset, normalize: Normalize, map_blocks: MapBlocks = blocks_here) -> Dataset:
    """A view of a data set with one more scaling, which is applied when blocks are read.

    Parameters
    ----------
    dataset
        The data set; "standard", "minmax" and "quantile" read all of its blocks once.
    normalize
        "none", "query-minmax", "standard", "minmax", "log", "rank" or "quantile".
    map_blocks
        Reads the blocks for a fit.

    Raises
    ------
    UsageError
        If there is no such scaling.
    DataError
        If the scaling would fill in the zeros of sparse data, or is by the values of a query of
        which some were missing and filled.

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> train = dr.from_arrays(np.array([[1.0], [3.0]]), [0, 1], qid=[7, 7])
    >>> dr.scaled(train, "standard").block(0).features.ravel().tolist()
    [-1.0, 1.0]
    """
    if normalize == "none":
        return dataset
    scaling = fit_scaling(dataset, normalize, map_blocks)
    return dataset.transformed(
        [leaving_indicators(scaling, dataset.feature_names, dataset.constants)]
    )


def leaving_indicators(
    scaling: Form, names: tuple[str, ...], constants: ColumnConstants | None
) -> Scaling:
    """The scaling of all features `names` but those that tell of missing values."""
    if constants is None or not constants.has_indicators:
        return scaling
    forms = tuple(
        None if tells else scaling.restricted(np.array([i]))
        for i, tells in enumerate(constants.indicators)
    )
    return ColumnForms(sources=names, forms=forms)


def fit_scaling(
    dataset: Dataset, normalize: Normalize, map_blocks: MapBlocks = blocks_here
) -> Form:
    """The scaling of a name for a data set, with the parameters and errors of `scaled`."""
    if normalize in FROM_MOMENTS:
        moments = map_blocks(feature_moments, dataset)
        return FROM_MOMENTS[normalize](moments, sparse=dataset.is_sparse)
    if normalize in UNFITTED:
        scaling = UNFITTED[normalize]()
        if dataset.is_sparse:
            scaling.check_sparse()
        if dataset.constants is not None:
            check_none_filled_within(dataset.feature_names, dataset.constants, [scaling])
        return scaling
    if normalize != "quantile":
        raise UsageError(
            f"there is no scaling {normalize!r}; choose from {', '.join(get_args(Normalize))}."
        )
    if dataset.is_sparse:
        raise DataError(
            "quantile scaling would fill in the zeros of sparse features; "
            "scale with 'standard', 'minmax' or 'log', or store the data dense."
        )
    return quantile_of([sketch_of(dataset, map_blocks)])


def sketch_of(dataset: Dataset, map_blocks: MapBlocks) -> QuantileSketch:
    """Sketch of the distributions of the features of dense data, in one pass."""
    capacity = sketch_capacity(dataset.n_documents, dataset.n_features)
    return _merged(map_blocks(partial(feature_sketch, capacity=capacity), dataset))


def feature_sketch(block: QueryBlock, capacity: int) -> QuantileSketch:
    """Sketch of the distributions of the features of one dense block."""
    return QuantileSketch.of(block.features, capacity)


def quantile_of(sketches: Iterable[QuantileSketch]) -> Quantile:
    """The quantile scaling from the sketches of the blocks of a data set, in order.

    Raises
    ------
    DataError
        If no block has a document.
    """
    total = _merged(sketches)
    knots = [total.knots(feature) for feature in range(total.n_features)]
    between = max(error for _, _, error in knots) if knots else 0.0
    return Quantile(
        values=tuple(tuple(values.tolist()) for values, _, _ in knots),
        levels=tuple(tuple(levels.tolist()) for _, levels, _ in knots),
        rank_error=min(1.0, total.rank_error + between),
    )


def _merged(sketches: Iterable[QuantileSketch]) -> QuantileSketch:
    """The sketch of the documents of all blocks; DataError if there are none."""
    total = reduce(QuantileSketch.merged, sketches)
    if not total.n:
        raise DataError("quantiles need documents, and the data has none.")
    return total


class FeatureMoments(NamedTuple):
    """Number of values of each feature, their mean, squared deviations from the mean, extremes.

    Arrays are (n_features,) float64. Missing values (NaN) do not count. A feature without values
    has mean and squares 0, and the extremes inf and -inf.
    """

    n: NDArray[np.float64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def standard_of(blocks: Iterable[FeatureMoments], *, sparse: bool) -> Standard:
    """The standard scaling from the moments of the blocks of a data set.

    Parameters
    ----------
    blocks
        Moments of every block, in order; at least one.
    sparse
        Whether the features are sparse; their means are then not subtracted.
    """
    total = reduce(merged_moments, blocks)
    deviation = np.sqrt(total.squares / np.maximum(total.n, 1))
    scale = np.where(total.low < total.high, deviation, 1.0)
    mean = None if sparse else tuple(total.mean.tolist())
    return Standard(mean=mean, scale=tuple(np.where(scale > 0, scale, 1.0).tolist()))


def minmax_of(blocks: Iterable[FeatureMoments], *, sparse: bool) -> MinMax:
    """The min-max scaling from the moments of the blocks of a data set.

    Parameters
    ----------
    blocks
        Moments of every block; at least one.
    sparse
        Whether the features are sparse; their minima are then not subtracted.
    """
    total = reduce(merged_moments, blocks)
    low, high = (np.where(total.n > 0, edge, 0.0) for edge in (total.low, total.high))
    if sparse:
        low, high = np.zeros_like(low), high - low
    return MinMax(low=tuple(low.tolist()), high=tuple(high.tolist()))


FROM_MOMENTS: dict[str, Callable[..., Standard | MinMax]] = {
    "standard": standard_of,
    "minmax": minmax_of,
}
"""Scalings that are fitted to the moments of the features, by name."""


def feature_moments(block: QueryBlock) -> FeatureMoments:
    """Moments of the documents of one block; the memory layout of the features has no influence."""
    n = np.full(block.n_features, float(block.n_documents))
    if not block.n_documents:
        nothing = np.zeros(block.n_features)
        return FeatureMoments(n, nothing, nothing, nothing + np.inf, nothing - np.inf)
    if block.is_sparse:
        return _of_sparse_block(block)
    values = np.asfortranarray(block.features)  # NumPy adds in another order along other axes
    if np.isnan(values).any():
        return _with_missing_values(values)
    mean = values.mean(axis=0, dtype=np.float64)
    squares = np.array(
        [np.square(column - m).sum() for column, m in zip(values.T, mean, strict=True)]
    )
    return FeatureMoments(n, mean, squares, values.min(axis=0), values.max(axis=0))


def _with_missing_values(values: NDArray[np.float32]) -> FeatureMoments:
    columns = []
    for column in values.T:
        there = column[~np.isnan(column)].astype(np.float64)
        mean = there.mean() if len(there) else 0.0
        extremes = (there.min(initial=np.inf), there.max(initial=-np.inf))
        columns.append((len(there), mean, np.square(there - mean).sum(), *extremes))
    return FeatureMoments(*np.array(columns, dtype=np.float64).T)


def _of_sparse_block(block: QueryBlock) -> FeatureMoments:
    n_documents, n_features = block.features.shape
    columns, values = block.features.indices, block.features.data.astype(np.float64)
    missing = np.isnan(values)
    n = n_documents - np.bincount(columns[missing], minlength=n_features)
    columns, values = columns[~missing], values[~missing]
    stored = np.bincount(columns, minlength=n_features)
    mean = np.bincount(columns, values, n_features) / np.maximum(n, 1)
    of_stored = np.bincount(columns, np.square(values - mean[columns]), n_features)
    squares = of_stored + (n - stored) * np.square(mean)
    low = np.where(stored < n, 0.0, np.inf)
    high = np.where(stored < n, 0.0, -np.inf)
    np.minimum.at(low, columns, values)
    np.maximum.at(high, columns, values)
    return FeatureMoments(n.astype(np.float64), mean, squares, low, high)


def merged_moments(a: FeatureMoments, b: FeatureMoments) -> FeatureMoments:
    """Moments of the values of both."""
    n = a.n + b.n
    share = b.n / np.maximum(n, 1)
    difference = b.mean - a.mean
    return FeatureMoments(
        n,
        a.mean + difference * share,
        a.squares + b.squares + np.square(difference) * (a.n * share),
        np.minimum(a.low, b.low),
        np.maximum(a.high, b.high),
    )
