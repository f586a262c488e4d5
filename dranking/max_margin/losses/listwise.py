"""Listwise hinges of one block; the margin of a ranking is its loss, 1 - AP or 1 - NDCG."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.errors import UsageError
from dranking.kernels.machine.compile import frozen
from dranking.kernels.machine.floats import EPSILON
from dranking.kernels.products import times
from dranking.max_margin.kernels import rankings as listwise
from dranking.max_margin.kernels.rankings import AP, NDCG, Lists
from dranking.rankrls.kernels.far_columns import NOTHING_FAR, Far
from dranking.rankrls.kernels.relative_products import (
    relative_features,
    relative_times,
    relative_transposed_times,
)

Array = NDArray[np.float64]
Measure: TypeAlias = Literal["ap", "ndcg"]

MEASURES: dict[Measure, int] = {"ap": AP, "ndcg": NDCG}

MAX_RANKINGS = 50_000
"""Largest number of rankings of one list that the sum form enumerates."""

MAX_ASSIGNMENT = 2e10
"""Largest number of operations of one assignment: m n^2 for a list of n documents, m of which do
not have the commonest gain."""

BOUNDED_LISTS = 16
"""In blocks of at most so many lists, the rounding of every list is bounded. In larger ones, evenly
spaced lists stand for all, at least half as many as this."""


class ListTargets(NamedTuple):
    """The quantities of a block, apart from the scores, from which a loss of lists is computed.

    Attributes
    ----------
    lists
        Gains and measure of the lists, and their weights.
    far
        The columns of the block that are read relative to their median in each query.
    """

    lists: Lists
    far: Far = NOTHING_FAR


class TooLong(NamedTuple):
    """A list whose loss would take too long to compute.

    Attributes
    ----------
    query
        Index of the query.
    why
        "has ... documents ...": the reason, and what to do.
    """

    query: int
    why: str


class ListLoss(Protocol):
    """A loss of the lists of a block: a weighted sum over queries."""

    def at(self, scores: Array, lists: Lists) -> tuple[float, Array]:
        """Value, and a subgradient (n_documents,) with respect to the scores."""
        ...

    def too_long(self, lists: Lists) -> TooLong | None:
        """The first list whose loss would take too long; None if there is none."""
        ...

    def log_terms(self, gains: Array) -> float:
        """Logarithm of the number of rankings of a list whose hinges add up."""
        ...


class ArgmaxHinge(NamedTuple):
    """The hinge of the ranking that violates its margin most: the loss of structured SVMs.

    ``max over pi of L(y, pi) - <w, phi(x, y) - phi(x, pi)>``; 0 for a query whose documents are all
    equally good.
    """

    def at(self, scores: Array, lists: Lists) -> tuple[float, Array]:
        """Value, and a subgradient (n_documents,) with respect to the scores."""
        slopes = np.empty(len(scores))
        return listwise.largest_hinges(frozen_lists(lists), frozen(scores), slopes), slopes

    def too_long(self, lists: Lists) -> TooLong | None:
        """The first list that is too long for the assignment of NDCG; None if there is none."""
        if lists.measure == AP:
            return None
        for query, gains in lists_with_preference(lists):
            n = len(gains)
            if n**3 <= MAX_ASSIGNMENT:
                continue
            n_unlike = n - int(np.unique(gains, return_counts=True)[1].max())
            if n_unlike * n**2 > MAX_ASSIGNMENT:
                return TooLong(
                    query,
                    f"has {n:,} documents, {n_unlike:,} without the most frequent gain; the "
                    f"most violated ranking by NDCG takes up to {n_unlike * n**2:.0e} operations, "
                    f"and {MAX_ASSIGNMENT:.0e} is the limit. Keep fewer documents of the query, "
                    "or train with the loss ap or pairwise.",
                )
        return None

    def log_terms(self, gains: Array) -> float:
        """0: the hinge of one ranking."""
        return 0.0


class SumHinge(NamedTuple):
    """The sum of the hinges of all rankings: definition 3, or 4 if `by_class`.

    Attributes
    ----------
    by_class
        Whether rankings that only exchange equally good documents count once, as the ranking with
        the largest hinge among them.

    References
    ----------
    Riezler and De Bona (2009), definitions 3 and 4.
    """

    by_class: bool

    def at(self, scores: Array, lists: Lists) -> tuple[float, Array]:
        """Value, and a subgradient (n_documents,) with respect to the scores.

        Raises
        ------
        UsageError
            If a list has more than `MAX_RANKINGS` rankings.
        """
        too_long = self.too_long(lists)
        if too_long is not None:
            raise UsageError(f"a list {too_long.why}")
        slopes = np.empty(len(scores))
        value = listwise.sum_of_hinges(frozen_lists(lists), self.by_class, frozen(scores), slopes)
        return value, slopes

    def too_long(self, lists: Lists) -> TooLong | None:
        """The first list with too many rankings; None if there is none."""
        for query, gains in lists_with_preference(lists):
            log_count = self.log_terms(gains)
            if log_count > math.log(MAX_RANKINGS):
                return TooLong(
                    query,
                    f"has {len(gains):,} documents and about e^{log_count:.1f} rankings; the sum "
                    f"over all rankings takes {MAX_RANKINGS:,} at most. Use the arg-max form.",
                )
        return None

    def log_terms(self, gains: Array) -> float:
        """Logarithm of the number of rankings of a list whose hinges add up."""
        log_count = math.lgamma(len(gains) + 1)
        if self.by_class:
            sizes = np.unique(gains, return_counts=True)[1]
            log_count -= sum(math.lgamma(n + 1) for n in sizes)
        return log_count


def lists_with_preference(lists: Lists) -> Iterator[tuple[int, Array]]:
    """Index and gains of each list in which a document is better than another."""
    for query, (start, end) in enumerate(
        zip(lists.query_ptr[:-1], lists.query_ptr[1:], strict=True)
    ):
        gains = lists.gains[start:end]
        if gains.min() < gains.max():
            yield query, gains


def lists_of(block: QueryBlock, measure: Measure, gains: Array, discounts: Array) -> Lists:
    """The lists of a block of labelled documents.

    Parameters
    ----------
    block
        The block, which gives the queries and their weights.
    measure
        "ap" or "ndcg".
    gains
        (n_documents,) gain of each document; for AP 1 if the document is relevant, else 0.
    discounts
        (n_longest,) discounts of the ranks of the longest list; AP does not use them.
    """
    return Lists(MEASURES[measure], gains, discounts, block.query_ptr, block.weights)


def ranking_losses(scores: Array, lists: Lists) -> Array:
    """(n_queries,) 1 - AP or 1 - NDCG of the ranking by descending score; ties in row order.

    The loss is 0 for a query in which no document is better than another.
    """
    losses = np.zeros(len(lists.query_ptr) - 1)
    for query, gains in lists_with_preference(lists):
        start, n = lists.query_ptr[query], len(gains)
        places = np.empty(n, dtype=np.int64)
        places[np.argsort(-scores[start : start + n], kind="stable")] = np.arange(1, n + 1)
        losses[query] = listwise.listwise_loss(
            lists.measure, frozen(gains), frozen(lists.discounts), places
        )
    return losses


def n_lists(lists: Lists) -> float:
    """Weighted number of queries in which some document is better than another."""
    starts = lists.query_ptr[:-1]
    least, most = (f.reduceat(lists.gains, starts) for f in (np.minimum, np.maximum))
    return float(lists.weights @ (least < most))


def listwise_of_model(
    block: QueryBlock, targets: ListTargets, weights: Array, loss: ListLoss
) -> tuple[np.float64, Array]:
    """Value, and a subgradient (n_features,) with respect to the weights of a linear model."""
    lists, far = targets
    value, slopes = loss.at(relative_times(block.features, block.query_ptr, far, weights), lists)
    slopes_of_weights = relative_transposed_times(block.features, block.query_ptr, far, slopes)
    return np.float64(value), slopes_of_weights


def stated_losses(block: QueryBlock, targets: ListTargets, weights: Array, loss: ListLoss) -> Array:
    """(3,) loss of a linear model, loss of zero weights, and a bound of the rounding of the first.

    In blocks of more than `BOUNDED_LISTS` lists, evenly spaced lists stand for all lists, so that
    the bound is an estimate there. Weights and gains count as exact.
    """
    lists, far = targets
    scores = relative_times(block.features, block.query_ptr, far, weights)
    value, _ = loss.at(scores, lists)
    zeros, _ = loss.at(np.zeros_like(scores), lists)
    rounding, bounded, mass = 0.0, 0.0, 0.0
    there = [(q, gains) for q, gains in lists_with_preference(lists) if lists.weights[q] > 0.0]
    step = 1 + (len(there) - 1) // BOUNDED_LISTS
    for number, (q, gains) in enumerate(there):
        mass += lists.weights[q]
        if number % step:
            continue
        bounded += lists.weights[q]
        ptr = block.query_ptr[q : q + 2]
        own = far._replace(medians=far.medians[q : q + 1])
        ends = np.array([0, len(gains)])
        rows = relative_features(block.features[slice(*ptr)], ends, own)
        alone = lists._replace(gains=gains, query_ptr=ends, weights=np.ones(1))
        bound = _rounding_of_list(rows, scores[slice(*ptr)], weights, alone, loss)
        rounding += lists.weights[q] * bound
    if bounded > 0.0:
        rounding *= mass / bounded
    return np.array([value, zeros, rounding + len(lists.weights) * EPSILON * value])


def _rounding_of_list(
    rows: Any, scores: Array, weights: Array, alone: Lists, loss: ListLoss
) -> float:
    """Bound of the rounding of the loss of one list.

    A score is rounded by a few epsilon times the sum of |x_i w_i|, and the sums over documents by
    as much for each document. No hinge falls where a better document loses against a worse one: the
    loss lies between its values at scores in which all better documents are lower, and higher, by
    the rounding of both scores.
    """
    n = len(scores)
    widest = rows.shape[1] if isinstance(rows, np.ndarray) else int(np.diff(rows.indptr).max())
    largest = float(times(abs(rows), np.abs(weights)).max())
    moved = 2.0 * EPSILON * (widest + 2 * n + 8) * largest
    levels = np.unique(alone.gains, return_inverse=True)[1] * moved
    most, _ = loss.at(scores - levels, alone)
    least, _ = loss.at(scores + levels, alone)
    if not most:
        return 0.0
    return most - least + 8.0 * EPSILON * n * (math.exp(loss.log_terms(alone.gains)) + most)


def frozen_lists(lists: Lists) -> Lists:
    """The lists with read-only arrays: kernels are compiled for read-only arrays alone."""
    measure, gains, discounts, query_ptr, weights = lists
    return Lists(measure, frozen(gains), frozen(discounts), frozen(query_ptr), frozen(weights))
