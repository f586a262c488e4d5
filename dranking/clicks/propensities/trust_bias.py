"""Trust bias from contrasts: P(click) = a_k r + b_k, by moments of pairs of positions.

Within a contrast the rates of clicks at positions k and l are `a_k r + b_k` and `a_l r + b_l` with
the same r. Over the contrasts with both positions, the slope `a_l / a_k` is the covariance of both
rates over the variance of the rate at k. The clicks of two arms are independent, so noise does not
change the mean of their product. Noise does change the mean of the squared rate; in the variance,
`c (c - 1) / (n (n - 1))` takes its place. Nothing is assumed of the distribution of r, which may
differ from pair to pair. (Maximising the likelihood over the r of each contrast would be
inconsistent, because a contrast has few clicks.) The slopes of all pairs give `log a`, the
intercepts give b, by weighted least squares.

(a, b) are known up to an affine change of r, which ranking ignores: a_1 = 1 and b_1 = 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
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

LEAST_PRECISION = 3.0
"""Least ratio of the spread of relevance to its standard error at which slopes are estimated; below
it, they cannot be told from noise."""


def trust_bias(
    parts: Sequence[Any],
    context: str | None,
    n_positions: int,
    bootstrap: tuple[int, int],
    run: Executor,
) -> tuple[Array, Array, Array]:
    """Slopes and intercepts of all positions, and their bootstrap replicates over queries.

    Parameters
    ----------
    parts
        `Contrasts`, or futures of them.
    context
        Name of the context whose contrasts count; None means all contexts.
    n_positions
        Number of positions K.
    bootstrap
        Number of replicates, and seed.
    run
        Runs the sums over the parts.

    Returns
    -------
    (K,) slopes a, (K,) intercepts b, and (n_replicates, 2, K) replicates of both.

    Raises
    ------
    DataError
        If some positions are in no pair, or if relevance differs too little between documents, of
        all queries or of those of a replicate.
    """
    if n_positions == 1:  # no pairs, and nothing to estimate
        ones = np.ones((bootstrap[0], 1))
        return np.ones(1), np.zeros(1), np.stack([ones, 0.0 * ones], axis=1)
    tasks = [run.submit(moments, part, context, bootstrap, name="trust bias") for part in parts]
    sums = tree_sum(run.gather(tasks))
    spread = _spread(sums)
    error = spread[1:].std(axis=0, ddof=1)
    usable = spread[0] > LEAST_PRECISION * error
    slopes = [_solved(each, usable) for each in sums]
    return slopes[0][0], slopes[0][1], np.array(slopes[1:])


def moments(contrasts: Contrasts, context: str | None, bootstrap: tuple[int, int]) -> Array:
    """Moments of all pairs of positions.

    The five moments of a pair are weighted sums over contrasts, of one, of the rates of clicks at
    both positions, of the product of both rates, and of the squared rate at the first position.

    Returns
    -------
    (1 + n_replicates, n_pairs, 5) float64: the moments of all queries, then of each replicate, in
    which queries count as often as `resampling.times_drawn` says. Pairs are in the order of
    `itertools.combinations`.
    """
    found = contrasts.of(context, clicked=False)
    drawn = times_drawn(contrasts.query_keys, bootstrap)
    times = np.stack([np.ones(contrasts.n_queries), *drawn])
    pairs = combinations(range(found.impressions.shape[1]), 2)
    return np.stack([times @ _of_pair(found, *pair) for pair in pairs], axis=1)


def _of_pair(contrasts: Contrasts, first: int, second: int) -> Array:
    """(n_queries, 5) the moments of each query, over its contrasts with both positions."""
    n, c = contrasts.impressions, contrasts.clicks
    both = (n[:, first] > 1) & (n[:, second] > 0)
    n1, n2, c1, c2 = n[both, first], n[both, second], c[both, first], c[both, second]
    weight = n1 * n2 / (n1 + n2)
    x, y = c1 / n1, c2 / n2
    square = c1 * (c1 - 1) / (n1 * (n1 - 1))
    terms = [weight * each for each in (np.ones(len(x)), x, y, x * y, square)]
    query, size = contrasts.query[both], contrasts.n_queries
    return np.stack([np.bincount(query, term, size) for term in terms], axis=1)


def _spread(sums: Array) -> Array:
    """Variance of the rate at the first position of each pair, without noise; 0 without pairs."""
    weight = np.maximum(sums[..., 0], 1e-300)
    variance: Array = sums[..., 4] / weight - (sums[..., 1] / weight) ** 2
    return variance


def _solved(sums: Array, usable: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Slopes and intercepts of the positions from the moments (n_pairs, 5) of pairs.

    In a replicate, noise may leave a usable pair without spread; the pair says nothing there.

    Raises
    ------
    DataError
        If the pairs with spread do not join all positions.
    """
    usable = usable & (_spread(sums) > 0.0)
    _check_joined(usable, len(sums))
    n_positions = _n_positions(len(sums))
    pairs = np.array(list(combinations(range(n_positions), 2)))[usable]
    weight, x, y, xy = sums[usable, :4].T
    x, y, xy = x / weight, y / weight, xy / weight
    spread = _spread(sums)[usable]
    slope = np.maximum((xy - x * y) / spread, 1e-6)
    rows = np.arange(len(pairs))
    design = np.zeros((len(pairs), n_positions))
    design[rows, pairs[:, 1]], design[rows, pairs[:, 0]] = 1.0, -1.0
    a = np.exp(_least_squares(design, np.log(slope), weight * spread * slope**2))
    ratio = a[pairs[:, 1]] / a[pairs[:, 0]]
    design[rows, pairs[:, 0]] = -ratio
    return a, _least_squares(design, y - ratio * x, weight)


def _least_squares(design: Array, values: Array, weights: Array) -> Array:
    """The weighted least-squares solution whose first entry is 0."""
    root = np.sqrt(weights)[:, None]
    found = np.zeros(design.shape[1])
    found[1:] = np.linalg.lstsq(root * design[:, 1:], root[:, 0] * values)[0]
    return found


def _check_joined(usable: NDArray[np.bool_], n_pairs: int) -> None:
    n_positions = _n_positions(n_pairs)
    joined = np.zeros((n_positions, n_positions), np.int8)
    joined[np.triu_indices(n_positions, 1)] = usable
    _, part = connected_components(joined, directed=False)
    if (part != part[0]).any():
        missing = np.argmax(part != part[0]) + 1
        raise DataError(
            f"trust bias at position {missing} cannot be estimated: too few documents of different "
            "relevance were shown there and at other positions. Give more arms or nights, leave "
            "out the deeper positions with --depth, or give a and b in a table."
        )


def _n_positions(n_pairs: int) -> int:
    return (1 + math.isqrt(1 + 8 * n_pairs)) // 2
