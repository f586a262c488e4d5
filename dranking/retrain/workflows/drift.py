"""Shifts of the distributions of features, and the limits that chance alone exceeds rarely.

The documents of a query are alike, so that a part of few queries differs from any other data far
more than as many independent documents would. The limit of a shift therefore comes from permuting
whole queries between the two sides.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dranking.retrain.gate.gate import FeatureDrift
from dranking.retrain.workflows.profiles import Array, Profile

FLOOR: Final = 1e-4
"""Share of documents assumed for an empty bin, so that the logarithm is finite."""

N_PERMUTATIONS: Final = 1_999
FEATURES_AT_ONCE: Final = 64


def drift_between(
    before: Profile,
    after: Profile,
    *,
    level: float,
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> dict[str, FeatureDrift]:
    """Shift of every feature, and the limit that chance alone exceeds in any feature.

    The shift is the population stability index of the sampled queries. If the queries of both sides
    come from one population, in any order, some index exceeds its limit with probability at most
    `level`: whole queries are permuted between the sides (a permutation test, exact for
    exchangeable queries at any number of queries), and the largest standardised root of an index
    over all features is compared with its permutation distribution (Westfall and Young, single
    step), which keeps the dependence between features. The edges come from data of the first side;
    their effect vanishes as that side grows, and is below the error of the simulation in
    ``pipelines/reproduce/README.md``.

    Parameters
    ----------
    before, after
        Profiles with equal features and edges.
    level
        Probability of any index above its limit without a shift.
    n_permutations
        Number of permutations beside the data in their own order; `level` is at least
        1 / (n_permutations + 1).
    seed
        Seed of the permutations.

    References
    ----------
    Westfall and Young, Resampling-based multiple testing, 1993, section 2.3. Romano and Wolf,
    Exact and approximate stepdown methods for multiple hypothesis testing, JASA 2005.
    """
    if not before.is_like(after):
        raise ValueError("profiles with different features or edges cannot be compared")
    sides = np.concatenate([before.sample, after.sample])
    is_after = _permuted_sides(len(before.sample), len(after.sample), n_permutations, seed)
    n_features = len(before.feature_names)
    found = [
        _standardised(sides[:, start : start + FEATURES_AT_ONCE], is_after)
        for start in range(0, n_features, FEATURES_AT_ONCE)
    ]
    index, mean, deviation = (np.concatenate([each[i] for each in found]) for i in range(3))
    largest = np.sort(np.max([each[3] for each in found], axis=0))
    critical = largest[int(np.ceil((1 - level) * len(largest))) - 1]
    limits = np.maximum(0.0, mean + critical * deviation) ** 2
    return {
        name: FeatureDrift(float(i), float(limit))
        for name, i, limit in zip(before.feature_names, index, limits, strict=True)
    }


def _permuted_sides(n_before: int, n_after: int, n: int, seed: int) -> NDArray[np.float32]:
    """(n + 1, n_before + n_after) 1 for queries of the second side; row 0 is not permuted."""
    rng = np.random.default_rng(seed)
    sides = np.zeros((n + 1, n_before + n_after), dtype=np.float32)
    sides[:, n_before:] = 1
    sides[1:] = rng.permuted(sides[1:], axis=1)
    return sides


def _standardised(
    sample: NDArray[np.uint16], is_after: NDArray[np.float32]
) -> tuple[Array, Array, Array, Array]:
    """Index of some features, mean and deviation of its root, largest standardised root.

    The first three have an entry for each feature, the last has one for each permutation.
    """
    n_queries, n_features, n_bins = sample.shape
    flat = sample.reshape(n_queries, -1).astype(np.float32)
    after = (is_after @ flat).reshape(-1, n_features, n_bins)
    index = population_stability(flat.sum(axis=0).reshape(n_features, n_bins) - after, after)
    root = np.sqrt(index)
    mean, deviation = root.mean(axis=0), root.std(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        standardised = (root - mean) / deviation
    standardised[:, deviation <= 1e-12] = -np.inf  # a constant feature
    return index[0], mean, deviation, standardised.max(axis=1)


def population_stability(before: NDArray[np.floating], after: NDArray[np.floating]) -> Array:
    """Population stability index of counts: sum of (p - q) log (p / q) over bins.

    The index is 0 without any shift; 0.1 is commonly called a small shift, 0.25 a large shift. Bins
    with equal edges count as one bin.

    Parameters
    ----------
    before, after
        (..., n_bins) numbers of documents.

    Returns
    -------
    (...,) float64.
    """
    p, q = (
        np.maximum(counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1.0), FLOOR)
        for counts in (after.astype(np.float64), before.astype(np.float64))
    )
    index: Array = ((p - q) * np.log(p / q)).sum(axis=-1)
    return index
