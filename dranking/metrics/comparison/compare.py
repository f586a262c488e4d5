"""Paired comparison of two models over the same queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.errors import (
    MOST_NAMES,
    ComparisonWarning,
    DataError,
    UsageError,
    listed,
    warn_user,
)
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
    """

    metrics: tuple[MetricComparison, ...]
    n_queries: int
    confidence: float
    n_resamples: int
    seed: int
    trained_on: dict[str, Overlap | None] = field(default_factory=dict)

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
        """The comparison as plain dictionaries and lists, for JSON."""
        return {**asdict(self), "metrics": [asdict(entry) for entry in self.metrics]}


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
    seed: int = 0,
    n_resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two models whose values of every query are known.

    Parameters, figures, warnings and errors are those of `dranking.models.comparison.compare`,
    except that `a` and `b` are results of `dranking.evaluate` or their `PerQuery` values.
    """
    overlaps = {"a": overlap_of_result(a), "b": overlap_of_result(b)}
    a, b = per_query_of(a), per_query_of(b)
    ordered = b.take(_rows_in(a, b, ("A", "B")))
    found = compare_rows(a, ordered, seed=seed, n_resamples=n_resamples, confidence=confidence)
    fewest = min(found.metrics, key=lambda entry: entry.n_effective)
    warn_of_few_queries(fewest.metric, fewest.n_queries, fewest.n_effective)
    return replace(found, trained_on=overlaps)


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
    weights = _common_weights(a, b, ("A", "B"))
    paired = [_pair(name, a.values[name], b.values[name], weights) for name in names]
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


def _pair(
    name: str,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> _Paired:
    counts = ~np.isnan(a) & ~np.isnan(b) & (weights > 0)
    if not counts.any():
        raise DataError(f"{name}: no query counts for both models; there is nothing to compare.")
    return _Paired(a[counts], b[counts], weights[counts], int((~counts).sum()))


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


def in_the_order_of(a: PerQuery, b: PerQuery, names: tuple[str, str]) -> PerQuery:
    """The values of B with the queries in the order of A.

    Raises
    ------
    DataError
        If queries, weights or conventions differ, or a query occurs twice. `names` are those of A
        and B in its text.
    """
    ordered = b.take(_rows_in(a, b, names))
    _common_weights(a, ordered, names)
    return ordered


def common_measures(tables: Mapping[str, PerQuery]) -> list[str]:
    """Names of the measures that all rankers have, whose values are given by ranker.

    A measure that some ranker lacks causes a `ComparisonWarning`.

    Raises
    ------
    UsageError
        If there is none.
    """
    found = {name: None for table in tables.values() for name in table.values}
    lacking = {
        measure: [name for name, table in tables.items() if measure not in table.values]
        for measure in found
    }
    common = [measure for measure, rankers in lacking.items() if not rankers]
    if not common:
        measures = [f"{name} has {', '.join(t.values) or 'none'}" for name, t in tables.items()]
        raise UsageError(
            f"the rankers have no measure in common: {'; '.join(measures[:MOST_NAMES])}. Evaluate "
            "all of them alike."
        )
    missing = [f"{each} (not in {listed(names)})" for each, names in lacking.items() if names]
    if missing:
        warn_user(
            f"a measure that some ranker lacks is not compared: {listed(missing)}.",
            ComparisonWarning,
        )
    return common


def _check_conventions(a: PerQuery, b: PerQuery, names: tuple[str, str]) -> None:
    if a.convention is not None and b.convention is not None and a.convention != b.convention:
        raise DataError(
            f"the values of {names[0]} follow the {a.convention} convention and the values of "
            f"{names[1]} the {b.convention} convention; evaluate both under one convention."
        )


def _rows_in(a: PerQuery, b: PerQuery, names: tuple[str, str]) -> NDArray[np.int64]:
    """(n_queries,) row of B that holds each query of A."""
    a_ids, b_ids = a.query_ids, b.query_ids
    if a_ids.type != b_ids.type:
        a_ids, b_ids = a_ids.cast(pa.string()), b_ids.cast(pa.string())
    for which, ids in zip(names, (a_ids, b_ids), strict=True):
        if pc.count_distinct(ids).as_py() < len(ids):
            counts = pc.value_counts(ids)
            twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
            raise DataError(f"queries occur more than once in {which}: {_some(twice)}.")
    rows = pc.index_in(a_ids, value_set=b_ids)
    only_a = a_ids.filter(pc.is_null(rows))
    only_b = b_ids.filter(pc.invert(pc.is_in(b_ids, value_set=a_ids)))
    if len(only_a) or len(only_b):
        raise DataError(
            f"{names[0]} and {names[1]} are not about the same queries: {len(only_a)} only in "
            f"{names[0]}{_some(only_a, ' (')}, {len(only_b)} only in {names[1]}"
            f"{_some(only_b, ' (')}; "
            "evaluate both models on the same data. Runs beside judgements may count queries that "
            "they lack as 0: --all-queries, RunRules(all_queries=True)."
        )
    return np.asarray(rows.to_numpy(zero_copy_only=False), dtype=np.int64)


def _some(ids: pa.Array, opening: str = "") -> str:
    """The first five ids; `opening` is a bracket to put around them."""
    if not len(ids):
        return ""
    shown = ", ".join(str(i) for i in ids[:5]) + (", ..." if len(ids) > 5 else "")
    return f"{opening}{shown}{')' if opening else ''}"


def _common_weights(a: PerQuery, b: PerQuery, names: tuple[str, str]) -> NDArray[np.float64]:
    """(n_queries,) weights, which are those of both, as the convention is."""
    _check_conventions(a, b, names)
    ones = np.ones(a.n_queries)
    of_a = ones if a.weights is None else a.weights
    of_b = ones if b.weights is None else b.weights
    if not np.array_equal(of_a, of_b):
        at = int(np.argmax(of_a != of_b))
        raise DataError(
            f"query {a.query_ids[at]} weighs {of_a[at]:g} in {names[0]} and {of_b[at]:g} in "
            f"{names[1]}; "
            "evaluate both models on the same data."
        )
    return of_a
