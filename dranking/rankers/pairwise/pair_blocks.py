"""Blocks to draw pairs from, and the problem that a stochastic pairwise ranker is trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.mixing import Segment, Source
from dranking.errors import warn_user
from dranking.kernels.machine.compile import frozen
from dranking.kernels.pairwise.differences import as_rows
from dranking.kernels.pairwise.sgd import Batch, largest_norms, pair_losses
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
"""Largest number of pairs drawn at once."""

LISTED_PER_DRAW = 4
"""The objective takes all pairs of a block if there are up to so many pairs for each draw."""

MOST_SCALES = 1e3
"""Largest ratio of the ranges of two columns without a warning: steps along the smaller column are
the square of the ratio, a million times, too short."""

LABELLED, UNLABELLED, ESTIMATE, NORMS = range(4)
"""Uses of random numbers; each use has its own stream for a block."""


class PairBlock(NamedTuple):
    """The features and pairs of a block.

    Attributes
    ----------
    features
        C-ordered float32, or a `csr_array` with sorted indices.
    relevance
        (n_documents,).
    pairs
        Distribution of the pairs.
    """

    features: FeatureMatrix
    relevance: Array
    pairs: PairTable

    def draw(self, rng: np.random.Generator, n_draws: int, label: Label) -> Batch:
        """Draw pairs, labelled 1 or with the difference of their relevance."""
        return self.labelled(*self.pairs.draw(rng, n_draws), label)

    def labelled(self, better: Ints, worse: Ints, label: Label) -> Batch:
        """Pairs of documents with their labels."""
        if label == "sign":
            return Batch(better, worse, np.ones(len(better)))
        return Batch(better, worse, self.relevance[better] - self.relevance[worse])


class PairProblem(NamedTuple):
    """What a stochastic pairwise ranker is trained on.

    Attributes
    ----------
    dataset
        The labelled data.
    sources
        Data sets whose blocks are prepared as `PairBlock`; the first source has the labelled pairs.
    columns
        (n_features,) feature in each column of the prepared blocks.
    view_ptr
        (n_views + 1,) first column of each view, then the number of columns.
    squared_label
        Mean square of the labels of the pairs.
    """

    dataset: Dataset
    sources: list[Source]
    columns: Ints
    view_ptr: Ints
    squared_label: float

    @property
    def n_views(self) -> int:
        """Number of views, whose scores are averaged."""
        return len(self.view_ptr) - 1

    @property
    def views(self) -> list[list[int]]:
        """Features of each view."""
        return [view.tolist() for view in np.split(self.columns, self.view_ptr[1:-1])]

    def coef(self, weights: Array) -> Array:
        """(n_features,) weights of the model from the weights of the columns of all views."""
        coef = np.zeros(self.dataset.n_features)
        coef[self.columns] = weights / self.n_views
        return coef


def labelled_block(block: QueryBlock, rule: PairRule, columns: Ints | None = None) -> PairBlock:
    """The labelled documents of a block, with all columns or with `columns` in this order."""
    return _pair_block(block, labelled_pairs(block, rule), columns)


def unlabelled_block(
    block: QueryBlock, rule: PairRule, columns: Ints, ignore_labels: bool
) -> PairBlock:
    """The unlabelled documents of a block, or all documents, with `columns` in this order."""
    pairs = unlabelled_pairs(block, rule, ignore_labels=ignore_labels)
    return _pair_block(block, pairs, columns)


def pair_mass(block: QueryBlock, rule: PairRule) -> tuple[float, float]:
    """Sums over the labelled pairs of a block: mass, and mass times squared label difference."""
    pairs = labelled_pairs(block, rule)
    return pairs.mass, squared_differences(pairs, block.relevance)


def unlabelled_mass(block: QueryBlock, rule: PairRule, ignore_labels: bool) -> float:
    """Mass of the unlabelled pairs of a block."""
    return unlabelled_pairs(block, rule, ignore_labels=ignore_labels).mass


def portions(n_draws: int, largest: int = DRAWS) -> Iterator[int]:
    """Divide a number of draws into portions that fit into memory."""
    for start in range(0, n_draws, largest):
        yield min(largest, n_draws - start)


def summed_losses(
    segments: Iterator[Segment], weights: Array, loss: int, label: Label, key: tuple[int, int]
) -> Array:
    """Sum the losses of a model, and of zero weights, over the pairs of a shard.

    All pairs of a block count if there are at most `LISTED_PER_DRAW` pairs for each draw of the
    block; else drawn pairs stand for all, with the mass of all pairs.

    Parameters
    ----------
    segments
        One visit to each block.
    weights
        (n_columns,).
    key
        Seed and epoch, from which pairs are drawn.

    Returns
    -------
    (3,) sums over the pairs: mass times loss of the model, mass times loss of zero weights, mass.
    """
    streams = PairStreams(*key, ESTIMATE)
    sums = np.zeros(3)
    for segment in segments:
        block: PairBlock = segment.blocks[0]
        n = segment.n_steps
        if block.pairs.n_pairs <= LISTED_PER_DRAW * n:
            better, worse, masses = block.pairs.all_pairs()
        else:
            better, worse = block.pairs.draw(streams[segment.indices[0]], n)
            masses = np.full(n, block.pairs.mass / n)
        batch = block.labelled(better, worse, label)
        losses = pair_losses(as_rows(block.features), batch, masses, loss, frozen(weights))
        sums += [*losses, block.pairs.mass]
    return sums


def sampled_norm(block: PairBlock, view_ptr: Ints, seed: int) -> float:
    """Largest |p_v|^2 of 1,000 drawn pairs, over pairs and views."""
    batch = block.draw(PairStreams(seed, 0, NORMS)[0], 1_000, "sign")
    return float(largest_norms(as_rows(block.features), batch, view_ptr).max())


def warn_of_scales(block: QueryBlock, feature_names: Sequence[str]) -> None:
    """Warn if the ranges of columns differ so much that steps follow the largest columns alone.

    Warns
    -----
    ConvergenceWarning
        If the range of one column in the block is above `MOST_SCALES` times the range of another.
    """
    columns = block.features
    highest, lowest = columns.max(axis=0), columns.min(axis=0)
    if block.is_sparse:
        highest, lowest = highest.toarray().ravel(), lowest.toarray().ravel()
    ranges = highest.astype(np.float64) - lowest
    there = np.flatnonzero(ranges)
    if not len(there):
        return
    most, least = there[np.argmax(ranges[there])], there[np.argmin(ranges[there])]
    if ranges[most] > MOST_SCALES * ranges[least]:
        warn_user(
            f"{feature_names[most]} ranges over {ranges[most]:.2g} and {feature_names[least]} over "
            f"{ranges[least]:.2g}: stochastic steps follow the largest columns and hardly move the "
            "weights of the smallest. Scale the features (--normalize standard).",
            ConvergenceWarning,
        )


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
