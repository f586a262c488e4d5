"""Comparison of several rankers over the same queries: all pairs, with one level for all tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dranking.errors import DataError, UsageError, quoted
from dranking.metrics.comparison.alignment import common_measures, in_the_order_of
from dranking.metrics.comparison.compare import (
    DEFAULT_RESAMPLES,
    check_resampling,
    counts_of_wins,
    groups_of_results,
    overlap_of_result,
    warn_of_few_queries,
)
from dranking.metrics.comparison.randomised_tests import holm, sign_flip_tests, tukey_hsd
from dranking.metrics.comparison.ranker_results import (
    LETTERS,
    MeasureOfGroup,
    MeasureOfRankers,
    RankerComparison,
    RankerMean,
    RankerPair,
    Test,
)
from dranking.metrics.comparison.significance import (
    cut_to_range,
    effective_queries,
    mean_and_error,
    mean_tests,
)
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.per_query import PerQuery, per_query_of
from dranking.metrics.query_groups import QueryGroups

N_FURTHEST = 10
"""Number of queries that are named because their values lie furthest apart."""


def compare_ranker_values(
    results: Mapping[str, Any],
    *,
    groups: QueryGroups | None = None,
    test: Test = "sign-flip",
    seed: int = 0,
    n_resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
) -> RankerComparison:
    """Compare rankers whose values of every query are known, by name.

    Parameters, figures, warnings and errors are those of
    `dranking.models.comparison.compare_rankers`, except that the rankers are results of
    `dranking.evaluate` or their `PerQuery` values, and `groups` are groups of queries; None stands
    for those of a ranker that has any.
    """
    check_rankers(len(results), test, n_resamples, confidence)
    names = tuple(results)
    first, *others = map(per_query_of, results.values())
    tables = [first]
    for name, other in zip(names[1:], others, strict=True):
        tables.append(in_the_order_of(first, other, (names[0], name)))
    measures = common_measures(dict(zip(names, tables, strict=True)))
    drawn = {"seed": seed, "n_resamples": n_resamples}
    shared = [_Shared.of(measure, tables) for measure in measures]
    n_tests = len(measures) * math.comb(len(names), 2)
    # The least p-value of a random test, times the number of tests, is half of the level or less.
    n_draws = max(n_resamples, math.ceil(2 * n_tests / (1.0 - confidence)))
    tests = [one.p_values(test, seed=seed, n_resamples=n_draws) for one in shared]
    if test == "sign-flip":
        adjusted = holm(np.concatenate(tests)).reshape(len(measures), -1)
    else:
        adjusted = np.minimum(np.array(tests) * len(measures), 1.0)
    entries = [
        one.entry(names, p_values, p_adjusted, confidence=confidence, **drawn)
        for one, p_values, p_adjusted in zip(shared, tests, adjusted, strict=True)
    ]
    fewest = min(entries, key=lambda entry: entry.n_effective)
    warn_of_few_queries(fewest.metric, fewest.n_queries, fewest.n_effective)
    groups = groups or groups_of_results(results.values())
    by = _by_group(measures, tables, names, groups, confidence=confidence, **drawn)
    return RankerComparison(
        names,
        tuple(entries),
        first.n_queries,
        test,
        confidence,
        n_resamples,
        seed,
        {name: overlap_of_result(result) for name, result in results.items()},
        next((table.convention for table in tables if table.convention is not None), None),
        by,
    )


def _by_group(
    measures: Sequence[str],
    tables: Sequence[PerQuery],
    names: tuple[str, ...],
    groups: QueryGroups | None,
    **how: Any,
) -> dict[str, tuple[MeasureOfGroup, ...]]:
    """The means of each group of queries, for each measure."""
    found = {}
    rows_of = {} if groups is None else groups.rows(tables[0].query_ids)
    for label, rows in rows_of.items():
        parts = [table.take(rows) for table in tables]
        of_group = [_Shared.of(measure, parts, may_be_empty=True) for measure in measures]
        found[label] = tuple(one.means(names, **how) for one in of_group)
    return found


def check_rankers(
    n_rankers: int,
    test: str = "sign-flip",
    n_resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
) -> None:
    """Raise UsageError unless so many rankers can be compared with these parameters."""
    check_resampling(n_resamples, confidence)
    if test not in get_args(Test):
        raise UsageError(f"test is {test!r}; choose from {quoted(get_args(Test))}.")
    if not 2 <= n_rankers <= len(LETTERS):
        raise UsageError(
            f"the number of rankers is {n_rankers}; 2 to {len(LETTERS)} can be compared."
        )


@dataclass(frozen=True, eq=False)
class _Shared:
    """Values (n_queries, n_rankers) of a measure on the queries that count for all rankers."""

    metric: str
    query_ids: list[Any]
    values: NDArray[np.float64]
    weights: NDArray[np.float64]
    n_excluded: int

    @classmethod
    def of(cls, metric: str, tables: Sequence[PerQuery], may_be_empty: bool = False) -> _Shared:
        values = np.column_stack([table.values[metric] for table in tables])
        given = tables[0].weights
        weights = np.ones(len(values)) if given is None else given
        counts = ~np.isnan(values).any(axis=1) & (weights > 0)
        if not counts.any() and not may_be_empty:
            raise DataError(f"{metric}: no query counts for all rankers; nothing is to compare.")
        ids = tables[0].query_ids.filter(counts).to_pylist()
        return cls(metric, ids, values[counts], weights[counts], int((~counts).sum()))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Positions of the rankers of every pair."""
        return list(combinations(range(self.values.shape[1]), 2))

    def differences(self, a: int, b: int) -> NDArray[np.float64]:
        """(n_queries,) differences of a pair of rankers."""
        found: NDArray[np.float64] = self.values[:, a] - self.values[:, b]
        return found

    def p_values(self, test: Test, **drawn: int) -> NDArray[np.float64]:
        """(n_pairs,) p-values."""
        if test == "tukey-hsd":
            of_all = tukey_hsd(self.values, self.weights, **drawn)
            return np.array([of_all[pair] for pair in self.pairs])
        differences = np.column_stack([self.differences(*pair) for pair in self.pairs])
        return sign_flip_tests(differences, self.weights, **drawn)

    def entry(
        self,
        names: tuple[str, ...],
        p_values: NDArray[np.float64],
        p_adjusted: NDArray[np.float64],
        *,
        confidence: float,
        **drawn: int,
    ) -> MeasureOfRankers:
        """The figures of the measure, with the p-values of its pairs."""
        sign = 1.0 if higher_is_better(self.metric) else -1.0
        columns = np.column_stack([self.values, *(self.differences(*pair) for pair in self.pairs)])
        # The same bootstrap samples serve all rankers and pairs.
        intervals = iter(mean_tests(columns, self.weights, confidence=confidence, **drawn))
        of_rankers = [
            cut_to_range(self.metric, values, *next(intervals)[:2]) for values in self.values.T
        ]
        better: dict[str, list[str]] = {name: [] for name in names}
        pairs = []
        for (a, b), interval, p, adjusted in zip(
            self.pairs, intervals, p_values.tolist(), p_adjusted.tolist(), strict=True
        ):
            differences = self.differences(a, b)
            mean = mean_and_error(differences, self.weights)[0]
            wins = counts_of_wins(sign * differences)
            ends = interval.low, interval.high
            pairs.append(RankerPair(names[a], names[b], mean, *ends, p, adjusted, *wins))
            if adjusted < 1.0 - confidence:
                winner, loser = (a, b) if sign * mean > 0 else (b, a)
                better[names[winner]].append(names[loser])
        means = [
            RankerMean(name, mean_and_error(values, self.weights)[0], *ends, tuple(better[name]))
            for name, values, ends in zip(names, self.values.T, of_rankers, strict=True)
        ]
        return MeasureOfRankers(
            metric=self.metric,
            rankers=tuple(means),
            pairs=tuple(pairs),
            furthest=self.furthest(),
            n_queries=len(self.values),
            n_effective=effective_queries(self.weights),
            n_excluded=self.n_excluded,
        )

    def means(self, names: tuple[str, ...], **how: Any) -> MeasureOfGroup:
        """The means with their intervals alone; NaN without queries."""
        if not len(self.values):
            means = [RankerMean(name, np.nan, np.nan, np.nan, ()) for name in names]
        else:
            ends = mean_tests(self.values, self.weights, **how)
            means = [
                RankerMean(
                    name,
                    mean_and_error(values, self.weights)[0],
                    *cut_to_range(self.metric, values, found.low, found.high),
                    (),
                )
                for name, values, found in zip(names, self.values.T, ends, strict=True)
            ]
        n = len(self.values)
        n_effective = effective_queries(self.weights) if n else 0.0
        return MeasureOfGroup(self.metric, tuple(means), n, n_effective)

    def furthest(self) -> tuple[tuple[Any, tuple[float, ...]], ...]:
        """The queries whose values lie furthest apart, with these values; none without a gap."""
        apart = np.ptp(self.values, axis=1)
        first = np.argsort(-apart, kind="stable")[:N_FURTHEST]
        return tuple(
            (self.query_ids[row], tuple(self.values[row].tolist()))
            for row in first
            if apart[row] > 0.0
        )
