"""RankRLS as the sum over document pairs that it is defined by, minimised by normal equations."""

from itertools import combinations

import numpy as np


def pairs_of(X, y, query_ptr, query_weights=None):
    """(x_i - x_j, y_i - y_j, weight / documents) for every unordered pair within a query."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    for q in range(len(query_ptr) - 1):
        documents = range(query_ptr[q], query_ptr[q + 1])
        weight = 1.0 if query_weights is None else float(query_weights[q])
        for i, j in combinations(documents, 2):
            yield X[i] - X[j], y[i] - y[j], weight / len(documents)


def pairwise_ridge(X, y, query_ptr, regularization, query_weights=None):
    """Minimise `sum_pairs c ((y_i - y_j) - (x_i - x_j) w)^2 + lambda |w|^2`.

    Returns the weights (n_features,) and the minimum.
    """
    n = np.shape(X)[1]
    left, right = regularization * np.eye(n), np.zeros(n)
    for dx, dy, weight in pairs_of(X, y, query_ptr, query_weights):
        left += weight * np.outer(dx, dx)
        right += weight * dy * dx
    w = np.linalg.solve(left, right)
    objective = regularization * float(w @ w)
    for dx, dy, weight in pairs_of(X, y, query_ptr, query_weights):
        objective += weight * float(dy - dx @ w) ** 2
    return w, objective
