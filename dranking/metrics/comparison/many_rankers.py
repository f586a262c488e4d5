"""Comparison of several rankers over the same queries: all pairs, with one level for all tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dranking.errors import DataError, UsageError, quoted
from dranking.metrics.comparison.compare import (
    DEFAULT_RESAMPLES,
    check_resampling,
    common_measures,
    counts_of_wins,
    in_the_order_of,
    overlap_of_result,
    warn_of_few_queries,
)
from dranking.metrics.comparison.randomised_tests import holm, sign_flip_tests, tukey_hsd
from dranking.metrics.comparison.significance import (
    cut_to_values,
    effective_queries,
    mean_and_error,
    mean_tests,
)
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.overlap import Overlap
from dranking.metrics.per_query import PerQuery, per_query_of

if TYPE_CHECKING:
    import pandas as pd

Test = Literal["sign-flip", "tukey-hsd"]
"""Tests of the pairs of rankers."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""Letters of the rankers, and so the largest number of rankers."""

N_FURTHEST = 10
"""Number of queries that are named because their values lie furthest apart."""


@dataclass(frozen=True)
class RankerMean:
    """The mean of a measure of one ranker.

    Attributes
    ----------
    ranker
        Name of the ranker.
    mean
        Weighted mean over the queries that count for all rankers.
    low, high
        Ends of its bootstrap-t interval, `measure_interval`; NaN where there is none.
    better_than
        Names of the rankers that are worse by the test, at a level of 1 less the confidence.
    """

    ranker: str
    mean: float
    low: float
    high: float
    better_than: tuple[str, ...]


@dataclass(frozen=True)
class RankerPair:
    """A measure of a pair of rankers.

    Attributes
    ----------
    a, b
        Names of the rankers.
    difference
        Weighted mean of A's values minus B's values.
    low, high
        Ends of its bootstrap-t interval, `mean_interval`, for this pair alone; NaN where there is
        none.
    p_value
        P-value of the test. That of Tukey's test is adjusted for the pairs of the measure.
    p_adjusted
        P-value for all pairs and measures together: by Holm's correction, or, for Tukey's test,
        times the number of measures.
    wins, ties, losses
        Queries on which A is better than B, equal to B (within 1e-12), worse than B.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class MeasureOfRankers:
    """A measure of several rankers over the queries that count for all of them.

    Attributes
    ----------
    metric
        Name of the measure.
    rankers
        The mean of each ranker, in the order of the rankers.
    pairs
        Every pair of rankers, the first of a pair being the earlier ranker.
    furthest
        The ten queries whose largest and smallest values lie furthest apart: query id, and the
        values in the order of the rankers.
    n_queries
        Queries that count for all rankers.
    n_effective
        Number of queries of equal weight that say as much, `effective_queries`.
    n_excluded
        Queries that do not count for some ranker, or have weight 0.
    """

    metric: str
    rankers: tuple[RankerMean, ...]
    pairs: tuple[RankerPair, ...]
    furthest: tuple[tuple[Any, tuple[float, ...]], ...]
    n_queries: int
    n_effective: float
    n_excluded: int


@dataclass(frozen=True)
class RankerComparison:
    """Comparison of several rankers, measure by measure.

    Attributes
    ----------
    rankers
        Names of the rankers.
    metrics
        One entry for each measure that all rankers have, in the order of the first ranker.
    n_queries
        Queries of the data.
    test, confidence, n_resamples, seed
        Parameters of the comparison.
    trained_on
        How many of the queries each ranker was trained on, by its name, as far as that is known;
        None for a feature to rank by.
    convention
        Name of the convention of the values; None if unknown.
    """

    rankers: tuple[str, ...]
    metrics: tuple[MeasureOfRankers, ...]
    n_queries: int
    test: Test
    confidence: float
    n_resamples: int
    seed: int
    trained_on: dict[str, Overlap | None] = field(default_factory=dict)
    convention: str | None = None

    def __getitem__(self, metric: str) -> MeasureOfRankers:
        """The entry of one measure; KeyError if the measure was not compared."""
        return {entry.metric: entry for entry in self.metrics}[metric]

    def __repr__(self) -> str:
        found = [
            f"{m.metric} {', '.join(f'{r.ranker} {r.mean:.4f}' for r in m.rankers)}"
            for m in self.metrics
        ]
        return f"RankerComparison({'; '.join(found)})"

    @property
    def letters(self) -> dict[str, str]:
        """A letter for each ranker, by its name."""
        return dict(zip(self.rankers, LETTERS, strict=False))

    def to_frame(self) -> pd.DataFrame:
        """The means as a pandas DataFrame: a row for each ranker, a column for each measure.

        Behind a mean stand the letters of the rankers that are worse by the test.
        """
        import pandas as pd

        letters = self.letters
        columns = {
            m.metric: [
                f"{r.mean:.4f} {''.join(letters[name] for name in r.better_than)}".rstrip()
                for r in m.rankers
            ]
            for m in self.metrics
        }
        index = [f"{letters[name]} {name}" for name in self.rankers]
        return pd.DataFrame(columns, index=pd.Index(index, name="ranker"))

    def pairs_to_frame(self) -> pd.DataFrame:
        """Every pair of rankers as a pandas DataFrame: a row for each measure and pair."""
        import pandas as pd

        rows = [{"metric": m.metric, **asdict(pair)} for m in self.metrics for pair in m.pairs]
        return pd.DataFrame(rows).set_index(["metric", "a", "b"])

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain dictionaries and lists, for JSON."""
        return asdict(self)


def compare_ranker_values(
    results: Mapping[str, Any],
    *,
    test: Test = "sign-flip",
    seed: int = 0,
    n_resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
) -> RankerComparison:
    """Compare rankers whose values of every query are known, by name.

    Parameters, figures, warnings and errors are those of
    `dranking.models.comparison.compare_rankers`, except that the rankers are results of
    `dranking.evaluate` or their `PerQuery` values.
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
    )


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
    def of(cls, metric: str, tables: list[PerQuery]) -> _Shared:
        values = np.column_stack([table.values[metric] for table in tables])
        given = tables[0].weights
        weights = np.ones(len(values)) if given is None else given
        counts = ~np.isnan(values).any(axis=1) & (weights > 0)
        if not counts.any():
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
        of_rankers = [cut_to_values(values, *next(intervals)[:2]) for values in self.values.T]
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

    def furthest(self) -> tuple[tuple[Any, tuple[float, ...]], ...]:
        """The queries whose values lie furthest apart, with these values; none without a gap."""
        apart = np.ptp(self.values, axis=1)
        first = np.argsort(-apart, kind="stable")[:N_FURTHEST]
        return tuple(
            (self.query_ids[row], tuple(self.values[row].tolist()))
            for row in first
            if apart[row] > 0.0
        )
