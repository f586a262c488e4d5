"""Distributions of features, and how far they have shifted.

A profile counts, for every feature, the documents between fixed edges, which are the deciles of the
part that was profiled first. Counts of parts add up, so the profile of all training parts is
computed without reading old parts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError, model_validator
from scipy import sparse

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.tiles import Tiles
from dranking.errors import DataError, problems_in

N_BINS = 10
SAMPLE = 100_000
"""Largest number of documents that the deciles are computed from."""

FLOOR = 1e-4
"""Share of documents assumed for an empty bin, so that the logarithm is finite."""

Array = NDArray[np.float64]
Edges: TypeAlias = tuple[tuple[float, ...], ...]


class Profile(BaseModel):
    """Distributions of features.

    Attributes
    ----------
    feature_names
        Names of the features.
    edges
        (n_features, n_edges), ascending for every feature. An edge belongs to the bin below it.
    counts
        (n_features, n_edges + 1) number of documents in every bin.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    format: Literal["dranking-profile"] = "dranking-profile"
    feature_names: tuple[str, ...]
    edges: Edges
    counts: tuple[tuple[NonNegativeInt, ...], ...]

    @model_validator(mode="after")
    def _check(self) -> Profile:
        if not len(self.feature_names) == len(self.edges) == len(self.counts):
            raise ValueError("every feature needs edges and counts")
        for edges, counts in zip(self.edges, self.counts, strict=True):
            if len(counts) != len(edges) + 1 or list(edges) != sorted(edges):
                raise ValueError("n ascending edges need n + 1 counts")
        return self

    def __add__(self, other: Profile) -> Profile:
        """The profile of the data of both profiles; features and edges must be equal."""
        if (self.feature_names, self.edges) != (other.feature_names, other.edges):
            raise ValueError("profiles with different features or edges do not add up")
        counts = np.array(self.counts) + np.array(other.counts)
        return self.model_copy(update={"counts": tuple(map(tuple, counts.tolist()))})


def parse_profile(content: bytes, source: str) -> Profile:
    """Parse a stored profile; raise DataError with the source if the profile is damaged."""
    try:
        return Profile.model_validate_json(content)
    except ValidationError as error:
        raise DataError(
            f"{source}: not a profile of features: {problems_in(error, 'profile')}. "
            "Restore the file from a copy, or delete it."
        ) from error


def profile_edges(dataset: Dataset) -> Edges:
    """Deciles of every feature, from at most SAMPLE documents at equal distances.

    If the smallest value alone fills two bins, the first edge is just below that value. Later
    values below all known values, such as zeros of a feature that was constant before, then fall
    into a bin of their own.
    """
    step = max(1, -(-dataset.n_documents // SAMPLE))
    rows: list[FeatureMatrix] = []
    start = 0
    for index in range(dataset.n_blocks):
        block = dataset.block(index)
        rows.append(block.features[(-start) % step :: step])
        start += block.n_documents
    levels = np.arange(1, N_BINS) / N_BINS
    sample = sparse.vstack(rows, format="csc") if dataset.is_sparse else np.concatenate(rows)
    columns = (
        np.append(values, np.zeros(n_zeros)).astype(np.float64)
        for values, n_zeros in _columns(sample)
    )
    return tuple(tuple(_edges(values, levels).tolist()) for values in columns)


def _edges(values: Array, levels: Array) -> Array:
    edges: Array = np.quantile(values, levels, method="inverted_cdf")
    if values.min() == edges[0] == edges[1]:
        edges[0] = np.nextafter(edges[0], -np.inf)
    return edges


def profile_of(dataset: Dataset, edges: Edges, executor: Executor) -> Profile:
    """Count the documents between edges, in one pass over the data."""
    tiles = Tiles(dataset, executor, resident=False)
    counts = tiles.sum_blocks(_counts, np.array(edges), name="profile")
    return Profile(
        feature_names=dataset.feature_names,
        edges=edges,
        counts=tuple(map(tuple, counts.astype(int).tolist())),
    )


def _counts(block: QueryBlock, edges: Array) -> NDArray[np.int64]:
    """(n_features, n_edges + 1) number of documents of a block in every bin."""
    n_bins = edges.shape[1] + 1
    counts = np.empty((len(edges), n_bins), dtype=np.int64)
    for j, (values, n_zeros) in enumerate(_columns(block.features)):
        counts[j] = np.bincount(np.searchsorted(edges[j], values), minlength=n_bins)
        counts[j, np.searchsorted(edges[j], 0.0)] += n_zeros
    return counts


def _columns(features: FeatureMatrix) -> Iterator[tuple[NDArray[np.float32], int]]:
    """For every feature the stored values, and the number of zeros that are not stored."""
    if not sparse.issparse(features):
        yield from ((column, 0) for column in features.T)
        return
    by_column = features.tocsc()
    for start, end in pairwise(by_column.indptr):
        yield by_column.data[start:end], features.shape[0] - (end - start)


def population_stability(before: Profile, after: Profile) -> dict[str, float]:
    """Population stability index of every feature: sum of (p - q) log (p / q) over bins.

    The index is 0 without any shift; 0.1 is commonly called a small shift, 0.25 a large shift. Bins
    with equal edges count as one bin.
    """
    if (before.feature_names, before.edges) != (after.feature_names, after.edges):
        raise ValueError("profiles with different features or edges cannot be compared")
    indices = {}
    for j, name in enumerate(before.feature_names):
        p, q = (np.maximum(_shares(profile, j), FLOOR) for profile in (after, before))
        indices[name] = float(((p - q) * np.log(p / q)).sum())
    return indices


def _shares(profile: Profile, feature: int) -> Array:
    counts = np.array(profile.counts[feature], dtype=np.float64)
    shares: Array = counts / counts.sum()
    return shares
