"""Numbers that only rounding tells apart become equal, so that rounding decides nothing."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EQUAL_ERRORS = 1e-10
"""Share of the best error by which two errors may differ and count as equal. Rounding moves errors
in which nothing is lost by some 1e-13; errors that differ by 1e-9 must stay apart."""


def with_ties(values: Array, groups: NDArray[np.intp], tolerances: Array) -> Array:
    """The values, where those of a group whose neighbours are near become exactly equal.

    Values in a chain, each of which is near the next, all become the least of them.

    Parameters
    ----------
    values, groups
        (n,) values, and the group of each.
    tolerances
        (n_groups,) largest difference of values that are near.
    """
    order = np.lexsort((values, groups))
    ordered, group = values[order], groups[order]
    is_first = np.ones(len(values), dtype=np.bool_)
    near = ordered[1:] <= ordered[:-1] + tolerances[group[1:]]
    is_first[1:] = (group[1:] != group[:-1]) | ~near
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(values)), 0))
    tied = np.empty_like(values)
    tied[order] = ordered[first]
    return tied


def tied_errors(errors: Array) -> Array:
    """(n,) errors, where those that only rounding tells apart become the least of them."""
    if not len(errors):
        return errors
    tolerance = np.array([EQUAL_ERRORS * errors.min()])
    return with_ties(errors, np.zeros(len(errors), dtype=np.intp), tolerance)
