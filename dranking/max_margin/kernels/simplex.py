"""Minimum of the largest of some planes plus half the squared norm, by an active set."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Array = NDArray[np.float64]

DEPENDENT = 1e-12
"""A plane whose slope differs from a combination of others by this share depends on them."""

WIDE = 1_000
"""For more columns, and more columns than planes, slopes are first rotated into as many columns as
there are planes."""

MAX_EXCHANGES = 400
"""Largest number of solutions for sets of planes in a search."""


class Level(NamedTuple):
    """The point at which some planes have equal values, as near to zero as their slopes allow.

    Attributes
    ----------
    weights
        (k,) of sum 1: the point is the weighted sum of slopes, times -1. If the planes are
        dependent, of sum 0: a direction in which the sum of slopes stays and the sum of heights
        grows.
    point
        (n,); None if the planes are dependent.
    """

    weights: Array
    point: Array | None


def least_maximum(slopes: Array, heights: Array, weights: Array, accuracy: float) -> Level:
    """Minimise ``max_t(<slopes_t, z> + heights_t) + |z|^2 / 2`` over z, by an active set.

    In turn the highest plane enters the set, and planes whose weight would be negative leave it.
    Sums of slopes may be smaller than the slopes by many digits, and columns of `slopes` may have
    any sizes: the point comes from orthogonal factors of the differences of slopes, not from the
    sum.

    Parameters
    ----------
    slopes, heights
        (k, n) and (k,).
    weights
        (k,) start, at least 0 and of sum 1.
    accuracy
        The search ends where no plane is higher than those of the set by more than this.

    Returns
    -------
    Weights (k,), at least 0, and the point. Any such weights give a lower bound of the minimum,
    ``weights @ heights - |weights @ slopes|^2 / 2``.

    References
    ----------
    Kiwiel: A method for solving certain quadratic programming problems arising in nonsmooth
    optimization, 1986.
    """
    if slopes.shape[1] > max(WIDE, len(heights)):
        Q, R = linalg.qr(slopes.T, mode="economic")
        found = least_maximum(np.ascontiguousarray(R.T), heights, weights, accuracy)
        return found._replace(point=Q @ found.point)
    active = np.flatnonzero(weights > 0.0)
    current, point, highest = weights[active], -(weights @ slopes), -1
    for _ in range(MAX_EXCHANGES):
        found = equal_values(slopes[active], heights[active])
        if found.point is not None and found.weights.min() >= 0.0:
            current, point = found.weights, found.point
            values = slopes @ point + heights
            highest = int(np.argmax(values))
            is_least = values[highest] - current @ values[active] <= accuracy
            if is_least or highest in active:  # at the accuracy, or at that of rounding
                break
            active, current = np.append(active, highest), np.append(current, 0.0)
            continue
        current, place, moved = _towards(current, found)
        left, active, current = active[place], np.delete(active, place), np.delete(current, place)
        if left == highest and not moved:  # rounding alone let it enter
            break
    out = np.zeros(len(heights))
    out[active] = current
    return Level(out, point)


def _towards(current: Array, found: Level) -> tuple[Array, int, bool]:
    """Weights on the way to a solution where one is 0; its place; whether any weight moved."""
    direction = found.weights if found.point is None else found.weights - current
    falling = np.flatnonzero(direction < 0.0)
    lengths = current[falling] / -direction[falling]
    first = int(np.argmin(lengths))
    moved = np.maximum(current + lengths[first] * direction, 0.0)
    moved[falling[first]] = 0.0
    return moved / moved.sum(), int(falling[first]), bool(lengths[first] > 0.0)


def equal_values(slopes: Array, heights: Array) -> Level:
    """Minimise ``|z|^2 / 2`` plus the value of all planes at z, which is to be the same."""
    if len(heights) == 1:
        return Level(np.ones(1), -slopes[0])
    differences, rises = slopes[1:] - slopes[0], heights[1:] - heights[0]
    sizes = np.linalg.norm(differences, axis=1)
    sizes[sizes == 0.0] = 1.0
    # Rows in falling order and pivots: each row keeps digits of its own.
    rows = (differences / sizes[:, None]).T
    order = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
    Q, R, pivots = linalg.qr(rows[order], mode="economic", pivoting=True)
    sizes, rises = sizes[pivots], rises[pivots]
    diagonal = np.abs(np.diag(R))
    rank = int(np.count_nonzero(diagonal > DEPENDENT * diagonal[0]))
    weights = np.empty(len(heights))
    if rank < len(rises):
        combination = np.zeros(len(rises))
        combination[rank] = 1.0
        if rank:
            combination[:rank] = -linalg.solve_triangular(R[:rank, :rank], R[:rank, rank])
        weights[1 + pivots] = combination / sizes
        weights[0] = -weights[1:].sum()
        return Level(weights if weights @ heights > 0.0 else -weights, None)
    base = slopes[0][order]
    along = Q.T @ base
    rest = base - Q @ along
    rest -= Q @ (Q.T @ rest)  # where base is far larger than the point, once is not enough
    within = linalg.solve_triangular(R, -rises / sizes, trans="T")
    point = np.empty(len(base))
    point[order] = Q @ within - rest
    weights[1 + pivots] = linalg.solve_triangular(R, -within - along) / sizes
    weights[0] = 1.0 - weights[1:].sum()
    return Level(weights, point)
