"""Minimum of a convex quadratic over the simplex, by steps between two corners."""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel

Array = NDArray[np.float64]


@kernel
def best_exchange(Q: Array, x: Array, slopes: Array, to: np.intp) -> tuple[int, float]:
    """The corner from which moving weight to corner `to` gains most, and the weight to move."""
    best, source, amount = -1.0, 0, 0.0
    for j in range(len(x)):
        fall = slopes[j] - slopes[to]
        if x[j] > 0.0 and fall > 0.0:
            bend = Q[to, to] + Q[j, j] - 2.0 * Q[to, j]
            length = x[j] if fall >= bend * x[j] else fall / bend
            gain = length * (fall - 0.5 * length * bend)
            if gain > best:
                best, source, amount = gain, j, length
    return source, amount


@kernel
def minimise_on_simplex(Q: Array, c: Array, x: Array, accuracy: float, max_steps: int) -> int:
    """Move `x` (n,) within the simplex to the minimum of ``x' Q x / 2 - c' x``; O(n) a step.

    A step moves weight to the corner with the least slope, from the corner for which the value
    falls most.

    Parameters
    ----------
    Q
        (n, n) positive semidefinite matrix.
    c
        (n,) linear term.
    x
        (n,) start, at least 0 and of sum 1; overwritten with the end.
    accuracy
        The steps end when the value is proved to be at most this far above the minimum.
    max_steps
        Limit of the number of steps.

    Returns
    -------
    Steps taken.

    References
    ----------
    Fan, Chen, Lin: Working set selection using second order information for training SVMs, 2005.
    """
    n = len(x)
    slopes = -c.copy()
    for j in range(n):
        if x[j] > 0.0:
            for i in range(n):
                slopes[i] += x[j] * Q[i, j]
    for step in range(max_steps):
        to = np.argmin(slopes)
        if x @ slopes - slopes[to] <= accuracy:
            return step
        source, amount = best_exchange(Q, x, slopes, to)
        x[to] += amount
        x[source] = 0.0 if amount == x[source] else x[source] - amount
        for i in range(n):
            slopes[i] += amount * (Q[i, to] - Q[i, source])
    return max_steps
