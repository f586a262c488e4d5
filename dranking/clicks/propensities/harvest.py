"""Harvesting propensities from counts of clicks: interventions of Agarwal et al. (2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dranking.clicks.counts import ClickCounts
from dranking.clicks.propensities.arm_rates import check_rates
from dranking.clicks.propensities.conditional_poisson import (
    bootstrap_replicates,
    check_joined,
    clicks_between,
    maximum,
    total_score_and_information,
)
from dranking.clicks.propensities.contrasts import ContrastRules, Contrasts, contrasts_of
from dranking.clicks.propensities.propensities import LARGEST_SLOPE, Curve, Propensities
from dranking.clicks.propensities.shown import (
    arms_and_positions,
    check_shown,
    comparable_arms,
)
from dranking.clicks.propensities.trust_bias import trust_bias
from dranking.clicks.propensities.user_scores import drawn_errors, user_covariance
from dranking.clicks.store.source import ClickSource, QueryFold, as_source, bucket_tasks
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor, Task
from dranking.engine.tree_sum import tree_sum
from dranking.errors import ClickWarning, DataError, UsageError, warn_user
from dranking.metrics.comparison.significance import FEWEST_QUERIES

Array = NDArray[np.float64]

LEVELS = (2.5, 97.5)
"""Percentiles of bootstrap replicates that bound a 95 % interval."""

LARGEST = float(np.log(LARGEST_SLOPE))
"""Largest end of an interval of the logarithm of a propensity."""

THIN = 1_000
"""A context with fewer clicks in its contrasts gets the curve of all contexts."""


@dataclass(frozen=True)
class HarvestRules:
    """The rules by which propensities are harvested.

    Attributes
    ----------
    nights_are_arms
        Compare nights too. This is fair only if the rankers used none of these clicks, and
        relevance did not change: rankers that learn from clicks promote documents that were lucky.
    randomised_arms
        Arms that swap documents at random.
    depth
        Deepest position; None means the deepest position of the counts.
    trust_bias
        Whether clicks on irrelevant documents at high positions (b) are estimated too.
    contexts
        Whether contexts with enough clicks get curves of their own, as deep as the context.
    n_replicates, seed
        Number of replicates of the bootstrap over queries, at least 2, and its seed.
    n_folds
        Number of folds of the queries. The labels of a fold get the propensities of the other
        folds; 0 means that all labels get the same propensities.
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
        The positions and nights to compare, and the parameters to estimate.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If the counts name one arm at most, no arm is randomised, and nights are not arms.
    DataError
        If nothing compares some positions with the others, or too few clicks do; or if arms have
        rates of clicks on the same documents at the same positions that are more than 10 % apart.

    Warns
    -----
    ClickWarning
        If nights are arms; if rates of arms differ by less; if a context has the curve of all
        contexts, and why; or if a curve rests on fewer than `FEWEST_QUERIES` queries.

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
    arms, positions = arms_and_positions(source, run)
    named = comparable_arms(arms, _contrast_rules(rules))
    depths = {context: max(shown) for context, shown in positions.items()}
    deepest = max(depths.values())
    depth = min(deepest, rules.depth or deepest)
    rules = replace(rules, depth=depth)
    check_shown(set().union(*positions.values()), depth)
    differing = check_rates(source, _contrast_rules(rules), named, depth, run)
    found, warned = _harvested(source, depths, rules, run)
    for warning in [*differing, *warned]:
        warn_user(warning, ClickWarning)
    folds = (QueryFold(source, k, rules.n_folds, complement=True) for k in range(rules.n_folds))
    return found.model_copy(
        update={"folds": tuple(_harvested(fold, depths, rules, run)[0] for fold in folds)}
    )


@dataclass(frozen=True)
class _Compared:
    """Contrasts of all buckets, and what to do with them.

    Attributes
    ----------
    source
        The counts.
    parts
        Tasks that make `Contrasts`, one for each bucket.
    rules
        The rules of the caller, with a depth that is at most the depth of the counts.
    run
        Runs the sums over the parts.
    warned
        What the user is warned of, so far.
    """

    source: ClickSource
    parts: list[Task]
    rules: HarvestRules
    run: Executor
    warned: list[str]


def _contrast_rules(rules: HarvestRules) -> ContrastRules:
    return ContrastRules(rules.nights_are_arms, rules.randomised_arms)


def _harvested(
    source: ClickSource, depths: Mapping[str, int], rules: HarvestRules, run: Executor
) -> tuple[Propensities, list[str]]:
    """The curves of all contexts and of those with enough clicks; and what to warn of.

    Curves are as deep as their context (`depths`), and as the rules say at most.
    """
    args = (_contrast_rules(rules), rules.depth)
    parts = bucket_tasks(contrasts_of, source, run, *args, name="contrasts")
    compared = _Compared(source, parts, rules, run, [])
    curves = [_curve(compared, None, _between(compared, None))]
    # At position 1, every curve says the same.
    deep = sorted(name for name, depth in depths.items() if min(depth, rules.depth or depth) > 1)
    several = deep if rules.contexts and len(depths) > 1 else []
    pooled: list[str] = []
    for context in several:
        own = _own_curve(compared, context, depths[context])
        if isinstance(own, str):
            pooled.append(f"{context!r} ({own})")
        else:
            curves.append(own)
    if pooled:
        compared.warned.append(
            f"contexts that get the curve of all contexts: {'; '.join(pooled)}. Their labels and "
            "values are wrong as far as their users look at other positions than all users do."
        )
    found = Propensities(
        origin="harvested",
        curves=tuple(curves),
        nights_are_arms=rules.nights_are_arms,
        randomised_arms=rules.randomised_arms,
        seed=rules.seed,
        by_user=source.has_users and not rules.trust_bias,
    )
    return found, compared.warned


def _own_curve(compared: _Compared, context: str, depth: int) -> Curve | str:
    """The curve of one context as deep as its positions; or why there is none."""
    run, depth = compared.run, min(depth, compared.rules.depth or depth)
    parts = [
        run.submit(Contrasts.of_context, part, context, depth, name="contrasts")
        for part in compared.parts
    ]
    compared = replace(compared, parts=parts)
    between = _between(compared, context)
    if (n_clicks := int(np.diag(between).sum())) < THIN:
        return f"{n_clicks:,} clicks in its contrasts, fewer than {THIN:,}"
    try:
        return _curve(compared, context, between)
    except DataError as error:  # positions that this context alone does not join
        return str(error).removeprefix(f"context {context!r}: ").removesuffix(".")


def _curve(compared: _Compared, context: str | None, between: Array) -> Curve:
    """The curve of a context (None means all); `between` is what `_between` returns for it."""
    parts, rules, run = compared.parts, compared.rules, compared.run
    check_joined(between, "" if context is None else f"context {context!r}")
    sizes = [run.submit(_sizes, part, context, name="contrasts") for part in parts]
    n_contrasts, n_queries = np.sum(run.gather(sizes), axis=0).tolist()
    if rules.trust_bias:
        bootstrap = (rules.n_replicates, rules.seed)
        a, b, replicates = trust_bias(parts, context, between.shape[0], bootstrap, run)
        drawn, drawn_b = replicates[:, 0], replicates[:, 1]
    else:
        theta = maximum(parts, context, between.shape[0], run)
        a, b, drawn_b = np.exp(theta), np.zeros(len(theta)), None
        drawn = np.exp(_replicates(compared, context, theta))
    if n_queries < FEWEST_QUERIES and between.shape[0] > 1:
        name = "all contexts" if context is None else f"context {context!r}"
        compared.warned.append(
            f"the propensities of {name} rest on {n_queries} queries: intervals of fewer than "
            f"{FEWEST_QUERIES} queries are right only if these queries have about as many clicks."
        )
    return Curve(
        context=context,
        a=tuple(a.tolist()),
        b=tuple(b.tolist()),
        a_intervals=_pairs(np.exp(_intervals(np.log(a), np.log(drawn), n_queries))),
        b_intervals=None if drawn_b is None else _pairs(_intervals(b, drawn_b, n_queries)),
        a_replicates=_rounded(drawn),
        b_replicates=None if drawn_b is None else _rounded(drawn_b),
        n_contrasts=n_contrasts,
        n_clicks=int(np.diag(between).sum()),
    )


def _replicates(compared: _Compared, context: str | None, theta: Array) -> Array:
    """(n_replicates, K) logarithms: of queries drawn anew, with errors by users who come back."""
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


def _sizes(contrasts: Contrasts, context: str | None) -> tuple[int, int]:
    """Numbers of contrasts with clicks, and of their queries."""
    query = contrasts.of(context, clicked=True).query
    return len(query), len(np.unique(query))


def _intervals(found: Array, replicates: Array, n_queries: int) -> Array:
    """(2, K) ends of 95 % intervals: percentiles of replicates, widened for few queries.

    The r-th smallest of n replicates is the percentile r / (n + 1). The replicates of few queries
    vary too little, and their variance is uncertain: Student's t in place of the normal quantile.
    """
    n = max(n_queries, 2)
    wider = stats.t.isf(0.025, n - 1) / stats.norm.isf(0.025) * np.sqrt(n / (n - 1))
    ends = np.percentile(replicates, LEVELS, axis=0, method="weibull")
    wide: Array = np.clip(found + wider * (ends - found), -LARGEST, LARGEST)
    return wide


def _pairs(ends: Array) -> tuple[tuple[float, float], ...]:
    """The lower and upper end of each interval."""
    low, high = ends.tolist()
    return tuple(zip(low, high, strict=True))


def _rounded(replicates: Array) -> tuple[tuple[float, ...], ...]:
    """Replicates with five digits, which are enough for a spread."""
    return tuple(tuple(float(f"{x:.5g}") for x in row) for row in replicates.tolist())
