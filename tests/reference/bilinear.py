"""Preference learning of W by plain loops over a dense W, shrunk in full every T steps."""

import math
from fractions import Fraction


def train(
    W,
    queries,
    documents,
    tuples,
    *,
    C,
    constant=False,
    lam=0.0,
    period=100,
    support=None,
    t0=0,
    rounded=float,
):
    """Steps t0 + 1, t0 + 2, ... on tuples (q, better, worse) of row numbers.

    W (a list of lists) changes.

    After every `period` steps, and after the last, all of W is soft-thresholded by lam times the
    sum of the step lengths since. With a support (pairs of row and column) only that is updated.
    Every change of W is rounded, to whatever numbers W is stored in. Returns the sum of the hinge
    losses.
    """
    rates, losses = 0.0, 0.0
    for t, (q, better, worse) in enumerate(tuples, start=t0 + 1):
        query = [(i, v) for i, v in enumerate(queries[q]) if v != 0.0]
        difference = [b - w for b, w in zip(documents[better], documents[worse], strict=True)]
        d = [(j, v) for j, v in enumerate(difference) if v != 0.0]
        margin = 0.0
        for i, q_i in query:
            product = 0.0
            for j, d_j in d:
                product += W[i][j] * d_j
            margin += q_i * product
        eta = C if constant else C / math.sqrt(t)
        if margin < 1.0:
            losses += 1.0 - margin
            for i, q_i in query:
                for j, d_j in d:
                    if support is None or (i, j) in support:
                        W[i][j] = rounded(W[i][j] + (eta * q_i) * d_j)
        rates += eta
        if t % period == 0:
            soft_threshold(W, lam * rates, rounded)
            rates = 0.0
    if rates > 0.0:
        soft_threshold(W, lam * rates, rounded)
    return losses


def train_groups(
    W, queries, documents, tuples, *, C, lam, period, row_groups, column_groups, rounded=float
):
    """The same with the norm of each block of W shrunk: a block is where two groups meet."""
    rates = 0.0
    for t, (q, better, worse) in enumerate(tuples, start=1):
        d = [b - w for b, w in zip(documents[better], documents[worse], strict=True)]
        margin = sum(
            queries[q][i] * W[i][j] * d[j] for i in range(len(W)) for j in range(len(W[0]))
        )
        eta = C / math.sqrt(t)
        if margin < 1.0:
            for i in range(len(W)):
                for j in range(len(W[0])):
                    W[i][j] = rounded(W[i][j] + eta * queries[q][i] * d[j])
        rates += eta
        if t % period == 0:
            shrink_blocks(W, lam * rates, row_groups, column_groups, rounded)
            rates = 0.0
    if rates > 0.0:
        shrink_blocks(W, lam * rates, row_groups, column_groups, rounded)


def soft_threshold(W, threshold, rounded=float):
    """Bring every entry nearer to zero by the threshold, and those within it to zero."""
    threshold = rounded(threshold)
    for row in W:
        for j, v in enumerate(row):
            row[j] = rounded(max(v - threshold, 0.0) if v > 0.0 else min(v + threshold, 0.0))


def shrink_blocks(W, threshold, row_groups, column_groups, rounded=float):
    """Bring the Euclidean norm of every block nearer to zero by the threshold."""
    for a in set(row_groups):
        for b in set(column_groups):
            block = [
                (i, j)
                for i in range(len(W))
                for j in range(len(W[0]))
                if (row_groups[i], column_groups[j]) == (a, b)
            ]
            norm = math.sqrt(sum(W[i][j] ** 2 for i, j in block))
            scale = max(0.0, norm - threshold) / norm if norm > 0.0 else 1.0
            for i, j in block:
                W[i][j] = rounded(W[i][j] * scale)


def exact_scores(queries, documents, W):
    """Scores q'W d in rationals, and for each score the sum of the sizes of its terms."""
    sizes = [[[abs(value) for value in row] for row in rows] for rows in (queries, documents, W)]
    return _products(queries, documents, W), _products(*sizes)


def _products(queries, documents, W):
    columns = [[Fraction(w) for w in column] for column in zip(*W, strict=True)]
    exact = [[Fraction(value) for value in document] for document in documents]
    found = []
    for query in queries:
        asked = [_dot([Fraction(value) for value in query], column) for column in columns]
        found.append([_dot(asked, document) for document in exact])
    return found


def _dot(left, right):
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


def bounds_of_error(scores, sizes, tuples, accuracy):
    """Least and largest share of tuples in the wrong order, ties included.

    A tuple counts either way if its margin is at most a share `accuracy` of the sizes of its terms.
    """
    least = most = n = 0
    for q, better, worse in tuples:
        margin = scores[q][better] - scores[q][worse]
        doubt = Fraction(accuracy) * (sizes[q][better] + sizes[q][worse])
        least += margin <= 0 and not 0 < abs(margin) <= doubt
        most += margin <= doubt
        n += 1
    return least / n, most / n
