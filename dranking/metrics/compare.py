"""Paired comparison of two models over the same queries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.errors import DataError, UsageError
from dranking.metrics.measures import higher_is_better
from dranking.metrics.per_query import PerQuery
from dranking.metrics.significance import bootstrap_interval, holm, paired_t_test

TIE_TOLERANCE = 1e-12
"""A difference of at most this on a query is rounding and counts as a tie."""


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
        Ends of the percentile bootstrap interval of the difference.
    p_value
        P-value of the two-sided paired t-test; 1 for a single query.
    p_holm
        The p-value after Holm's correction over the compared measures.
    wins, ties, losses
        Queries on which A is better than B, equal to B (within 1e-12), worse than B. Lower is
        better for a measure of error.
    n_queries
        Compared queries.
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
    wins: int
    ties: int
    losses: int
    n_queries: int
    n_excluded: int


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
        Parameters of the bootstrap intervals.
    """

    metrics: tuple[MetricComparison, ...]
    n_queries: int
    confidence: float
    n_resamples: int
    seed: int

    def __getitem__(self, metric: str) -> MetricComparison:
        """The entry of one measure; KeyError if the measure was not compared."""
        return {entry.metric: entry for entry in self.metrics}[metric]

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


def compare(
    a: PerQuery,
    b: PerQuery,
    *,
    seed: int = 0,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two models query by query.

    The interval of the mean difference is the main figure; p-values stand beside the interval.
    Query weights count in the means, in the interval and in the test; wins and losses count queries
    without weights. The interval of a measure does not depend on the other measures.

    Parameters
    ----------
    a, b
        Values of the same queries, in any order, under the same convention.
    seed
        Seed of the bootstrap.
    n_resamples
        Bootstrap samples, at least 1.
    confidence
        Coverage of the interval, between 0 and 1.

    Raises
    ------
    UsageError
        If `n_resamples` or `confidence` is out of range, or the tables have no measure in common.
    DataError
        If queries, weights or conventions of the tables differ, a query occurs twice, or no query
        counts for a measure.

    References
    ----------
    Smucker, Allan and Carterette, A comparison of statistical significance tests for information
    retrieval evaluation, CIKM 2007.
    """
    if n_resamples < 1:
        raise UsageError(f"n_resamples is {n_resamples}; at least 1 is needed.")
    if not 0.0 < confidence < 1.0:
        raise UsageError(f"confidence is {confidence}; it must lie between 0 and 1, as 0.95 does.")
    names = [name for name in a.values if name in b.values]
    if not names:
        raise UsageError(
            "the two tables have no measure in common: "
            f"{', '.join(a.values) or 'none'} against {', '.join(b.values) or 'none'}."
        )
    _check_conventions(a, b)
    rows = _rows_in(a, b)
    weights = _common_weights(a, b, rows)
    paired = [_pair(name, a.values[name], b.values[name][rows], weights) for name in names]
    intervals = [
        bootstrap_interval(
            p.differences, p.weights, seed=seed, n_resamples=n_resamples, confidence=confidence
        )
        for p in paired
    ]
    # Weights enter the test as factors; with equal weights the test is Student's.
    p_values = [paired_t_test(p.weights / p.weights.mean() * p.differences) for p in paired]
    adjusted = holm(np.array(p_values)).tolist()
    entries = tuple(map(_entry, names, paired, intervals, p_values, adjusted))
    return Comparison(entries, a.n_queries, confidence, n_resamples, seed)


def _entry(
    name: str, paired: _Paired, interval: tuple[float, float], p_value: float, p_holm: float
) -> MetricComparison:
    better = paired.differences if higher_is_better(name) else -paired.differences
    wins = int((better > TIE_TOLERANCE).sum())
    losses = int((better < -TIE_TOLERANCE).sum())
    return MetricComparison(
        metric=name,
        mean_a=_mean(paired.a, paired.weights),
        mean_b=_mean(paired.b, paired.weights),
        difference=_mean(paired.differences, paired.weights),
        low=interval[0],
        high=interval[1],
        p_value=p_value,
        p_holm=p_holm,
        wins=wins,
        ties=len(better) - wins - losses,
        losses=losses,
        n_queries=len(better),
        n_excluded=paired.n_excluded,
    )


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    return float((weights * values).sum() / weights.sum())


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


def _check_conventions(a: PerQuery, b: PerQuery) -> None:
    if a.convention is not None and b.convention is not None and a.convention != b.convention:
        raise DataError(
            f"the values of A follow the {a.convention} convention and the values of B the "
            f"{b.convention} convention; evaluate both under one convention."
        )


def _rows_in(a: PerQuery, b: PerQuery) -> NDArray[np.int64]:
    """(n_queries,) row of B that holds each query of A."""
    a_ids, b_ids = a.query_ids, b.query_ids
    if a_ids.type != b_ids.type:
        a_ids, b_ids = a_ids.cast(pa.string()), b_ids.cast(pa.string())
    for which, ids in (("A", a_ids), ("B", b_ids)):
        if pc.count_distinct(ids).as_py() < len(ids):
            counts = pc.value_counts(ids)
            twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
            raise DataError(f"queries occur more than once in {which}: {_some(twice)}.")
    rows = pc.index_in(a_ids, value_set=b_ids)
    only_a = a_ids.filter(pc.is_null(rows))
    only_b = b_ids.filter(pc.invert(pc.is_in(b_ids, value_set=a_ids)))
    if len(only_a) or len(only_b):
        raise DataError(
            f"A and B are not about the same queries: {len(only_a)} only in A"
            f"{_some(only_a, ' (')}, {len(only_b)} only in B{_some(only_b, ' (')}; "
            "evaluate both models on the same data."
        )
    return np.asarray(rows.to_numpy(zero_copy_only=False), dtype=np.int64)


def _some(ids: pa.Array, opening: str = "") -> str:
    """The first five ids; `opening` is a bracket to put around them."""
    if not len(ids):
        return ""
    shown = ", ".join(str(i) for i in ids[:5]) + (", ..." if len(ids) > 5 else "")
    return f"{opening}{shown}{')' if opening else ''}"


def _common_weights(a: PerQuery, b: PerQuery, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    ones = np.ones(a.n_queries)
    of_a = ones if a.weights is None else a.weights
    of_b = ones if b.weights is None else b.weights[rows]
    if not np.array_equal(of_a, of_b):
        at = int(np.argmax(of_a != of_b))
        raise DataError(
            f"query {a.query_ids[at]} weighs {of_a[at]:g} in A and {of_b[at]:g} in B; "
            "evaluate both models on the same data."
        )
    return of_a
