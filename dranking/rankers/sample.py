"""A sample of the documents, which guesses Gram rows before any pass over X fetches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.query_statistics import QueryStatistics
from dranking.engine.executor import with_one_blas_thread
from dranking.engine.tiles import Literal, Tiles
from dranking.kernels.compile import frozen
from dranking.kernels.foresight import add_sampled_row
from dranking.kernels.gram import centre_first

Array = NDArray[np.float64]

MOST_PRODUCTS = 2**23
"""Products of all features with each other, from every tile, that a sample may consist of."""

MOST_DOCUMENTS, MOST_NUMBERS = 2**14, 2**21
"""Documents of a sample at most, and numbers in them: what correlations within some hundredths take
is little beside a pass over X."""

LEAST_DOCUMENTS = 32
"""Of a block: a few would be of one query, or say nothing once they are centred."""

MOST_WITHIN_STATISTICS = 2**15
"""Documents whose statistics are a sample at most."""


class Sample:
    """Some documents, evenly from all blocks, that guess Gram rows.

    Parameters
    ----------
    norms
        (n_features,) of the features in the sample, centred within queries.
    products
        From a feature to its (n_features,) products with all features there.
    """

    def __init__(self, norms: Array, products: Callable[[int], NDArray[np.floating]]) -> None:
        self._norms, self._products = norms, products
        self._correlations: dict[int, Array] = {}

    def row(self, feature: int, diagonal: Array) -> Array:
        """(n_features,) A[i, :] of a feature i by its correlations; `diagonal` is that of A."""
        if feature not in self._correlations:
            norms = self._norms * self._norms[feature]
            correlations = np.divide(
                self._products(feature), norms, out=np.zeros_like(norms), where=norms > 0.0
            )
            # Products of huge values may have overflown.
            self._correlations[feature] = np.clip(np.nan_to_num(correlations), -1.0, 1.0)
        scale = np.sqrt(diagonal * diagonal[feature])
        row: Array = self._correlations[feature] * scale
        return row


def sample_of(tiles: Tiles) -> Sample | None:
    """A sample of dense documents that are in memory, or of statistics; None of others.

    Of documents in this process some are kept. Of others only sums travel: their products. Rows of
    statistics are read as they are asked for, by this process.
    """
    dataset = tiles.dataset
    if dataset.is_sparse or tiles.n_feature_blocks > 1:
        return None
    if not dataset.has_documents:
        return sample_of_statistics(dataset)
    if not tiles.resident:
        return None
    n_documents = min(MOST_DOCUMENTS, MOST_NUMBERS // dataset.n_features)
    per_block = Literal(max(LEAST_DOCUMENTS, -(-n_documents // dataset.n_blocks)))
    if tiles.executor.in_process:
        parts = tiles.map_blocks(first_documents, per_block, name="sample")
        return sample_from(tiles.gather(parts))
    if not is_summed(tiles.n_tiles, dataset.n_features):
        return None
    blocks = tiles.map_blocks(products_of_first, per_block, name="sample")
    products = tiles.sum(blocks, np.asarray, "sample")
    return Sample(np.sqrt(np.diagonal(products)), products.__getitem__)


def sample_from(parts: Sequence[NDArray[np.float32]]) -> Sample:
    """The sample of documents (n_documents, n_features), centred within queries, in parts."""
    squares = sum(np.einsum("di,di->i", part, part, dtype=np.float64) for part in parts)
    return Sample(np.sqrt(squares), partial(products_with, [frozen(part) for part in parts]))


def sample_of_statistics(dataset: Dataset) -> Sample:
    """Some blocks of a statistics store, evenly, whose rows are read as they are asked for."""
    number = max(1, MOST_WITHIN_STATISTICS * dataset.n_blocks // dataset.n_documents)
    chosen = range(0, dataset.n_blocks, -(-dataset.n_blocks // number))
    blocks = [cast(QueryStatistics, dataset.block(index)) for index in chosen]
    squares = sum(block.weights @ block.diagonal for block in blocks)
    return Sample(np.sqrt(squares), partial(products_in, blocks))


def products_in(blocks: Sequence[QueryStatistics], feature: int) -> Array:
    """(n_features,) row of a feature of A, summed over the queries of some blocks."""
    wanted = np.array([feature])
    row: Array = sum(block.weights @ block.rows(wanted)[0] for block in blocks)
    return row


def is_summed(n_tiles: int, n_features: int) -> bool:
    """Whether the products of a sample are few enough to send."""
    return n_tiles * n_features**2 <= MOST_PRODUCTS


def products_with(parts: Sequence[NDArray[np.float32]], feature: int) -> NDArray[np.float32]:
    """(n_features,) products of a feature with all features of a sample."""
    products = np.zeros(parts[0].shape[1], np.float32)
    for part in parts:
        add_sampled_row(part, feature, products)
    return products


def products_of_first(block: QueryBlock, number: int) -> Array:
    """(n_features, n_features) products of the features in the first documents of a block."""
    documents = first_documents(block, number)
    products: NDArray[np.float32] = with_one_blas_thread(np.matmul, documents.T, documents)
    return products.astype(np.float64)


def first_documents(block: QueryBlock, number: int) -> NDArray[np.float32]:
    """The first documents of a block, or all that it has, centred; a long query may be cut."""
    return centre_first(block.features, block.query_ptr, block.weights, number)
