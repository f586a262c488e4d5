"""Definitions 1 to 4 of Riezler and De Bona (2009) by plain loops, over lists and permutations."""

import math
from itertools import permutations


def ranks_of(grades, margins, n_levels):
    """(y, m): the rank of every document of a list, and what is divided by it."""
    if margins == "levels":
        return [n_levels - g for g in grades], n_levels
    return [1 + sum(other > g for other in grades) for g in grades], len(grades)


def margin_pairs(grades, margins, n_levels):
    """(a, b, margin) of all pairs with a at the better rank."""
    y, m = ranks_of(grades, margins, n_levels)
    for a in range(len(y)):
        for b in range(len(y)):
            if y[a] < y[b]:
                yield a, b, abs(m / y[a] - m / y[b])


def pairwise_losses(scores, grades, margins, n_levels):
    """0-1 loss, margin-weighted 0-1 loss and hinge of a list, sums over its pairs."""
    zero_one = weighted = hinge = 0.0
    for a, b, margin in margin_pairs(grades, margins, n_levels):
        gap = scores[a] - scores[b]
        zero_one += gap < 0
        weighted += margin * (gap < 0)
        hinge += max(0.0, margin - gap)
    return zero_one, weighted, hinge


def ap_loss(gains, places):
    n_relevant = sum(g > 0 for g in gains)
    total = 0.0
    for i, g in enumerate(gains):
        if g > 0:
            above = sum(other > 0 and places[j] <= places[i] for j, other in enumerate(gains))
            total += above / places[i]
    return 1 - total / n_relevant


def ndcg_loss(gains, places):
    gained = sum(g / math.log2(1 + p) for g, p in zip(gains, places, strict=True))
    best = sorted(gains, reverse=True)
    return 1 - gained / sum(g / math.log2(1 + p) for p, g in enumerate(best, start=1))


LOSSES = {"ap": ap_loss, "ndcg": ndcg_loss}


def sign(x):
    return int(x > 0) - int(x < 0)


def joint_score(scores, places):
    """<w, phi(x, pi)> with phi as the paper writes it, over pairs."""
    n = len(scores)
    total = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            total += (scores[i] - scores[j]) * sign(1 / places[i] - 1 / places[j])
    return 2 / (n * (n - 1)) * total


def true_places(gains, places):
    """The true ranking that orders equally good documents as `places` does."""
    order = sorted(range(len(gains)), key=lambda i: (-gains[i], places[i]))
    return [order.index(i) + 1 for i in range(len(gains))]


def hinge(measure, scores, gains, places):
    """L(y, pi) - <w, phi(x, y) - phi(x, pi)>, not cut at 0."""
    truth = true_places(gains, places)
    loss = LOSSES[measure](gains, places)
    return loss - joint_score(scores, truth) + joint_score(scores, places)


def rankings(n):
    """All places of n documents."""
    return permutations(range(1, n + 1))


def argmax_hinge(measure, scores, gains):
    """The largest hinge of all rankings."""
    if min(gains) == max(gains):
        return 0.0
    return max(hinge(measure, scores, gains, places) for places in rankings(len(gains)))


def sum_hinge(measure, scores, gains):
    """Definition 3: over all rankings."""
    if min(gains) == max(gains):
        return 0.0
    return sum(max(0.0, hinge(measure, scores, gains, p)) for p in rankings(len(gains)))


def class_sum_hinge(measure, scores, gains):
    """Definition 4: over the classes of rankings that have the same gains at the same places."""
    if min(gains) == max(gains):
        return 0.0
    largest = {}
    for places in rankings(len(gains)):
        pattern = tuple(g for _, g in sorted(zip(places, gains, strict=True)))
        value = max(0.0, hinge(measure, scores, gains, places))
        largest[pattern] = max(largest.get(pattern, 0.0), value)
    return sum(largest.values())
