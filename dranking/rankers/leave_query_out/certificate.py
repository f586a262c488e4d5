"""The numerical certificate of a selection: how far rounding may have moved what a path states.

Forward search solves the systems M_q[S, S] of every query by Cholesky factors. A pivot of these
factors is what a feature adds to the features selected before; the rounding of the sums in A, and
of the solves, is a share of the feature's whole square. So the quotient of both, times the relative
rounding error, estimates the digits lost, in every held-out system, at no cost. Rounds in doubt are
checked: errors and weights come once more from orthogonal factors of the documents, and the
certificate is the difference from the errors by which the features were picked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.rankers.gram.moments import TotalMoments
from dranking.rankers.leave_query_out.criterion import PathState
from dranking.rankers.leave_query_out.held_out import FeatureSets, Verified, verify_sets

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

SAFETY = 16.0
"""Safety factor of the estimated rounding error of sums and solves."""


def estimated_rounding(
    state: PathState, moments: TotalMoments, selected: Indices, regularization: float
) -> Array:
    """(t,) estimated relative error by rounding of predictions, by each of the features."""
    squares = moments.diagonal[selected] + regularization
    roundings = SAFETY * np.arange(2, len(selected) + 2) * np.finfo(float).eps
    rounding: Array = np.minimum(squares / state.least_pivots(selected) * roundings, 1.0)
    return rounding


def lost_digits(losses: Array, n_selected: int) -> Array:
    """Estimated relative error by rounding of predictions with a feature; see `Scores.losses`."""
    rounding: Array = np.minimum(losses * (SAFETY * (n_selected + 2) * np.finfo(float).eps), 1.0)
    return rounding


def verified_rounds(
    tiles: Tiles,
    state: PathState,
    kept: Sequence[Sequence[int]],
    regularization: float,
) -> list[Verified]:
    """Errors, weights and rounding of sets of features, from orthogonal factors."""
    unknown = [selected for selected in kept if tuple(selected) not in state.verified]
    if unknown:
        sets = FeatureSets.of(unknown, regularization)
        found = verify_sets(tiles, sets)
        state.verified.update(zip(map(tuple, unknown), found, strict=True))
    return [state.verified[tuple(selected)] for selected in kept]
