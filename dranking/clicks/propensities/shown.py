"""The arms and positions of counts, and whether a harvest of propensities can compare them."""

from __future__ import annotations

import numpy as np

from dranking.clicks.counts import ClickCounts
from dranking.clicks.propensities.contrasts import NO_ARM, ContrastRules
from dranking.clicks.store.source import ClickSource, bucket_tasks
from dranking.engine.executor import Executor
from dranking.errors import ClickWarning, DataError, UsageError, listed, warn_user

TOO_DEEP = 1 << 32
"""Positions are below this number, so that a context and a position fit into one number."""


def arms_and_positions(source: ClickSource, run: Executor) -> tuple[set[str], dict[str, set[int]]]:
    """The names of the arms, and the positions of each context, of all buckets."""
    arms: set[str] = set()
    positions: dict[str, set[int]] = {}
    for of_bucket, shown in run.gather(bucket_tasks(_of_bucket, source, run, name="positions")):
        arms |= of_bucket
        for context, at in shown.items():
            positions.setdefault(context, set()).update(at)
    if not positions:
        raise DataError("there are no impressions to harvest propensities from.")
    return arms, positions


def _of_bucket(counts: ClickCounts) -> tuple[set[str], dict[str, set[int]]]:
    arms = {counts.arms[arm] for arm in np.unique(counts.arm)}
    wrong = np.flatnonzero((counts.position < 1) | (counts.position >= TOO_DEEP))
    if len(wrong):
        raise DataError(
            f"row {wrong[0]} of the counts has position {counts.position[wrong[0]]}; the first "
            f"position of a list is 1, and positions are below {TOO_DEEP:,}. Count from 1."
        )
    # A context and a position share one number, which is sorted faster than pairs.
    pairs = np.unique(counts.context.astype(np.int64) << 32 | counts.position)
    positions: dict[str, set[int]] = {}
    for context, position in zip(pairs >> 32, (pairs & 0xFFFFFFFF).tolist(), strict=True):
        positions.setdefault(counts.contexts[context], set()).add(position)
    return arms, positions


def check_shown(positions: set[int], depth: int) -> None:
    """Raise DataError where nothing was shown, before there are tables as wide as the depth."""
    gap = next((k for k in range(1, depth + 1) if k not in positions), None)
    if gap is not None:
        raise DataError(
            f"nothing was shown at position {gap:,} of {depth:,}, so nothing compares the deeper "
            "positions with those above. Leave them out with --depth, or give the propensities."
        )


def comparable_arms(arms: set[str], rules: ContrastRules) -> list[str]:
    """The arms that can be compared, sorted; raise UsageError if the rules leave nothing to do."""
    randomised = set(rules.randomised_arms)
    named = sorted(arms - ({NO_ARM} - randomised))
    if unknown := sorted(randomised - arms):
        there = f"there are {listed(named)}" if named else "no row names an arm"
        raise UsageError(f"there is no arm {unknown[0]!r}; {there}.")
    if rules.nights_are_arms:
        warn_user(
            "nights are compared with each other: the propensities are right only if the rankers "
            "learned from none of these clicks and relevance did not change from night to night. "
            "Rankers that learn from clicks promote documents that were lucky, and the curve then "
            "falls too slowly: in simulation it was 8 to 109 % too high at position 10.",
            ClickWarning,
        )
        return sorted(arms)
    if len(named) < 2 and not randomised:
        raise UsageError(
            f"the clicks have {'one arm' if named else 'no arm'}, so that no document was shown at "
            "two positions for a reason that is independent of users and clicks. Serve two rankers "
            "side by side or swap documents at random and name the arms in the log "
            "(--randomised-arms names arms that swap); give the propensities; or, if the rankers "
            "learned from none of these clicks, compare nights with --nights-are-arms."
        )
    return named
