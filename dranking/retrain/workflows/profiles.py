"""Distributions of features, counted in one pass, which add up over parts of the data.

A profile counts, for every feature, the documents between fixed edges, which are the deciles of the
part that was profiled first; and it keeps these counts for every query of a random sample of
queries. Profiles of parts add up, so the profile of all training parts is computed without reading
old parts again.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.query_hashes import Words, query_ranks
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError

N_BINS: Final = 10
SAMPLE: Final = 100_000
"""Largest number of documents that the deciles are computed from."""

QUERIES: Final = 1_000
"""Largest number of queries whose counts are kept."""

SAMPLE_COUNTS: Final = 2**25
"""Largest number of counts that are kept; the counts of `LEAST_QUERIES` queries always are."""

LEAST_QUERIES: Final = 64

Array: TypeAlias = NDArray[np.float64]

_KINDS: Final = {"feature_names": "U", "edges": "f", "counts": "i", "ranks": "u", "sample": "u"}
"""Arrays of a stored profile, and the kinds of their dtypes."""

_DAMAGE = (
    TypeError,
    OSError,
    ValueError,
    EOFError,
    KeyError,
    zipfile.BadZipFile,
    zlib.error,
    MemoryError,
)


@dataclass(frozen=True, eq=False)
class Profile:
    """Distributions of features.

    Attributes
    ----------
    feature_names
        Names of the features.
    edges
        (n_features, n_edges) float64, ascending for every feature. An edge belongs to the bin below
        it.
    counts
        (n_features, n_edges + 1) int64 number of documents in every bin.
    n_queries
        Number of queries of the data.
    ranks
        (n_sample,) uint64, ascending: `query_ranks` of the sampled queries, the smallest ranks of
        all queries.
    sample
        (n_sample, n_features, n_edges + 1) uint16 number of documents of each sampled query in
        every bin; at most 65,535.
    """

    feature_names: tuple[str, ...]
    edges: Array
    counts: NDArray[np.int64]
    n_queries: int
    ranks: Words
    sample: NDArray[np.uint16]

    def __add__(self, other: Profile) -> Profile:
        """The profile of the data of both profiles; features and edges must be equal."""
        if not self.is_like(other):
            raise ValueError("profiles with different features or edges do not add up")
        ranks = np.concatenate([self.ranks, other.ranks])
        first = np.argsort(ranks, kind="stable")[: _sample_size(self.counts.size)]
        return replace(
            self,
            counts=self.counts + other.counts,
            n_queries=self.n_queries + other.n_queries,
            ranks=ranks[first],
            sample=np.concatenate([self.sample, other.sample])[first],
        )

    def is_like(self, other: Profile) -> bool:
        """Whether features and edges are those of another profile."""
        same_names = self.feature_names == other.feature_names
        return same_names and np.array_equal(self.edges, other.edges)

    def to_bytes(self) -> bytes:
        """The profile as an NPZ file."""
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            feature_names=np.array(self.feature_names),
            edges=self.edges,
            counts=self.counts,
            n_queries=self.n_queries,
            ranks=self.ranks,
            sample=self.sample,
        )
        return buffer.getvalue()


def parse_profile(content: bytes, source: str) -> Profile:
    """Parse a stored profile; raise DataError with the source if the profile is damaged."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in (*_KINDS, "n_queries")}
        n_queries = int(arrays.pop("n_queries"))
        n_features, n_sample = len(arrays["feature_names"]), len(arrays["sample"])
    except _DAMAGE as error:
        raise _damaged(source, str(error)) from error
    n_edges = N_BINS - 1
    shapes = {
        "feature_names": (n_features,),
        "edges": (n_features, n_edges),
        "counts": (n_features, n_edges + 1),
        "ranks": (n_sample,),
        "sample": (n_sample, n_features, n_edges + 1),
    }
    for name, kind in _KINDS.items():
        found = arrays[name]
        if (found.dtype.kind, found.shape) != (kind, shapes[name]):
            raise _damaged(source, f"{name} are {found.dtype} of shape {found.shape}")
    if n_queries < n_sample:
        raise _damaged(source, f"{n_queries} queries, {n_sample} of them sampled")
    names = tuple(map(str, arrays.pop("feature_names")))
    return Profile(feature_names=names, n_queries=n_queries, **arrays)


def _damaged(source: str, why: str) -> DataError:
    return DataError(
        f"{source}: not a profile of features ({why}). Restore the file from a copy, or delete it."
    )


def profile_edges(dataset: Dataset) -> Array:
    """Deciles of every feature, from at most SAMPLE documents at equal distances.

    If the smallest value alone fills two bins, the first edge is just below that value. Later
    values below all known values, such as zeros of a feature that was constant before, then fall
    into a bin of their own.

    Returns
    -------
    (n_features, N_BINS - 1) float64.
    """
    step = max(1, -(-dataset.n_documents // SAMPLE))
    rows: list[FeatureMatrix] = []
    start = 0
    for index in range(dataset.n_blocks):
        block = dataset.block(index)
        rows.append(block.features[(-start) % step :: step])
        start += block.n_documents
    levels = np.arange(1, N_BINS) / N_BINS
    stacked = sparse.vstack(rows, format="csc") if dataset.is_sparse else np.concatenate(rows)
    n_rows = stacked.shape[0]
    columns = (
        np.append(values, np.zeros(n_rows - len(values))).astype(np.float64)
        for values, _ in _columns(stacked)
    )
    return np.array([_edges(values, levels) for values in columns])


def _edges(values: Array, levels: Array) -> Array:
    values = values[~np.isnan(values)]  # missing values are counted behind the last edge
    if not len(values):
        return np.zeros(len(levels))
    edges: Array = np.quantile(values, levels, method="inverted_cdf")
    if values.min() == edges[0] == edges[1]:
        edges[0] = np.nextafter(edges[0], -np.inf)
    return edges


def profile_of(dataset: Dataset, edges: Array, executor: Executor) -> Profile:
    """Count the documents between edges, in one pass over the data."""
    blocks = map_blocks(
        _profile_of_block, dataset, executor, edges, dataset.feature_names, name="profile"
    )
    profile: Profile = reduce(add, blocks)
    return profile


def _profile_of_block(block: QueryBlock, edges: Array, names: tuple[str, ...]) -> Profile:
    n_bins, n_queries = edges.shape[1] + 1, block.n_queries
    ranks = query_ranks(block)
    first = np.argsort(ranks, kind="stable")[: _sample_size(len(edges) * n_bins)]
    sizes = np.diff(block.query_ptr)
    query_of = np.repeat(np.arange(n_queries), sizes)
    counts = np.empty((len(edges), n_bins), dtype=np.int64)
    sample = np.empty((len(first), len(edges), n_bins), dtype=np.uint16)
    for j, (values, rows) in enumerate(_columns(block.features)):
        bins = np.searchsorted(edges[j], values)
        cells = query_of[rows] * n_bins + bins
        of_query = np.bincount(cells, minlength=n_queries * n_bins).reshape(n_queries, n_bins)
        of_query[:, np.searchsorted(edges[j], 0.0)] += sizes - of_query.sum(axis=1)
        counts[j] = of_query.sum(axis=0)
        sample[:, j] = np.minimum(of_query[first], np.iinfo(np.uint16).max)
    return Profile(names, edges, counts, n_queries, ranks[first], sample)


def _sample_size(n_counts: int) -> int:
    """Number of queries to keep if each has `n_counts` counts."""
    return min(QUERIES, max(LEAST_QUERIES, SAMPLE_COUNTS // max(1, n_counts)))


def _columns(
    features: FeatureMatrix,
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.integer] | slice]]:
    """For every feature the stored values and their rows; all other rows are zero."""
    if not sparse.issparse(features):
        yield from ((column, slice(None)) for column in features.T)
        return
    by_column = features.tocsc()
    for start, end in pairwise(by_column.indptr):
        yield by_column.data[start:end], by_column.indices[start:end]
