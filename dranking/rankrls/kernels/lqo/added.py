"""Leave-query-out errors of sets of features with one more feature, from orthonormal directions.

U holds the directions of the selected features, d that of a candidate (both from
`dranking.rankrls.kernels.lqo.elimination`), Q_q the rows of query q in Q. With W = Q_q U and p the
residual of q under the model of all other queries, as in `dranking.rankrls.kernels.lqo.orthogonal`,

    p = (I - W W')^-1 e_q,      e_q = y_q - Q_q U U'Q'y,      g = (I - W W')^-1 Q_q d
    p with the candidate = p + g (d'Q_q'p - d'Q'y) / (1 - d'Q_q'g)

in which d'Q'y stands for the product of the whole direction with the label.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.floats import EPSILON
from dranking.rankrls.kernels.lqo.factor_rounding import SAFETY, error_rounding
from dranking.rankrls.kernels.lqo.held_out import least_eigenvalues, stacked_queries

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

LEAST = 1e-30
"""Least eigenvalue of a held-out system that is divided by; nothing is known long before."""


class Scale(NamedTuple):
    """Sizes of what rounding moves.

    Attributes
    ----------
    residual, labels
        Norm of the residuals of all queries, and of their labels.
    off
        (c,) relative error of predictions with each candidate, by the factor.
    """

    residual: float
    labels: float
    off: Array


def added_errors(
    turned: Array, fitted: Array, along: Array, ptr: Indices, gains: Array, scale: Scale
) -> tuple[Array, Array]:
    """Errors of the queries of a strip with each candidate, summed; and their rounding.

    Parameters
    ----------
    turned, fitted, along
        (m, t) W, (m,) e, and (m, c) documents times the directions of the candidates.
    ptr
        (n_queries + 1,) offsets.
    gains
        (c,) products of the directions with the label.
    scale
        Sizes of what rounding moves.

    Returns
    -------
    Two arrays of (c,) numbers.
    """
    t, (errors, off) = turned.shape[1], np.zeros((2, len(gains)))
    for _, stack in stacked_queries(np.column_stack((turned, fitted, along)), ptr):
        rows, right = stack[:, :, :t], stack[:, :, t:]
        systems = np.eye(rows.shape[1]) - rows @ rows.transpose(0, 2, 1)
        margins = least_eigenvalues(rows, systems)
        systems[margins < EPSILON] = np.eye(systems.shape[1])  # nothing is known of these queries
        solved = np.asarray(np.linalg.solve(systems, right), dtype=np.float64)
        residuals, moves = solved[:, :, :1], solved[:, :, 1:]
        left = 1.0 - np.einsum("qlc,qlc->qc", right[:, :, 1:], moves)
        steps = np.einsum("qlc,ql->qc", right[:, :, 1:], residuals[:, :, 0]) - gains
        steps /= np.where(left > EPSILON, left, 1.0)
        squares = np.square(residuals + moves * steps[:, None, :]).sum(axis=1)
        least = np.clip(margins[:, None] * left, LEAST, 1.0)
        least[(left <= EPSILON) | (margins[:, None] <= EPSILON)] = LEAST
        moved = _moved(np.sqrt(squares), least, t, scale)
        errors += squares.sum(axis=0)
        off += error_rounding(squares, moved).sum(axis=0)
    return errors, off


def _moved(norms: Array, least: Array, t: int, scale: Scale) -> Array:
    """(n_queries, c) norms by which rounding moves residuals; as `moved_residuals`."""
    reach = np.sqrt(1.0 - least)
    own = SAFETY * (t + 2) * EPSILON * (norms + reach * scale.residual) / least
    moved: Array = own + scale.off * (norms + reach * scale.labels)
    return moved
