"""Search strategies by their definitions: a refit for every set of features and query held out."""

from itertools import pairwise

import numpy as np

from tests.reference.greedy import centred_queries, held_out_error, ridge_weights
from tests.reference.metrics import evaluate
from tests.reference.tuning import mean_and_error


class Refits:
    """Leave-query-out errors of sets of features, each computed once."""

    def __init__(self, X, y, query_ptr, weights, regularization):
        self.queries = centred_queries(X, y, query_ptr, weights)
        self.n_features = X.shape[1]
        self.regularization = regularization
        self._known = {}

    def error(self, subset):
        key = frozenset(subset)
        if key not in self._known:
            self._known[key] = held_out_error(self.queries, sorted(key), self.regularization)
        return self._known[key]


def total_cost(subset, costs, groups):
    """Every group is paid once, every feature without a group for itself."""
    paid, total = set(), 0.0
    for i in subset:
        if groups[i] is None:
            total += costs[i]
        elif groups[i] not in paid:
            paid.add(groups[i])
            total += costs[i]
    return total


def cost_rank(refits, selected, i, costs, groups):
    """What sorts candidates: the smallest comes first."""
    gain = refits.error(selected) - refits.error([*selected, i])
    added = total_cost([*selected, i], costs, groups) - total_cost(selected, costs, groups)
    if gain <= 0:
        return (2, -gain)
    if added <= 0:
        return (0, -gain)
    return (1, -gain / added)


def back_fitting_score(refits, selected, i):
    """Error with candidate i, whose coefficient alone is fitted: that of the others' residuals."""
    error, selected = 0.0, list(selected)
    for q, (features, labels, weight) in enumerate(refits.queries):
        others = refits.queries[:q] + refits.queries[q + 1 :]
        w = ridge_weights(others, selected, refits.regularization) if selected else np.zeros(0)
        along = sum(v * X[:, i] @ (y - X[:, selected] @ w) for X, y, v in others)
        norm = sum(v * X[:, i] @ X[:, i] for X, _, v in others)
        a = along / (norm + refits.regularization)
        residual = labels - features[:, selected] @ w - a * features[:, i]
        error += weight * float(residual @ residual)
    return error


def held_out_measure(problem, subset, regularization, measure, convention):
    """Mean of a measure over queries that are ranked by the model of all others."""
    X, y, query_ptr, weights = problem
    queries = centred_queries(X, y, query_ptr, weights)
    values = []
    for q, (first, last) in enumerate(pairwise(query_ptr)):
        w = ridge_weights(queries[:q] + queries[q + 1 :], subset, regularization)
        scores = [
            sum(float(a) * float(X[d, f]) for f, a in zip(subset, w, strict=True))
            for d in range(first, last)
        ]
        values.append(evaluate(measure, y[first:last].tolist(), scores, convention))
    return mean_and_error(values, weights)[0]
