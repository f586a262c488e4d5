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


def floating_search(refits, n_features, start=()):
    """Sequential floating forward selection by its definition; the sets of all rounds."""
    kept, best = [list(start[: t + 1]) for t in range(len(start))], {}
    for subset in kept:
        best[len(subset)] = min(refits.error(subset), best.get(len(subset), np.inf))
    selected = list(start)
    while len(selected) < n_features:
        left = [i for i in range(refits.n_features) if i not in selected]
        added = min(left, key=lambda i: refits.error([*selected, i]))
        selected = [*selected, added]
        kept.append(selected)
        best[len(selected)] = min(refits.error(selected), best.get(len(selected), np.inf))
        while True:
            droppable = [i for i in selected if i not in (*start, added)]
            without = {i: refits.error(set(selected) - {i}) for i in droppable}
            if not without:
                break
            worst = min(without, key=without.__getitem__)
            size = len(selected) - 1
            if not without[worst] < best.get(size, np.inf) - 1e-10 * refits.error([]):
                break
            selected = [i for i in selected if i != worst]
            kept.append(selected)
            best[size] = without[worst]
    return kept


def backward_search(refits, n_features, allowed, fixed=()):
    """Backward elimination by its definition; the sets of all rounds."""
    kept = [list(allowed)]
    while len(kept[-1]) > n_features:
        droppable = [i for i in kept[-1] if i not in fixed]
        worst = min(droppable, key=lambda i: refits.error(set(kept[-1]) - {i}))
        kept.append([i for i in kept[-1] if i != worst])
    return kept
