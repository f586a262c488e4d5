"""RankRLS without each query in turn, by 300-bit arithmetic: the centring, the sums, the solves."""

import itertools

import mpmath

BITS = 300


def exact_lqo_errors(X, y, query_ptr, regularizations, query_weights=None):
    """Leave-query-out error of RankRLS on all features, for each lambda."""
    with mpmath.workprec(BITS):
        queries = [
            _centred_query(X, y, *span, 1.0 if query_weights is None else query_weights[q])
            for q, span in enumerate(itertools.pairwise(query_ptr))
        ]
        grams = [features.T * features for features, _ in queries]
        products = [features.T * labels for features, labels in queries]
        return [_error(queries, grams, products, mpmath.mpf(value)) for value in regularizations]


def _centred_query(X, y, start, stop, weight):
    """Features and labels of a query less their means, times the root of its weight."""
    root = mpmath.sqrt(mpmath.mpf(float(weight)))
    columns = [[mpmath.mpf(float(value)) for value in column] for column in X[start:stop].T]
    labels = [mpmath.mpf(float(value)) for value in y[start:stop]]
    centred = []
    for column in [*columns, labels]:
        mean = mpmath.fsum(column) / len(column)
        centred.append([root * (value - mean) for value in column])
    return mpmath.matrix(centred[:-1]).T, mpmath.matrix(centred[-1])


def _error(queries, grams, products, regularization):
    total = mpmath.mpf(0)
    for held_out, (features, labels) in enumerate(queries):
        left = regularization * mpmath.eye(features.cols)
        right = mpmath.zeros(features.cols, 1)
        for q in range(len(queries)):
            if q != held_out:
                left += grams[q]
                right += products[q]
        residuals = labels - features * mpmath.lu_solve(left, right)
        total += mpmath.fsum(value * value for value in residuals)
    return float(total)
