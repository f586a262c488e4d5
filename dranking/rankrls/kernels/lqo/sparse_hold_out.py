"""Holding out one query of CSR features: the selected features are fitted to all other queries.

The arrays of the query are those of `dranking.rankrls.kernels.gram.sparse_query.HeldOut`.
"""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.rankrls.kernels.gram.sparse_query import Fit, HeldOut
from dranking.rankrls.kernels.lqo.pivots import append_to_factors, solve_lower, solve_upper

Array = NDArray[np.float64]


@kernel
def add_multiple(scale: float, x: Array, out: Array) -> None:
    """`out += scale x`."""
    for i in range(len(out)):
        out[i] += scale * x[i]


@kernel
def hold_out(p: int, fit: Fit, query: HeldOut) -> None:
    """Fill `gram` and `factor`, and write c_q[S] into `weights`.

    The sums equal the Gram rows bit for bit. So if a feature occurs in this query alone, its sums
    over the other queries are exactly zero.
    """
    gram, members, weights, products = query.gram, query.members, query.weights, query.products
    t = len(fit.selected)
    for k in range(t):
        weights[k, 0] = fit.products[k]
    for b in range(p):
        o = query.local[members[b]]
        for a in range(b + 1):
            gram[a, b] = products[a, o]
            gram[b, a] = products[a, o]
        weights[members[b], 0] -= products[p, o]
    b = 0
    column, corner = np.empty((t, 1)), np.empty(1)
    for k in range(t):
        for j in range(k):
            column[j, 0] = fit.gram[j, k]
        corner[0] = fit.gram[k, k]
        if b < p and members[b] == k:
            for a in range(b):
                column[members[a], 0] -= gram[a, b]
            corner[0] -= gram[b, b]
            b += 1
        corner[0] += fit.regularization
        append_to_factors(query.factor, column, corner, k, fit.regularization)


@kernel
def fit_others(size: int, p: int, weight: float, query: HeldOut) -> float:
    """Turn c_q[S] into weights and y_q into p_q; fill inverse and pull; return e[q] = p_q . p_q.

    `size` is the number of documents of the query, `weight` the weight of the query.
    """
    t = len(query.weights)
    solve_lower(query.factor, query.weights, t)
    solve_upper(query.factor, query.weights, t)
    unit = np.empty(query.weights.shape)
    for b in range(p):
        unit[:] = 0.0
        unit[query.members[b]] = 1.0
        solve_lower(query.factor, unit, t)
        solve_upper(query.factor, unit, t)
        for a in range(p):
            query.inverse[a, b] = unit[query.members[a], 0]
    left, error, rest = query.columns[p][:size], 0.0, 0.0
    for a in range(p):
        add_multiple(-query.weights[query.members[a], 0], query.columns[a][:size], left)
    for d in range(size):
        error += left[d] * left[d]
        rest += left[d]
    # The mean of labels far from zero is rounded, as in `centre_labels`.
    error = max(error - rest * rest / size, 0.0)
    for a in range(p):
        column, pull = query.columns[a], 0.0
        for d in range(size):
            pull += column[d] * left[d]
        query.pull[a] = weight * pull
    return weight * error
