"""The rows of each block: queries by first appearance, borders as for data in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, block_boundaries
from dranking.errors import DataError
from dranking.ingestion.collections.partitions import Ints, Lines


class BlockPlan:
    """Queries and blocks of all parts together.

    Queries come in the order of their first rows, the rows of a query in the order of the parts and
    within a part. Queries are packed into blocks by `block_boundaries`.

    Parameters
    ----------
    parts
        The lines of every part, in order.

    Attributes
    ----------
    query_ids
        (n_queries,) ids in order; string if any part holds strings, otherwise int64.
    queries
        For each part, (n_lines,) the query of each line.
    borders
        (n_blocks + 1,) int64 first query of each block, then the number of queries.
    row_ptr
        (n_blocks + 1,) int64 first row of each block in the order of the queries, then the number
        of rows.
    part_ptr
        (n_parts + 1,) int64 first row of each part, then the number of rows.
    is_adjacent
        Whether the rows of every query are adjacent, in one part or across parts.

    Raises
    ------
    DataError
        If no part has a row.
    """

    def __init__(self, parts: Sequence[Lines]) -> None:
        there = [lines for lines in parts if len(lines.ids)]
        if not there:
            raise DataError("there are no documents; give at least one.")
        self.qid_is_text = any(pa.types.is_string(lines.ids.type) for lines in there)
        kind = pa.string() if self.qid_is_text else pa.int64()
        encoded = pa.concat_arrays([lines.ids.cast(kind) for lines in there]).dictionary_encode()
        self.query_ids = encoded.dictionary
        codes = encoded.indices.to_numpy().astype(np.int64)  # numbered by first appearance
        self.queries = np.split(codes, np.cumsum([len(lines.ids) for lines in parts])[:-1])
        is_grouped = all(lines.is_grouped for lines in parts)
        self.is_adjacent = is_grouped and bool((np.diff(codes) >= 0).all())
        self.part_ptr = _ptr([lines.n_documents.sum() for lines in parts])
        self._codes, self._parts = codes, parts
        self._n_documents = self._per_query("n_documents")
        self.borders = block_boundaries(self._n_documents)
        self.row_ptr = _ptr(self._n_documents)[self.borders]

    def infos(self, n_features: int | None) -> tuple[BlockInfo, ...]:
        """Sizes of the blocks; `n_features` is None for sparse data, whose values were counted."""
        n_unlabelled, n_values = (
            np.diff(_ptr(self._per_query(name))[self.borders])
            for name in ("n_unlabelled", "n_values")
        )
        n_rows, n_queries = np.diff(self.row_ptr), np.diff(self.borders)
        if n_features is not None:
            n_values = n_rows * n_features
        sizes = np.stack([n_rows, n_queries, n_values, n_unlabelled], axis=1)
        return tuple(BlockInfo(*row) for row in sizes.tolist())

    def _per_query(self, name: str) -> Ints:
        """Sums of a number of the lines over the lines of each query."""
        values = np.concatenate([getattr(lines, name) for lines in self._parts])
        return np.bincount(self._codes, values, len(self.query_ids)).astype(np.int64)


def _ptr(lengths: Sequence[int] | NDArray[np.int64]) -> Ints:
    """(n + 1,) int64 start of each range, then the end of the last one."""
    return np.append(0, np.cumsum(lengths)).astype(np.int64)
