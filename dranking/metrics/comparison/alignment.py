"""Values of rankers brought to the same queries, measures, weights and convention."""

from __future__ import annotations

from collections.abc import Mapping

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
from dranking.metrics.per_query import PerQuery


def in_the_order_of(a: PerQuery, b: PerQuery, names: tuple[str, str]) -> PerQuery:
    """The values of B with the queries in the order of A.

    Raises
    ------
    DataError
        If queries, weights or conventions differ, or a query occurs twice. `names` are those of A
        and B in its text.
    """
    ordered = b.take(rows_in(a, b, names))
    common_weights(a, ordered, names)
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


def rows_in(a: PerQuery, b: PerQuery, names: tuple[str, str]) -> NDArray[np.int64]:
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


def common_weights(a: PerQuery, b: PerQuery, names: tuple[str, str]) -> NDArray[np.float64]:
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
