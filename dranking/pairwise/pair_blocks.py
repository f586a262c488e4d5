"""Blocks to draw pairs from, and the problem that a stochastic pairwise ranker is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.placed_dataset import placed
from dranking.errors import SCALE, warn_user
from dranking.kernels.machine.compile import frozen
from dranking.pairwise.kernels.differences import as_rows
from dranking.pairwise.kernels.sgd import Batch, largest_norms, pair_losses
from dranking.pairwise.mixing import Segment, Source
from dranking.pairwise.pairs import (
    PairRule,
    PairStreams,
    PairTable,
    labelled_pairs,
    squared_differences,
    unlabelled_pairs,
)
from dranking.rankrls.kernels.relative_products import largest_sizes

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Label: TypeAlias = Literal["sign", "difference"]

DRAWS = 2**16
"""Largest number of pairs drawn at once."""

LISTED_PER_DRAW = 4
"""The objective takes all pairs of a block if there are up to so many pairs for each draw."""

ALWAYS_LISTED = 256
"""The objective takes all pairs of a block that has no more pairs than that, however few draws."""

MOST_SCALES = 1e3
"""Largest ratio of the differences of two columns without a warning: steps along the smaller column
are the square of the ratio, a million times, too short."""

USEFUL_SCALES = 100.0
"""Largest ratio of the largest difference of a column to the root of the mean square of a column
that alone explains `USEFUL` of the pairs. A step is at most as long as the largest difference
allows, so the weight of the smaller column moves by its share 1e-4 in a step. In a million steps,
SPD ended 6e-4 above the minimum at most where the ratio was below 100, by 2 % at 160 (heavy tails)
and 424 (normal columns), and by 56 % at 1,300."""

USEFUL = 0.02
"""Share of the sum of squares of the labels 1 of pairs that a useful column explains. For columns
of noise, the largest of a thousand shares is 0.001."""

SCALE_DRAWS = 10_000
"""Pairs whose differences are compared, from all blocks together."""

SCALE_VALUES = 2**22
"""Most values of differences that are computed at a time; of sparse documents, on average."""

LABELLED, UNLABELLED, ESTIMATE, NORMS, SCALES = range(5)
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
    """The data that a stochastic pairwise ranker is trained on.

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
    rule
        The probability of a pair.
    """

    dataset: Dataset
    sources: list[Source]
    columns: Ints
    view_ptr: Ints
    squared_label: float
    rule: PairRule

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
    """Sum the losses of a model, their rounding, and the losses of zero weights over a shard.

    All pairs of a block count if there are at most `LISTED_PER_DRAW` pairs for each draw of the
    block, or at most `ALWAYS_LISTED` pairs; else drawn pairs stand for all, with the mass of all.

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
    (5,) sums over the pairs: mass times loss of the model, mass times loss of zero weights, a bound
    of the rounding of the first (see `pair_losses`), mass; and the variance of the first by draws.
    """
    streams = PairStreams(*key, ESTIMATE)
    sums, sizes = np.zeros(5), frozen(np.abs(weights))
    for segment in segments:
        block: PairBlock = segment.blocks[0]
        n = segment.n_steps
        is_listed = block.pairs.n_pairs <= max(LISTED_PER_DRAW * n, ALWAYS_LISTED)
        if is_listed:
            better, worse, masses = block.pairs.all_pairs()
        else:
            better, worse = block.pairs.draw(streams[segment.indices[0]], n)
            masses = np.full(n, block.pairs.mass / n)
        batch = block.labelled(better, worse, label)
        rows, mass = as_rows(block.features), block.pairs.mass
        *losses, squares = pair_losses(rows, batch, masses, loss, frozen(weights), sizes)
        variance = 0.0 if is_listed else variance_of_draws(losses[0], squares, mass, n)
        sums += [*losses, mass, variance]
    return sums


def variance_of_draws(losses: float, squares: float, mass: float, n: int) -> float:
    """Estimated variance of a sum of losses over the pairs of a block, from n drawn pairs.

    Parameters
    ----------
    losses, squares
        Sums over the drawn pairs of mass times loss, and of mass times squared loss.
    mass
        Mass of all pairs of the block, which is shared by the drawn pairs.
    n
        Number of draws. One draw tells no spread: its square is then in place of the variance.
    """
    if n == 1:
        return mass * squares
    return max(mass * squares - losses**2, 0.0) / (n - 1)


def sampled_norm(block: PairBlock, view_ptr: Ints, seed: int) -> float:
    """Largest |p_v|^2 of 1,000 drawn pairs, over pairs and views."""
    batch = block.draw(PairStreams(seed, 0, NORMS)[0], 1_000, "sign")
    return float(largest_norms(as_rows(block.features), batch, view_ptr).max())


class Differences(NamedTuple):
    """Differences of the columns over drawn pairs; all arrays are (n_features,).

    Attributes
    ----------
    largest
        Largest |p|.
    spread
        Root of the mean of p^2.
    explained
        Share of the sum of squares of the labels 1 of all pairs that the column alone explains,
        `(mean p)^2 / mean p^2`.
    """

    largest: Array
    spread: Array
    explained: Array


def drawn_differences(problem: PairProblem, seed: int) -> Differences:
    """Differences over the pairs of all blocks in memory here, or of the first block elsewhere."""
    source = problem.sources[0]
    dataset, there = source.dataset, np.flatnonzero(source.mass)
    if not dataset.in_memory or placed(dataset) is not None:
        there = there[:1]
    n_draws, streams = -(-SCALE_DRAWS // len(there)), PairStreams(seed, 0, SCALES)
    largest, sums, squares = np.zeros((3, dataset.n_features))
    for i in there.tolist():
        block = labelled_block(dataset.block(i).labelled(), problem.rule)
        features = block.features
        at_once = max(1, SCALE_VALUES * features.shape[0] // max(1, features.size))
        for n in portions(n_draws, at_once):
            better, worse = block.pairs.draw(streams[i], n)
            p = features[better].astype(np.float64) - features[worse]
            largest = np.maximum(largest, largest_sizes(p))
            sums += p.sum(axis=0)
            squares += (p * p).sum(axis=0)
    n_all = n_draws * len(there)
    explained = np.divide(sums**2, n_all * squares, out=np.zeros_like(sums), where=squares > 0.0)
    return Differences(largest, np.sqrt(squares / n_all), explained)


def warn_of_scales(problem: PairProblem, seed: int) -> None:
    """Warn if the scales of columns differ so much that steps follow the largest columns alone.

    A column whose differences are far smaller than those of another column counts where the column
    alone tells which document of a pair is better; many columns of images or of words are small
    because they are rare, and lose nothing. Columns that are constant in each query have no
    differences.

    Parameters
    ----------
    problem
        Its labelled pairs count.
    seed
        Of the pairs that are drawn.

    Warns
    -----
    ConvergenceWarning
        If the largest difference of one column is more than `MOST_SCALES` times that of another, or
        more than `USEFUL_SCALES` times the root mean square of a useful column.
    """
    largest, spread, explained = drawn_differences(problem, seed)
    there = np.flatnonzero(largest)
    if not len(there):
        return
    most = there[np.argmax(largest[there])]
    limits = np.where(explained > USEFUL, USEFUL_SCALES * spread, MOST_SCALES * largest)
    small = there[largest[most] > limits[there]]
    if not len(small):
        return
    least = small[np.argmax(explained[small])]
    names = problem.dataset.feature_names
    warn_user(
        f"documents of a query differ by up to {largest[most]:.2g} in {names[most]} and by up to "
        f"{largest[least]:.2g} in {names[least]}: stochastic steps follow the largest columns and "
        f"hardly move the weights of the smallest. Scale the features ({SCALE}).",
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
