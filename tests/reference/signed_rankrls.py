"""RankRLS with weights that may not be negative, by all sets of weights at 0, in 300 bits."""

from itertools import chain, combinations

import mpmath

from tests.reference.rankrls import pairs_of

BITS = 300


def signed_ridge(X, y, query_ptr, regularization, restricted, query_weights=None):
    """The weights that minimise RankRLS's objective with those of `restricted` at least 0.

    Of each set of weights at 0, the others minimise the objective; one of these is the minimum
    under the constraints.
    """
    n = X.shape[1]
    with mpmath.workprec(BITS):
        gram, right = mpmath.mpf(regularization) * mpmath.eye(n), mpmath.zeros(n, 1)
        for q in range(len(query_ptr) - 1):
            rows = range(query_ptr[q], query_ptr[q + 1])
            weight = mpmath.mpf(1.0 if query_weights is None else float(query_weights[q]))
            columns = [[mpmath.mpf(float(X[d, j])) for d in rows] for j in range(n)]
            labels = [mpmath.mpf(float(y[d])) for d in rows]
            for values in (*columns, labels):
                mean = mpmath.fsum(values) / len(values)
                values[:] = [value - mean for value in values]
            for i in range(n):
                right[i] += weight * mpmath.fdot(columns[i], labels)
                for j in range(n):
                    gram[i, j] += weight * mpmath.fdot(columns[i], columns[j])
        best, least = None, mpmath.inf
        sets = chain.from_iterable(combinations(restricted, k) for k in range(len(restricted) + 1))
        for at_zero in sets:
            free = [j for j in range(n) if j not in at_zero]
            weights = mpmath.zeros(n, 1)
            if free:
                own = mpmath.matrix([[gram[i, j] for j in free] for i in free])
                found = mpmath.lu_solve(own, mpmath.matrix([right[j] for j in free]))
                for place, j in enumerate(free):
                    weights[j] = found[place]
            value = (weights.T * gram * weights)[0] - 2 * (right.T * weights)[0]
            if all(weights[j] >= 0 for j in restricted) and value < least:
                best, least = weights, value
        return [float(weight) for weight in best]


def stacked_pairs(X, y, query_ptr, regularization):
    """The rows (n_pairs + n_features, n_features) and labels whose squared error is the objective.

    A row is the difference of two documents over the root of the query's documents.
    """
    n = X.shape[1]
    rows, labels = [], []
    for dx, dy, weight in pairs_of(X, y, query_ptr):
        rows.append([weight**0.5 * value for value in dx])
        labels.append(weight**0.5 * dy)
    for j in range(n):
        rows.append([regularization**0.5 if i == j else 0.0 for i in range(n)])
        labels.append(0.0)
    return rows, labels
