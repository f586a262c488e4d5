"""Position-sensitive margins of pairs: inversions near the top of a list cost more.

A document at rank y of n has the *target* n / y, and the margin of a pair is the difference of the
targets: the hinge of a pair is ``(|n/y_a - n/y_b| - (s_a - s_b))_+``, where document a has the
better rank. This hinge is the hinge with margin 0 of the scores minus the targets. The sums over
pairs that RankSVM uses therefore apply, in O(l log l) for a list of l documents, whatever the
margins.

Riezler and De Bona: Simple risk bounds for position-sensitive max-margin ranking algorithms, 2009,
definitions 1 (all documents ranked) and 2 (levels of relevance).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError
from dranking.kernels.machine.compile import frozen
from dranking.pairwise.kernels import pair_sums as pairs
from dranking.pairwise.losses import PairTargets, frozen_groups, pair_targets

Array = NDArray[np.float64]
Margins: TypeAlias = Literal["levels", "ranks"]


class MarginRule(NamedTuple):
    """The rule by which margins follow from relevance.

    Attributes
    ----------
    margins
        "levels": ``y = r - g`` and n = r, for grades g from 0 to r - 1; or "ranks": y is 1 more
        than the number of more relevant documents of the list, and n is the length of the list.
        For lists without equally relevant documents these are the margins of definition 1.
    n_levels
        r, the number of levels; only "levels" uses r.
    """

    margins: Margins
    n_levels: int

    def targets(self, block: QueryBlock) -> Array:
        """(n_documents,) n / y of each document.

        Raises
        ------
        DataError
            If a grade is not within 0 to r - 1.
        """
        grades = block.relevance
        if self.margins == "levels":
            wrong = (grades < 0) | (grades > self.n_levels - 1)
            if wrong.any():
                row = int(np.argmax(wrong))
                query = int(np.searchsorted(block.query_ptr, row, side="right")) - 1
                raise DataError(
                    f"query {block.query_ids[query]} has relevance {grades[row]:g}; with "
                    f"{self.n_levels} levels it must be from 0 to {self.n_levels - 1}."
                )
            return np.asarray(self.n_levels / (self.n_levels - grades))
        targets = np.empty(len(grades))
        for start, end in zip(block.query_ptr[:-1], block.query_ptr[1:], strict=True):
            own = grades[start:end]
            n_better = end - start - np.searchsorted(np.sort(own), own, side="right")
            targets[start:end] = (end - start) / (1.0 + n_better)
        return targets


def margin_targets(block: QueryBlock, rule: MarginRule) -> PairTargets:
    """Pairs of a block of labelled documents, with the targets as offsets of the scores."""
    return pair_targets(block)._replace(offsets=rule.targets(block), margin=0.0)


class PairRisks(NamedTuple):
    """Sums over the pairs of each query, (n_queries,) each.

    Attributes
    ----------
    n_inverted
        Number of pairs in the wrong order by score: the 0-1 loss.
    inverted_margins
        Sum of the margins of these pairs, never above the hinge.
    hinge
        Sum of the hinges of definitions 1 and 2.
    """

    n_inverted: Array
    inverted_margins: Array
    hinge: Array


def pair_counts(targets: PairTargets) -> tuple[Array, Array]:
    """(n_queries,) number of pairs of each query, and (n_queries,) sum of the pairs' margins."""
    offsets = np.asarray(targets.offsets)
    numbers, margins = np.empty(len(targets.groups.weights)), np.empty(len(targets.groups.weights))
    reversed_ = frozen(-offsets)
    pairs.inverted_pairs(frozen_groups(targets), frozen(offsets), reversed_, numbers, margins)
    return numbers, margins


def pair_risks(targets: PairTargets, scores: Array) -> PairRisks:
    """The losses of definitions 1 and 2 for each query, without query weights."""
    groups, offsets = frozen_groups(targets), np.asarray(targets.offsets)
    n = len(groups.weights)
    numbers, margins, left, hinges = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    pairs.inverted_pairs(groups, frozen(offsets), frozen(scores), numbers, margins)
    beyond = frozen(scores - offsets)
    # With scores minus targets, the hinges of a query are the inverted differences of its pairs.
    pairs.inverted_pairs(groups, beyond, beyond, left, hinges)
    return PairRisks(numbers, margins, -hinges)
