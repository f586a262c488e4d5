"""Rankings that violate a listwise hinge most, and sums over all rankings of short lists.

A ranking of n documents is the array of its *places*, (n,) ranks from 1. With y the true ranking
and pi any ranking, the joint map ``phi(x, pi) = 2/(n(n-1)) sum_i (n + 1 - 2 pi_i) phi_i`` makes the
hinge

    L(y, pi) - <w, phi(x, y) - phi(x, pi)> = L(y, pi) + 4/(n(n-1)) sum_i (y_i - pi_i) s_i

for scores s. Equally good documents may stand in y in any order; here they stand in the order of
pi. The sum then runs over the pairs of documents that pi has in the wrong order, each with its
difference of scores (Riezler and De Bona, Simple risk bounds for position-sensitive max-margin
ranking algorithms, 2009, definitions 3 and 4).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part
from dranking.kernels.sorting import descending
from dranking.max_margin.kernels.assignment import Costs, assign

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

AP, NDCG = range(2)


class Lists(NamedTuple):
    """The lists of a block, and the measure of their rankings.

    Attributes
    ----------
    measure
        `AP`, for which documents with a gain above 0 are relevant; or `NDCG`.
    gains
        (n_documents,) at least 0; documents of one list with equal gains are equally good.
    discounts
        (n_longest,) discounts of ranks 1, 2, ...
    query_ptr
        (n_queries + 1,) row offsets.
    weights
        (n_queries,) query weights.
    """

    measure: int
    gains: Array
    discounts: Array
    query_ptr: Ints
    weights: Array


@part
def pair_factor(n: int) -> float:
    """Weight 4/(n(n-1)) of a pair in the wrong order in a list of n >= 2 documents."""
    return 4.0 / (n * (n - 1.0))


@part
def has_preference(gains: Array) -> bool:
    """Whether some document of a list is better than another."""
    for i in range(1, len(gains)):
        if gains[i] != gains[0]:
            return True
    return False


@part
def documents_by_place(places: Ints) -> Ints:
    """(n,) index of the document at each rank."""
    n = len(places)
    order = np.empty(n, dtype=np.int64)
    for i in range(n):
        order[places[i] - 1] = i
    return order


@kernel
def listwise_loss(measure: int, gains: Array, discounts: Array, places: Ints) -> float:
    """1 - AP or 1 - NDCG of a ranking of a list in which some gain is above 0."""
    n = len(gains)
    order = documents_by_place(places)
    if measure == AP:
        found = precision = 0.0
        for k in range(n):
            if gains[order[k]] > 0.0:
                found += 1.0
                precision += found / (k + 1.0)
        return 1.0 - precision / found
    gained = ideal = 0.0
    best = descending(gains)
    for k in range(n):
        gained += gains[order[k]] * discounts[k]
        ideal += gains[best[k]] * discounts[k]
    return 1.0 - gained / ideal


@part
def true_places(gains: Array, places: Ints, out: Ints) -> None:
    """Write the true ranking into `out` (n,), equally good documents in the order of `places`.

    O(n log n).
    """
    order, by_place = documents_by_place(places), np.empty(len(gains))
    for k in range(len(gains)):
        by_place[k] = gains[order[k]]
    best = descending(by_place)
    for k in range(len(gains)):
        out[order[best[k]]] = k + 1


@kernel
def most_violated_by_ap(scores: Array, relevant: Array, places: Ints) -> None:
    """Overwrite `places` with the ranking that maximises 1 - AP plus the score of the joint map.

    Relevant and other documents each stand by descending score. Moving the j-th other document
    above the i-th relevant document costs ``i/(i+j-1) - i/(i+j)`` of the sum of precisions, and the
    difference of the two scores; neither depends on the places of the remaining documents. So each
    other document goes to its best place, and the best place of a document is never above the best
    place of a document with a higher score. O(n log n + relevant x others).

    Parameters
    ----------
    scores
        (n,) scores.
    relevant
        (n,) above 0 for relevant documents; some documents are relevant and some are not.
    places
        (n,) overwritten with ranks from 1.

    References
    ----------
    Yue, Finley, Radlinski, Joachims: A support vector method for optimizing average precision,
    2007, algorithm 2.
    """
    n = len(scores)
    good, other = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    n_good = n_other = 0
    for d in descending(scores):
        if relevant[d] > 0.0:
            good[n_good] = d
            n_good += 1
        else:
            other[n_other] = d
            n_other += 1
    factor = pair_factor(n)
    n_above = np.zeros(n_good + 1, dtype=np.int64)  # others right above relevant document i
    for j in range(1, n_other + 1):
        score = scores[other[j - 1]]
        gain = best_gain = 0.0
        best = n_good  # below all relevant documents: the right place
        for i in range(n_good, 0, -1):
            lost = i / ((i + j - 1.0) * (i + j)) / n_good
            gain += lost - factor * (scores[good[i - 1]] - score)
            if gain > best_gain:
                best_gain, best = gain, i - 1
        places[other[j - 1]] = j + best
        n_above[best] += 1
    passed = 0
    for i in range(n_good):
        passed += n_above[i]
        places[good[i]] = i + 1 + passed


@kernel
def most_violated_by_ndcg(scores: Array, gains: Array, discounts: Array, places: Ints) -> None:
    """Overwrite `places` with the ranking that maximises 1 - NDCG plus the score of the joint map.

    Document i at rank k adds ``2(n + 1 - 2k)/(n(n-1)) s_i - g_i d(k)/IDCG``. O(m n^2) for m
    documents whose gain is not the commonest gain of the list.

    Parameters
    ----------
    scores, gains
        (n,) scores and gains; some gain is above 0.
    discounts
        (n,) discounts of ranks 1 to n.
    places
        (n,) overwritten with ranks from 1.

    References
    ----------
    Chapelle, Le, Smola: Large margin optimization of ranking measures, 2007.
    """
    n = len(scores)
    best, ideal = descending(gains), 0.0
    slopes, shares = np.empty(n), np.empty(n)
    for k in range(n):
        ideal += gains[best[k]] * discounts[k]
        slopes[k] = 0.5 * pair_factor(n) * (n - 1 - 2 * k)
    for i in range(n):
        shares[i] = np.divide(gains[i], ideal)
    columns = assign(Costs(scores, shares, slopes, discounts))
    for i in range(n):
        places[i] = columns[i] + 1


@part
def hinge_of_places(
    measure: int, scores: Array, gains: Array, discounts: Array, places: Ints, slopes: Array
) -> float:
    """Hinge of a ranking before the cut at 0; writes its derivatives at the scores to `slopes`."""
    n = len(scores)
    truth = np.empty(n, dtype=np.int64)
    true_places(gains, places, truth)
    value = listwise_loss(measure, gains, discounts, places)
    factor = pair_factor(n)
    for i in range(n):
        slopes[i] = factor * (truth[i] - places[i])
        value += slopes[i] * scores[i]
    return value


@kernel
def largest_hinges(lists: Lists, scores: Array, slopes: Array) -> float:
    """Weighted sum over the lists of the largest hinge of any ranking.

    Parameters
    ----------
    lists
        The lists of a block; a list without preference adds nothing.
    scores
        (n_documents,) scores.
    slopes
        (n_documents,) overwritten with a subgradient with respect to the scores.
    """
    value = 0.0
    query_ptr = lists.query_ptr
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        s, gains, of_query = scores[start:end], lists.gains[start:end], slopes[start:end]
        of_query[:] = 0.0
        if has_preference(gains):
            discounts, places = lists.discounts[: end - start], np.empty(end - start, np.int64)
            if lists.measure == AP:
                most_violated_by_ap(s, gains, places)
            else:
                most_violated_by_ndcg(s, gains, discounts, places)
            hinge = hinge_of_places(lists.measure, s, gains, discounts, places, of_query)
            value += lists.weights[q] * hinge
            for i in range(end - start):
                of_query[i] *= lists.weights[q]
    return value


@kernel
def next_permutation(symbols: Ints) -> bool:
    """Turn `symbols` into its next distinct permutation in lexical order; False after the last."""
    n = len(symbols)
    i = n - 2
    while i >= 0 and symbols[i] >= symbols[i + 1]:
        i -= 1
    if i < 0:
        return False
    j = n - 1
    while symbols[j] <= symbols[i]:
        j -= 1
    symbols[i], symbols[j] = symbols[j], symbols[i]
    i, j = i + 1, n - 1
    while i < j:  # reverse what follows
        symbols[i], symbols[j] = symbols[j], symbols[i]
        i, j = i + 1, j - 1
    return True


@kernel
def sum_of_hinges(lists: Lists, by_class: bool, scores: Array, slopes: Array) -> float:
    """Weighted sum, over the lists and over all rankings of each list, of the hinges.

    Parameters
    ----------
    lists
        Short lists: a list of n documents has n! rankings.
    by_class
        Whether rankings that only exchange equally good documents count once, as the ranking with
        the largest hinge among them: its equally good documents stand by descending score.
    scores, slopes
        As in `largest_hinges`.
    """
    value = 0.0
    query_ptr = lists.query_ptr
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        s, gains = scores[start:end], lists.gains[start:end]
        slopes[start:end] = 0.0
        if has_preference(gains):
            of_query = slopes[start:end]
            hinge = sum_over_rankings(lists.measure, by_class, s, gains, lists.discounts, of_query)
            value += lists.weights[q] * hinge
            for i in range(end - start):
                of_query[i] *= lists.weights[q]
    return value


@kernel
def sum_over_rankings(
    measure: int, by_class: bool, scores: Array, gains: Array, discounts: Array, slopes: Array
) -> float:
    """Sum of the hinges of all rankings of a list; adds a subgradient to `slopes` (n,)."""
    n = len(scores)
    by_score, losses = descending(scores), np.empty(n)
    for k in range(n):
        losses[k] = -gains[by_score[k]]
    worst_first = descending(losses)
    by_class_and_score = np.empty(n, dtype=np.int64)
    # The symbol of a document: first position, in that order, of the documents of its class.
    symbols = np.empty(n, dtype=np.int64)
    for k in range(n):
        by_class_and_score[k], symbols[k] = by_score[worst_first[k]], k
        if by_class and k > 0:
            if gains[by_class_and_score[k]] == gains[by_class_and_score[k - 1]]:
                symbols[k] = symbols[k - 1]
    places = np.empty(n, dtype=np.int64)
    taken = np.empty(n, dtype=np.int64)
    own = np.empty(n)
    total = 0.0
    more = True
    while more:
        taken[:] = 0
        for k in range(n):
            places[by_class_and_score[symbols[k] + taken[symbols[k]]]] = k + 1
            taken[symbols[k]] += 1
        hinge = hinge_of_places(measure, scores, gains, discounts, places, own)
        if hinge > 0.0:
            total += hinge
            for i in range(n):
                slopes[i] += own[i]
        more = next_permutation(symbols)
    return total
