"""The plain hinge, and the corner of a rounded hinge, over the pairs of a query.

The shortfall of a pair (a, b), a more relevant than b, is x = ``max(0, margin - (s_a - s_b))``. The
corner is the part of the pairs whose shortfall is below the width over which the hinge is rounded.
"""

import numpy as np

from dranking.kernels.machine.compile import kernel
from dranking.pairwise.kernels.pair_sums import (
    Array,
    Groups,
    Ints,
    Tangent,
    active_partners,
    highest,
    is_wide,
    sums_of_partners,
)


@kernel
def listed_shortfalls(s: Array, ranks: Ints, margin: float, width: float) -> tuple[float, float]:
    """The first two sums of `hinge_shortfalls` for one query, pair by pair."""
    total = corner = 0.0
    for a in range(len(s)):
        for b in range(len(s)):
            if ranks[a] > ranks[b]:
                short = max(margin - (s[a] - s[b]), 0.0)
                total += short
                if short < width:
                    corner += short * (1.0 - short / width)
    return total, corner


@kernel
def corner_of_near(
    s: Array, order: Ints, ranks: Ints, margin: float, width: float, most: int
) -> float:
    """Sum of ``x - x^2 / width`` over the pairs of a query with a shortfall x from 0 to the width.

    The partners with such shortfalls stand side by side in the order of scores. Returns -1 if all
    documents together have more than `most` neighbours there.
    """
    corner, n_near, low, high = 0.0, 0, 0, 0
    for a in order:
        while low < len(s) and margin - (s[a] - s[order[low]]) <= 0.0:
            low += 1
        while high < len(s) and margin - (s[a] - s[order[high]]) < width:
            high += 1
        n_near += max(high - low, 0)
        if n_near > most:
            return -1.0
        for k in range(low, high):
            if ranks[a] > ranks[order[k]]:
                short = margin - (s[a] - s[order[k]])
                corner += short * (1.0 - short / width)
    return corner


@kernel
def hinge_shortfalls(
    groups: Groups, margin: float, width: float, tangent: Tangent, n_near: int, sums: Array
) -> None:
    """Sums of the shortfalls x = ``max(0, margin - (s_a - s_b))`` of all pairs, and of a corner.

    Parameters
    ----------
    tangent
        Scores and order, as `hinge_loss` has filled them.
    n_near
        The second sum comes from sums of squares for queries whose documents have more than so many
        partners, on average, with a shortfall below the width.
    sums
        (3,) overwritten with sums over all pairs, weighted by the weights of the queries: of x; of
        ``x - x^2 / width`` over the pairs with x below the width; and, for the queries whose second
        sum is a difference of sums of squares, of these squares divided by the width.
    """
    sums[:] = 0.0
    query_ptr = groups.query_ptr
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        n, weight = end - start, groups.weights[q]
        s, ranks = tangent.scores[start:end], groups.ranks[start:end]
        order = tangent.order[start:end]
        if highest(ranks) == 0:
            continue
        wide = is_wide(s[order[0]], s[order[-1]], n)
        s = s - s[order[n // 2]]  # only differences of scores count
        if wide:
            shortfall, corner = listed_shortfalls(s, ranks, margin, width)
            sums[0] += weight * shortfall
            sums[1] += weight * corner
            continue
        balance, number, total = np.empty(n), np.empty(n), np.empty(n)
        active_partners(s, order, ranks, margin, s, balance, number, total)
        shortfall, squares = sums_of_partners(s, margin, balance, number, total)
        sums[0] += weight * shortfall
        corner = corner_of_near(s, order, ranks, margin, width, n_near * n)
        if corner < 0.0:
            for i in range(n):
                sums[2] += weight * number[i] * s[i] * s[i] / width
            active_partners(s, order, ranks, margin - width, s, balance, number, total)
            beyond, less = sums_of_partners(s, margin - width, balance, number, total)
            corner = shortfall + beyond - (squares - less) / width
        sums[1] += weight * corner
