"""Paired comparison of two models over the same queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dranking.errors import ComparisonWarning, DataError, UsageError, warn_user
from dranking.files.json_files import finite
from dranking.metrics.comparison.alignment import common_measures, common_weights, rows_in
from dranking.metrics.comparison.randomised_tests import holm, sign_flip_test
from dranking.metrics.comparison.significance import (
    FEWEST_QUERIES,
    ROUNDING,
    effective_queries,
    mean_and_error,
    mean_test,
    queries_text,
)
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.overlap import Overlap
from dranking.metrics.per_query import PerQuery, per_query_of
from dranking.metrics.query_groups import QueryGroups

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_RESAMPLES = 10_000


@dataclass(frozen=True)
class MetricComparison:
    """One measure of two models over the queries that count for both models.

    Attributes
    ----------
    metric
        Name of the measure.
    mean_a, mean_b
        Weighted means over the queries.
    difference
        Weighted mean of A's values minus B's values.
    low, high
        Ends of the symmetric bootstrap-t interval of the difference, `mean_interval`; NaN for one
        query, and for fewer than 20 equal differences.
    p_value
        Two-sided p-value of the same statistic, `mean_test`: below 1 less the confidence exactly
        where the interval leaves out 0. 1 where there is no interval.
    p_holm
        The p-value after Holm's correction over the compared measures.
    p_permutation
        P-value of the two-sided permutation test, `sign_flip_test`.
    wins, ties, losses
        Queries on which A is better than B, equal to B (within 1e-12), worse than B. Lower is
        better for a measure of error.
    n_queries
        Compared queries.
    n_effective
        Number of queries of equal weight that say as much, `effective_queries`: `n_queries` where
        weights are equal.
    n_excluded
        Queries that do not count for A or for B, or have weight 0.
    """

    metric: str
    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    p_value: float
    p_holm: float
    p_permutation: float
    wins: int
    ties: int
    losses: int
    n_queries: int
    n_effective: float
    n_excluded: int


def interval_text(entry: MetricComparison) -> str:
    """The interval of a comparison in brackets, or why there is none.

    Examples
    --------
    >>> entry = MetricComparison("map", .6, .5, .1, .02, .18, .01, .02, .01, 30, 9, 11, 50, 50, 0)
    >>> interval_text(entry)
    '[+0.0200, +0.1800]'
    """
    if np.isnan(entry.low):
        return "(one query: no interval)" if entry.n_queries == 1 else "(no spread: no interval)"
    queries = queries_text(entry.n_queries, entry.n_effective)
    rough = f" ({queries}: rough)" if entry.n_effective < FEWEST_QUERIES else ""
    return f"[{entry.low:+.4f}, {entry.high:+.4f}]{rough}"


@dataclass(frozen=True)
class Comparison:
    """Comparison of two models, measure by measure.

    Attributes
    ----------
    metrics
        One entry for each measure that both models have, in the order of A.
    n_queries
        Queries in each of the two tables.
    confidence, n_resamples, seed
        Parameters of the bootstrap intervals and of the permutation tests.
    trained_on
        How many of the queries the models "a" and "b" were trained on, as far as that is known;
        None for a feature to rank by.
    by
        The measures of each group of queries, by its name, NaN where none of its queries counts;
        Holm's correction is then over measures and groups together. Empty without groups.
    """

    metrics: tuple[MetricComparison, ...]
    n_queries: int
    confidence: float
    n_resamples: int
    seed: int
    trained_on: dict[str, Overlap | None] = field(default_factory=dict)
    by: dict[str, tuple[MetricComparison, ...]] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> MetricComparison:
        """The entry of one measure; KeyError if the measure was not compared."""
        return {entry.metric: entry for entry in self.metrics}[metric]

    def __repr__(self) -> str:
        found = [
            f"{m.metric} {m.difference:+.4f} [{m.low:.4f}, {m.high:.4f}], {m.n_queries:,} queries"
            for m in self.metrics
        ]
        return f"Comparison(A - B: {'; '.join(found)})"

    def to_frame(self) -> pd.DataFrame:
        """The comparison as a pandas DataFrame, a row for each measure."""
        import pandas as pd

        rows = [asdict(entry) for entry in self.metrics]
        return pd.DataFrame(rows).set_index("metric")

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain dictionaries and lists, for JSON; null for NaN."""
        found: dict[str, Any] = finite(asdict(self))
        return found


@dataclass(frozen=True, eq=False)
class _Paired:
    """Values of one measure on the queries that count for both models."""

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    weights: NDArray[np.float64]
    n_excluded: int

    @property
    def differences(self) -> NDArray[np.float64]:
        return self.a - self.b


def compare_values(
    a: Any,
    b: Any,
    *,
    groups: QueryGroups | None = None,
    seed: int = 0,
    n_resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two models whose values of every query are known.

    Parameters, figures, warnings and errors are those of `dranking.models.comparison.compare`,
    except that `a` and `b` are results of `dranking.evaluate` or their `PerQuery` values, and
    `groups` are groups of queries; None stands for those of A or B, if they have any.
    """
    groups = groups or groups_of_results((a, b))
    overlaps = {"a": overlap_of_result(a), "b": overlap_of_result(b)}
    a, b = per_query_of(a), per_query_of(b)
    ordered = b.take(rows_in(a, b, ("A", "B")))
    drawn: dict[str, Any] = {"seed": seed, "n_resamples": n_resamples, "confidence": confidence}
    found = compare_rows(a, ordered, **drawn)
    fewest = min(found.metrics, key=lambda entry: entry.n_effective)
    warn_of_few_queries(fewest.metric, fewest.n_queries, fewest.n_effective)
    names = [entry.metric for entry in found.metrics]
    by = {} if groups is None else _by_group(a, ordered, names, groups, drawn)
    return replace(found, trained_on=overlaps, by=by)


def groups_of_results(results: Iterable[Any]) -> QueryGroups | None:
    """The groups of queries of the results that have any.

    Raises
    ------
    UsageError
        If two results have different groups.
    """
    grouped = [result for result in results if getattr(result, "groups", None) is not None]
    if not grouped:
        return None
    ids, first = grouped[0].per_query.query_ids, grouped[0].groups
    for other in grouped[1:]:
        if (other.groups.labels(ids) != first.labels(ids)).any():
            raise UsageError(
                f"the results have different groups of queries, {first.name!r} and "
                f"{other.groups.name!r}; say with `by` which of them count, as a mapping from "
                "query id to value."
            )
    found: QueryGroups = first
    return found


def _by_group(
    a: PerQuery, b: PerQuery, names: Sequence[str], groups: QueryGroups, drawn: Mapping[str, Any]
) -> dict[str, tuple[MetricComparison, ...]]:
    """The entries of each group, NaN for the measures for which none of its queries counts."""
    found: dict[str, tuple[MetricComparison, ...]] = {}
    for label, rows in groups.rows(a.query_ids).items():
        of_a, of_b = a.take(rows), b.take(rows)
        counting = [n for n in names if _counted(of_a.values[n], of_b.values[n], of_a).any()]
        parts = [replace(t, values={n: t.values[n] for n in counting}) for t in (of_a, of_b)]
        entries = compare_rows(parts[0], parts[1], **drawn).metrics if counting else ()
        of_name = {entry.metric: entry for entry in entries}
        found[label] = tuple(of_name.get(n) or _without_queries(n, len(rows)) for n in names)
    tested = [entry for of_group in found.values() for entry in of_group if entry.n_queries]
    adjusted = iter(holm(np.array([entry.p_value for entry in tested])).tolist())
    return {
        label: tuple(
            replace(entry, p_holm=next(adjusted)) if entry.n_queries else entry
            for entry in of_group
        )
        for label, of_group in found.items()
    }


def _without_queries(metric: str, n_excluded: int) -> MetricComparison:
    """A measure for which no query counts: all its figures are NaN."""
    nan = float("nan")
    return MetricComparison(
        metric, nan, nan, nan, nan, nan, nan, nan, nan, 0, 0, 0, 0, 0.0, n_excluded
    )


def warn_of_few_queries(metric: str, n_queries: int, n_effective: float) -> None:
    """Warn that the queries that count for a measure are too few for intervals."""
    if n_effective < FEWEST_QUERIES:
        count = "counts" if n_queries == 1 else "count"
        warn_user(
            f"{queries_text(n_queries, n_effective)} {count} for {metric}: intervals of fewer than "
            f"{FEWEST_QUERIES} queries miss the difference more often than they say, and p-values "
            "are rough. Judge more queries.",
            ComparisonWarning,
        )


def overlap_of_result(result: Any) -> Overlap | None:
    """How many queries of a result were trained on, which values alone do not tell."""
    if isinstance(result, PerQuery):
        return Overlap(result.n_queries, None)
    return getattr(result, "trained_on", None)


def compare_rows(
    a: PerQuery,
    b: PerQuery,
    *,
    seed: int = 0,
    n_resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two models on tables whose rows are the same queries in the same order.

    Parameters, errors and figures are those of `compare_values`, which brings the rows into one
    order. An id may occur in several rows here, and few queries cause no warning.
    """
    check_resampling(n_resamples, confidence)
    names = common_measures({"A": a, "B": b})
    weights = common_weights(a, b, ("A", "B"))
    paired = [_pair(name, a, b, weights) for name in names]
    drawn: dict[str, Any] = {"seed": seed, "n_resamples": n_resamples}
    tests = [mean_test(p.differences, p.weights, confidence=confidence, **drawn) for p in paired]
    adjusted = holm(np.array([test.p_value for test in tests])).tolist()
    entries = []
    for name, p, test, p_holm in zip(names, paired, tests, adjusted, strict=True):
        p_permutation = sign_flip_test(p.differences, p.weights, **drawn)
        wins, ties, losses = counts_of_wins(
            p.differences if higher_is_better(name) else -p.differences
        )
        entries.append(
            MetricComparison(
                metric=name,
                mean_a=mean_and_error(p.a, p.weights)[0],
                mean_b=mean_and_error(p.b, p.weights)[0],
                difference=mean_and_error(p.differences, p.weights)[0],
                low=test.low,
                high=test.high,
                p_value=test.p_value,
                p_holm=p_holm,
                p_permutation=p_permutation,
                wins=wins,
                ties=ties,
                losses=losses,
                n_queries=len(p.weights),
                n_effective=effective_queries(p.weights),
                n_excluded=p.n_excluded,
            )
        )
    return Comparison(tuple(entries), a.n_queries, confidence, n_resamples, seed)


def _pair(name: str, a: PerQuery, b: PerQuery, weights: NDArray[np.float64]) -> _Paired:
    of_a, of_b = a.values[name], b.values[name]
    counts = _counted(of_a, of_b, a)
    if not counts.any():
        raise DataError(f"{name}: no query counts for both models; there is nothing to compare.")
    return _Paired(of_a[counts], of_b[counts], weights[counts], int((~counts).sum()))


def _counted(
    a: NDArray[np.float64], b: NDArray[np.float64], weighted: PerQuery
) -> NDArray[np.bool_]:
    """(n_queries,) whether a query has both values and a weight above 0."""
    weights = np.ones(len(a)) if weighted.weights is None else weighted.weights
    return ~np.isnan(a) & ~np.isnan(b) & (weights > 0)


def check_resampling(n_resamples: int, confidence: float) -> None:
    """Raise UsageError unless there are samples, and the confidence lies between 0 and 1."""
    if n_resamples < 1:
        raise UsageError(f"n_resamples is {n_resamples}; at least 1 is needed.")
    if not 0.0 < confidence < 1.0:
        raise UsageError(f"confidence is {confidence}; it must lie between 0 and 1, as 0.95 does.")


def counts_of_wins(better: NDArray[np.float64]) -> tuple[int, int, int]:
    """Numbers of differences above 0, at 0 and below 0, within rounding."""
    wins, losses = int((better > ROUNDING).sum()), int((better < -ROUNDING).sum())
    return wins, len(better) - wins - losses, losses
