"""Gram rows of every query, and their sums over all queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dranking.data.blocks import QueryBlock
from dranking.engine.executor import Task
from dranking.engine.tile_tasks import Argument, Literal
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.moments import QueryMoments, TotalMoments
from dranking.rankrls.gram.statistics_store import statistics_rows
from dranking.rankrls.kernels.gram import dense, sparse
from dranking.rankrls.kernels.gram.dense import Moments
from dranking.rankrls.kernels.lqo.factor_rounding import SAFETY, UNCERTAIN
from dranking.rankrls.statistics.per_query import QueryStatistics

Array = NDArray[np.float64]


class BlockRows(NamedTuple):
    """The Gram rows that are kept for a block.

    Attributes
    ----------
    fetch
        (1,) number of the fetch that wrote last, counted from 1. When a `BlockRows` is sent to
        another worker, this number is sent before the rows, so it is never newer than the rows.
    rows
        (capacity, n_queries, n_features) rows A_q[i, :] by slot.
    totals
        (J, n_features) sums over the queries of the rows fetched last.
    """

    fetch: NDArray[np.int64]
    rows: Array
    totals: Array


class TotalRows(ABC):
    """The Gram rows A[i, :] fetched so far, sums over all queries.

    Parameters
    ----------
    tiles, moments
        The data.
    capacity
        Largest number of rows held at the same time.

    Attributes
    ----------
    moments, capacity
        The parameters.
    n_features
        Number of features of the data.
    totals
        Feature -> A[i, :] (n_features,), for the features ever fetched.
    n_fetches
        Calls of `fetch` so far, each one pass over X.
    """

    def __init__(self, tiles: Tiles, moments: TotalMoments, capacity: int) -> None:
        self._tiles = tiles
        self.moments = moments
        self.capacity = capacity
        self.n_features = tiles.dataset.n_features
        self.totals: dict[int, Array] = {}
        self.n_fetches = 0
        self._slots: dict[int, int] = {}

    def drop(self, features: Sequence[int]) -> None:
        """Free the slots of features that no path has selected; the sums of their rows stay."""
        for feature in features:
            del self._slots[feature]

    def holds(self, feature: int) -> bool:
        """Whether the row of a feature was fetched and not dropped."""
        return feature in self._slots

    @property
    def n_free(self) -> int:
        """Number of rows that can be fetched before other rows are dropped."""
        return self.capacity - len(self._slots)

    def fetch(self, features: Sequence[int]) -> None:
        """Compute the rows of features that are not held, in one pass over X."""
        totals = self._sum_rows(features)
        self.totals.update(zip(features, totals, strict=True))
        self._slots.update(zip(features, self._free_slots(len(features)), strict=True))
        self.n_fetches += 1

    def rows_of(self, features: Sequence[int]) -> Array:
        """(t, n_features) A[S, :] for features S that were ever fetched."""
        rows = [self.totals[i] for i in features]
        return np.array(rows).reshape(len(rows), self.n_features)

    def between(self, features: Sequence[int]) -> Array:
        """(t, t) A[S, S] for features S that were ever fetched, symmetric in every bit."""
        t, columns = len(features), np.array(features, dtype=np.int64)
        rows = np.array([self.totals[i][columns] for i in features]).reshape(t, t)
        between: Array = (rows + rows.T) / 2
        return between

    def weights(self, features: Sequence[int], regularization: float) -> Array:
        """(t,) weights (A[S, S] + lambda I)^-1 b[S] for features S that were ever fetched."""
        products = self.moments.products[np.array(features, dtype=np.int64)]
        return ridge_weights(self.between(features), products, regularization)

    def _free_slots(self, number: int) -> list[int]:
        """Slots for the `number` rows that are fetched next."""
        used = set(self._slots.values())
        return [slot for slot in range(self.capacity) if slot not in used][:number]

    @abstractmethod
    def _sum_rows(self, features: Sequence[int]) -> Array:
        """(J, n_features) rows A[i, :] of features that are not held, from one pass over X."""


class GramRows(TotalRows):
    """The Gram rows A[i, :], and the rows A_q[i, :] of every query.

    The rows of queries stay where the data is, or are computed again where they are needed; only
    the sums are sent to the driver.

    Parameters
    ----------
    tiles, moments, capacity
        As in `TotalRows`.
    keep
        Whether the rows of queries are kept; else each use of them is one more pass.

    Attributes
    ----------
    kept
        Tasks with the `BlockRows` of every block; empty if rows are not kept.
    """

    moments: QueryMoments

    def __init__(
        self, tiles: Tiles, moments: QueryMoments, capacity: int, *, keep: bool = True
    ) -> None:
        super().__init__(tiles, moments, capacity)
        self.kept: list[Task] = []
        if keep:
            self.kept = tiles.map_values(
                room_for_rows, moments.blocks, Literal(capacity), name="rows"
            )

    def _sum_rows(self, features: Sequence[int]) -> Array:
        indices = np.array(features, dtype=np.int64)
        if self.kept:
            self.kept = self._tiles.map_blocks(
                fetch_rows,
                self.moments.blocks,
                self.kept,
                Literal(indices),
                Literal(np.array(self._free_slots(len(features)))),
                Literal(self.n_fetches + 1),
                columns=indices,
                name="gram-rows",
            )
            totals: Array = self._tiles.sum(self.kept, row_totals, "gram-rows")
        else:
            totals = self._tiles.sum_map(
                fresh_totals,
                self.moments.blocks,
                Literal(indices),
                columns=indices,
                name="gram-rows",
            )
        return totals

    def map_with_rows(
        self,
        function: Callable[..., Any],
        states: list[Task],
        features: NDArray[np.int64],
        *values: Argument,
        name: str,
        feature_block: int | None = None,
    ) -> list[Task]:
        """Run `function(state, rows, slots, *values)` for every block, or for one feature block.

        The Gram row of the j-th of `features`, which were all fetched, is `rows[slots[j], q, :]`
        for query q. If rows are not kept, the task computes the rows first: one more pass.
        """
        if self.kept:
            slots = np.array([self._slots[i] for i in features.tolist()], dtype=np.int64)
            return self._tiles.map_values(
                partial(with_kept_rows, function),
                states,
                self.kept,
                Literal(slots),
                *values,
                name=name,
                feature_block=feature_block,
            )
        return self._tiles.map_blocks(
            partial(with_fresh_rows, function),
            self.moments.blocks,
            states,
            Literal(features),
            *values,
            columns=features,
            name=name,
            feature_block=feature_block,
            is_pass=feature_block is None,
        )


def room_for_rows(moments: Moments, capacity: int) -> BlockRows:
    """Slots for the Gram rows of a block; the system provides memory as rows are written."""
    return _no_rows(np.empty((capacity, *moments.diagonal.shape)))


def fetch_rows(
    block: QueryBlock | QueryStatistics,
    columns: NDArray[np.float32] | None,
    moments: Moments,
    kept: BlockRows,
    features: NDArray[np.int64],
    slots: NDArray[np.int64],
    fetch: int,
) -> BlockRows:
    """Compute the rows of the features `features` and write them into free slots.

    `columns` (J, n_documents) are these features; None if the block holds all features.

    A slot is written again only when no state depends on the row in it. A task that runs again,
    because a worker was lost, may find slots that a later fetch has overwritten. It then writes
    nothing there, since it would undo the later fetch, and all rows still in use are there already.
    """
    rows = kept.rows
    if kept.fetch[0] >= fetch:
        rows = np.empty((len(features), block.n_queries, block.n_features))
        slots = np.arange(len(features))
    if isinstance(block, QueryStatistics):
        totals = statistics_rows(block, features, slots, rows)
    elif block.is_sparse:
        X = block.features, block.query_ptr, block.weights
        totals = sparse.gram_rows(*X, features, slots, rows)
    else:
        X = block.features, block.query_ptr, block.weights
        totals = dense.gram_rows(*X, moments.means, features, slots, rows, columns)
    kept.fetch[0] = max(fetch, kept.fetch[0])  # not before its rows are there
    return BlockRows(kept.fetch, kept.rows, totals)


def row_totals(kept: BlockRows) -> Array:
    """(J, n_features) sums of the rows fetched last."""
    return kept.totals


def fresh_totals(
    block: QueryBlock,
    columns: NDArray[np.float32] | None,
    moments: Moments,
    features: NDArray[np.int64],
) -> Array:
    """(J, n_features) sums over the queries of rows that are not kept."""
    return _fresh_rows(block, columns, moments, features).totals


def with_kept_rows(
    function: Callable[..., Any], state: Any, kept: BlockRows, slots: Any, *values: Any
) -> Any:
    """Run `function(state, rows, slots, *values)` on rows that are kept."""
    return function(state, kept.rows, slots, *values)


def with_fresh_rows(
    function: Callable[..., Any],
    block: QueryBlock,
    columns: NDArray[np.float32] | None,
    moments: Moments,
    state: Any,
    features: NDArray[np.int64],
    *values: Any,
) -> Any:
    """Run `function(state, rows, slots, *values)` on rows computed for this call."""
    rows = _fresh_rows(block, columns, moments, features).rows
    return function(state, rows, np.arange(len(features)), *values)


def _fresh_rows(
    block: QueryBlock,
    columns: NDArray[np.float32] | None,
    moments: Moments,
    features: NDArray[np.int64],
) -> BlockRows:
    rows = np.empty((len(features), block.n_queries, block.n_features))
    return fetch_rows(
        block, columns, moments, _no_rows(rows), features, np.arange(len(features)), 1
    )


def _no_rows(rows: Array) -> BlockRows:
    """Slots without any row."""
    return BlockRows(np.zeros(1, np.int64), rows, np.empty((0, rows.shape[2])))


def ridge_rounding(gram: Array, regularization: float) -> tuple[float, list[int]]:
    """Estimated relative error by rounding of predictions by `ridge_weights`, at most 1.

    Rounding changes the elements of A, scaled to a diagonal of 1, by a few units in the last place.
    The relative error of predictions is that share, divided by the least pivot of A + lambda I,
    scaled likewise.

    Returns
    -------
    The error, and the features that alone cause an error above `UNCERTAIN`, the most uncertain
    first.
    """
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] += regularization
    scale = 1.0 / np.sqrt(shifted.diagonal())
    shifted *= scale
    shifted *= scale[:, None]
    factor, pivots, rank, _ = linalg.lapack.dpstrf(shifted, lower=True)
    rounding = np.ones(len(gram))
    unit = SAFETY * len(gram) * np.finfo(np.float64).eps
    rounding[:rank] = np.minimum(unit / np.square(factor.diagonal()[:rank]), 1.0)
    order = np.argsort(-rounding, kind="stable")
    uncertain = pivots[order[rounding[order] > UNCERTAIN]] - 1
    return float(rounding.max()), uncertain.tolist()


def ridge_weights(gram: Array, products: Array, regularization: float) -> Array:
    """(A + lambda I)^-1 b, for features of any scales.

    If lambda is lost in the rounding of A, features that copy each other leave directions that
    are nothing but rounding. Such directions get no weight.

    Parameters
    ----------
    gram
        (t, t) float64 A, symmetric.
    products
        (t,) float64 b.
    regularization
        lambda > 0.
    """
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] += regularization
    # With a unit diagonal, the digits lost do not depend on the units of the features.
    scale = 1.0 / np.sqrt(shifted.diagonal())
    shifted *= scale
    shifted *= scale[:, None]
    rounding = len(scale) * np.finfo(np.float64).eps
    factor, failed = linalg.lapack.dpotrf(shifted, lower=True)
    weights: Array
    if not failed and factor.diagonal().min() ** 2 > rounding:
        weights = scale * linalg.lapack.dpotrs(factor, scale * products, lower=True)[0]
        return weights
    values, vectors = np.linalg.eigh(shifted)
    kept = values > rounding * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    weights = scale * (vectors @ ((vectors.T @ (scale * products)) / values))
    return weights
