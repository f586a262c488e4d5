"""Sums over the pairs of a query with different relevance, without listing the pairs.

A pair (a, b), a more relevant than b, is *active* at a margin while score[a] - score[b] < margin.
Two sweeps over the documents in order of score, with sums per grade in a Fenwick tree, find for
every document the number of its active partners and the sum of their values: O(l log l) a query
(Airola, Pahikkala, Salakoski: Training linear ranking SVMs in linearithmic time using red-black
trees, 2011; Lee, Lin: Large-scale linear RankSVM, 2014).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part
from dranking.kernels.sorting import ascending

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

WIDE = 100.0
"""Scores of a query that differ by more than this, plus the number of its documents, have their
pairs listed: sums of squares over all documents lose the digits of the small differences among
them. Margins are about 1, or, by ranks, up to the number of documents."""


class Groups(NamedTuple):
    """The pairs of a block, given by queries and grades.

    Attributes
    ----------
    ranks
        (n_documents,) rank of each grade within its query.
    query_ptr
        (n_queries + 1,) row offsets.
    weights
        (n_queries,) query weights.
    """

    ranks: Ints
    query_ptr: Ints
    weights: Array


class Tangent(NamedTuple):
    """The facts about a sum of hinges at some scores that the second derivative needs.

    Attributes
    ----------
    scores
        (n_documents,).
    order
        (n_documents,) documents of each query by ascending score, numbered within the query.
    numbers
        (n_documents,) weighted number of active partners.
    """

    scores: Array
    order: Ints
    numbers: Array


def grade_ranks(relevance: Array, query_ptr: Ints) -> Ints:
    """(n_documents,) rank, from 0, of each grade within its query.

    In NumPy, because a sort inside a kernel takes a second to compile.
    """
    sizes = np.diff(query_ptr)
    order = np.lexsort((relevance, np.repeat(np.arange(len(sizes)), sizes)))
    ascending = relevance[order]
    rises = np.zeros(len(relevance) + 1, dtype=np.int64)
    rises[1:-1] = ascending[1:] > ascending[:-1]
    level = np.cumsum(rises)
    ranks = np.empty(len(relevance), dtype=np.int64)
    ranks[order] = level[:-1] - np.repeat(level[query_ptr[:-1]], sizes)
    return ranks


def count_pairs(ranks: Ints, query_ptr: Ints) -> Array:
    """(n_queries,) number of pairs of different rank; exact below 2^53."""
    sizes = np.diff(query_ptr)
    of_rank = np.bincount(np.repeat(query_ptr[:-1], sizes) + ranks, minlength=len(ranks))
    equal = np.concatenate(([0], np.cumsum(np.square(of_rank))))[query_ptr]
    return (np.square(sizes) - np.diff(equal)) / 2.0


@part
def add_to_tree(counts: Array, sums: Array, rank: int, value: float) -> None:
    """Add a document of a rank to a Fenwick tree."""
    i = rank + 1
    while i < len(counts):
        counts[i] += 1.0
        sums[i] += value
        i += i & -i


@part
def below_in_tree(counts: Array, sums: Array, rank: int) -> tuple[float, float]:
    """Number and sum of values of the documents in the tree with a lower rank."""
    count = total = 0.0
    i = rank
    while i > 0:
        count += counts[i]
        total += sums[i]
        i -= i & -i
    return count, total


@part
def highest(ranks: Ints) -> int:
    """The highest rank of a query.

    Numba compiles a maximum of an array for half a second, and two functions for one of numbers.
    """
    top = 0
    for rank in ranks:
        if rank > top:
            top = rank
    return top


@kernel
def active_partners(
    scores: Array,
    order: Ints,
    ranks: Ints,
    margin: float,
    values: Array,
    balance: Array,
    number: Array,
    total: Array,
) -> None:
    """Overwrite the sums over the active pairs of each document of one query.

    Parameters
    ----------
    scores, ranks
        (l,).
    order
        (l,) documents by ascending score.
    values
        (l,) values to sum.
    balance
        (l,) number of active partners that should rank below the document, less the number of
        active partners that should rank above.
    number, total
        (l,) number of active partners, and sum of the values of these partners.
    """
    n = len(scores)
    top = highest(ranks)
    counts, sums = np.zeros(top + 2), np.zeros(top + 2)
    nearer = n - 1
    for k in range(n - 1, -1, -1):
        a = order[k]
        while nearer >= 0 and scores[a] - scores[order[nearer]] < margin:
            add_to_tree(counts, sums, ranks[order[nearer]], values[order[nearer]])
            nearer -= 1
        balance[a], total[a] = below_in_tree(counts, sums, ranks[a])
        number[a] = balance[a]
    counts[:] = 0.0
    sums[:] = 0.0
    nearer = 0
    for b in order:
        while nearer < n and scores[order[nearer]] - scores[b] < margin:
            add_to_tree(counts, sums, top - ranks[order[nearer]], values[order[nearer]])
            nearer += 1
        count, value = below_in_tree(counts, sums, top - ranks[b])
        balance[b] -= count
        number[b] += count
        total[b] += value


@kernel
def plain_hinge(groups: Groups, margin: float, scores: Array, slopes: Array) -> float:
    """Weighted sum of plain hinges over all pairs, ``sum max(0, margin - (s_a - s_b))``.

    `slopes` (n_documents,) is overwritten with a subgradient with respect to the scores
    (n_documents,).
    """
    hinge = 0.0
    query_ptr = groups.query_ptr
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        s, ranks = scores[start:end], groups.ranks[start:end]
        slopes[start:end] = 0.0
        if highest(ranks) == 0:
            continue
        balance, number, total = np.empty(end - start), np.empty(end - start), np.empty(end - start)
        active_partners(s, ascending(s), ranks, margin, s, balance, number, total)
        shortfall = 0.0
        for i in range(end - start):
            shortfall += 0.5 * margin * number[i] - balance[i] * s[i]
            slopes[start + i] = -groups.weights[q] * balance[i]
        hinge += groups.weights[q] * shortfall
    return hinge


@kernel
def inverted_pairs(
    groups: Groups, values: Array, scores: Array, numbers: Array, sums: Array
) -> None:
    """Count the pairs of each query that scores put in the wrong order; ties do not count.

    Parameters
    ----------
    values, scores
        (n_documents,).
    numbers, sums
        (n_queries,) overwritten with the number of pairs in the wrong order, and with the sum over
        these pairs of the difference of `values`.
    """
    query_ptr = groups.query_ptr
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        s, ranks = scores[start:end], groups.ranks[start:end]
        numbers[q] = sums[q] = 0.0
        if highest(ranks) == 0:
            continue
        balance, number, total = np.empty(end - start), np.empty(end - start), np.empty(end - start)
        active_partners(s, ascending(s), ranks, 0.0, s, balance, number, total)
        for i in range(end - start):
            numbers[q] += 0.5 * number[i]
            sums[q] += balance[i] * values[start + i]


@part
def is_wide(least: float, most: float, n_documents: int) -> bool:
    """Whether the pairs of a query are listed, by its extreme scores; see `WIDE`.

    Numbers are one type, where arrays that may be written and that may not are two.
    """
    return not most - least <= WIDE + n_documents


@kernel
def listed_hinge_loss(
    s: Array, ranks: Ints, margins: Array, query_weight: float, slopes: Array, numbers: Array
) -> float:
    """The part of one query in `hinge_loss`, pair by pair; adds to `slopes` and `numbers` (l,)."""
    loss = 0.0
    for a in range(len(s)):
        for b in range(len(s)):
            if ranks[a] > ranks[b]:
                for k in range(len(margins)):
                    short = margins[k, 0] - (s[a] - s[b])
                    if short > 0.0:
                        weight = margins[k, 1] * query_weight
                        loss += weight * short * short
                        slopes[a] -= 2.0 * weight * short
                        slopes[b] += 2.0 * weight * short
                        numbers[a] += weight
                        numbers[b] += weight
    return loss


@kernel
def listed_hinge_curvature(
    s: Array, ranks: Ints, margins: Array, query_weight: float, d: Array, out: Array
) -> None:
    """Overwrite `out` (l,) with the part of one query in `hinge_curvature`, pair by pair."""
    out[:] = 0.0
    for a in range(len(s)):
        for b in range(len(s)):
            if ranks[a] > ranks[b]:
                for k in range(len(margins)):
                    if s[a] - s[b] < margins[k, 0]:
                        change = 2.0 * margins[k, 1] * query_weight * (d[a] - d[b])
                        out[a] += change
                        out[b] -= change


@part
def slope_of(s: float, margin: float, balance: float, number: float, total: float) -> float:
    """Derivative of the sum of squared shortfalls by the score of one document."""
    return 2.0 * (s * number - total - margin * balance)


@kernel
def sums_of_partners(
    s: Array, margin: float, balance: Array, number: Array, total: Array
) -> tuple[float, float]:
    """Sums of the shortfalls of the pairs of a query, and of their squares.

    `balance`, `number` and `total` (l,) are those of `active_partners`, with the scores as values.
    """
    shortfall = by_slope = 0.0
    for i in range(len(s)):
        shortfall += 0.5 * margin * number[i] - balance[i] * s[i]
        by_slope += slope_of(s[i], margin, balance[i], number[i], total[i]) * s[i]
    # With x the shortfalls of the pairs: sum of slope times score = -2 (sum of x margin - sum of
    # x^2).
    return shortfall, margin * shortfall + 0.5 * by_slope


@kernel
def hinge_loss(groups: Groups, margins: Array, tangent: Tangent, slopes: Array) -> float:
    """Sums of squared hinges over all pairs, ``sum_m c_m max(0, m - (s_a - s_b))^2``, weighted.

    Parameters
    ----------
    margins
        (n_margins, 2) of m and c_m.
    tangent
        The scores; `order` and `numbers` are overwritten.
    slopes
        (n_documents,) overwritten with the derivatives with respect to the scores.

    Returns
    -------
    The sum.
    """
    loss = 0.0
    query_ptr = groups.query_ptr
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        s, ranks = tangent.scores[start:end], groups.ranks[start:end]
        order, numbers = tangent.order[start:end], tangent.numbers[start:end]
        by_score = np.argsort(s)
        for i in range(end - start):  # Numba compiles an assignment of arrays for two seconds
            order[i], numbers[i] = by_score[i], 0.0
        slopes[start:end] = 0.0
        if highest(ranks) == 0:
            continue
        if is_wide(s[order[0]], s[order[-1]], end - start):
            weight = groups.weights[q]
            loss += listed_hinge_loss(s, ranks, margins, weight, slopes[start:end], numbers)
            continue
        s = s - s[order[(end - start) // 2]]  # only differences of scores count
        balance, number, total = np.empty(end - start), np.empty(end - start), np.empty(end - start)
        for k in range(len(margins)):
            margin, weight = margins[k, 0], margins[k, 1] * groups.weights[q]
            active_partners(s, order, ranks, margin, s, balance, number, total)
            squares = sums_of_partners(s, margin, balance, number, total)[1]
            for i in range(end - start):
                slope = slope_of(s[i], margin, balance[i], number[i], total[i])
                slopes[start + i] += weight * slope
                numbers[i] += weight * number[i]
            loss += weight * squares
    return loss


@kernel
def hinge_curvature(
    groups: Groups, margins: Array, tangent: Tangent, direction: Array, out: Array
) -> None:
    """Overwrite `out` with the (generalised) second derivative of `hinge_loss` times a direction.

    `direction` (n_documents,) is in the space of scores; `hinge_loss` has filled `tangent`.
    """
    query_ptr = groups.query_ptr
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        s, ranks = tangent.scores[start:end], groups.ranks[start:end]
        order, d = tangent.order[start:end], direction[start:end]
        for i in range(start, end):
            out[i] = 2.0 * tangent.numbers[i] * direction[i]
        if highest(ranks) == 0:
            continue
        if is_wide(s[order[0]], s[order[-1]], end - start):
            weight = groups.weights[q]
            listed_hinge_curvature(s, ranks, margins, weight, d, out[start:end])
            continue
        balance, number, total = np.empty(end - start), np.empty(end - start), np.empty(end - start)
        for k in range(len(margins)):
            weight = 2.0 * margins[k, 1] * groups.weights[q]
            active_partners(s, order, ranks, margins[k, 0], d, balance, number, total)
            for i in range(end - start):
                out[start + i] -= weight * total[i]
