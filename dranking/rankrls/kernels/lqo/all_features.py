"""Leave-query-out residuals of RankRLS on all features, for many lambdas at once.

Let A = V D V' be the Gram matrix over all queries, Z = X_q V the centred rows of a query, and
beta = V'b. In the basis V, the weights for any lambda are omega = (D + lambda)^-1 beta. The weights
of the model fitted without the query solve (D + lambda - Z'Z) omega_q = beta - Z'y_q, and by the
Woodbury identity the residual of the held-out query is

    p_q = (I - Z (D + lambda)^-1 Z')^-1 (y_q - Z omega)

Of these two systems, the functions below solve the smaller one.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAX_VALUES = 2**22
"""Largest number of values in the systems that are solved together."""


def lqo_residuals(
    rows: Array, labels: Array, values: Array, products: Array, regularizations: Array
) -> Array:
    """Residuals p_q of a held-out query, for every lambda.

    Parameters
    ----------
    rows
        (l, n) Z: centred features in the basis V, times the square root of the query's weight.
    labels
        (l,) y_q: centred relevance, times the same square root.
    values
        (n,) D, at least 0.
    products
        (n,) beta.
    regularizations
        (n_lambdas,) above 0.

    Returns
    -------
    (n_lambdas, l) float64.
    """
    size = min(rows.shape)
    step = max(1, MAX_VALUES // max(1, size * size))
    solve = _by_documents if len(rows) <= rows.shape[1] else _by_features
    return np.concatenate(
        [
            solve(rows, labels, values + regularizations[i : i + step, None], products)
            for i in range(0, len(regularizations), step)
        ]
    )


def _by_documents(rows: Array, labels: Array, shifted: Array, products: Array) -> Array:
    """Solve (l, l) systems; `shifted` (n_lambdas, n) is D + lambda."""
    system = np.eye(len(rows)) - (rows / shifted[:, None, :]) @ rows.T
    return _solved(system, labels - (products / shifted) @ rows.T)


def _by_features(rows: Array, labels: Array, shifted: Array, products: Array) -> Array:
    """Solve (n, n) systems; `shifted` (n_lambdas, n) is D + lambda."""
    system = shifted[:, :, None] * np.eye(rows.shape[1]) - rows.T @ rows
    right = np.broadcast_to(products - rows.T @ labels, shifted.shape)
    residuals: Array = labels - _solved(system, right) @ rows.T
    return residuals


def _solved(systems: Array, right: Array) -> Array:
    """(n, m) solutions of n systems (n, m, m) with the right-hand sides (n, m)."""
    return solved_or_nearest(systems, right[:, :, None])[:, :, 0]


def solved_or_nearest(systems: Array, right: Array) -> Array:
    """Solutions of systems; of systems that rounding made singular, the least-squares solutions."""
    try:
        found = np.linalg.solve(systems, right)
    except np.linalg.LinAlgError:
        found = np.linalg.pinv(systems, hermitian=True) @ right
    return found.astype(np.float64, copy=False)
