"""Listwise hinges, whose margin is the loss of the ranking: 1 - AP or 1 - NDCG; on one block."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.errors import UsageError
from dranking.kernels import listwise
from dranking.kernels.compile import frozen
from dranking.kernels.listwise import AP, NDCG, Lists
from dranking.kernels.products import times, transposed_times

Array = NDArray[np.float64]
Measure: TypeAlias = Literal["ap", "ndcg"]

MEASURES: dict[Measure, int] = {"ap": AP, "ndcg": NDCG}

MAX_RANKINGS = 50_000
"""Rankings of one list that a sum over all of them lists."""


class ListLoss(Protocol):
    """A loss of the lists of a block, a weighted sum over its queries."""

    def at(self, scores: Array, lists: Lists) -> tuple[float, Array]:
        """Value, and a subgradient (n_documents,) by the scores."""
        ...


class ArgmaxHinge(NamedTuple):
    """The hinge of the ranking that violates its margin most: the structured SVM's loss.

    ``max over pi of L(y, pi) - <w, phi(x, y) - phi(x, pi)>``. Queries whose documents are all
    equally good have none.
    """

    def at(self, scores: Array, lists: Lists) -> tuple[float, Array]:
        """Value, and a subgradient (n_documents,) by the scores."""
        slopes = np.empty(len(scores))
        hinges = listwise.ap_hinges if lists.measure == AP else listwise.ndcg_hinges
        return hinges(frozen_lists(lists), frozen(scores), slopes), slopes


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
            length, log_count = too_long
            raise UsageError(
                f"a list of {length} documents has about e^{log_count:.1f} rankings; the sum over "
                f"all of them takes {MAX_RANKINGS:,} at most. Use the arg-max form."
            )
        slopes = np.empty(len(scores))
        value = listwise.sum_of_hinges(frozen_lists(lists), self.by_class, frozen(scores), slopes)
        return value, slopes

    def too_long(self, lists: Lists) -> tuple[int, float] | None:
        """Length, and log of the number of rankings, of the first list with too many of them."""
        for start, end in zip(lists.query_ptr[:-1], lists.query_ptr[1:], strict=True):
            gains = lists.gains[start:end]
            if gains.min() == gains.max():
                continue
            log_count = math.lgamma(end - start + 1)
            if self.by_class:
                sizes = np.unique(gains, return_counts=True)[1]
                log_count -= sum(math.lgamma(n + 1) for n in sizes)
            if log_count > math.log(MAX_RANKINGS):
                return int(end - start), log_count
        return None


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
    for q, (start, end) in enumerate(zip(lists.query_ptr[:-1], lists.query_ptr[1:], strict=True)):
        gains = lists.gains[start:end]
        if gains.min() < gains.max():
            places = np.empty(end - start, dtype=np.int64)
            places[np.argsort(-scores[start:end], kind="stable")] = np.arange(1, end - start + 1)
            losses[q] = listwise.listwise_loss(lists.measure, gains, lists.discounts, places)
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
