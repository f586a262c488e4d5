"""Greedy RankRLS by its definition: a refit for every candidate and every query held out.

Ridge regression by dense least squares on centred data, far from the project's own form of it. A
query's weight multiplies its squared residuals everywhere, held out or not.
"""

from typing import NamedTuple

import numpy as np


class Selection(NamedTuple):
    """0-based features in order, and the leave-query-out error after each."""

    selected: list[int]
    errors: list[float]


def centred_queries(X, y, query_ptr, query_weights=None):
    """One (X_q, y_q, weight) per query, float64, each column less its mean in the query."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if query_weights is None:
        query_weights = np.ones(len(query_ptr) - 1)
    queries = []
    for q, weight in enumerate(query_weights):
        features = X[query_ptr[q] : query_ptr[q + 1]]
        labels = y[query_ptr[q] : query_ptr[q + 1]]
        queries.append((features - features.mean(axis=0), labels - labels.mean(), float(weight)))
    return queries


def ridge_weights(queries, subset, regularization):
    """Weights of ridge regression on some features, by least squares on augmented rows."""
    subset = list(subset)
    rows = [np.sqrt(weight) * features[:, subset] for features, _, weight in queries]
    targets = [np.sqrt(weight) * labels for _, labels, weight in queries]
    rows.append(np.sqrt(regularization) * np.eye(len(subset)))
    targets.append(np.zeros(len(subset)))
    q, r = np.linalg.qr(np.concatenate(rows))
    return np.linalg.solve(r, q.T @ np.concatenate(targets))


def held_out_error(queries, subset, regularization):
    """Leave-query-out error of one set of features: a refit for every query."""
    error = 0.0
    for q, (features, labels, weight) in enumerate(queries):
        residual = labels
        if len(subset):
            others = queries[:q] + queries[q + 1 :]
            residual = labels - features[:, list(subset)] @ ridge_weights(
                others, subset, regularization
            )
        error += weight * float(residual @ residual)
    return error


def naive_scores(queries, selected, regularization):
    """Candidate -> leave-query-out error of `selected` with it."""
    n_features = queries[0][0].shape[1]
    return {
        i: held_out_error(queries, [*selected, i], regularization)
        for i in range(n_features)
        if i not in selected
    }


def naive_selection(X, y, query_ptr, n_features, regularization, query_weights=None):
    """Greedy forward selection by refitting; ties to the lowest index."""
    queries = centred_queries(X, y, query_ptr, query_weights)
    result = Selection([], [])
    for _ in range(n_features):
        scores = naive_scores(queries, result.selected, regularization)
        best = min(scores, key=lambda i: (scores[i], i))
        result.selected.append(best)
        result.errors.append(scores[best])
    return result
