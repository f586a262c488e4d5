"""Moments of the data, in all queries together and in every query: diag A, b and y.y."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.sample import Sample, sample_of
from dranking.rankrls.gram.statistics_store import statistics_moments
from dranking.rankrls.kernels.gram import per_query as gram
from dranking.rankrls.kernels.gram.dense import Moments
from dranking.rankrls.kernels.gram.sparse_totals import moment_totals
from dranking.rankrls.statistics.per_query import QueryStatistics

Array = NDArray[np.float64]


class TotalMoments:
    """The diagonal of A, b and y.y, from one pass over X.

    Attributes
    ----------
    diagonal, products
        (n_features,) diag A and b.
    label_norm
        y.y, the leave-query-out error with no feature.
    sample
        A sample of the documents that guesses Gram rows; None if there is no sample.
    """

    sample: Sample | None = None

    def __init__(self, tiles: Tiles) -> None:
        self.diagonal, self.products, self.label_norm = tiles.sum_blocks(
            block_totals, name="moments"
        )


class QueryMoments(TotalMoments):
    """Like `TotalMoments`, with the moments of every query.

    Attributes
    ----------
    blocks
        Tasks with the moments of every block, which stay where the data is.
    """

    def __init__(self, tiles: Tiles) -> None:
        self._tiles = tiles
        self.blocks = tiles.map_blocks(block_moments, name="moments")
        self.diagonal, self.products, self.label_norm = tiles.sum(
            self.blocks, sum_moments, "moments"
        )

    @cached_property
    def sample(self) -> Sample | None:  # type: ignore[override]
        """The sample, taken at the first access."""
        return sample_of(self._tiles)


def block_moments(block: QueryBlock | QueryStatistics) -> Moments:
    """Moments of one block."""
    if isinstance(block, QueryStatistics):
        return statistics_moments(block)
    return gram.moments(block.features, block.relevance, block.query_ptr, block.weights)


def sum_moments(moments: Moments) -> tuple[Array, Array, Array]:
    """Sums over the queries of a block."""
    return moments.totals[0], moments.totals[1], moments.label_norms.sum()


def block_totals(block: QueryBlock | QueryStatistics) -> tuple[Array, Array, Any]:
    """Moments of one block, summed over its queries."""
    if isinstance(block, QueryStatistics) or not block.is_sparse:
        return sum_moments(block_moments(block))
    return moment_totals(block.features, block.relevance, block.query_ptr, block.weights)
