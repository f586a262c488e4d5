"""Loops behind the ranking measures: whole queries, documents already in rank order.

Common shapes: `query_ptr` (n_queries + 1,) int64; every other array (n_documents,) with the
documents of a query adjacent. `group_end[i]` is one past the last document that shares its rank
with document i: a group of documents is averaged over its permutations, so strict orders have
`group_end[i] = i + 1`.
"""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part
from dranking.kernels.sorting import descending, smaller

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@kernel
def rank_order(scores: Floats, query_ptr: Integers) -> Integers:
    """Row numbers by descending score within each query; equal scores keep their order."""
    order = np.empty(len(scores), dtype=np.int64)
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        is_ordered = True
        for i in range(start, end):
            order[i] = i
            is_ordered = is_ordered and (i == start or scores[i] <= scores[i - 1])
        if not is_ordered:  # runs often are, and need no sort
            of_query = descending(scores[start:end])
            for i in range(end - start):
                order[start + i] = start + of_query[i]
    return order


def tie_ends(scores: Floats, query_ptr: Integers) -> Integers:
    """One past the end of each document's run of equal scores; `scores` in rank order.

    In NumPy, which takes no time to compile.
    """
    is_end = np.zeros(len(scores) + 1, dtype=np.bool_)
    is_end[query_ptr] = True
    is_end[1:-1] |= scores[1:] != scores[:-1]
    ends = np.flatnonzero(is_end[1:]) + 1
    return np.repeat(ends, np.diff(ends, prepend=0))


@part
def sum_between(values: Floats, start: int, end: int) -> float:
    """Sum of some values, in their order. Numba compiles five functions for `values.sum()`."""
    total = 0.0
    for i in range(start, end):
        total += values[i]
    return total


@kernel
def group_means(values: Floats, group_end: Integers) -> Floats:
    """Mean of `values` over the group of each document: its expectation at each rank."""
    means = np.empty(len(values))
    i = 0
    while i < len(values):
        stop = group_end[i]
        total = 0.0
        for j in range(i, stop):
            total += values[j]
        for j in range(i, stop):
            means[j] = total / (stop - i)
        i = stop
    return means


@kernel
def discounted_sums(values: Floats, query_ptr: Integers, discounts: Floats, cutoff: int) -> Floats:
    """(n_queries,) sums of `values` times `discounts[rank]` over the first `cutoff` ranks."""
    sums = np.zeros(len(query_ptr) - 1)
    for q in range(len(sums)):
        start = query_ptr[q]
        total = 0.0
        for i in range(start, smaller(query_ptr[q + 1], start + cutoff)):
            total += values[i] * discounts[i - start]
        sums[q] = total
    return sums


@kernel
def mean_discounted_ratios(
    gains: Floats, ideal: Floats, query_ptr: Integers, discounts: Floats
) -> Floats:
    """(n_queries,) NDCG@k averaged over every k up to the length; 0 where `ideal` is all 0."""
    means = np.zeros(len(query_ptr) - 1)
    for q in range(len(means)):
        start, end = query_ptr[q], query_ptr[q + 1]
        if ideal[start] <= 0.0:
            continue
        dcg = best = total = 0.0
        for i in range(start, end):
            dcg += gains[i] * discounts[i - start]
            best += ideal[i] * discounts[i - start]
            total += dcg / best
        means[q] = total / (end - start)
    return means


@kernel
def precision_sums(relevant: Floats, group_end: Integers, query_ptr: Integers) -> Floats:
    """(n_queries,) expected sums of P@i over relevant ranks i, over permutations of each group.

    At the j-th place of a group of n documents, r of them relevant, after R relevant documents: the
    place is relevant with probability r / n, and then each of the j - 1 places before this place is
    relevant with probability (r - 1) / (n - 1).
    """
    sums = np.zeros(len(query_ptr) - 1)
    for q in range(len(sums)):
        start, end = query_ptr[q], query_ptr[q + 1]
        found = 0.0
        i = start
        while i < end:
            stop = group_end[i]
            n = stop - i
            r = sum_between(relevant, i, stop)
            if r > 0.0:
                slope = (r - 1.0) / (n - 1.0) if n > 1 else 0.0
                for j in range(n):
                    sums[q] += (r / n) * (found + 1.0 + j * slope) / (i - start + j + 1)
            found += r
            i = stop
    return sums


@kernel
def reciprocal_ranks(
    relevant: Floats, group_end: Integers, query_ptr: Integers, cutoff: int
) -> Floats:
    """(n_queries,) expected reciprocal rank of the first relevant document; 0 past `cutoff`.

    The first group that holds a relevant document decides. If r of its n documents are relevant,
    the first relevant document is at place j + 1 of the group with probability r / (n - j) times
    the probability that the first j places of the group are not relevant.
    """
    ranks = np.zeros(len(query_ptr) - 1)
    for q in range(len(ranks)):
        start, end = query_ptr[q], query_ptr[q + 1]
        i = start
        while i < end:
            stop = group_end[i]
            n = stop - i
            r = sum_between(relevant, i, stop)
            if r > 0.0:
                none_before = 1.0
                # Every group has a relevant document among its first n - r + 1 places.
                for j in range(min(n - int(r) + 1, cutoff - (i - start))):
                    here = r / (n - j)
                    ranks[q] += none_before * here / (i - start + j + 1)
                    none_before *= 1.0 - here
                break
            i = stop
    return ranks


@kernel
def pairwise_errors(grades: Floats, tie_end: Integers, query_ptr: Integers) -> Floats:
    """(n_queries,) share of the pairs of unequal grade that are misordered; NaN without pairs.

    A pair with equal scores counts one half. From the highest score down, each group of equal
    scores meets the lower grades seen so far in a Fenwick tree over the query's grades: once before
    the group is entered into the tree, and once after, when pairs within the group count too. The
    mean of the two counts is the group's number of errors. O(n log n) per query.
    """
    errors = np.full(len(query_ptr) - 1, np.nan)
    longest = 0
    for q in range(len(errors)):
        longest = max(longest, query_ptr[q + 1] - query_ptr[q])
    codes, tree = np.empty(longest, np.int64), np.empty(longest + 1, np.int64)
    for q in range(len(errors)):
        start, end = query_ptr[q], query_ptr[q + 1]
        n_grades, n_pairs = _grade_codes(grades[start:end], codes)
        if n_pairs == 0:
            continue
        tree[: n_grades + 1] = 0
        doubled = 0
        i = start
        while i < end:
            stop = tie_end[i]
            for j in range(i, stop):
                doubled += _count_below(tree, codes[j - start])
            for j in range(i, stop):
                _count_one(tree, codes[j - start], n_grades)
            for j in range(i, stop):
                doubled += _count_below(tree, codes[j - start])
            i = stop
        errors[q] = 0.5 * doubled / n_pairs
    return errors


@kernel
def _grade_codes(grades: Floats, codes: Integers) -> tuple[int, int]:
    """Fill `codes` (1 for the lowest grade); return the numbers of grades and of unequal pairs."""
    n = len(grades)
    ordered = descending(grades)
    code = 0
    n_equal = n_pairs = 0
    for i in range(n):
        d = ordered[n - 1 - i]
        if i == 0 or grades[d] != grades[ordered[n - i]]:
            code += 1
            n_equal = 0
        codes[d] = code
        n_pairs += i - n_equal
        n_equal += 1
    return code, n_pairs


@kernel
def _count_below(tree: Integers, code: int) -> int:
    """Number of the counted documents that have a lower code."""
    count = 0
    position = code - 1
    while position > 0:
        count += tree[position]
        position -= position & -position
    return count


@kernel
def _count_one(tree: Integers, code: int, n_grades: int) -> None:
    """Count one document in `tree`, in place."""
    while code <= n_grades:
        tree[code] += 1
        code += code & -code


@kernel
def continuation(stop: Floats, group_end: Integers, query_ptr: Integers, cutoff: int) -> Floats:
    """Probability that a user who reads down the list goes on past each document.

    The user ends at a document with the probability `stop` of that document. In a group of n
    documents the probability to go on past the first j is the mean, over all choices of j of the n
    documents, of the product of their 1 - stop. These means follow from those of n - 1 documents:
    the n-th document is among the j with probability j / n. Ranks beyond `cutoff` keep 1. O(n
    cutoff) for each group of n documents.
    """
    goes_on = np.ones(len(stop))
    longest = 0
    for q in range(len(query_ptr) - 1):
        longest = max(longest, query_ptr[q + 1] - query_ptr[q])
    means = np.empty(min(longest, cutoff) + 1)
    for q in range(len(query_ptr) - 1):
        start = query_ptr[q]
        end = min(query_ptr[q + 1], start + cutoff)
        before = 1.0
        i = start
        while i < end:
            within = min(group_end[i], end) - i
            means[0] = 1.0
            for n in range(1, group_end[i] - i + 1):
                goes = 1.0 - stop[i + n - 1]
                for j in range(min(n, within), 0, -1):
                    stays = means[j] * (n - j) if j < n else 0.0
                    means[j] = (stays + means[j - 1] * goes * j) / n
            for j in range(within):
                goes_on[i + j] = before * means[j + 1]
            before *= means[within]
            i += within
    return goes_on


@kernel
def binary_preferences(
    found: Floats,
    others: Floats,
    group_end: Integers,
    query_ptr: Integers,
    n_relevant: Floats,
    n_others: Floats,
) -> Floats:
    """(n_queries,) expected bpref over the permutations of ties; 0 without relevant documents.

    `found` and `others` are 1.0 for relevant and for judged irrelevant documents that were
    retrieved; `n_relevant` and `n_others` (n_queries,) count those that were not retrieved too.
    Each number from 0 to m of the m irrelevant documents of a group is equally likely to be before
    a relevant document of that group.
    """
    values = np.zeros(len(query_ptr) - 1)
    for q in range(len(values)):
        start, end = query_ptr[q], query_ptr[q + 1]
        if n_relevant[q] == 0.0:
            continue
        counted = min(n_relevant[q], n_others[q])
        before = 0
        i = start
        while i < end:
            stop = group_end[i]
            m = int(sum_between(others, i, stop))
            penalty = 0.0
            for j in range(m + 1):
                penalty += min(before + j, n_relevant[q]) / (m + 1)
            here = sum_between(found, i, stop)
            values[q] += here * (1.0 - (penalty / counted if counted > 0.0 else 0.0))
            before += m
            i = stop
        values[q] /= n_relevant[q]
    return values
