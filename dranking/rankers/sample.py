"""A sample of the documents, which guesses Gram rows before any pass over X fetches them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.tiles import Literal, Tiles
from dranking.kernels.compile import frozen
from dranking.kernels.foresight import sampled_row
from dranking.kernels.gram import centred_strips

Array = NDArray[np.float64]

SAMPLE_DOCUMENTS = 4_096
"""Documents of a sample: enough for correlations to some hundredths, and a row of it takes some
ten thousandths of a second."""


class Sample:
    """Some documents, evenly from all blocks, that guess Gram rows.

    Parameters
    ----------
    documents
        (n_documents, n_features) float32, centred within queries.
    """

    def __init__(self, documents: NDArray[np.float32]) -> None:
        self._documents = frozen(documents)
        self._norms = np.sqrt(np.einsum("di,di->i", documents, documents, dtype=np.float64))
        self._correlations: dict[int, Array] = {}

    def row(self, feature: int, diagonal: Array) -> Array:
        """(n_features,) A[i, :] of a feature i by its correlations; `diagonal` is that of A."""
        if feature not in self._correlations:
            products = np.empty(len(self._norms), np.float32)
            sampled_row(self._documents, feature, products)
            norms = self._norms * self._norms[feature]
            self._correlations[feature] = np.divide(
                products, norms, out=np.zeros_like(norms), where=norms > 0.0
            )
        scale = np.sqrt(diagonal * diagonal[feature])
        row: Array = self._correlations[feature] * scale
        return row


def sample_of(tiles: Tiles) -> Sample | None:
    """A sample of dense documents that are in this process; None of others."""
    dataset = tiles.dataset
    if not (dataset.in_memory and tiles.executor.in_process and tiles.n_feature_blocks == 1):
        return None
    if dataset.is_sparse or not dataset.has_documents:
        return None
    per_block = Literal(-(-SAMPLE_DOCUMENTS // dataset.n_blocks))
    parts = tiles.gather(tiles.map_blocks(first_documents, per_block, name="sample"))
    return Sample(np.concatenate(parts))


def first_documents(block: QueryBlock, number: int) -> NDArray[np.float32]:
    """The first documents of a block in whole queries, as many or more, centred."""
    last = min(int(np.searchsorted(block.query_ptr, number)), block.n_queries)
    rows = slice(0, block.query_ptr[last])
    strips = centred_strips(
        block.features[rows],
        block.relevance[rows],
        block.query_ptr[: last + 1],
        block.weights[:last],
    )
    none = np.empty((0, block.n_features))
    return np.concatenate([none, *(documents for documents, *_ in strips)]).astype(np.float32)
