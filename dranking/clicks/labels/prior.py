"""The prior of relevance, by empirical Bayes over the documents of all queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.clicks.labels.label_sums import label_sums
from dranking.clicks.propensities.propensities import Prior, Propensities
from dranking.clicks.store.source import ClickSource, QueryFold, as_source, bucket_tasks
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.tree_sum import tree_sum
from dranking.errors import DataError

Array = NDArray[np.float64]

MAX_ROUNDS = 50
TOLERANCE = 1e-9
"""Rounds end when mean and variance of relevance change by less than this share."""

LEAST_SPREAD = 1e-3
"""Smallest variance of relevance, as a share of the squared mean: where documents hardly differ,
the prior is worth many impressions, but not infinitely many."""


def fit_prior(
    clicks: ClickSource | ClickCounts | Sequence[ClickCounts],
    propensities: Propensities,
    *,
    executor: Any = None,
) -> Propensities:
    """The propensities, and those of their folds, with the prior of relevance that fits the clicks.

    The estimate x of a document, its corrected clicks over its examined impressions, has the mean r
    and noise, whose variance follows from the counts and the mean relevance r0. Mean r0 and
    variance v of r over documents follow from the weighted mean and the weighted spread of x, where
    the weight of a document is one over the sum of v and its noise; rounds go on until r0 and v
    stay. The pseudo-count is r0 / v. Weights and noise depend on impressions, not on the clicks of
    the document, so that both are consistent.

    Raises
    ------
    DataError
        If there are no clicks at the positions of the propensities.
    """
    source, run = as_source(clicks), get_executor(executor)
    n_folds = len(propensities.folds)
    folds = [
        own.model_copy(update={"prior": _prior(QueryFold(source, k, n_folds, True), own, run)})
        for k, own in enumerate(propensities.folds)
    ]
    prior = _prior(source, propensities, run)
    return propensities.model_copy(update={"prior": prior, "folds": tuple(folds)})


def _prior(source: ClickSource, propensities: Propensities, run: Executor) -> Prior:
    parts = bucket_tasks(_estimates, source, run, propensities, name="relevance of documents")
    mean, spread = 1.0, np.inf
    for _ in range(MAX_ROUNDS):
        tasks = [run.submit(_moments, part, mean, spread, name="prior") for part in parts]
        weight, first, second, squares = tree_sum(run.gather(tasks)).tolist()
        if weight <= 0 or first <= 0:
            raise DataError("there are no clicks from which to estimate the prior of relevance.")
        before = mean, spread
        mean = first / weight
        spread = mean**2 if spread == np.inf else max(second / squares, LEAST_SPREAD * mean**2)
        if np.allclose(before, (mean, spread), rtol=TOLERANCE, atol=0.0):
            break
    return Prior(mean=mean, pseudo_count=mean / spread)


def _estimates(counts: ClickCounts, propensities: Propensities) -> tuple[Array, Array, Array]:
    """Corrected clicks, examined impressions and expected clicks by trust of each document."""
    sums = label_sums(counts, propensities)
    return sums.corrected, sums.examined, sums.clicks - sums.corrected


def _moments(parts: tuple[Array, Array, Array], mean: float, spread: float) -> Array:
    """Sums of weights, weighted estimates, squared weights times spread, and squared weights."""
    corrected, examined, by_trust = parts
    noise = (mean * examined + by_trust) / examined**2
    weight = 1 / (noise if spread == np.inf else spread + noise)
    estimate = corrected / examined
    beyond_noise = (estimate - mean) ** 2 - noise
    terms = (weight, weight * estimate, weight**2 * beyond_noise, weight**2)
    return np.array([term.sum() for term in terms])
