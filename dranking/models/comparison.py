"""Paired comparison of two models, or of scores from elsewhere, on a judged data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dranking.metrics.comparison.compare import DEFAULT_RESAMPLES, Comparison, compare_values
from dranking.metrics.conventions import Convention
from dranking.metrics.judged_runs import RunRules
from dranking.metrics.per_query import PerQuery
from dranking.models.evaluation import Evaluation, evaluate


def compare(  # noqa: PLR0913 - one call with keywords, as `dranking compare` has options
    a: Any,
    b: Any,
    data: Any = None,
    *,
    metrics: str | Sequence[str] | None = None,
    convention: str | Convention | None = None,
    rules: RunRules | None = None,
    seed: int = 0,
    n_resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
    executor: Any = None,
) -> Comparison:
    """Compare two models, or scores from elsewhere, query by query.

    The interval of the mean difference is the main figure; p-values stand beside the interval.
    Query weights count in the means, in the interval and in the tests; wins and losses count
    queries without weights. The interval of a metric does not depend on the other metrics. Queries
    that count for fewer than 20 queries of equal weight (`n_effective`) cause a
    `ComparisonWarning`: see the tables of `dranking.metrics.comparison.significance.mean_interval`.

    Parameters
    ----------
    a, b
        Results of `dranking.evaluate` on the same queries, in any order, under the same convention;
        or, with `data`, whatever `dranking.evaluate` measures.
    data
        Judged queries, as in `dranking.evaluate`. None if `a` and `b` are results.
    metrics, convention, rules, executor
        As in `dranking.evaluate`, for what is measured here.
    seed
        Seed of the bootstrap and of the permutations.
    n_resamples
        Bootstrap samples, and random permutations, at least 1.
    confidence
        Coverage of the interval, between 0 and 1.

    Raises
    ------
    UsageError
        If `n_resamples` or `confidence` is out of range, the results have no metric in common, or
        `a` or `b` needs `data`.
    DataError
        If queries, weights or conventions differ, a query occurs twice, or no query counts for a
        metric; and as `dranking.evaluate`.

    References
    ----------
    Smucker, Allan and Carterette, A comparison of statistical significance tests for information
    retrieval evaluation, CIKM 2007.

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(240, 2)), np.repeat(np.arange(40), 6)
    >>> later = dr.from_arrays(X, X[:, 0] + rng.normal(size=240) > 0, qid)
    >>> found = dr.compare("f1", "f2", later, metrics=["map"])
    >>> bool(found["map"].low > 0)
    True
    """

    def measured(scorer: Any) -> Any:
        if data is None or isinstance(scorer, (Evaluation, PerQuery)):
            return scorer
        return evaluate(scorer, data, metrics, convention, rules=rules, executor=executor)

    return compare_values(
        measured(a), measured(b), seed=seed, n_resamples=n_resamples, confidence=confidence
    )
