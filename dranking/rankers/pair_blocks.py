"""Blocks in the form in which steps on sampled pairs use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.engine.mixing import Segment
from dranking.kernels.differences import as_rows
from dranking.kernels.sgd import Batch, largest_norms, pair_losses
from dranking.sampling.pairs import (
    PairRule,
    PairStreams,
    PairTable,
    labelled_pairs,
    squared_differences,
    unlabelled_pairs,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Label: TypeAlias = Literal["sign", "difference"]

DRAWS = 2**16
"""Pairs drawn at a time, at most."""

LABELLED, UNLABELLED, ESTIMATE, NORMS = range(4)
"""What the random numbers of a block are for."""


class PairBlock(NamedTuple):
    """A block to draw pairs from.

    Attributes
    ----------
    features
        C-ordered float32, or a `csr_array` with sorted indices.
    relevance
        (n_documents,).
    pairs
        Their distribution.
    """

    features: FeatureMatrix
    relevance: Array
    pairs: PairTable

    def draw(self, rng: np.random.Generator, n_draws: int, label: Label) -> Batch:
        """Draw pairs, labelled 1 or with the difference of their relevance."""
        better, worse = self.pairs.draw(rng, n_draws)
        if label == "sign":
            return Batch(better, worse, np.ones(n_draws))
        return Batch(better, worse, self.relevance[better] - self.relevance[worse])


def labelled_block(block: QueryBlock, rule: PairRule, columns: Ints | None = None) -> PairBlock:
    """The labelled documents of a block, with some columns in the order given, or all."""
    return _pair_block(block, labelled_pairs(block, rule), columns)


def unlabelled_block(
    block: QueryBlock, rule: PairRule, columns: Ints, ignore_labels: bool
) -> PairBlock:
    """The unlabelled documents of a block, or all, with some columns in the order given."""
    pairs = unlabelled_pairs(block, rule, ignore_labels=ignore_labels)
    return _pair_block(block, pairs, columns)


def pair_mass(block: QueryBlock, rule: PairRule) -> tuple[float, float]:
    """Mass of the labelled pairs of a block, and of that times squared label differences."""
    pairs = labelled_pairs(block, rule)
    return pairs.mass, squared_differences(pairs, block.relevance)


def unlabelled_mass(block: QueryBlock, rule: PairRule, ignore_labels: bool) -> float:
    """Mass of the unlabelled pairs of a block."""
    return unlabelled_pairs(block, rule, ignore_labels=ignore_labels).mass


def portions(n_draws: int, largest: int = DRAWS) -> Iterator[int]:
    """A number of draws in portions that fit into memory."""
    for start in range(0, n_draws, largest):
        yield min(largest, n_draws - start)


def summed_losses(
    segments: Iterator[Segment], weights: Array, loss: int, label: Label, key: tuple[int, int]
) -> Array:
    """Losses of a model over sampled pairs, and those of a model without weights: (2,) sums.

    Parameters
    ----------
    weights
        (n_columns,).
    key
        Seed and epoch of the draws.
    """
    streams = PairStreams(*key, ESTIMATE)
    sums = np.zeros(2)
    for segment in segments:
        block: PairBlock = segment.blocks[0]
        rows = as_rows(block.features)
        for n in portions(segment.n_steps):
            batch = block.draw(streams[segment.indices[0]], n, label)
            sums += pair_losses(rows, batch, loss, weights)
    return sums


def sampled_norm(block: PairBlock, view_ptr: Ints, seed: int, n_draws: int = 1_000) -> float:
    """Largest |p|^2 of sampled pairs, over the views."""
    batch = block.draw(PairStreams(seed, 0, NORMS)[0], n_draws, "sign")
    return float(largest_norms(as_rows(block.features), batch, view_ptr).max())


def _pair_block(block: QueryBlock, pairs: PairTable, columns: Ints | None) -> PairBlock:
    features, relevance = block.features, block.relevance
    if len(pairs.rows) < block.n_documents:
        kept = np.sort(pairs.rows)
        features, relevance = features[kept], relevance[kept]
        pairs = replace(pairs, rows=np.searchsorted(kept, pairs.rows))
    if columns is not None:
        features = features[:, columns]
    if block.is_sparse:
        return PairBlock(features.sorted_indices(), relevance, pairs)
    return PairBlock(np.ascontiguousarray(features), relevance, pairs)
