"""Range, zeros and distinct values of each feature, and a scaling that suits the feature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.scaling import FeatureMoments, feature_moments, merged_moments
from dranking.data.tables.lost_digits import WHOLE

N_BLOCKS = 64
"""Most blocks that are read by default, evenly spaced over the data."""

N_HASHES = 256
"""Distinct values are counted up to this number, and estimated to about 6 % beyond."""

FAR = 6.0
"""Values lie far from the mean beyond this number of standard deviations; of 10^9 values of a
Gaussian feature, two do."""

Suggestion: TypeAlias = Literal["", "constant", "log", "rank"]


@dataclass(frozen=True)
class ColumnProfile:
    """The distribution of the values of one feature.

    Attributes
    ----------
    name
        Name of the feature.
    low, high
        Extremes.
    zeros
        Share of the documents whose value is 0.
    distinct
        Number of distinct values; an estimate beyond 255.
    suggestion
        "constant" for a feature with one value, which can be left out, unless it is so large that
        float32 may have merged different values; "log" where values lie more
        than six standard deviations from the mean, and values above 1, which a logarithm changes,
        are common; "rank" where values lie as far but are small; "" for any other feature. The
        quantile scaling does the same as "rank", and does not depend on the list of candidates.
    """

    name: str
    low: float
    high: float
    zeros: float
    distinct: int
    suggestion: Suggestion


@dataclass(frozen=True)
class Profile:
    """The columns of a data set.

    Attributes
    ----------
    columns
        One profile for each feature.
    n_blocks, n_documents
        Size of the data that was looked at.
    """

    columns: tuple[ColumnProfile, ...]
    n_blocks: int
    n_documents: int

    def advice(self, data: str) -> str:
        """A sentence with advice on scaling; empty where no feature needs another scale.

        Parameters
        ----------
        data
            The data set, and how it is read, as words of a command line.
        """
        n = sum(column.suggestion in ("log", "rank") for column in self.columns)
        if not n:
            return ""
        return (
            f"{n} of {len(self.columns)} features have values far above the others: try "
            f"dranking tune {data} --output model.json, or "
            f"dranking select {data} --n-features {min(10, len(self.columns))} "
            "--forms raw,log,query-minmax --output model.json."
        )


def profile_columns(dataset: Dataset, *, all_blocks: bool = False) -> Profile:
    """Look at the features of a data set in one pass.

    Parameters
    ----------
    dataset
        The data.
    all_blocks
        Whether to read every block; by default at most 64 blocks are read, evenly spaced.

    Raises
    ------
    DataError
        If the data holds no documents, or is damaged.
    """
    dataset.check_documents()
    n_blocks = dataset.n_blocks if all_blocks else min(dataset.n_blocks, N_BLOCKS)
    chosen = np.unique(np.linspace(0, dataset.n_blocks - 1, n_blocks).astype(np.int64))
    parts: list[FeatureMoments] = []
    n = 0
    zeros = np.zeros(dataset.n_features, dtype=np.int64)
    sizes = np.zeros(dataset.n_features)
    values = _DistinctValues(dataset.n_features)
    for index in chosen.tolist():
        block = dataset.block(index)
        n += block.n_documents
        parts.append(feature_moments(block))
        zeros += block.n_documents - _nonzeros(block)
        sizes += np.asarray(abs(block.features).sum(axis=0, dtype=np.float64)).ravel()
        values.add(block)
    if not n:
        return Profile((), 0, 0)
    moments, counts = reduce(merged_moments, parts), values.counts()
    columns = tuple(
        ColumnProfile(
            name=name,
            low=float(moments.low[i]),
            high=float(moments.high[i]),
            zeros=float(zeros[i] / n),
            distinct=min(counts[i], n),  # an estimate may exceed the documents
            suggestion=_suggestion(moments, sizes[i] / n, i),
        )
        for i, name in enumerate(dataset.feature_names)
    )
    return Profile(columns, len(chosen), n)


def _suggestion(moments: FeatureMoments, size: float, i: int) -> Suggestion:
    """A scaling for feature i, whose absolute values have the mean `size`."""
    low, high, mean = moments.low[i], moments.high[i], moments.mean[i]
    if low == high:  # beyond, different whole numbers are equal in float32
        return "constant" if abs(low) <= WHOLE else ""
    deviation = np.sqrt(moments.squares[i] / moments.n[i])
    if max(high - mean, mean - low) <= FAR * deviation:
        return ""
    return "log" if size >= 1.0 else "rank"


def _nonzeros(block: QueryBlock) -> NDArray[np.int64]:
    """(n_features,) number of documents whose value is not 0."""
    there = block.features.indices[block.features.data != 0] if block.is_sparse else None
    counts: NDArray[np.int64] = (
        np.count_nonzero(block.features, axis=0)
        if there is None
        else np.bincount(there, minlength=block.n_features)
    )
    return counts


class _DistinctValues:
    """Numbers of distinct values of each feature, from the smallest hashes (k minimum values).

    The hash of a float32 value is one to one, so that equal hashes are equal values. Bar-Yossef and
    others, Counting distinct elements in a data stream, RANDOM 2002.
    """

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._keys = np.empty(0, dtype=np.uint64)  # feature and hash, sorted
        self._limits = np.full(n_features, 2**32, dtype=np.uint64)

    def add(self, block: QueryBlock) -> None:
        """Count the values of a block; values of sparse features that are not stored are 0."""
        if block.is_sparse:
            features, values = block.features.indices, block.features.data
            short = np.flatnonzero(
                np.bincount(features, minlength=block.n_features) < block.n_documents
            )
            features = np.concatenate([features, short])
            values = np.concatenate([values, np.zeros(len(short), dtype=np.float32)])
        else:
            features = np.tile(np.arange(block.n_features), block.n_documents)
            values = block.features.ravel()
        hashes = _mixed((values + np.float32(0)).view(np.uint32)).astype(np.uint64)
        few = hashes < self._limits[features]
        found = (features[few].astype(np.uint64) << np.uint64(32)) | hashes[few]
        self._keep(np.union1d(self._keys, found))

    def _keep(self, keys: NDArray[np.uint64]) -> None:
        """Keep the smallest hashes of each feature; larger hashes are passed over from then on."""
        owners = (keys >> np.uint64(32)).astype(np.int64)
        starts = np.searchsorted(owners, np.arange(self._n_features + 1))
        self._keys = keys[np.arange(len(keys)) - starts[owners] < N_HASHES]
        full = np.diff(starts) >= N_HASHES
        last = keys[(starts[:-1] + N_HASHES - 1)[full]]
        self._limits[full] = last & np.uint64(2**32 - 1)

    def counts(self) -> list[int]:
        """Number of distinct values of each feature."""
        owners = (self._keys >> np.uint64(32)).astype(np.int64)
        counts = np.bincount(owners, minlength=self._n_features)
        estimates = (N_HASHES - 1) * 2.0**32 / (self._limits.astype(np.float64) + 1.0)
        known = np.where(counts < N_HASHES, counts, np.rint(estimates))
        return [int(count) for count in known]


def _mixed(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A one-to-one mixture of 32 bits (the last steps of MurmurHash3)."""
    bits = bits ^ (bits >> np.uint32(16))
    bits = bits * np.uint32(0x85EBCA6B)
    bits = bits ^ (bits >> np.uint32(13))
    bits = bits * np.uint32(0xC2B2AE35)
    return bits ^ (bits >> np.uint32(16))
