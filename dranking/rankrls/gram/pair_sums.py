"""Sums of products of centred rows [X y] in double-double: the sum over blocks with 32 digits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.rankrls.kernels.gram.dense import strips_of_queries
from dranking.rankrls.kernels.gram.double_double import (
    centred_pairs,
    sum_of_pairs,
    sums_of_products,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums of products of rows [X y]; `+` gives the sums over both row sets.

    Attributes
    ----------
    values
        (2, n_features + 1, n_features + 1) pairs; symmetric.
    """

    values: Array

    def __add__(self, other: PairSums) -> PairSums:
        return PairSums(sum_of_pairs(self.values, other.values))

    @classmethod
    def of_rows(cls, pairs: Array) -> PairSums:
        """The sums over rows (2, m, n_features + 1)."""
        return cls(sums_of_products(pairs))


def pair_rows(block: QueryBlock) -> Iterator[tuple[Array, Indices]]:
    """Yield strips of centred rows [X y] as pairs, with the offsets of the queries of each strip.

    Yields
    ------
    (2, n_documents, n_features + 1) pairs, times the square roots of query weights; and
    (n_queries + 1,) offsets.
    """
    for first, last in strips_of_queries(block.query_ptr):
        ptr = block.query_ptr[first : last + 1]
        features = block.features[ptr[0] : ptr[-1]]
        features = features.toarray() if block.is_sparse else features
        rows = np.column_stack((features, block.relevance[ptr[0] : ptr[-1]]))
        own = ptr - ptr[0]
        yield centred_pairs(rows, own, block.weights[first:last]), own
