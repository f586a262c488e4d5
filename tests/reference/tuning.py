"""Grid search as it is defined: a refit for every lambda and size, a loop over every query."""

import math
from itertools import pairwise

from tests.reference.greedy import centred_queries, naive_selection, ridge_weights
from tests.reference.metrics import evaluate


def query_values(data, selected, weights, measure, convention):
    """Value of the measure for each query of (X, y, query_ptr, query weights); None if excluded."""
    X, y, query_ptr, _ = data
    values = []
    for start, end in pairwise(query_ptr):
        scores = [
            sum(float(w) * float(X[d, f]) for f, w in zip(selected, weights, strict=True))
            for d in range(start, end)
        ]
        values.append(evaluate(measure, y[start:end].tolist(), scores, convention))
    return values


def mean_and_error(values, weights):
    """Weighted mean of the values that are not None and its standard error (NaN for one value)."""
    counted = [(v, w) for v, w in zip(values, weights, strict=True) if v is not None and w > 0]
    total = sum(w for _, w in counted)
    mean = sum(w * v for v, w in counted) / total
    n = len(counted)
    if n < 2:
        return mean, math.nan
    spread = sum((w * (v - mean)) ** 2 for v, w in counted)
    return mean, math.sqrt(spread * n / (n - 1)) / total


def greedy_values(train, validation, regularization, size, measure, convention):
    """Values of the held-out queries for greedy models of 1 to `size` features."""
    X, y, query_ptr, query_weights = train
    queries = centred_queries(X, y, query_ptr, query_weights)
    selected = naive_selection(X, y, query_ptr, size, regularization, query_weights).selected
    return [
        query_values(
            validation,
            selected[:k],
            ridge_weights(queries, selected[:k], regularization),
            measure,
            convention,
        )
        for k in range(1, size + 1)
    ]
