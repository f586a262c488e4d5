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


def hinge_by_pairs(X, y, query_ptr, query_weights, regularization, margin_of, n_sweeps=20_000):
    """Least ``mean max(0, margin - <w, p>) + lambda / 2 |w|^2`` and a lower bound of it.

    Steps on one dual variable after the other (Hsieh and others, 2008): with a from 0 to the share
    of the pair, ``w = sum a p / lambda``, and the bound is ``sum a margin - lambda / 2 |w|^2``.
    """
    listed = list(pairs_of(y, query_ptr))
    rows = [[float(v) - float(u) for v, u in zip(X[a], X[b], strict=True)] for _, a, b in listed]
    shares = [float(query_weights[q]) for q, _, _ in listed]
    shares = [share / sum(shares) for share in shares]
    margins = [margin_of(y[a], y[b]) for _, a, b in listed]
    norms = [sum(v * v for v in row) for row in rows]
    duals, w = [0.0] * len(rows), [0.0] * len(rows[0])
    for _ in range(n_sweeps):
        largest = 0.0
        for i, row in enumerate(rows):
            short = margins[i] - sum(v * c for v, c in zip(row, w, strict=True))
            if norms[i] == 0.0:
                new = shares[i]
            else:
                new = min(max(duals[i] + regularization * short / norms[i], 0.0), shares[i])
            change, duals[i] = new - duals[i], new
            largest = max(largest, abs(change) / shares[i])
            w = [c + change / regularization * v for v, c in zip(row, w, strict=True)]
        if largest < 1e-12:
            break
    penalty = regularization / 2 * sum(c * c for c in w)
    losses = (
        share * max(0.0, margin - sum(v * c for v, c in zip(row, w, strict=True)))
        for share, margin, row in zip(shares, margins, rows, strict=True)
    )
    bound = sum(a * margin for a, margin in zip(duals, margins, strict=True)) - penalty
    return sum(losses) + penalty, bound
