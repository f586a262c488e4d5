"""Contrasts: the same document of the same query at different positions, in one night and context.

Within a contrast the relevance of the document is one number, so that its clicks compare the
positions alone. Comparisons are fair between arms to which sessions were assigned independently of
users and clicks. Within one arm, positions of a document differ because the ranker knew something
of the session, unless the arm swaps documents at random.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.clicks.hashes import query_keys
from dranking.clicks.propensities.resampling import Keys

Integers = NDArray[np.int64]
Array = NDArray[np.float64]

NO_ARM = ""
"""Name of the arm of rows without an arm."""


@dataclass(frozen=True)
class ContrastRules:
    """The rules by which impressions at two positions may be compared.

    Attributes
    ----------
    nights_are_arms
        Compare nights with each other too. This is fair only if the rankers used none of these
        clicks, and relevance did not change from night to night.
    randomised_arms
        Arms that swap documents at random: their own positions are compared with each other.
    """

    nights_are_arms: bool = False
    randomised_arms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contrasts:
    """Documents shown at two positions or more, with their counts at each.

    Attributes
    ----------
    query, context
        (n_contrasts,) index of the query and of the context in the counts; queries ascend.
    impressions, clicks
        (n_contrasts, n_positions) float64 whole numbers; the first column is position 1.
    query_keys
        (n_queries,) hashes of the ids of all queries in the counts (`hashes.query_keys`).
    contexts
        Names of the contexts.
    """

    query: Integers
    context: Integers
    impressions: Array
    clicks: Array
    query_keys: Keys
    contexts: tuple[str, ...]

    @property
    def n_queries(self) -> int:
        """Number of queries in the counts."""
        return len(self.query_keys)

    def __sizeof__(self) -> int:
        """Bytes of the arrays."""
        own = (self.query, self.context, self.query_keys, self.impressions, self.clicks)
        return sum(each.nbytes for each in own)

    def of(self, context: str | None, *, clicked: bool) -> Contrasts:
        """The contrasts of a context (None means all); with `clicked`, only those with clicks."""
        keep = self.chosen(context, clicked=clicked)
        rows = ("query", "context", "impressions", "clicks")
        return replace(self, **{name: getattr(self, name)[keep] for name in rows})

    def of_context(self, context: str, n_positions: int) -> Contrasts:
        """The contrasts of one context, which has no impression deeper than `n_positions`."""
        found = self.of(context, clicked=False)
        return replace(
            found,
            impressions=found.impressions[:, :n_positions],
            clicks=found.clicks[:, :n_positions],
        )

    def chosen(self, context: str | None, *, clicked: bool) -> NDArray[np.bool_]:
        """(n_contrasts,) which contrasts `of` keeps."""
        keep = np.isin(self.context, _indices(self.contexts, (context,)))
        keep |= context is None
        if clicked:
            keep &= self.clicks.any(axis=1)
        return keep


def contrasts_of(counts: ClickCounts, rules: ContrastRules, n_positions: int) -> Contrasts:
    """The contrasts of the counts of some queries, at positions 1 to `n_positions`."""
    return contrasts_and_rows(counts, rules, n_positions)[0]


def contrasts_and_rows(
    counts: ClickCounts, rules: ContrastRules, n_positions: int
) -> tuple[Contrasts, Integers]:
    """The result of `contrasts_of`, and the (n_rows,) contrast of each row of the counts, or -1."""
    within = [counts.query, counts.document, counts.context]
    if not rules.nights_are_arms:
        within.append(counts.night)
    group = run_numbers(within)
    rows = np.flatnonzero(fair_rows(counts, rules) & (counts.position <= n_positions))
    rows = rows[~_of_one_position(run_numbers([group[rows]]), counts.position[rows])]
    numbers, contrast = np.unique(group[rows], return_inverse=True)
    cells = contrast * n_positions + counts.position[rows] - 1
    impressions, clicks = (
        np.bincount(cells, values[rows], len(numbers) * n_positions)
        .reshape(-1, n_positions)
        .astype(np.float64, copy=False)
        for values in (counts.impressions, counts.clicks)
    )
    firsts = _starts([group])[numbers]
    contrast_of_row = np.full(len(group), -1)
    contrast_of_row[rows] = contrast
    contrasts = Contrasts(
        query=counts.query[firsts],
        context=counts.context[firsts],
        impressions=impressions,
        clicks=clicks,
        query_keys=query_keys(counts.query_ids),
        contexts=counts.contexts,
    )
    return contrasts, contrast_of_row


def fair_rows(counts: ClickCounts, rules: ContrastRules) -> NDArray[np.bool_]:
    """(n_rows,) whether the arm shows the document at this position alone, or swaps at random.

    Rows without an arm come from unknown rankers and are not fair, unless nights are the arms.
    """
    keys = [counts.query, counts.document, counts.context, counts.night, counts.arm]
    fair = _of_one_position(run_numbers(keys), counts.position)
    if not rules.nights_are_arms:
        fair &= ~np.isin(counts.arm, _indices(counts.arms, (NO_ARM,)))
    fair |= np.isin(counts.arm, _indices(counts.arms, rules.randomised_arms))
    return fair


def _starts(keys: list[Integers]) -> Integers:
    """First rows of the runs of equal keys; rows of equal keys are adjacent."""
    if not len(keys[0]):
        return np.empty(0, np.int64)
    changed = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.concatenate(([0], np.flatnonzero(changed) + 1)).astype(np.int64)


def run_numbers(keys: list[Integers]) -> Integers:
    """The number of the run of equal keys of each row."""
    starts = _starts(keys)
    return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(keys[0]))))


def _of_one_position(arm: Integers, position: Integers) -> NDArray[np.bool_]:
    """Whether all rows of the same group and arm have the same position."""
    starts = _starts([arm])
    if not len(starts):
        return np.empty(0, bool)
    lowest = np.minimum.reduceat(position, starts)
    highest = np.maximum.reduceat(position, starts)
    one: NDArray[np.bool_] = (lowest == highest)[arm]
    return one


def _indices(names: tuple[str, ...], wanted: Collection[str | None]) -> Integers:
    return np.array([i for i, name in enumerate(names) if name in wanted], np.int64)
