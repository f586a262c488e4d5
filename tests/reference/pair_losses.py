"""Losses over pairs by listing the pairs."""

import math


def pairs_of(relevance, query_ptr):
    """(query, a, b) for all documents a, b of one query with relevance[a] > relevance[b]."""
    for q in range(len(query_ptr) - 1):
        rows = range(query_ptr[q], query_ptr[q + 1])
        for a in rows:
            for b in rows:
                if relevance[a] > relevance[b]:
                    yield q, a, b


def hinge(gap):
    return max(0.0, 1.0 - gap)


def squared_hinge(gap):
    return max(0.0, 1.0 - gap) ** 2


def logistic(gap):
    return max(-gap, 0.0) + math.log1p(math.exp(-abs(gap)))


def rounded_hinge(width):
    def loss(gap):
        x = 1.0 - gap
        if x <= 0:
            return 0.0
        return x * x / (2 * width) if x < width else x - width / 2

    return loss


def loss_sum(loss, scores, relevance, query_ptr, weights):
    """Weighted sum of a loss of the score gap over all pairs."""
    return sum(
        weights[q] * loss(scores[a] - scores[b]) for q, a, b in pairs_of(relevance, query_ptr)
    )


def objective(loss, X, relevance, query_ptr, weights, w, regularization):
    """Mean over pairs, weighted, plus lambda / 2 |w|^2."""
    scores = [sum(x * v for x, v in zip(row, w, strict=True)) for row in X]
    n_pairs = sum(weights[q] for q, _, _ in pairs_of(relevance, query_ptr))
    total = loss_sum(loss, scores, relevance, query_ptr, weights)
    return total / n_pairs + regularization / 2 * sum(v * v for v in w)
