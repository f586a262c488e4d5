"""Blocks of whole queries, the unit of data that kernels, metrics and trainers work on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

FeatureMatrix: TypeAlias = Any  # NDArray[np.float32] or scipy.sparse.csr_array of float32

MAX_BLOCK_DOCUMENTS = 8_192
"""Largest number of documents in a block, unless a single query is larger.

Blocks are the unit of reduction: the data set fixes them, never the number of workers.
"""

SEGMENT_BLOCKS = 8
SEGMENT_DOCUMENTS = 65_536
"""A segment has at most so many blocks and documents, unless a single block is larger."""


@dataclass(frozen=True, eq=False)
class QueryBlock:
    """Whole queries: one document per row, the documents of a query adjacent.

    Attributes
    ----------
    features
        (n_documents, n_features) float32, C-ordered (from memory) or F-ordered (from
        feature-major storage), or a `scipy.sparse.csr_array` of float32 with sorted indices.
        Finite.
    relevance
        (n_documents,) float64 grades; NaN for an unlabelled document.
    query_ptr
        (n_queries + 1,) int64; the documents of query q are rows
        `query_ptr[q]:query_ptr[q + 1]`. No query is empty.
    query_ids
        (n_queries,) pyarrow array, int64 or string.
    doc_ids
        (n_documents,) pyarrow array, int64 or string, or None if the data has no document ids.
    comments
        (n_documents,) pyarrow string array of further text on each document (in LETOR text, the
        comment behind ``#``), or None.
    query_weights
        (n_queries,) float64, finite and at least 0, or None for all ones. A query's weight
        multiplies the query's share of the objective, its pairs and its metric.

    Raises
    ------
    ValueError
        If the lengths of the arrays do not fit together.
    """

    features: FeatureMatrix
    relevance: NDArray[np.float64]
    query_ptr: NDArray[np.int64]
    query_ids: pa.Array
    doc_ids: pa.Array | None = None
    comments: pa.Array | None = None
    query_weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        n_documents, n_queries = self.n_documents, self.n_queries
        if self.query_ptr[0] != 0 or self.query_ptr[-1] != n_documents:
            raise ValueError(
                f"query_ptr runs from {self.query_ptr[0]} to {self.query_ptr[-1]}, "
                f"but features has {n_documents} rows."
            )
        for name, values, expected in (
            ("relevance", self.relevance, n_documents),
            ("query_ids", self.query_ids, n_queries),
            ("doc_ids", self.doc_ids, n_documents),
            ("comments", self.comments, n_documents),
            ("query_weights", self.query_weights, n_queries),
        ):
            if values is not None and len(values) != expected:
                raise ValueError(f"{name} has {len(values)} entries; {expected} are needed.")

    def __sizeof__(self) -> int:
        """Bytes of the arrays, which Dask takes as the memory of a block."""
        matrix = self.features
        parts = (matrix.data, matrix.indices, matrix.indptr) if self.is_sparse else (matrix,)
        others = (getattr(self, field.name) for field in fields(self) if field.name != "features")
        return object.__sizeof__(self) + sum(
            int(part.nbytes) for part in (*parts, *others) if part is not None
        )

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return int(self.features.shape[0])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_ptr) - 1

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.features.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether `features` is a CSR array."""
        return bool(sparse.issparse(self.features))

    @property
    def weights(self) -> NDArray[np.float64]:
        """(n_queries,) float64 query weights; ones if the data has no weights."""
        return np.ones(self.n_queries) if self.query_weights is None else self.query_weights

    @property
    def info(self) -> BlockInfo:
        """Sizes of this block."""
        return BlockInfo(
            n_documents=self.n_documents,
            n_queries=self.n_queries,
            n_values=int(self.features.nnz if self.is_sparse else self.features.size),
            n_unlabelled=int(np.isnan(self.relevance).sum()),
        )

    @property
    def labelled_sizes(self) -> NDArray[np.int64]:
        """(n_queries,) number of labelled documents of each query."""
        is_labelled = ~np.isnan(self.relevance)
        return np.add.reduceat(is_labelled, self.query_ptr[:-1], dtype=np.int64)

    def take_queries(self, keep: NDArray[np.bool_]) -> QueryBlock:
        """The block restricted to the queries where `keep` (n_queries,) is true, in order."""
        if keep.all():
            return self
        rows = np.repeat(keep, np.diff(self.query_ptr))
        return self._take(rows, np.diff(self.query_ptr)[keep], keep)

    def labelled(self) -> QueryBlock:
        """The block without unlabelled documents; queries left without documents are dropped."""
        return self.take_documents(~np.isnan(self.relevance))

    def take_documents(self, rows: NDArray[np.bool_]) -> QueryBlock:
        """The documents where `rows` (n_documents,) is true; queries without any are dropped."""
        if rows.all():
            return self
        sizes = np.add.reduceat(rows, self.query_ptr[:-1], dtype=np.int64)
        return self._take(rows, sizes[sizes > 0], sizes > 0)

    def latest_documents(self) -> QueryBlock:
        """The block in which the last row of a document stands for all of its rows in a query.

        Rows without document id (none, or an empty text) are documents of their own.
        """
        if self.doc_ids is None:
            return self
        ids = self.doc_ids.dictionary_encode()
        codes = ids.indices.fill_null(-1).to_numpy().astype(np.int64)
        unnamed = ids.dictionary.cast(pa.string()).index("").as_py()
        query = np.repeat(np.arange(self.n_queries), np.diff(self.query_ptr))
        backwards = (query * (len(ids.dictionary) + 1) + codes + 1)[::-1]
        rows = (codes < 0) | (codes == unnamed) if unnamed >= 0 else codes < 0
        rows[self.n_documents - 1 - np.unique(backwards, return_index=True)[1]] = True
        if rows.all():
            return self
        sizes = np.add.reduceat(rows, self.query_ptr[:-1], dtype=np.int64)
        return self._take(rows, sizes, np.ones(self.n_queries, bool))

    def copies(self, n: int) -> QueryBlock:
        """A block with n copies of the queries, one after the other, and without features."""

        def ids(values: pa.Array | None) -> pa.Array | None:
            return None if values is None else pa.concat_arrays([values] * n)

        starts = self.n_documents * np.arange(n)
        return QueryBlock(
            features=np.empty((n * self.n_documents, 0), dtype=np.float32),
            relevance=np.tile(self.relevance, n),
            query_ptr=np.append(np.add.outer(starts, self.query_ptr[:-1]), n * self.n_documents),
            query_ids=ids(self.query_ids),
            doc_ids=ids(self.doc_ids),
        )

    def with_features(self, features: FeatureMatrix) -> QueryBlock:
        """The same documents with another feature matrix."""
        return replace(self, features=features)

    def digest(self) -> str:
        """BLAKE2b digest, 32 hex digits, of features, relevance, queries and weights.

        Document ids, comments and the memory layout of the features do not matter.
        """
        return self.digest_with(self.features_digest())

    def features_digest(self) -> str:
        """BLAKE2b digest, 32 hex digits, of the features alone."""
        digest = hashlib.blake2b(digest_size=16)
        if self.is_sparse:
            for part in (self.features.indptr, self.features.indices, self.features.data):
                digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(np.ascontiguousarray(self.features.T).data)
        return digest.hexdigest()

    def digest_with(self, features_digest: str) -> str:
        """The `digest` of the block, given the digest of its features, which are not read."""
        digest = hashlib.blake2b(bytes.fromhex(features_digest), digest_size=16)
        digest.update(self.relevance.tobytes())
        digest.update(self.query_ptr.tobytes())
        digest.update(self.weights.tobytes())
        digest.update("\0".join(map(str, self.query_ids.to_pylist())).encode())
        return digest.hexdigest()

    def _take(
        self, rows: NDArray[np.bool_], sizes: NDArray[np.int64], keep: NDArray[np.bool_]
    ) -> QueryBlock:
        def ids(values: pa.Array | None, mask: NDArray[np.bool_]) -> pa.Array | None:
            return None if values is None else values.filter(pa.array(mask))

        return QueryBlock(
            features=self.features[rows],
            relevance=self.relevance[rows],
            query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            query_ids=ids(self.query_ids, keep),
            doc_ids=ids(self.doc_ids, rows),
            comments=ids(self.comments, rows),
            query_weights=None if self.query_weights is None else self.query_weights[keep],
        )


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """Sizes of one block, known without reading the block.

    Attributes
    ----------
    n_documents, n_queries
        Rows and queries.
    n_values
        Stored feature values: documents x features, or the stored entries of sparse data.
    n_unlabelled
        Documents without relevance.
    """

    n_documents: int
    n_queries: int
    n_values: int
    n_unlabelled: int = 0


def canonical_csr(
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int64],
    shape: tuple[int, int],
) -> sparse.csr_array:
    """A CSR array in the form that blocks have: with int32 indices if the number of entries allows.

    Parameters
    ----------
    data, indices, indptr
        Arrays of a CSR matrix whose indices are sorted and unique in every row.
    shape
        (n_documents, n_features).
    """
    if len(data) <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)  # scipy converts the indices to the dtype of indptr
    features = sparse.csr_array((data, indices, indptr), shape=shape)
    features.has_canonical_format = True
    return features


QUERIES_AT_ONCE = 1 << 20
"""Queries that `block_boundaries` sums at a time."""


def block_boundaries(
    query_sizes: NDArray[np.int64], max_documents: int = MAX_BLOCK_DOCUMENTS
) -> NDArray[np.int64]:
    """Cut a sequence of queries into blocks.

    Queries fill a block in order until the next query would exceed `max_documents`.

    Parameters
    ----------
    query_sizes
        (n_queries,) number of documents of each query.
    max_documents
        Largest number of documents in a block, unless a single query is larger.

    Returns
    -------
    (n_blocks + 1,) int64 borders; block b holds the queries `borders[b]:borders[b + 1]`.
    """
    n_queries, boundaries, at_once = len(query_sizes), [0], QUERIES_AT_ONCE
    while (first := boundaries[-1]) < n_queries:
        ptr = np.cumsum(query_sizes[first : first + at_once], dtype=np.int64)
        ptr = np.concatenate(([0], ptr))
        n_read, start = len(ptr) - 1, 0
        while start < n_read:
            end = int(np.searchsorted(ptr, ptr[start] + max_documents, side="right")) - 1
            # A block without documents so far takes the next query, whatever its size.
            end += int(ptr[end] == ptr[start])
            if end >= n_read and first + n_read < n_queries:
                break  # the block may continue with queries that were not read yet
            start = min(end, n_read)
            boundaries.append(first + start)
        if not start:
            at_once *= 2
    return np.array(boundaries, dtype=np.int64)


def segment_borders(
    block_sizes: Sequence[int], max_documents: int = SEGMENT_DOCUMENTS
) -> list[int]:
    """Cut a sequence of blocks into segments.

    Parameters
    ----------
    block_sizes
        Documents of each block.
    max_documents
        Largest number of documents in a segment, unless a single block is larger.

    Returns
    -------
    (n_segments + 1,) numbers of the first block of each segment, then the number of blocks.
    Segments have at most `SEGMENT_BLOCKS` blocks and `max_documents` documents, unless a single
    block is larger.
    """
    borders, n_documents = [0], 0
    for block, size in enumerate(block_sizes):
        full = block - borders[-1] == SEGMENT_BLOCKS or n_documents + size > max_documents
        if full and block > borders[-1]:
            borders.append(block)
            n_documents = 0
        n_documents += size
    return [*borders, len(block_sizes)]
