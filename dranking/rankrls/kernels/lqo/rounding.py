"""Rounding of errors: the digits that are lost, and errors that count as equal."""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import frozen, kernel

Array = NDArray[np.float64]

EQUAL_ERRORS = 1e-10
"""Share of an error by which another error may differ and count as equal. Rounding moves errors in
which nothing is lost by some 1e-13; errors that differ by 1e-9 must stay apart."""

MOST_LOSS = 1e16
"""Largest factor by which rounding grows; no digit is left with it."""


def squared_losses(squares: Array, least: Array) -> NDArray[np.float32]:
    """Squared factors by which the rounding of sums grows in the errors with each feature.

    A factor is A_ii + lambda, an element of `squares` (n_features,), divided by the smallest Schur
    complement of a block, an element of `least` (..., n_features).
    """
    return np.square(np.minimum(squares / least, MOST_LOSS)).astype(np.float32)


def with_ties(values: Array, groups: NDArray[np.intp], tolerances: Array) -> Array:
    """The values, where those of a group that are near the least of them become exactly equal.

    In ascending order, a value that is not near the last one kept is kept; others become that one.
    So no value moves by more than a tolerance, however many values lie close together.

    Parameters
    ----------
    values, groups
        (n,) values, and the group of each.
    tolerances
        (n,) by how much a larger value may exceed this one and be near.
    """
    order = np.lexsort((values, groups))
    tied, ascending = np.empty_like(values), np.empty_like(values)
    _tie(frozen(values[order]), frozen(groups[order]), frozen(tolerances[order]), ascending)
    tied[order] = ascending
    return tied


def tied_errors(errors: Array) -> Array:
    """(n,) errors, where those that only rounding tells apart are equal."""
    return with_ties(errors, np.zeros(len(errors), dtype=np.intp), EQUAL_ERRORS * np.abs(errors))


@kernel
def _tie(values: Array, groups: NDArray[np.intp], tolerances: Array, tied: Array) -> None:
    """Overwrite `tied` (n,) with `with_ties` of values that ascend within each group."""
    kept = 0
    for i in range(len(values)):
        # NaN is near no value.
        if groups[i] != groups[kept] or not values[i] <= values[kept] + tolerances[kept]:
            kept = i
        tied[i] = values[kept]
