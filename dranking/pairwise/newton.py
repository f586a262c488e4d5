"""Newton's step by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_PRODUCTS = 50
"""Largest number of products with the second derivative for a Newton step."""

SOLVED = 1e-6
"""Residual of a Newton step, as a share of the gradient, at which it is solved."""


def newton_step(
    gradient: Array, multiply: Callable[[Array], Array], target: float
) -> tuple[Array, float]:
    """Newton's step -H^-1 g by conjugate gradients, and half its squared decrement, g'H^-1 g / 2.

    The decrement does not depend on the units of the variables. Conjugate gradients find it from
    below, and end as soon as it exceeds a `target` above 0.

    Parameters
    ----------
    gradient
        (n,) g.
    multiply
        Product of H with a direction (n,).
    target
        Decrement of interest; 0 for the step itself.
    """
    residual, step, decrement = gradient.copy(), np.zeros_like(gradient), 0.0
    first = square = float(residual @ residual)
    direction = -residual
    for _ in range(MOST_PRODUCTS):
        # With H near 1 in all directions, as the coordinates make it.
        if square <= SOLVED**2 * first or 0.5 * square > target > 0.0:
            return step, max(decrement, 0.5 * square)
        turned = multiply(direction)
        curvature = float(direction @ turned)
        if not curvature > 0.0:
            return step, max(decrement, 0.5 * square)
        length = square / curvature
        step += length * direction
        decrement += 0.5 * length * square
        if decrement > target > 0.0:
            return step, decrement
        residual += length * turned
        before, square = square, float(residual @ residual)
        direction = (square / before) * direction - residual
    return step, decrement
