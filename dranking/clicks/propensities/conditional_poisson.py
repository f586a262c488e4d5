"""Propensities of examination from contrasts, by conditional Poisson likelihood.

Given the clicks `c_g` of a contrast g, their distribution over positions depends on the
propensities alone: position k gets the share `pi_gk = n_gk p_k / sum_l n_gl p_l`. With
`theta_k = log p_k` the log-likelihood `sum_gk c_gk log pi_gk` is concave, its score is
`sum_g c_gk - c_g pi_gk`, and no logarithm of a count is taken. A pass over the contrasts of some
queries gives K scores and a K x K information matrix; these add up over queries.

The likelihood has a single maximum if clicks lead from each position to each other one: there is a
contrast with impressions at the former and a click at the latter (Ford 1957, for comparisons of
pairs). Otherwise some positions are not joined, and no propensities are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from dranking.clicks.propensities.contrasts import Contrasts
from dranking.clicks.propensities.resampling import times_drawn
from dranking.engine.executor import Executor
from dranking.engine.tree_sum import tree_sum
from dranking.errors import DataError

Array = NDArray[np.float64]

MAX_STEPS = 50
TOLERANCE = 1e-10
"""Newton's method ends when no logarithm of a propensity moves by more than this."""

SINGULAR = 1e-12
"""Eigenvalues of the information below this share of the largest one count as 0: of positions that
a replicate has no clicks at, which stay where they are."""

TOGETHER = 4_096
"""Queries whose sums are multiplied at once by how often each replicate draws them."""

LONGEST_STEP = 2.0
"""Largest change of a logarithm in one step, so that the first steps do not overshoot."""


def clicks_between(contrasts: Contrasts, context: str | None) -> Array:
    """Number of clicks at each position in contrasts that have impressions at each other position.

    Returns
    -------
    (K, K) float64: entry [k, l] counts clicks at position l + 1 in contrasts that have impressions
    at position k + 1.
    """
    found = contrasts.of(context, clicked=True)
    between: Array = (found.impressions > 0).astype(np.float64).T @ found.clicks
    return between


def check_joined(clicks: Array, name: str) -> None:
    """Raise DataError unless clicks lead from each position to each other one.

    Parameters
    ----------
    clicks
        The sum over all queries of what `clicks_between` returns.
    name
        Name of the context, for the error.
    """
    directed = (clicks > 0).astype(np.int8)
    shown = np.diag(clicks) if clicks.size else np.empty(0)
    _, weak = connected_components(directed | directed.T, directed=False)
    of = f"{name}: " if name else ""
    if len(np.unique(weak)) > 1:
        first = int(np.argmax(weak != weak[0]))
        raise DataError(
            f"{of}no document with clicks was shown both at {_positions(weak == weak[0])} and at "
            f"{_positions(weak == weak[first])}, so nothing compares these positions. Give more "
            "arms or nights, leave out the deeper positions with --depth, or give the propensities."
        )
    n_parts, strong = connected_components(directed, directed=True, connection="strong")
    if n_parts > 1:
        part = min(range(n_parts), key=lambda each: float(shown[strong == each].sum()))
        raise DataError(
            f"{of}too few clicks at {_positions(strong == part)} to compare it with the other "
            "positions. Give more nights, leave out the deeper positions with --depth, or give the "
            "propensities."
        )


def maximum(parts: Sequence[Any], context: str | None, n_positions: int, run: Executor) -> Array:
    """Logarithms of the propensities that maximise the likelihood, the first of them 0.

    Parameters
    ----------
    parts
        `Contrasts`, or futures of them.
    context
        Name of the context whose contrasts count; None means all contexts.
    n_positions
        Number of positions; all of them are joined (`check_joined`).
    run
        Runs the sums over the parts.

    Returns
    -------
    (n_positions,) float64.
    """
    theta = np.zeros(n_positions)
    for _ in range(MAX_STEPS):
        score, information = total_score_and_information(parts, theta, context, run)
        step = _solved(information, score)
        step *= min(1.0, LONGEST_STEP / max(np.abs(step).max(initial=0.0), 1e-300))
        theta = theta + step
        if np.abs(step).max(initial=0.0) < TOLERANCE:
            break
    return theta


def total_score_and_information(
    parts: Sequence[Any], theta: Array, context: str | None, run: Executor
) -> tuple[Array, Array]:
    """The sums over all parts of `score_and_information`."""
    tasks = [
        run.submit(score_and_information, part, theta, context, name="propensities")
        for part in parts
    ]
    score, information = tree_sum(run.gather(tasks))
    return score, information


def bootstrap_replicates(
    parts: Sequence[Any],
    theta: Array,
    context: str | None,
    bootstrap: tuple[int, int],
    run: Executor,
) -> Array:
    """Logarithms of propensities of bootstrap replicates: one Newton step from the maximum each.

    Queries count as often as `resampling.times_drawn` says.

    Parameters
    ----------
    parts, context, run
        As in `maximum`.
    theta
        The logarithms that `maximum` returned.
    bootstrap
        Number of replicates, and seed.

    Returns
    -------
    (n_replicates, K) float64.
    """
    tasks = [
        run.submit(replicate_sums, part, theta, context, bootstrap, name="bootstrap")
        for part in parts
    ]
    scores, informations = tree_sum(run.gather(tasks))
    drawn: Array = theta + _solved(informations, scores)
    return drawn


def replicate_sums(
    contrasts: Contrasts, theta: Array, context: str | None, bootstrap: tuple[int, int]
) -> tuple[Array, Array]:
    """Scores (n_replicates, K) and information (n_replicates, K, K) of a part."""
    found = contrasts.of(context, clicked=True)
    clicks, shares = _clicks_and_shares(found, theta)
    weights = shares * clicks[:, None]
    residuals = found.clicks - weights
    queries, first = np.unique(found.query, return_index=True)
    ends = np.append(first, len(clicks))
    times = np.array([of[queries] for of in times_drawn(contrasts.query_keys, bootstrap)], np.uint8)
    n, k = bootstrap[0], len(theta)
    scores, informations = np.zeros((n, k)), np.zeros((n, k, k))
    for start in range(0, len(queries), TOGETHER):
        stop = min(start + TOGETHER, len(queries))
        drawn, starts = times[:, start:stop].astype(np.float64), first[start:stop] - first[start]
        rows = slice(first[start], ends[stop])
        scores += drawn @ np.add.reduceat(residuals[rows], starts)
        diagonal = drawn @ np.add.reduceat(weights[rows], starts)
        informations[:, range(k), range(k)] += diagonal
        for position in range(k):
            products = weights[rows] * shares[rows, position, None]
            informations[:, position] -= drawn @ np.add.reduceat(products, starts)
    return scores, informations


def score_and_information(
    contrasts: Contrasts, theta: Array, context: str | None
) -> tuple[Array, Array]:
    """The score (K,) of the logarithms of propensities, and the information matrix (K, K)."""
    found = contrasts.of(context, clicked=True)
    clicks, shares = _clicks_and_shares(found, theta)
    score = found.clicks.sum(axis=0) - clicks @ shares
    return score, _information(clicks, shares)


def _clicks_and_shares(contrasts: Contrasts, theta: Array) -> tuple[Array, Array]:
    """Clicks c_g of each contrast, (n,), and the expected shares pi of its positions, (n, K)."""
    weights = contrasts.impressions * np.exp(theta)
    return contrasts.clicks.sum(axis=1), weights / weights.sum(axis=1, keepdims=True)


def _information(clicks: Array, shares: Array) -> Array:
    """sum_g c_g (diag pi_g - pi_g pi_g')."""
    weighted = shares * clicks[:, None]
    information: Array = np.diag(weighted.sum(axis=0)) - weighted.T @ shares
    return information


def _solved(information: Array, score: Array) -> Array:
    """Newton steps (..., K), which leave the first position as it is."""
    step = np.zeros_like(score)
    inverse = np.linalg.pinv(information[..., 1:, 1:], SINGULAR, hermitian=True)
    step[..., 1:] = (inverse @ score[..., 1:, None])[..., 0]
    return step


def _positions(chosen: NDArray[np.bool_]) -> str:
    """Some positions in words; neighbours are written as ranges."""
    numbers = (np.flatnonzero(chosen) + 1).tolist()
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return ("positions " if len(numbers) > 1 else "position ") + ", ".join(words)
