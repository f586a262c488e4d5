"""Harvesting propensities from counts of clicks: interventions of Agarwal et al. (2019)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.clicks.propensities.conditional_poisson import (
    bootstrap_replicates,
    check_joined,
    clicks_between,
    maximum,
    total_score_and_information,
)
from dranking.clicks.propensities.contrasts import ContrastRules, contrasts_of
from dranking.clicks.propensities.propensities import Curve, Propensities
from dranking.clicks.propensities.trust_bias import trust_bias
from dranking.clicks.propensities.user_scores import drawn_errors, user_covariance
from dranking.clicks.store.source import ClickSource, QueryFold, as_source, bucket_tasks
from dranking.engine.executor import Executor, Task, get_executor
from dranking.engine.tree_sum import tree_sum
from dranking.errors import ClickWarning, DataError, UsageError

Array = NDArray[np.float64]

LEVELS = (2.5, 97.5)
"""Percentiles of bootstrap replicates that bound a 95 % interval."""

THIN = 1_000
"""A context with fewer clicks in its contrasts gets the curve of all contexts."""


@dataclass(frozen=True)
class HarvestRules:
    """How propensities are harvested.

    Attributes
    ----------
    nights_are_arms
        Compare nights too. Fair only if the rankers used none of these clicks, and relevance did
        not change: rankers that learn from clicks promote documents that were lucky.
    randomised_arms
        Arms that swap documents at random.
    depth
        Deepest position; None means the deepest of the counts.
    trust_bias
        Whether clicks on irrelevant documents at high positions (b) are estimated too.
    contexts
        Whether contexts with enough clicks get curves of their own.
    n_replicates, seed
        Of the bootstrap over queries, at least 2 replicates.
    n_folds
        Folds of the queries whose labels get propensities of the other folds; 0 for none.
    """

    nights_are_arms: bool = False
    randomised_arms: tuple[str, ...] = ()
    depth: int | None = None
    trust_bias: bool = False
    contexts: bool = True
    n_replicates: int = 400
    seed: int = 0
    n_folds: int = 0


def harvest_propensities(
    clicks: ClickSource | ClickCounts | Sequence[ClickCounts],
    rules: HarvestRules = HarvestRules(),
    *,
    executor: Any = None,
) -> Propensities:
    """Propensities from clicks on the same document of the same query at different positions.

    Parameters
    ----------
    clicks
        Counts in memory, or a store of clicks.
    rules
        What is compared, and what is estimated.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If the counts have one arm only, no arm is randomised, and nights are not arms.
    DataError
        If some positions are not compared with the others, or by too few clicks.

    Warns
    -----
    ClickWarning
        If nights are arms.

    Notes
    -----
    Intervals cover queries drawn anew and, if there are counts by user and no trust bias is
    estimated, users who come back with other queries. Visitors without an id count as users who
    do not come back.
    """
    if rules.n_replicates < 2 or (rules.depth is not None and rules.depth < 1):
        raise UsageError("give at least 2 bootstrap replicates, and a depth of at least 1.")
    if rules.n_folds < 0 or rules.n_folds == 1:
        raise UsageError(f"n_folds is {rules.n_folds}; there are two folds of queries at least.")
    source, run = as_source(clicks), get_executor(executor)
    depth, arms, contexts = _facts(source, run)
    _check_arms(arms, rules)
    rules = replace(rules, depth=min(depth, rules.depth or depth))
    found = _harvested(source, contexts, rules, run)
    folds = (QueryFold(source, k, rules.n_folds, left_out=True) for k in range(rules.n_folds))
    return found.model_copy(
        update={"folds": tuple(_harvested(fold, contexts, rules, run) for fold in folds)}
    )


@dataclass(frozen=True)
class _Compared:
    """Contrasts of all buckets, and what to do with them.

    Attributes
    ----------
    source
        The counts.
    parts
        Tasks that make `Contrasts`, one of each bucket.
    rules
        What is estimated, as deep as the counts are at most.
    run
        Runs the sums over the parts.
    """

    source: ClickSource
    parts: list[Task]
    rules: HarvestRules
    run: Executor


def _contrast_rules(rules: HarvestRules) -> ContrastRules:
    return ContrastRules(rules.nights_are_arms, rules.randomised_arms)


def _harvested(
    source: ClickSource, contexts: set[str], rules: HarvestRules, run: Executor
) -> Propensities:
    """The curves of all contexts and of those with enough clicks, as deep as the rules say."""
    args = (_contrast_rules(rules), rules.depth)
    parts = bucket_tasks(contrasts_of, source, run, *args, name="contrasts")
    compared = _Compared(source, parts, rules, run)
    curves = [_curve(compared, None, _between(compared, None))]
    several = sorted(contexts) if rules.contexts and len(contexts) > 1 else []
    for context in several:
        own = _own_curve(compared, context)
        if own is not None:
            curves.append(own)
    return Propensities(
        origin="harvested",
        curves=tuple(curves),
        nights_are_arms=rules.nights_are_arms,
        randomised_arms=rules.randomised_arms,
        seed=rules.seed,
        by_user=source.has_users and not rules.trust_bias,
    )


def _facts(source: ClickSource, run: Executor) -> tuple[int, set[str], set[str]]:
    """The deepest position, and the names of arms and contexts, of all buckets."""
    found = run.gather(bucket_tasks(_facts_of, source, run, name="positions"))
    depths, arms, contexts = zip(*found, strict=True) if found else ((0,), (), ())
    if max(depths) < 1:
        raise DataError("there are no impressions to harvest propensities from.")
    return max(depths), set().union(*arms), set().union(*contexts)


def _facts_of(counts: ClickCounts) -> tuple[int, set[str], set[str]]:
    arms = {counts.arms[arm] for arm in np.unique(counts.arm)}
    contexts = {counts.contexts[context] for context in np.unique(counts.context)}
    return int(counts.position.max(initial=0)), arms, contexts


def _check_arms(arms: set[str], rules: HarvestRules) -> None:
    unknown = sorted(set(rules.randomised_arms) - arms)
    if unknown:
        raise UsageError(f"there is no arm {unknown[0]!r}; there are {', '.join(sorted(arms))}.")
    if rules.nights_are_arms:
        warnings.warn(
            "nights are compared with each other: the propensities are right only if the rankers "
            "learned from none of these clicks and relevance did not change from night to night. "
            "Rankers that learn from clicks promote documents that were lucky, and the curve then "
            "falls too steeply or too slowly by a factor.",
            ClickWarning,
            stacklevel=3,
        )
    elif len(arms) < 2 and not rules.randomised_arms:
        raise UsageError(
            "the clicks have one arm, so that no document was shown at two positions for a reason "
            "that is independent of users and clicks. Serve two rankers side by side or swap "
            "documents at random and name the arms in the log (--randomised-arms names arms that "
            "swap); give the propensities; or, if the rankers learned from none of these clicks, "
            "compare nights with --nights-are-arms."
        )


def _own_curve(compared: _Compared, context: str) -> Curve | None:
    """The curve of one context; None where it is thin."""
    between = _between(compared, context)
    if np.diag(between).sum() < THIN:
        return None
    try:
        return _curve(compared, context, between)
    except DataError:  # positions that this context alone does not join
        return None


def _curve(compared: _Compared, context: str | None, between: Array) -> Curve:
    """The curve of a context, or of all for None; `between` is that of `_between`."""
    parts, rules, run = compared.parts, compared.rules, compared.run
    check_joined(between, "" if context is None else f"context {context!r}")
    n_contrasts = sum(
        run.gather([run.submit(_n_contrasts, part, context, name="contrasts") for part in parts])
    )
    if rules.trust_bias:
        bootstrap = (rules.n_replicates, rules.seed)
        a, b, replicates = trust_bias(parts, context, bootstrap, run)
        drawn, drawn_b = replicates[:, 0], replicates[:, 1]
    else:
        theta = maximum(parts, context, between.shape[0], run)
        a, b, drawn_b = np.exp(theta), np.zeros(len(theta)), None
        drawn = np.exp(_replicates(compared, context, theta))
    return Curve(
        context=context,
        a=tuple(a.tolist()),
        b=tuple(b.tolist()),
        a_intervals=_intervals(drawn),
        b_intervals=None if drawn_b is None else _intervals(drawn_b),
        a_replicates=_rounded(drawn),
        b_replicates=None if drawn_b is None else _rounded(drawn_b),
        n_contrasts=n_contrasts,
        n_clicks=int(np.diag(between).sum()),
    )


def _replicates(compared: _Compared, context: str | None, theta: Array) -> Array:
    """(n_replicates, K) logarithms: queries drawn anew, and what users who come back add."""
    parts, rules, run = compared.parts, compared.rules, compared.run
    bootstrap = (rules.n_replicates, rules.seed)
    drawn = bootstrap_replicates(parts, theta, context, bootstrap, run)
    if not compared.source.has_users:
        return drawn
    covariance = user_covariance(compared.source, _contrast_rules(rules), theta, context, run)
    _, information = total_score_and_information(parts, theta, context, run)
    return drawn + drawn_errors(covariance, information, bootstrap)


def _between(compared: _Compared, context: str | None) -> Array:
    """The sum over all parts of `clicks_between`."""
    run = compared.run
    tasks = [
        run.submit(clicks_between, part, context, name="clicks between") for part in compared.parts
    ]
    found: Array = tree_sum(run.gather(tasks))
    return found


def _n_contrasts(contrasts: Any, context: str | None) -> int:
    return len(contrasts.of(context, clicked=True).query)


def _intervals(replicates: Array) -> tuple[tuple[float, float], ...]:
    low, high = np.percentile(replicates, LEVELS, axis=0)
    return tuple(zip(low.tolist(), high.tolist(), strict=True))


def _rounded(replicates: Array) -> tuple[tuple[float, ...], ...]:
    """Replicates with so many digits as their spread deserves."""
    return tuple(tuple(float(f"{x:.5g}") for x in row) for row in replicates.tolist())
