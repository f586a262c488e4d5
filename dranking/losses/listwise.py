"""Listwise hinges, whose margin is the loss of the ranking: 1 - AP or 1 - NDCG; on one block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.errors import UsageError
from dranking.kernels.listwise import rankings as listwise
from dranking.kernels.listwise.rankings import AP, NDCG, Lists
from dranking.kernels.machine.compile import frozen
from dranking.kernels.products import times, transposed_times

Array = NDArray[np.float64]
Measure: TypeAlias = Literal["ap", "ndcg"]

MEASURES: dict[Measure, int] = {"ap": AP, "ndcg": NDCG}

MAX_RANKINGS = 50_000
"""Rankings of one list that a sum over all of them lists."""


MAX_ASSIGNMENT = 2e10
"""Operations of an assignment at most: m n^2 for n documents, m of them unlike most."""


class TooLong(NamedTuple):
    """A list whose loss would take too long.

    Attributes
    ----------
    query
        Index of its query.
    why
        "has ... documents ...": what is wrong with it, and what to do.
    """

    query: int
    why: str


class ListLoss(Protocol):
    """A loss of the lists of a block, a weighted sum over its queries."""

    def at(self, scores: Array, lists: Lists) -> tuple[float, Array]:
        """Value, and a subgradient (n_documents,) by the scores."""
        ...

    def too_long(self, lists: Lists) -> TooLong | None:
        """The first list whose loss would take too long."""
        ...


class ArgmaxHinge(NamedTuple):
    """The hinge of the ranking that violates its margin most: the structured SVM's loss.

    ``max over pi of L(y, pi) - <w, phi(x, y) - phi(x, pi)>``. Queries whose documents are all
    equally good have none.
    """

    def at(self, scores: Array, lists: Lists) -> tuple[float, Array]:
        """Value, and a subgradient (n_documents,) by the scores."""
        slopes = np.empty(len(scores))
        return listwise.largest_hinges(frozen_lists(lists), frozen(scores), slopes), slopes

    def too_long(self, lists: Lists) -> TooLong | None:
        """The first list that is too long for the assignment of NDCG."""
        if lists.measure == AP:
            return None
        for query, gains in gains_of(lists):
            n = len(gains)
            if n**3 <= MAX_ASSIGNMENT:
                continue
            n_unlike = n - int(np.unique(gains, return_counts=True)[1].max())
            if n_unlike * n**2 > MAX_ASSIGNMENT:
                return TooLong(
                    query,
                    f"has {n:,} documents, {n_unlike:,} of them unlike most: the most violated "
                    f"ranking by NDCG takes up to {n_unlike * n**2:.0e} operations, and "
                    f"{MAX_ASSIGNMENT:.0e} is the limit. Keep fewer documents of it, or train with "
                    "the loss ap or pairwise.",
                )
        return None


class SumHinge(NamedTuple):
    """The sum of the hinges of all rankings: definition 3, or 4 if `by_class`.

    Attributes
    ----------
    by_class
        Count rankings with equally good documents at the same places once, as the one of them
        with the largest hinge.

    References
    ----------
    Riezler and De Bona (2009), definitions 3 and 4.
    """

    by_class: bool

    def at(self, scores: Array, lists: Lists) -> tuple[float, Array]:
        """Value, and a subgradient (n_documents,) by the scores.

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
        """The first list with too many rankings."""
        for query, gains in gains_of(lists):
            log_count = math.lgamma(len(gains) + 1)
            if self.by_class:
                sizes = np.unique(gains, return_counts=True)[1]
                log_count -= sum(math.lgamma(n + 1) for n in sizes)
            if log_count > math.log(MAX_RANKINGS):
                return TooLong(
                    query,
                    f"has {len(gains):,} documents and about e^{log_count:.1f} rankings; the sum "
                    f"over all of them takes {MAX_RANKINGS:,} at most. Use the arg-max form.",
                )
        return None


def gains_of(lists: Lists) -> Iterator[tuple[int, Array]]:
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
        Of which queries and weights are taken.
    measure
        "ap" or "ndcg".
    gains
        (n_documents,) of each document; for AP 1 if it is relevant, else 0.
    discounts
        (n_longest,) of the ranks of the longest list; of no matter for AP.
    """
    return Lists(MEASURES[measure], gains, discounts, block.query_ptr, block.weights)


def ranking_losses(scores: Array, lists: Lists) -> Array:
    """(n_queries,) 1 - AP or 1 - NDCG of the documents by descending score, ties in their order.

    0 where no document is better than another.
    """
    losses = np.zeros(len(lists.query_ptr) - 1)
    for query, gains in gains_of(lists):
        start, n = lists.query_ptr[query], len(gains)
        places = np.empty(n, dtype=np.int64)
        places[np.argsort(-scores[start : start + n], kind="stable")] = np.arange(1, n + 1)
        losses[query] = listwise.listwise_loss(lists.measure, gains, lists.discounts, places)
    return losses


def n_lists(lists: Lists) -> float:
    """Weighted number of queries that have documents better than others."""
    starts = lists.query_ptr[:-1]
    least, most = (f.reduceat(lists.gains, starts) for f in (np.minimum, np.maximum))
    return float(lists.weights @ (least < most))


def listwise_of_model(
    block: QueryBlock, lists: Lists, weights: Array, loss: ListLoss
) -> tuple[np.float64, Array]:
    """Value, and a subgradient by the weights (n_features,), for a linear model."""
    value, slopes = loss.at(times(block.features, weights), lists)
    return np.float64(value), transposed_times(block.features, slopes)


def frozen_lists(lists: Lists) -> Lists:
    """The lists read-only: kernels are compiled for that alone."""
    measure, gains, discounts, query_ptr, weights = lists
    return Lists(measure, frozen(gains), frozen(discounts), frozen(query_ptr), frozen(weights))
