"""Training parts that share queries, as data in which a query id is one query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.block_source import joined_ids
from dranking.data.blocks import QueryBlock, block_boundaries
from dranking.data.dataset import Dataset
from dranking.data.queries_in_pieces import other_weight, query_in_pieces
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import write_dataset
from dranking.files.places import Place
from dranking.files.reading import exists
from dranking.files.writing.names import MANIFEST_NAME
from dranking.retrain.workflows.parts import joined

SHARE = 8
"""Rows that are brought together at once take at most this part of the memory."""


def codes_of(parts: Sequence[Dataset]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """For each query of all parts: a number of its id, and whether several have this id."""
    ids = pa.chunked_array([part.query_ids().cast(pa.string()) for part in parts], pa.string())
    codes = ids.combine_chunks().dictionary_encode().indices.to_numpy()
    return codes, np.bincount(codes)[codes] > 1


def share_queries(parts: Sequence[Dataset]) -> bool:
    """Whether several parts have one query."""
    return len(parts) > 1 and bool(codes_of(parts)[1].any())


def whole_queries(parts: Sequence[Dataset], folder: Place, memory_bytes: int) -> Dataset:
    """Parts as one data set; queries of several parts have the rows of all of these.

    Such queries are stored in a folder, unless they are there, and follow those of single parts.

    Raises
    ------
    DataError
        If parts give a query different weights, or a scaling depends on all documents of it.
    """
    codes, is_repeated = codes_of(parts)
    if not is_repeated.any():
        return joined(parts)
    of_query = [scaling.kind for scaling in parts[0].transforms if scaling.of_query]
    if of_query:
        ids = pa.chunked_array([part.query_ids().cast(pa.string()) for part in parts])
        raise query_in_pieces(ids[int(np.argmax(is_repeated))], of_query[0])
    if not exists(folder / MANIFEST_NAME):
        n_documents = max(1, memory_bytes // (4 * SHARE * parts[0].n_features))
        together = _SharedQueries(joined(parts), codes, is_repeated, n_documents)
        write_dataset(together, folder, overwrite=True)
    masks = np.split(~is_repeated, np.cumsum([part.n_queries for part in parts])[:-1])
    alone = [part.select_queries(mask) for part, mask in zip(parts, masks, strict=True)]
    kept = [part for part, mask in zip(alone, masks, strict=True) if mask.any()]
    return joined([*kept, StoredDataset(folder)])


class _SharedQueries(Dataset):
    """The queries of a data set whose ids occur several times, each with all of its rows."""

    def __init__(
        self,
        source: Dataset,
        codes: NDArray[np.int32],
        is_repeated: NDArray[np.bool_],
        n_documents: int,
    ) -> None:
        self._source, self._codes, self._n_documents = source, codes, n_documents
        self._is_repeated = is_repeated
        self.feature_names, self.is_sparse = source.feature_names, source.is_sparse
        self.constants, self.transforms, self.roles = (
            source.constants,
            source.transforms,
            source.roles,
        )
        self.blocks = ()

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block, and all before it."""
        return next(self.read_blocks(index, None, columns))

    def read_blocks(
        self, start: int = 0, end: int | None = None, columns: NDArray[np.intp] | None = None
    ) -> Iterator[QueryBlock]:
        """Read blocks, in few passes over the source, which always begin with the first block."""
        return islice(self._all_blocks(columns), start, end)

    def _all_blocks(self, columns: NDArray[np.intp] | None) -> Iterator[QueryBlock]:
        for group in self._groups():
            block = self._together(group, columns)
            borders = block_boundaries(np.diff(block.query_ptr))
            number = np.arange(block.n_queries)
            for first, last in pairwise(borders.tolist()):
                yield block.take_queries((first <= number) & (number < last))

    def _groups(self) -> Iterator[NDArray[np.bool_]]:
        """For each pass, the codes whose queries are read: as many as fit into memory."""
        none = np.empty(0, np.intp)
        blocks = self._source.read_blocks(columns=none)
        sizes = np.concatenate([np.diff(block.query_ptr) for block in blocks])
        shared = self._is_repeated
        n_rows = np.bincount(self._codes[shared], sizes[shared])
        wanted = np.flatnonzero(n_rows)
        n_rows = n_rows[wanted].astype(np.int64)
        # Passes end where blocks end, so that blocks do not depend on the memory there is.
        borders = block_boundaries(n_rows)
        of_blocks = np.add.reduceat(n_rows, borders[:-1])
        passes = borders[block_boundaries(of_blocks, self._n_documents)]
        for first, last in pairwise(passes.tolist()):
            group = np.zeros(int(self._codes.max()) + 1, bool)
            group[wanted[first:last]] = True
            yield group

    def _together(self, group: NDArray[np.bool_], columns: NDArray[np.intp] | None) -> QueryBlock:
        """The queries of some codes, in the order of these, with their rows in order."""
        pieces, codes, start = [], [], 0
        for index, info in enumerate(self._source.blocks):
            own = self._codes[start : start + info.n_queries]
            start += info.n_queries
            if group[own].any():
                pieces.append(self._source.block(index, columns).take_queries(group[own]))
                codes.append(own[group[own]])
        return _joined_rows(pieces, np.concatenate(codes))


def _joined_rows(blocks: Sequence[QueryBlock], codes: NDArray[np.int32]) -> QueryBlock:
    """The rows of some blocks, those of one code (one for each query) as one query."""
    sizes = np.concatenate([np.diff(block.query_ptr) for block in blocks])
    order = np.argsort(np.repeat(codes, sizes), kind="stable")
    _, first, places = np.unique(codes, return_index=True, return_inverse=True)
    ids = joined_ids([block.query_ids for block in blocks])
    features = [block.features for block in blocks]
    weights = np.concatenate([block.weights for block in blocks])
    wrong = np.flatnonzero(weights[first][places] != weights)
    if len(wrong):
        one = int(wrong[0])
        raise other_weight(ids[one], weights[one], weights[first][places[one]])
    doc_ids = [block.doc_ids for block in blocks if block.doc_ids is not None]
    has_weights = any(block.query_weights is not None for block in blocks)
    n_rows = np.bincount(places, sizes).astype(np.int64)
    return QueryBlock(
        features=(
            sparse.vstack(features, "csr") if blocks[0].is_sparse else np.concatenate(features)
        )[order],
        relevance=np.concatenate([block.relevance for block in blocks])[order],
        query_ptr=np.concatenate(([0], np.cumsum(n_rows))),
        query_ids=ids.take(pa.array(first)),
        doc_ids=joined_ids(doc_ids).take(pa.array(order)) if len(doc_ids) == len(blocks) else None,
        query_weights=weights[first] if has_weights else None,
    )
