"""Rounding of predictions, residuals and errors that come from orthogonal factors.

Estimates, not bounds: a safety factor takes the place of the constants of an analysis.
"""

import numpy as np
from numpy.typing import NDArray

from dranking.rankrls.kernels.lqo.orthogonal import DEPENDENT, ridge_solutions, scaled_factor

Array = NDArray[np.float64]

SAFETY = 16.0
"""Safety factor of the estimated rounding error, for each time that digits are lost."""

UNCERTAIN = 1e-8
"""Relative error of predictions from which on a column is named: errors in doubt (1e-6) may be a
hundredth of the squared labels."""


def relative_rounding(
    factor: Array, regularizations: Array, digits_lost: int = 1
) -> tuple[Array, list[int]]:
    """Estimated relative error of predictions by rounding, and the columns behind that error.

    The relative error of a prediction is about the error of the columns (n roundings each) times
    the condition number of the scaled columns. The inverse of the smallest diagonal element after
    pivoting approximates this condition number. The rows sqrt(lambda) / norm below add to the
    square of this element lambda over the square of the column's norm. `moved_residuals` follows
    the error of the predictions to the residuals.

    A factor from sums of products has `digits_lost` 2. Its sums C = B'B of columns of norm 1 are
    off by some E, whose elements are at most u, the error of a column. The predictions B w with
    (C + P^2) w = B'y, where P is sqrt(lambda) / norm, change by B (C + P^2)^-1 E w. The norm of
    B (C + P^2)^-1 is at most the inverse of the smallest singular value of [B; P], that of w at
    most this inverse times the norm of y: so the share is u over the square of the smallest
    diagonal element.

    A column whose rest was left out as rounding may have had a rest r below that rounding, which
    takes part of predictions by a share of r^2 / (r^2 + lambda). Below which r a rest is lost
    follows from r^2, which R of the documents leaves off by the square of the error of a column,
    and sums of products by u times the square of the norm of the column.

    Returns
    -------
    (n_lambdas,) errors; the columns that alone cause an error above `UNCERTAIN`, the most uncertain
    first.
    """
    norms, columns, triangle, _ = scaled_factor(factor)
    n, rank, eps = len(factor) - 1, len(triangle), np.finfo(float).eps
    if not rank:
        return np.zeros(len(regularizations)), []
    unit = SAFETY**digits_lost * (n + 1) * eps
    penalties = regularizations / np.square(norms[columns[:rank], None])
    pivots = np.square(np.diag(triangle))[:, None] + penalties
    kept = np.minimum(unit * pivots ** (-digits_lost / 2.0), 1.0)
    lost = (DEPENDENT * n * eps) ** 2 if digits_lost == 1 else unit
    squares = lost * np.square(norms[columns[rank:]])[:, None]
    left_out = squares / (squares + regularizations)
    by_column = np.concatenate((kept.max(axis=1), left_out.max(axis=1, initial=0.0)))
    order = np.argsort(-by_column, kind="stable")
    uncertain = columns[order[by_column[order] > UNCERTAIN]]
    return np.maximum(kept.max(axis=0), left_out.max(axis=0, initial=0.0)), uncertain.tolist()


def moved_residuals(
    norms: Array, margins: Array, label_norm: float, divisors: Array | float = 0.0
) -> Array:
    """The change of residuals by rounding of predictions, summed over queries.

    W W' and W F U'Q'y are off by the relative error of predictions, times the norm of W W' and the
    norm of W times the norm of y; the square of the norm of W is 1 less the margin. The solution of
    the system divides its own roundings by the margin. The error of the factor is not divided: a
    direction with a small margin has its data in one query, and seldom is the direction in which
    columns depend on each other.

    Parameters
    ----------
    norms
        (n_queries, n_lambdas) norms of the residuals of `lqo_residuals`.
    margins
        (n_queries, n_lambdas) as from `lqo_residuals`; above 0.
    label_norm
        Norm of all labels. Residuals that are far smaller than the labels have fewer digits.
    divisors
        (n_lambdas,) or one number: no margin below it divides.

    Returns
    -------
    (2, 2, n_lambdas) sums of |p_q| s_q and of s_q^2, where a relative error u moves p_q by u s_q:
    first for roundings that are divided by the margin, then for the error of the factor.
    """
    scale = norms + np.sqrt(np.clip(1.0 - margins, 0.0, 1.0)) * label_norm
    each = np.stack((scale / np.maximum(margins, divisors), scale))
    return np.stack(((norms * each).sum(axis=1), np.square(each).sum(axis=1)), axis=1)


def sums_rounding(weights: Array, norms: Array) -> Array:
    """Error of squared norms of residuals that follow from stored sums of products.

    Sums of products C of the columns [X y] are off by some E, whose elements are at most u times
    the norms of two columns. The squared norm v'C v of residuals, v = (-w, 1), is then off by v'E
    v: at most u times the square of |y| + sum_j |w_j| |x_j|, however small the residuals are.

    Parameters
    ----------
    weights
        (..., n) w.
    norms
        (..., n + 1) norms of the columns [X y].
    """
    unit = SAFETY * norms.shape[-1] * np.finfo(float).eps
    size = (np.abs(weights) * norms[..., :-1]).sum(axis=-1) + norms[..., -1]
    off: Array = unit * np.square(size)
    return off


def extrapolated_rounding(
    factor: Array, rows: Array, weights: Array, regularization: float, digits_lost: int = 1
) -> float:
    """Norm by which rounding moves the residuals of a query whose model comes from all others.

    A column may have nearly all of its values in the query. Its weight then has few digits, since
    the other queries hardly depend on it, and the query multiplies the error of this weight by
    large values. With v = (A + lambda I)^-1 x for a document x of the query, the residual moves

    - by v'E w with sums of products that are off by E, as in `sums_rounding`;
    - by v'X'F w and v'F'p with a factor whose columns are off by F, for the residuals p of the
      others: |X v| is at most the square root of x'v.

    Parameters
    ----------
    factor
        (n + 1, n + 1) R of [X y] of all other queries.
    rows
        (m, n) documents x of the query.
    weights
        (n,) w, fitted to all other queries.
    regularization
        lambda > 0.
    digits_lost
        As in `relative_rounding`.
    """
    norms = np.linalg.norm(factor, axis=0)
    solutions, halves = ridge_solutions(factor, rows, regularization)
    size = np.abs(weights) @ norms[:-1] + norms[-1]
    reach = np.abs(solutions) @ norms[:-1]
    if digits_lost == 1:
        residual = np.linalg.norm(factor[:, -1] - factor[:, :-1] @ weights)
        moved = np.linalg.norm(halves, axis=1) * size + reach * residual
    else:
        moved = reach * size
    return float(SAFETY * len(norms) * np.finfo(float).eps * np.linalg.norm(moved))


def moved_errors(moved: Array, own: float | Array, of_factor: Array) -> Array:
    """(n_lambdas,) error of squared norms, if predictions are off by two relative errors.

    Parameters
    ----------
    moved
        Sum of `moved_residuals`.
    own
        Relative error that the margin divides, or (n_lambdas,) such errors.
    of_factor
        (n_lambdas,) relative error of the factor.
    """
    relative = np.stack((np.full(len(of_factor), own), of_factor))
    # A sum of two errors has at most twice the sum of their squares.
    off: Array = (2.0 * relative * (moved[:, 0] + relative * moved[:, 1])).sum(axis=0)
    return off


def error_rounding(errors: Array, residual_rounding: Array) -> Array:
    """Error of squared norms, if residuals of these squared norms are off by vectors of a norm."""
    off: Array = (2.0 * np.sqrt(errors) + residual_rounding) * residual_rounding
    return off


def share_of_exact(stated: Array, off: Array) -> Array:
    """Largest relative error of stated numbers >= 0 that are wrong by at most `off`.

    The error is a share of the exact number, which may be smaller than the stated number. The error
    is at most 1: then the stated number has no certain digit. That includes numbers that are not
    finite, because sums overflowed.
    """
    known = np.isfinite(stated) & np.isfinite(off)
    off = np.where(known, off, 1.0)
    least = np.where(known, np.maximum(stated - off, off), 1.0)
    share: Array = np.divide(off, least, out=np.zeros(np.shape(off)), where=off > 0.0)
    return share
