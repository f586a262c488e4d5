"""Per-query statistics of a block, from which RankRLS trains for any lambda and features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.block_source import documents_needed
from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.rankrls.kernels.gram import per_query as gram
from dranking.rankrls.kernels.gram.dense import strips_of_queries
from dranking.rankrls.kernels.gram.whole_blocks import all_gram_rows

Array = NDArray[np.float64]

ReadRows: TypeAlias = Callable[[Iterable[int]], Iterator[Array]]

WORDS_PER_NUMBER = 2
"""The memory plan takes `BlockInfo.n_values` as float32; the statistics are float64."""


@dataclass(frozen=True, eq=False)
class QueryStatistics:
    """Statistics of the labelled documents of some queries, used in place of a `QueryBlock`.

    Features and labels are centred within the query. Query weights are not part of the statistics.
    They are applied where the statistics are used, so that weights can change without reading the
    documents again. The statistics of a query without labelled documents are zeros.

    Attributes
    ----------
    rows
        Function from positions of features to an iterator over their rows of
        A_q = X_q' X_q, each (n_queries, n_features) float64. A stored row is read at every use.
    diagonal, products
        (n_queries, n_features) float64: diagonals of A_q, and b_q = X_q' y_q.
    label_norms, label_means
        (n_queries,) float64: y_q' y_q, and the mean of the labels before they were centred.
    sizes, labelled_sizes, value_counts
        (n_queries,) int64: documents, labelled documents and feature values of each query.
    query_ids
        (n_queries,) pyarrow string array.
    means
        (n_queries, n_features) float64 means of the features of labelled documents, with which
        pieces of a query are merged (`dranking.rankrls.statistics.merged_queries`); None where the
        statistics are read to train on.
    query_weights
        (n_queries,) float64, or None for all ones.
    times
        (n_queries,) pyarrow array, int64 or timestamps in microseconds, or None.
    label_digests
        (n_queries,) pyarrow array of digests of the labels of each query, as `label_digests` makes
        them; None if the statistics are no block of a store.
    source
        Digest of the `QueryBlock` from which the statistics were computed; None if only some
        queries of the block are here, or if the features were scaled since.
    features_source
        Digest of the features of that `QueryBlock`; None with `source`.
    """

    rows: ReadRows
    diagonal: Array
    products: Array
    label_norms: Array
    label_means: Array
    sizes: NDArray[np.int64]
    labelled_sizes: NDArray[np.int64]
    value_counts: NDArray[np.int64]
    query_ids: pa.Array
    means: Array | None = None
    query_weights: Array | None = None
    times: pa.Array | None = None
    label_digests: pa.Array | None = None
    source: str | None = None
    features_source: str | None = None

    @classmethod
    def of(cls, block: QueryBlock) -> QueryStatistics:
        """The statistics of a block, without times."""
        ptr = block.query_ptr
        labelled_sizes = block.labelled_sizes
        values = block.features.indptr[ptr] if block.is_sparse else ptr * block.n_features
        labelled = block.labelled()
        ones = np.ones(labelled.n_queries)
        moments = gram.moments(labelled.features, labelled.relevance, labelled.query_ptr, ones)
        kept = all_gram_rows(labelled.features, labelled.query_ptr, moments.means)
        means, label_means = means_of(labelled)
        there = labelled_sizes > 0
        features_source = block.features_digest()
        return cls(
            rows=partial(map, _spread(kept, there, axis=1).__getitem__),
            diagonal=_spread(moments.diagonal, there),
            products=_spread(moments.products, there),
            label_norms=_spread(moments.label_norms, there),
            label_means=_spread(label_means, there),
            sizes=np.diff(ptr),
            labelled_sizes=labelled_sizes,
            value_counts=np.diff(values).astype(np.int64),
            query_ids=block.query_ids.cast(pa.string()),
            means=_spread(means, there),
            query_weights=block.query_weights,
            label_digests=label_digests(block),
            source=block.digest_with(features_source),
            features_source=features_source,
        )

    @property
    def n_documents(self) -> int:
        """Number of documents of the queries, including unlabelled ones."""
        return int(self.sizes.sum())

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.sizes)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.products.shape[1])

    @property
    def weights(self) -> Array:
        """(n_queries,) float64 query weights; ones if there are no weights."""
        return np.ones(self.n_queries) if self.query_weights is None else self.query_weights

    @property
    def info(self) -> BlockInfo:
        """Sizes: documents of the queries, and memory of the statistics in float32 values."""
        return BlockInfo(
            n_documents=self.n_documents,
            n_queries=self.n_queries,
            n_values=WORDS_PER_NUMBER * (self.diagonal.size + self.products.size),
            n_unlabelled=int((self.sizes - self.labelled_sizes).sum()),
        )

    def take_queries(self, keep: NDArray[np.bool_]) -> QueryStatistics:
        """The statistics of the queries where `keep` (n_queries,) is true, in order."""
        if keep.all():
            return self
        mask = pa.array(keep)

        def kept(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return value[keep]
            return value.filter(mask) if isinstance(value, pa.Array) else value

        values = {field.name: kept(getattr(self, field.name)) for field in fields(self)}
        rows = partial(_rows_of_some, self.rows, keep)
        whole_block = dict.fromkeys(("source", "features_source"))
        return QueryStatistics(**{**values, "rows": rows, **whole_block})

    def labelled(self) -> QueryStatistics:
        """The statistics without queries that have no labelled documents."""
        return self.take_queries(self.labelled_sizes > 0)

    def scaled(self, scale: Array) -> QueryStatistics:
        """Statistics of the features divided by `scale` (n_features,): D A_q D and D b_q."""
        return replace(
            self,
            rows=partial(_scaled_rows, self.rows, scale),
            diagonal=self.diagonal / scale / scale,
            products=self.products / scale,
            means=None if self.means is None else self.means / scale,
            source=None,
            features_source=None,
        )

    def digest(self) -> str:
        """`source`; if that is None, BLAKE2b digest of the statistics as 32 hex digits."""
        if self.source is not None:
            return self.source
        digest = hashlib.blake2b(digest_size=16)
        for row in self.rows(range(self.n_features)):
            digest.update(np.ascontiguousarray(row).data)
        for values in (self.diagonal, self.products, self.label_norms, self.weights):
            digest.update(np.ascontiguousarray(values).data)
        for sizes in (self.sizes, self.labelled_sizes, self.value_counts):
            digest.update(np.ascontiguousarray(sizes).data)
        digest.update("\0".join(self.query_ids.to_pylist()).encode())
        return digest.hexdigest()

    @property
    def features(self) -> Any:
        """Raise an error, so that code that needs documents fails: statistics have no features.

        Raises
        ------
        DataError
            Always.
        """
        raise documents_needed()

    is_sparse = relevance = query_ptr = doc_ids = features


def means_of(block: QueryBlock) -> tuple[Array, Array]:
    """Means of the features and of the labels of each query, rounded once.

    The mean of the distances from a first mean is added to it: the rounding of a sum of values far
    from zero would be large beside the distance between the means of two pieces of a query.
    """
    sizes, ptr = np.diff(block.query_ptr), block.query_ptr
    features, labels = np.zeros((len(sizes), block.n_features)), np.zeros(len(sizes))
    for _ in range(2):
        for first, last in strips_of_queries(ptr):
            rows, own = slice(ptr[first], ptr[last]), slice(first, last)
            values = block.features[rows]
            values = (values.toarray() if block.is_sparse else values).astype(np.float64)
            values = np.column_stack((values, block.relevance[rows]))
            before = np.column_stack((features[own], labels[own]))
            values -= np.repeat(before, sizes[own], axis=0)
            starts = ptr[first:last] - ptr[first]
            means = before + np.add.reduceat(values, starts, axis=0) / sizes[own, None]
            features[own], labels[own] = means[:, :-1], means[:, -1]
    return features, labels


LABEL_DIGEST: pa.DataType = pa.binary(16)
"""Type of the digests of labels."""


def label_digests(block: QueryBlock) -> pa.Array:
    """(n_queries,) BLAKE2b digests, of type `LABEL_DIGEST`, of the labels of each query, with NaN.

    The features of the block are not used.
    """
    labels, ptr = block.relevance.tobytes(), (8 * block.query_ptr).tolist()
    digests = [
        hashlib.blake2b(labels[start:end], digest_size=LABEL_DIGEST.byte_width).digest()
        for start, end in pairwise(ptr)
    ]
    return pa.array(digests, LABEL_DIGEST)


def _spread(values: Array, there: NDArray[np.bool_], axis: int = 0) -> Array:
    """Insert zeros for the queries where `there` is false; queries lie along `axis`."""
    if there.all():
        return values
    shape = list(values.shape)
    shape[axis] = len(there)
    spread = np.zeros(shape)
    spread[(slice(None),) * axis + (there,)] = values
    return spread


def _rows_of_some(
    rows: ReadRows, keep: NDArray[np.bool_], wanted: Iterable[int]
) -> Iterator[Array]:
    return (row[keep] for row in rows(wanted))


def _scaled_rows(rows: ReadRows, scale: Array, wanted: Iterable[int]) -> Iterator[Array]:
    features = list(wanted)
    for feature, row in zip(features, rows(features), strict=True):
        yield row / scale[feature] / scale
