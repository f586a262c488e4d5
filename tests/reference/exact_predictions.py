"""Held-out scores of RankRLS, and their mean average precision, as fractions."""

from fractions import Fraction
from itertools import chain, pairwise, permutations, product

import numpy as np


def exact_scores(X, y, query_ptr, subset, regularization):
    """Scores of the documents of each query under the model of all other queries."""
    queries = [
        _fractions(X[slice(*span)][:, subset], y[slice(*span)]) for span in pairwise(query_ptr)
    ]
    grams = [_gram(values) for values in queries]
    total, found = sum(grams), []
    for values, gram in zip(queries, grams, strict=True):
        weights = _solve(total - gram, Fraction(regularization))
        found.append((values[:, :-1] @ weights).tolist())
    return found


def _fractions(X, y):
    rows = np.column_stack((X, y)).tolist()
    return np.array([[Fraction(value) for value in row] for row in rows], dtype=object)


def _gram(values):
    """[[G, b], [b', y.y]] of the centred rows."""
    centred = values - values.sum(axis=0) / Fraction(len(values))
    return centred.T @ centred


def _solve(system, regularization):
    rows = system[:-1].copy()
    for k in range(len(rows)):
        rows[k, k] += regularization
    for k in range(len(rows)):
        rows[k] /= rows[k, k]
        for i in range(len(rows)):
            if i != k:
                rows[i] = rows[i] - rows[i, k] * rows[k]
    return rows[:, -1]


def exact_map(y, query_ptr, scores):
    """Mean average precision, each the mean over all orders of tied documents.

    Queries without a relevant document (grade 1 or above) do not count.
    """
    values = [
        _average_precision((y[slice(*span)] >= 1).tolist(), own)
        for span, own in zip(pairwise(query_ptr), scores, strict=True)
        if (y[slice(*span)] >= 1).any()
    ]
    return sum(values) / len(values)


def _average_precision(is_relevant, scores):
    groups = [
        [d for d, score in enumerate(scores) if score == value]
        for value in sorted(set(scores), reverse=True)
    ]
    orders = [list(chain(*parts)) for parts in product(*map(permutations, groups))]
    total = Fraction(0)
    for order in orders:
        ranks = [rank for rank, d in enumerate(order, start=1) if is_relevant[d]]
        total += sum(Fraction(k, rank) for k, rank in enumerate(ranks, start=1)) / len(ranks)
    return total / len(orders)
