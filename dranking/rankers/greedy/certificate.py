"""The numerical certificate of a selection: what rounding leaves in doubt.

Forward search solves the systems M_q[S, S] of every query by Cholesky factors. A pivot of these
factors is what a feature adds to the features selected before; the rounding of the sums in A, and
of the solves, is a share of the feature's whole square. So the quotient of both, times the relative
rounding error, estimates the digits lost in every held-out system at no cost.

In a round, a candidate that nearly depends on the selected features, or whose values lie in one
query, has lost digits of its score. Where such a candidate might be the best one, its error comes
from orthogonal factors of the documents before the round picks (`settled`).

At the end, rounds in doubt are checked in the same way (`verified_rounds`): errors and weights come
once more from orthogonal factors. Where both errors differ, those of the factors are stated, with
their own rounding as certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.rankers.gram.moments import TotalMoments
from dranking.rankers.greedy.path import Doubt
from dranking.rankers.leave_query_out.criterion import PathState, Scores
from dranking.rankers.leave_query_out.held_out import FeatureSets, Verified, verify_sets

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SAFETY = 16.0
"""Safety factor of the estimated rounding error of sums and solves."""

DISTINCT = 1e-9
"""Share of an error by which rounding may move it without a doubt."""

NO_DIGITS = 1e-5
"""Relative error from which on nothing is known: rounding grows from one feature to the next."""

MOST_CHECKED = 16
"""Largest number of candidates in doubt that a round checks; for others the doubt stays."""


class Contenders(NamedTuple):
    """The errors of the candidates of a round, as far as they are known.

    Attributes
    ----------
    errors
        (n_candidates,) error with each candidate.
    rounding
        (n_candidates,) by how much rounding may have moved these errors; 0 for candidates that are
        distinct, and below the best of all others.
    checked
        Positions of the candidates whose errors come from orthogonal factors.
    losses
        (n_candidates,) as in `Scores`.
    """

    errors: Array
    rounding: Array
    checked: Indices
    losses: Array

    @classmethod
    def unchecked(cls, scores: Scores) -> Contenders:
        """Errors that are taken as they are."""
        nothing = np.empty(0, dtype=np.intp)
        return cls(scores.errors, np.zeros(len(scores.errors)), nothing, scores.losses)

    def doubt(self, asked: Indices, pick: int) -> Doubt:
        """The share by which another candidate may be better than the pick, and this candidate."""
        [place] = np.flatnonzero(asked == pick)
        nothing = Doubt(loss=float(self.losses[place]))
        if not self.rounding.any():
            return nothing
        least = np.maximum(self.errors - self.rounding, 0.0)
        least[place] = np.inf
        most, best = self.errors[place] + self.rounding[place], int(np.argmin(least))
        if not least[best] < most or not most > 0.0:
            return nothing
        share = float(min(1.0, (most - least[best]) / most))
        return nothing._replace(share=share, feature=int(asked[best]))


def settled(
    run: tuple[Tiles, PathState, float],
    scores: Scores,
    asked: Indices,
    selected: Sequence[int],
    limits: tuple[float, float, int | None],
) -> Contenders:
    """Errors of the candidates; those that may be among the best are right to the last digits.

    Parameters
    ----------
    run
        The data, the criterion and lambda.
    scores, asked
        Scores of the candidates, and the candidates.
    selected
        Features selected so far.
    limits
        The error with no feature, of which all errors are a part; the largest of the losses of the
        selected features, which all candidates share; and how many of the best candidates the pick
        is chosen from. None means that all may be picked.
    """
    initial, shared_loss, n_best = limits
    # Errors that overflowed are unknown; with the largest numbers, no sum below overflows.
    is_finite = np.isfinite(scores.errors)
    errors = np.where(is_finite, scores.errors, np.finfo(float).max / 4.0)
    rounding = lost_digits(np.maximum(scores.losses, shared_loss), len(selected))
    is_unknown = (rounding > NO_DIGITS) | ~is_finite
    rounding[is_unknown] = 1.0
    rounding *= initial + np.abs(errors)
    # An unknown error may be any number of at least 0; its computed score may even be negative.
    least = np.where(is_unknown, 0.0, errors - rounding)
    most = np.where(is_unknown, np.inf, errors + rounding)
    rounding[rounding <= DISTINCT * max(errors.min(initial=np.inf), 0.0)] = 0.0
    if n_best is not None and rounding.any():
        place = min(n_best, len(errors)) - 1
        rounding[least >= np.partition(most, place)[place]] = 0.0
    contending = np.flatnonzero(rounding)
    if not len(contending):
        return Contenders.unchecked(scores)
    order = np.lexsort((errors[contending], least[contending]))
    distinct = np.flatnonzero(rounding == 0.0)
    best = distinct[np.argsort(errors[distinct], kind="stable")][: n_best or 1]
    checked = np.sort(np.concatenate((contending[order[:MOST_CHECKED]], best)))
    sets = [[*selected, int(asked[place])] for place in checked]
    tiles, state, regularization = run
    found = verified_rounds(tiles, state, sets, regularization)
    errors = errors.copy()
    errors[checked] = [each.error for each in found]
    rounding[checked] = [each.rounding for each in found]
    return Contenders(errors, rounding, checked, scores.losses)


def estimated_rounding(
    state: PathState, moments: TotalMoments, selected: NDArray[np.int64], regularization: float
) -> Array:
    """(t,) estimated relative error by rounding of predictions, by each of the features."""
    losses = (moments.diagonal[selected] + regularization) / state.least_pivots(selected)
    return lost_digits(losses, np.arange(len(selected)))


def lost_digits(losses: Array, n_selected: int | Indices) -> Array:
    """Estimated relative error by rounding of predictions with one more feature than selected.

    `Scores` has the meaning of `losses`.
    """
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
