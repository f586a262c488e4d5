"""Whether arms have the same rates of clicks on the same documents at the same positions.

A cell is a document of a query at a position, in a night and context. If sessions were assigned to
arms independently of users, all arms have the same rate in a cell, wherever else the arms show the
document. For one arm with n1 impressions and c1 clicks in a cell of n impressions and c clicks,
against the n0 and c0 of the other arms, the Mantel-Haenszel estimate of the ratio of rates is

    R / S,   R = sum c1 n0 / n,   S = sum c0 n1 / n.

For the ratio rho, `R - rho S` has the mean 0 in every query, so that

    T(rho) = (R - rho S) / sqrt(max(sum_q (R_q - rho S_q)^2 + E, rho M)),   M = sum c n1 n0 / n^2

is normal for many queries: the first variance is clustered by queries (with the excess E of users
who come back, if there are counts by user), the second that of independent clicks given the clicks
of the cells. There is no logarithm of a count, and no ratio is needed.

References
----------
Mantel, Haenszel, Statistical aspects of the analysis of data from retrospective studies of disease,
Journal of the National Cancer Institute 22, 1959.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dranking.clicks.counts import ClickCounts, UserCounts
from dranking.clicks.hashes import NO_USER
from dranking.clicks.propensities.contrasts import ContrastRules, fair_rows
from dranking.clicks.propensities.user_scores import (
    UserScores,
    excess_of_users,
    squares_of_users,
)
from dranking.clicks.rows.groups import Groups
from dranking.clicks.store.source import ClickSource, bucket_tasks, user_tasks
from dranking.engine.executor import Executor
from dranking.engine.tree_sum import tree_sum
from dranking.errors import DataError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

ALPHA = 0.01
"""Chance that arms of the same rates differ in one of the comparisons."""

LARGEST_RATIO = 1.1
"""Propensities are not harvested if a ratio of rates is surely above this, or below its inverse."""

LEAST_INFORMATION = 10.0
"""Least M of a comparison: the standard error of the logarithm of the ratio is 1 / sqrt(M)."""


class ArmSums(NamedTuple):
    """Sums over cells, (n_arms, n_positions + 1) each.

    Column 0 is of all positions below the first one together: patient users look at each of them
    more often, and all users look at the first position.

    Attributes
    ----------
    own, others
        R and S.
    squares, products, other_squares
        Sums over queries of R_q^2, R_q S_q and S_q^2.
    information
        M.
    """

    own: Array
    others: Array
    squares: Array
    products: Array
    other_squares: Array
    information: Array

    def score(self, ratio: float, excess: Array | float) -> Array:
        """T(ratio) of each comparison; 0 where there are no clicks."""
        by_query = self.squares - 2 * ratio * self.products + ratio**2 * self.other_squares
        variance = np.maximum(by_query + excess, ratio * self.information)
        beyond = self.own - ratio * self.others
        return np.divide(beyond, np.sqrt(variance), np.zeros_like(beyond), where=variance > 0)


def check_rates(
    source: ClickSource, rules: ContrastRules, names: Sequence[str], depth: int, run: Executor
) -> list[str]:
    """A warning, if the rates of clicks of some arms differ in the same cells; else none.

    Parameters
    ----------
    source, rules
        The counts, and the rules by which positions are compared.
    names
        Names of the arms that are compared.
    depth
        Deepest position that counts.
    run
        Runs the sums.

    Raises
    ------
    DataError
        If the rates of an arm differ from those of the others by more than 10 %.
    """
    arms = tuple(sorted(names))
    if len(arms) < 2:
        return []
    sums = arm_sums(source, rules, arms, depth, run)
    excess = _excess(source, rules, arms, depth, run) if source.has_users else 0.0
    compared = sums.information >= LEAST_INFORMATION
    compared[1 if len(arms) == 2 else len(arms) :] = False  # two arms are one comparison
    if not compared.any():
        return []
    critical = stats.norm.isf(ALPHA / 2 / compared.sum())
    above, below = (sums.score(ratio, excess) for ratio in (LARGEST_RATIO, 1 / LARGEST_RATIO))
    far = np.where(compared, np.maximum(above, -below), 0.0)
    causes = _CAUSES if source.has_users else f"{_CAUSES} {_CHANCE}"
    if far.max() > critical:
        raise DataError(
            f"{_difference(sums, arms, far)}: more than 10 % apart, with 99 % confidence. {causes} "
            "Propensities from these arms would be wrong. Assign sessions to arms at random, or "
            "give the propensities (--table or --eta)."
        )
    differs = np.where(compared, np.abs(sums.score(1.0, excess)), 0.0)
    if differs.max() > critical:
        return [
            f"{_difference(sums, arms, differs)}: more than by chance, with 99 % confidence. "
            f"{causes} Propensities are wrong accordingly."
        ]
    return []


_CAUSES = (
    "Sessions were not assigned to arms independently of users (one arm has the patient "
    "users, for example), or users do not look at a position independently of the documents above "
    "it, as users do who click in cascades and stop."
)

_CHANCE = (
    "Arms assigned by user can also differ by chance, where users are few and come back; to tell, "
    "count the clicks with dranking clicks build --users."
)


def _difference(sums: ArmSums, arms: tuple[str, ...], size: Array) -> str:
    """The largest difference, in words."""
    arm, position = np.unravel_index(int(np.argmax(size)), size.shape)
    own, others = sums.own[arm, position], sums.others[arm, position]
    ratio = own / others if others > 0 else np.inf
    where = f"at position {position}" if position else "below position 1"
    return (
        f"arm {arms[arm]!r} gets {ratio:.3g} times the clicks of the other arms on the same "
        f"documents of the same queries {where}"
    )


def arm_sums(
    source: ClickSource, rules: ContrastRules, arms: tuple[str, ...], depth: int, run: Executor
) -> ArmSums:
    """The sums of each of the arms, over all buckets, at positions 1 to `depth`."""
    parts = bucket_tasks(sums_of_bucket, source, run, rules, arms, depth, name="arms")
    return ArmSums(*tree_sum(run.gather(parts)))


def _excess(
    source: ClickSource, rules: ContrastRules, arms: tuple[str, ...], depth: int, run: Executor
) -> Array:
    """(n_arms, depth + 1) variance of R - S that users who come back add."""
    parts = user_tasks(user_parts, source, run, rules, arms, depth, name="arms of users")
    found = excess_of_users(parts, squares_of_users, run)
    return np.maximum(found, 0.0).reshape(len(arms), depth + 1)


def sums_of_bucket(
    counts: ClickCounts, rules: ContrastRules, arms: tuple[str, ...], depth: int
) -> Array:
    """`ArmSums` of the queries of some counts, as one array."""
    cells = _cells(counts, rules, arms, depth)
    n, c = counts.impressions[cells.rows], counts.clicks[cells.rows]
    n_all, c_all = cells.impressions.sum(axis=1)[cells.of_row], cells.clicks[cells.of_row]
    n_other = n_all - n
    r, s = c * n_other / n_all, (c_all - c) * n / n_all
    information = c_all * n * n_other / n_all**2
    size = len(arms) * (depth + 1)
    found = np.zeros((len(ArmSums._fields), size))
    query, position = counts.query[cells.rows], counts.position[cells.rows]
    place, everywhere = cells.arm * (depth + 1), np.full(len(position), True)
    for at, chosen in ((place, position > 1), (place + position, everywhere)):
        of_query = Groups([query[chosen], at[chosen]])
        own, others, of = (of_query.sum(each[chosen]) for each in (r, s, information))
        products = (own, others, own**2, own * others, others**2, of)
        of_arm = at[chosen][of_query.first]
        found += [np.bincount(of_arm, values, size) for values in products]
    return found.reshape(-1, len(arms), depth + 1)


def user_parts(
    users: UserCounts, rules: ContrastRules, arms: tuple[str, ...], depth: int
) -> UserScores:
    """The part of each user in R - S, for all comparisons, beyond what the rates of cells say.

    The parts of users in queries are made for one arm and position at a time: all together they
    would be an array of pairs x arms x positions.
    """
    counts = users.counts
    cells = _cells(counts, rules, arms, depth)
    n_all = cells.impressions.sum(axis=1)
    rate = (cells.clicks / n_all)[cells.of_row]
    beyond = counts.clicks[cells.rows] - counts.impressions[cells.rows] * rate
    user, position = users.user[cells.rows], counts.position[cells.rows]
    pair = Groups([counts.query[cells.rows], user])
    own_user = user[pair.first]
    known = np.flatnonzero(own_user != NO_USER)
    of_user = Groups([own_user[known]])
    at = [np.flatnonzero(position == k) for k in range(depth + 1)]
    found = np.zeros((len(arms), depth + 1, len(of_user)))
    squares = np.zeros((len(arms), depth + 1))
    for arm, own in enumerate(cells.impressions.T):
        part = beyond * ((cells.arm == arm) - (own / n_all)[cells.of_row])
        below = np.zeros(len(pair))
        for k in (*range(1, depth + 1), 0):
            of_pairs: Array = below
            if k:
                of_pairs = np.bincount(pair.of_row[at[k]], part[at[k]], len(pair)).astype(float)
                below += of_pairs if k > 1 else 0.0
            found[arm, k] = of_user.sum(of_pairs[known])
            squares[arm, k] = np.square(of_pairs[known]).sum()
    scores = np.ascontiguousarray(found.reshape(-1, len(of_user)).T)
    return UserScores(own_user[known][of_user.first], scores, squares.ravel())


class _Cells(NamedTuple):
    """Fair rows of counts, and the cells that they belong to.

    Attributes
    ----------
    rows
        (n,) rows of the counts.
    arm, of_row
        (n,) index of the arm among the given arms, and the cell of each row.
    impressions, clicks
        (n_cells, n_arms) and (n_cells,) totals.
    """

    rows: Integers
    arm: Integers
    of_row: Integers
    impressions: Array
    clicks: Integers


def _cells(counts: ClickCounts, rules: ContrastRules, arms: tuple[str, ...], depth: int) -> _Cells:
    rows = np.flatnonzero(fair_rows(counts, rules) & (counts.position <= depth))
    names = ("query", "document", "context", "night", "position")
    cell = Groups([getattr(counts, name)[rows] for name in names])
    arm = np.searchsorted(arms, list(counts.arms))[counts.arm[rows]]
    place = cell.of_row * len(arms) + arm
    impressions = np.bincount(place, counts.impressions[rows], len(cell) * len(arms))
    return _Cells(
        rows,
        arm,
        cell.of_row,
        impressions.reshape(-1, len(arms)).astype(np.float64, copy=False),
        cell.total(counts.clicks[rows]),
    )
