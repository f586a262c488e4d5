"""Paired comparisons of models, or of scores from elsewhere, on a judged data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dranking.errors import UsageError
from dranking.metrics.comparison.compare import (
    DEFAULT_RESAMPLES,
    Comparison,
    check_resampling,
    compare_values,
)
from dranking.metrics.comparison.many_rankers import check_rankers, compare_ranker_values
from dranking.metrics.comparison.ranker_results import RankerComparison, Test
from dranking.metrics.conventions import Convention
from dranking.metrics.judged_runs import RunRules
from dranking.metrics.per_query import PerQuery
from dranking.metrics.query_groups import QueryGroups
from dranking.models.evaluation import Evaluation, evaluate
from dranking.models.query_groups import query_groups, read_again


def compare(  # noqa: PLR0913 - one call with keywords, as `dranking compare` has options
    a: Any,
    b: Any,
    data: Any = None,
    *,
    metric: str | Sequence[str] | None = None,
    convention: str | Convention | None = None,
    rules: RunRules | None = None,
    by: Any = None,
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
    metric, convention, rules, executor
        As in `dranking.evaluate`, for what is measured here.
    by
        Groups of queries, as in `dranking.evaluate`, which are compared apart as well
        (`Comparison.by`). None stands for the groups of `a` or `b`, if they have any.
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
    >>> found = dr.compare("f1", "f2", later, metric=["map"])
    >>> bool(found["map"].low > 0)
    True
    """
    check_resampling(n_resamples, confidence)
    measured, groups = _measured((a, b), data, metric, convention, rules, by, executor)
    drawn: dict[str, Any] = {"seed": seed, "n_resamples": n_resamples, "confidence": confidence}
    return compare_values(*measured, groups=groups, **drawn)


def compare_rankers(  # noqa: PLR0913 - one call with keywords, as `dranking compare` has options
    rankers: Mapping[str, Any],
    data: Any = None,
    *,
    metric: str | Sequence[str] | None = None,
    convention: str | Convention | None = None,
    rules: RunRules | None = None,
    by: Any = None,
    test: Test = "sign-flip",
    seed: int = 0,
    n_resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
    executor: Any = None,
) -> RankerComparison:
    """Compare several models, or scores from elsewhere: all pairs, at one level for all tests.

    A measure is compared on the queries that count for all rankers. Query weights count in the
    means, in the intervals and in the tests. Queries that count for fewer than 20 queries of equal
    weight (`n_effective`) cause a `ComparisonWarning`.

    Parameters
    ----------
    rankers
        Between 2 and 26 by name: results of `dranking.evaluate` on the same queries; or, with
        `data`, whatever `dranking.evaluate` measures.
    data, metric, convention, rules, by, executor
        As in `compare`; `RankerComparison.by` has the means of the groups.
    test
        ``sign-flip`` is the permutation test of the signs of the differences of each pair, with
        Holm's correction over all pairs and measures. ``tukey-hsd`` is the randomised test of
        Tukey, which holds where all rankers have the same noise: two equal rankers with ten times
        the noise of eight others are called different in .14 of cases at level .05.
    seed
        Seed of the bootstrap and of the tests.
    n_resamples
        Bootstrap samples, and random permutations, at least 1.
    confidence
        Coverage of each interval; the level of all tests together is 1 less this.

    Raises
    ------
    UsageError
        If `n_resamples`, `confidence` or `test` is none of these, the rankers have no measure in
        common, or a ranker needs `data`.
    DataError
        If queries, weights or conventions differ, a query occurs twice, or no query counts for a
        measure; and as `dranking.evaluate`.

    References
    ----------
    Smucker, Allan and Carterette, A comparison of statistical significance tests for information
    retrieval evaluation, CIKM 2007. Carterette, Multiple testing in statistical analysis of
    systems-based information retrieval experiments, ACM Transactions on Information Systems 30,
    2012.

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(240, 3)), np.repeat(np.arange(40), 6)
    >>> later = dr.from_arrays(X, X[:, 0] + rng.normal(size=240) > 0, qid)
    >>> found = dr.compare_rankers({"good": "f1", "poor": "f2", "bad": "f3"}, later, metric="map")
    >>> found["map"].rankers[0].better_than
    ('poor', 'bad')
    """
    check_rankers(len(rankers), test, n_resamples, confidence)
    given = rankers.values()
    measured, groups = _measured(given, data, metric, convention, rules, by, executor)
    return compare_ranker_values(
        dict(zip(rankers, measured, strict=True)),
        groups=groups,
        test=test,
        seed=seed,
        n_resamples=n_resamples,
        confidence=confidence,
    )


def _measured(
    scorers: Iterable[Any],
    data: Any,
    metric: str | Sequence[str] | None,
    convention: str | Convention | None,
    rules: RunRules | None,
    by: Any,
    executor: Any,
) -> tuple[list[Any], QueryGroups | None]:
    """Results of `evaluate`, given ones as they are or measured on the data; groups of queries."""
    data = data if by is None else read_again(data)
    results: list[Any] = []
    groups = None if by is None else query_groups(by)
    for scorer in scorers:
        found = scorer
        if data is not None and not isinstance(scorer, (Evaluation, PerQuery)):
            how = {"rules": rules, "by": groups or by, "executor": executor}
            found = evaluate(scorer, data, metric, convention, **how)
            groups = found.groups
        results.append(found)
    if by is not None and groups is None:
        raise UsageError(
            f"by={by!r} is a column of data, and nothing is measured on data here; give a mapping "
            "from query id to value, or evaluate the rankers with by."
        )
    return results, groups
