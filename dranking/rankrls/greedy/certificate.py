"""The numerical certificate of a selection: what rounding leaves in doubt.

Forward search solves the systems M_q[S, S] of every query by Cholesky factors. A pivot of these
factors is what a feature adds to the features selected before; the rounding of the sums in A, and
of the solves, is a share of the feature's whole square. So the quotient of both, times the relative
rounding error, estimates the digits lost in every held-out system at no cost.

In a round, a candidate that nearly depends on the selected features, or whose values lie in one
query, has lost digits of its score. Where such a candidate might be the best one, the errors of all
candidates come from the factor of all features with 32 digits (`exact_rounds`) before the round
picks (`settled`). Where one query alone determines a candidate, this factor loses digits too; the
errors of such candidates, and all errors of statistics and of wide data, come from orthogonal
factors of the documents without each query, in a limited number of rounds.

At the end, rounds in doubt are checked in the same way (`verified_rounds`). Where both errors
differ, those of the factors are stated, with their own rounding as certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.errors import STATED_ACCURACY
from dranking.rankrls.gram.moments import TotalMoments
from dranking.rankrls.greedy.exact_rounds import ExactPath
from dranking.rankrls.greedy.path import Doubt
from dranking.rankrls.leave_query_out.criterion import PathState, Scores
from dranking.rankrls.leave_query_out.held_out import FeatureSets, Verified, verify_sets

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SAFETY = 16.0
"""Safety factor of the estimated rounding error of sums and solves."""

DISTINCT = 1e-9
"""Share of an error by which rounding may move it without a doubt."""

NO_DIGITS = 1e-5
"""Relative error from which on nothing is known: rounding grows from one feature to the next."""

MOST_CHECKED = 16
"""Largest number of candidates in doubt for which a round takes the documents without each query;
for others the doubt stays."""

FIRST_CHECKS, ROUNDS_PER_CHECK = 4, 12
"""Rounds that may take the documents without each query, which are three passes at most: so many,
and one more for so many features selected. Such passes are then at most 12 and a quarter of the
number of features, whatever the data; in other rounds the doubt stays."""


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
        Positions of the candidates whose errors come from orthogonal factors; in a round that may
        not read the documents without each query, and has no factor of all features, of those
        whose scores are taken although they are in doubt.
    losses
        (n_candidates,) as in `Scores`.
    has_read
        Whether the documents were read without each query.
    """

    errors: Array
    rounding: Array
    checked: Indices
    losses: Array
    has_read: bool = False

    @classmethod
    def unchecked(cls, scores: Scores) -> Contenders:
        """Errors that are taken as they are."""
        nothing = np.empty(0, dtype=np.intp)
        return cls(scores.errors, np.zeros(len(scores.errors)), nothing, scores.losses)

    def doubt(self, asked: Indices, pick: int) -> Doubt:
        """The share by which another candidate may be better than the pick, and this candidate."""
        [place] = np.flatnonzero(asked == pick)
        nothing = Doubt(loss=float(self.losses[place]), was_checked=self.has_read)
        if not self.rounding.any():
            return nothing
        least = np.maximum(self.errors - self.rounding, 0.0)
        least[place] = np.inf
        most, best = self.errors[place] + self.rounding[place], int(np.argmin(least))
        if not least[best] < most or not most > 0.0:
            return nothing
        share = float(min(1.0, (most - least[best]) / most))
        return nothing._replace(share=share, feature=int(asked[best]))


class Run(NamedTuple):
    """The data, the criterion and lambda of a path.

    Attributes
    ----------
    tiles, state, regularization
        The data, the criterion and lambda.
    exact
        Rounds with 32 digits; None for statistics, and for too many features.
    """

    tiles: Tiles
    state: PathState
    regularization: float
    exact: ExactPath | None


def settled(
    run: Run,
    scores: Scores,
    asked: Indices,
    selected: Sequence[int],
    limits: tuple[float, float, int | None, bool],
) -> Contenders:
    """Errors of the candidates; those that may be among the best are right to the last digits.

    Parameters
    ----------
    run
        The path.
    scores, asked
        Scores of the candidates, and the candidates.
    selected
        Features selected so far.
    limits
        The error with no feature, of which all errors are a part; the largest of the losses of the
        selected features, which all candidates share; how many of the best candidates the pick is
        chosen from (None means that all may be picked); and whether the round may read the
        documents without each query.
    """
    initial, shared_loss, n_best, may_read = limits
    # Errors that overflowed are unknown; with the largest numbers, no sum below overflows.
    largest = np.finfo(float).max / 4.0
    is_finite = np.abs(scores.errors) < largest
    errors = np.where(is_finite, scores.errors, largest)
    rounding = lost_digits(np.maximum(scores.losses, shared_loss), len(selected))
    is_unknown = (rounding > NO_DIGITS) | ~is_finite
    rounding[is_unknown] = 1.0
    rounding *= initial + np.abs(errors)
    # An unknown error may be any number of at least 0; its computed score may even be negative.
    least = np.where(is_unknown, 0.0, errors - rounding)
    most = np.where(is_unknown, np.inf, errors + rounding)
    is_near = _contending(errors, rounding, (least, most), n_best)
    if not is_near.any():
        return Contenders.unchecked(scores)
    errors, rounding = errors.copy(), np.where(is_near, rounding, 0.0)
    checked = _to_check(errors, rounding, least, n_best or 1)
    if run.exact is not None:
        errors[checked], rounding[checked] = run.exact.errors(selected, asked[checked])
        least = errors - rounding
        is_near = _contending(errors, rounding, (least, errors + rounding), n_best)
        rounding[~is_near] = 0.0
        is_near &= rounding > STATED_ACCURACY * errors  # the documents would tell little more
    has_read = may_read and bool(is_near.any())
    if has_read:
        doubts = np.where(is_near, rounding, 0.0)
        places = _to_check(errors, doubts, least, n_best or 1, MOST_CHECKED)
        found = from_factors(run, [[*selected, int(asked[place])] for place in places])
        for place, each in zip(places.tolist(), found, strict=True):
            if run.exact is None or each.rounding < rounding[place]:
                errors[place], rounding[place] = each.error, each.rounding
        checked = places if run.exact is None else np.union1d(checked, places)
    return Contenders(errors, rounding, checked, scores.losses, has_read)


def _contending(
    errors: Array, rounding: Array, bounds: tuple[Array, Array], n_best: int | None
) -> NDArray[np.bool_]:
    """Whether rounding leaves it open which of the best candidates each of them is.

    `bounds` are the least and the largest number that each error may be.
    """
    least, most = bounds
    is_near = rounding > DISTINCT * max(errors.min(initial=np.inf), 0.0)
    if n_best is not None and is_near.any():
        place = min(n_best, len(errors)) - 1
        is_near &= least < np.partition(most, place)[place]
    return np.asarray(is_near)


def _to_check(
    errors: Array, rounding: Array, least: Array, n_best: int, most: int | None = None
) -> Indices:
    """Positions of the candidates in doubt, at most `most`, and of the best of all others."""
    contending, distinct = np.flatnonzero(rounding), np.flatnonzero(rounding == 0.0)
    order = np.lexsort((errors[contending], least[contending]))
    best = distinct[np.argsort(errors[distinct], kind="stable")][:n_best]
    return np.sort(np.concatenate((contending[order[:most]], best)))


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


def verified_rounds(run: Run, kept: Sequence[Sequence[int]]) -> list[Verified]:
    """Errors, weights and rounding of sets of features, with 32 digits where that is possible."""
    if run.exact is None:
        return from_factors(run, kept)
    found = [
        run.state.verified.get(tuple(selected)) or run.exact.verified(selected) for selected in kept
    ]
    doubtful = [r for r, each in enumerate(found) if each.rounding > STATED_ACCURACY * each.error]
    others = from_factors(run, [kept[r] for r in doubtful])
    for r, other in zip(doubtful, others, strict=True):
        found[r] = min(found[r], other, key=lambda each: each.rounding)
    return found


def from_factors(run: Run, kept: Sequence[Sequence[int]]) -> list[Verified]:
    """Errors, weights and rounding of sets of features, from orthogonal factors."""
    known = run.state.verified
    unknown = [selected for selected in kept if tuple(selected) not in known]
    if unknown:
        found = verify_sets(run.tiles, FeatureSets.of(unknown, run.regularization))
        known.update(zip(map(tuple, unknown), found, strict=True))
    return [known[tuple(selected)] for selected in kept]
