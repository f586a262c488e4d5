"""The peer of the greedy benchmarks: the paper's Algorithm 1 with leave-query-out, in NumPy.

Pahikkala, Airola, Naula and Salakoski, Greedy RankRLS: a Linear Time Algorithm for Learning Sparse
Ranking Models, 2010. `algorithm_1` is the plain form. `algorithm_1_blocked` computes the same
selection in tiles that stay in the processor's cache, and is the peer that the benchmarks quote.
The weight w of a query multiplies the squared residuals of the query everywhere, so the centred
rows of the query are multiplied by the square root of w. This file imports nothing from
`dranking`, so tests use both functions as oracles.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np


class Selection(NamedTuple):
    """Selected features (0-based, in order), and the leave-query-out error after each of them."""

    selected: list[int]
    errors: list[float]


def centred_columns(X, y, query_ptr, query_weights=None):
    """Centred, weighted features (n_features, n_documents) and labels, both float64 copies."""
    sizes = np.diff(query_ptr)
    columns = np.array(X.T, dtype=np.float64, order="C")
    labels = np.array(y, dtype=np.float64)
    means = np.add.reduceat(columns, query_ptr[:-1], axis=1) / sizes
    columns -= np.repeat(means, sizes, axis=1)
    labels -= np.repeat(np.add.reduceat(labels, query_ptr[:-1]) / sizes, sizes)
    if query_weights is not None:
        root = np.repeat(np.sqrt(query_weights), sizes)
        columns *= root
        labels *= root
    return columns, labels


def algorithm_1(X, y, query_ptr, n_features, regularization, query_weights=None):
    """The paper's Algorithm 1 with leave-query-out: O(documents x features) a round.

    With G = (X_S X_S' + lambda I)^-1 it keeps a = G y, C = G X, and per query q, from the diagonal
    block G_q of G, p_q = G_q^-1 a_q (the held-out residual) and U_q = G_q^-1 C_q. Adding feature i
    changes G by the rank-one term -gamma c_i c_i', gamma = 1 / (1 + x_i' c_i), and each G_q^-1 by
    Sherman-Morrison, so that the new held-out residual is p_q + eta u_qi with
    eta = gamma (c_qi' p_q - x_i' a) / (1 - gamma c_qi' u_qi). Arrays hold a feature a row.
    """
    X, y = centred_columns(X, y, query_ptr, query_weights)
    starts, sizes = query_ptr[:-1], np.diff(query_ptr)
    a, p = y / regularization, y.copy()
    C, U = X / regularization, X.copy()
    x_c, x_a = np.einsum("id,id->i", X, C), X @ a
    result = Selection([], [])
    for _ in range(n_features):
        gamma = 1.0 / (1.0 + x_c)[:, None]
        eta = gamma * (np.add.reduceat(C * p, starts, axis=1) - x_a[:, None])
        eta /= 1.0 - gamma * np.add.reduceat(C * U, starts, axis=1)
        errors = p @ p + (eta * 2.0 * np.add.reduceat(U * p, starts, axis=1)).sum(axis=1)
        errors += (eta * eta * np.add.reduceat(U * U, starts, axis=1)).sum(axis=1)
        errors[result.selected] = np.inf
        f = int(np.argmin(errors))
        result.selected.append(f)
        result.errors.append(float(errors[f]))

        gamma_f, c_f, u_f = gamma[f, 0], C[f].copy(), U[f].copy()
        x_cf = X @ c_f
        c_u = np.add.reduceat(c_f * u_f, starts)
        kappa = gamma_f / (1.0 - gamma_f * c_u)
        change = kappa * (np.add.reduceat(U * c_f, starts, axis=1) - gamma_f * np.outer(x_cf, c_u))
        U += np.repeat(change - gamma_f * x_cf[:, None], sizes, axis=1) * u_f
        C -= np.outer(gamma_f * x_cf, c_f)
        p += np.repeat(eta[f], sizes) * u_f
        a -= gamma_f * x_a[f] * c_f
        x_c -= gamma_f * x_cf**2
        x_a -= gamma_f * x_a[f] * x_cf
    return result


class _Picked(NamedTuple):
    """What a tile needs of the last pick; c and u are (n_documents,), the rest per query."""

    gamma: float
    c: np.ndarray
    u: np.ndarray
    c_u: np.ndarray
    kappa: np.ndarray


def algorithm_1_blocked(
    X, y, query_ptr, n_features, regularization, block=(8, 4_000), query_weights=None
):
    """Algorithm 1 on tiles of candidate features and whole queries, so that C and U stay in cache.

    The update for the feature selected last and the sums for the next scores pass over a tile
    together; a round reads and writes C and U once.

    Parameters
    ----------
    block
        Candidate features and, about, documents of a tile.
    """
    X, y = centred_columns(X, y, query_ptr, query_weights)
    a, p = y / regularization, y.copy()
    C, U = X / regularization, X.copy()
    x_c, x_a = np.einsum("id,id->i", X, C), X @ a
    sums = np.empty((4, X.shape[0], len(query_ptr) - 1))
    tiles = _tiles(X.shape[0], query_ptr, block)
    result, picked, x_cf = Selection([], []), None, None
    for _ in range(n_features):
        for features, queries in tiles:
            _pass_over_tile(C, U, p, query_ptr, (features, queries), (picked, x_cf), sums)
        gamma = 1.0 / (1.0 + x_c)[:, None]
        c_p, c_u, u_p, u_u = sums
        eta = gamma * (c_p - x_a[:, None]) / (1.0 - gamma * c_u)
        errors = p @ p + (eta * (2.0 * u_p + eta * u_u)).sum(axis=1)
        errors[result.selected] = np.inf
        f = int(np.argmin(errors))
        result.selected.append(f)
        result.errors.append(float(errors[f]))

        gamma_f = float(gamma[f, 0])
        kappa = gamma_f / (1.0 - gamma_f * c_u[f])
        picked = _Picked(gamma_f, C[f].copy(), U[f].copy(), c_u[f].copy(), kappa)
        x_cf = X @ picked.c
        p += np.repeat(eta[f], np.diff(query_ptr)) * picked.u
        a -= gamma_f * x_a[f] * picked.c
        x_c -= gamma_f * x_cf**2
        x_a -= gamma_f * x_a[f] * x_cf
    return result


def _tiles(n_features, query_ptr, block):
    width, n_documents = block
    cuts = [0]
    for q in range(1, len(query_ptr)):
        if query_ptr[q] - query_ptr[cuts[-1]] >= n_documents or q == len(query_ptr) - 1:
            cuts.append(q)
    return [
        (slice(left, min(left + width, n_features)), slice(first, last))
        for first, last in pairwise(cuts)
        for left in range(0, n_features, width)
    ]


def _pass_over_tile(C, U, p, query_ptr, tile, update, sums):
    """Bring a tile of C and U up to date in place, and overwrite its part of `sums`."""
    features, queries = tile
    rows = slice(query_ptr[queries.start], query_ptr[queries.stop])
    starts = query_ptr[queries] - rows.start
    sizes = np.diff(query_ptr[queries.start : queries.stop + 1])
    c, u, p = C[features, rows], U[features, rows], p[rows]
    work = np.empty_like(c)
    picked, x_cf = update
    if picked is not None:
        scaled = (picked.gamma * x_cf[features])[:, None]
        change = np.add.reduceat(np.multiply(u, picked.c[rows], out=work), starts, axis=1)
        change -= scaled * picked.c_u[queries]
        change *= picked.kappa[queries]
        change -= scaled
        u += np.multiply(np.repeat(change, sizes, axis=1), picked.u[rows], out=work)
        c -= np.multiply(scaled, picked.c[rows], out=work)
    for number, (left, right) in enumerate(((c, p), (c, u), (u, p), (u, u))):
        product = np.multiply(left, right, out=work)
        np.add.reduceat(product, starts, axis=1, out=sums[number, features, queries])
