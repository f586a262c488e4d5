"""Search strategies by their definitions: a refit for every set of features and query held out."""

from tests.reference.greedy import centred_queries, held_out_error


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
