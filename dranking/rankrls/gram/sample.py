"""A sample of the documents, which guesses Gram rows before a pass over X fetches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.tile_tasks import Literal
from dranking.engine.tiles import Tiles
from dranking.kernels.machine.compile import frozen
from dranking.rankrls.kernels.gram.per_query import centre_first
from dranking.rankrls.kernels.gram.sampled_rows import RoundedDocuments, add_sampled_row, rounded
from dranking.rankrls.statistics.per_query import QueryStatistics

Array = NDArray[np.float64]

MOST_PRODUCTS = 2**23
"""Largest number of products of features with each other, over all tiles, in a sample."""

MOST_DOCUMENTS, MOST_NUMBERS = 2**14, 2**21
"""Largest number of documents in a sample, and of feature values in them. These documents give
correlations to some hundredths, and cost little compared with a pass over X."""

LEAST_DOCUMENTS = 32
"""Smallest number of documents from a block: a few documents might belong to one query, or say
nothing once they are centred."""

MOST_WITHIN_STATISTICS = 2**15
"""Largest number of documents whose statistics are a sample."""


class Products(NamedTuple):
    """Products of the features in a sample, centred within queries.

    Attributes
    ----------
    norms
        (n_features,) norms of the features.
    row
        Function from a feature to the (n_features,) products of this feature with all features.
    """

    norms: Array
    row: Callable[[int], NDArray[np.floating]]


class Sample:
    """Some documents, evenly from all blocks, from which Gram rows are guessed.

    Parameters
    ----------
    taken
        Returns the products in the sample, and waits for the tasks that compute the products;
        called when the first row is asked for.
    """

    def __init__(self, taken: Callable[[], Products]) -> None:
        self._taken = taken
        self._correlations: dict[int, Array] = {}

    @cached_property
    def _products(self) -> Products:
        return self._taken()

    def row(self, feature: int, diagonal: Array) -> Array:
        """(n_features,) guess of A[i, :] for feature i, from correlations and the diagonal of A."""
        if feature not in self._correlations:
            norms = self._products.norms * self._products.norms[feature]
            with np.errstate(divide="ignore", invalid="ignore"):
                correlations = self._products.row(feature) / norms
            # A feature may have norm zero, and products of huge values may overflow.
            correlations[~np.isfinite(correlations)] = 0.0
            self._correlations[feature] = np.minimum(np.maximum(correlations, -1.0), 1.0)
        scale = np.sqrt(diagonal * diagonal[feature])
        row: Array = self._correlations[feature] * scale
        return row


def sample_of(tiles: Tiles) -> Sample | None:
    """A sample of dense documents in memory, or of statistics; None for other data.

    If tasks share this process's memory, the sampled documents are kept. Workers send only the
    products of the features in their documents, summed. Rows of statistics are read by this process
    when they are asked for.
    """
    dataset = tiles.dataset
    if dataset.is_sparse or tiles.n_feature_blocks > 1:
        return None
    if not dataset.has_documents:
        return Sample(partial(products_of_statistics, some_statistics(tiles)))
    if not tiles.resident:
        return None
    n_documents = min(MOST_DOCUMENTS, MOST_NUMBERS // dataset.n_features)
    per_block = Literal(max(LEAST_DOCUMENTS, -(-n_documents // dataset.n_blocks)))
    if tiles.executor.in_process:
        parts = tiles.map_blocks(round_first, per_block, name="sample", is_pass=False)
        return Sample(lambda: products_of_documents(tiles.gather(parts)))
    if not is_summed(tiles.n_tiles, dataset.n_features):
        return None
    sum_up = partial(tiles.sum_map, products_of_first, per_block, name="sample", is_pass=False)
    return Sample(lambda: summed_products(sum_up()))


def summed_products(products: Array) -> Products:
    """The products as a (n_features, n_features) matrix gives them."""
    return Products(np.sqrt(np.diagonal(products)), products.__getitem__)


def products_of_documents(parts: Sequence[RoundedDocuments]) -> Products:
    """The products in documents, which come in parts."""
    numbers, units, squares = (np.concatenate(each) for each in zip(*parts, strict=True))
    ends = np.cumsum([len(part.numbers) for part in parts])

    def row(feature: int) -> Array:
        products = np.zeros(units.shape[1])
        add_sampled_row(frozen(numbers), frozen(units), frozen(ends), feature, products)
        return products

    return Products(np.sqrt((squares * units**2).sum(axis=0)), row)


def some_statistics(tiles: Tiles) -> Callable[[], list[QueryStatistics]]:
    """A function that returns evenly chosen blocks of a statistics store."""
    dataset = tiles.dataset
    number = max(1, MOST_WITHIN_STATISTICS * dataset.n_blocks // dataset.n_documents)
    chosen = slice(0, dataset.n_blocks, -(-dataset.n_blocks // number))
    if tiles.resident and tiles.executor.in_process:
        there = tiles.map_blocks(itself, name="sample", is_pass=False)
        return lambda: tiles.gather(there)[chosen]
    indices = range(dataset.n_blocks)[chosen]
    return lambda: [cast(QueryStatistics, dataset.block(index)) for index in indices]


def itself(block: QueryStatistics) -> QueryStatistics:
    """The block itself: the task keeps the block where it is."""
    return block


def products_of_statistics(given: Callable[[], list[QueryStatistics]]) -> Products:
    """The products in some blocks of statistics."""
    blocks = given()
    squares = sum(block.weights @ block.diagonal for block in blocks)
    return Products(np.sqrt(squares), partial(products_in, blocks))


def products_in(blocks: Sequence[QueryStatistics], feature: int) -> Array:
    """(n_features,) row A[i, :] of a feature i, summed over the queries of some blocks."""
    total = np.zeros(blocks[0].n_features)
    for block in blocks:
        [row] = block.rows([feature])
        total += block.weights @ row
    return total


def is_summed(n_tiles: int, n_features: int) -> bool:
    """Whether the products of a sample are few enough to send."""
    return n_tiles * n_features**2 <= MOST_PRODUCTS


def products_of_first(block: QueryBlock, number: int) -> Array:
    """(n_features, n_features) products of the features in the first documents of a block."""
    documents = first_documents(block, number)
    with np.errstate(over="ignore"):
        products: NDArray[np.float32] = with_one_blas_thread(np.matmul, documents.T, documents)
    return products.astype(np.float64)


def round_first(block: QueryBlock, number: int) -> RoundedDocuments:
    """The first documents of a block, rounded."""
    return rounded(first_documents(block, number))


def first_documents(block: QueryBlock, number: int) -> NDArray[np.float32]:
    """The first documents of a block, or all that it has, centred; a long query may be cut."""
    return centre_first(block.features, block.query_ptr, block.weights, number)
