"""Replacements of missing values, and scalings, from one pass over the data before the write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from dranking.data.blocks import QueryBlock
from dranking.data.column_forms import Scaling, missing_transforms
from dranking.data.filling import fill_from, scaled_already
from dranking.data.null_fill import NullFill, NullPolicy, check_permitted
from dranking.data.quantile_sketch import QuantileSketch, sketch_capacity
from dranking.data.scaling import (
    UNFITTED,
    FeatureMoments,
    feature_moments,
    feature_sketch,
    merged_moments,
    quantile_of,
    standard_of,
)
from dranking.data.steps import (
    Filling,
    check_filled_alike,
    check_none_filled_within,
    fill_of,
    filling,
    scalings_of,
)
from dranking.data.store.dataset import StoredDataset
from dranking.engine.executor import Executor, Task
from dranking.errors import DataError, quoted
from dranking.ingestion.gathering import results_of
from dranking.ingestion.ingest_plan import Plan, Request
from dranking.ingestion.rows.finish_blocks import filled_moments
from dranking.ingestion.rows.row_rules import HasFill, known_fill, raw_features_of
from dranking.ingestion.rows.segments import measure_segments
from dranking.ingestion.segment_memory import in_turns


class Fitted(NamedTuple):
    """The values for missing ones, and the scalings to apply.

    Attributes
    ----------
    fill
        The values for the record of the data set; None if no value may be missing.
    filling
        Replaces the missing values of a block, or refuses them; None if no value is missing.
    added
        Scalings, in order.
    """

    fill: NullFill | None
    filling: Filling | None
    added: tuple[Scaling, ...]


def fit(request: Request, plan: Plan, shared: Task, before: StoredDataset | None) -> Fitted:
    """The values that replace missing values, and the scalings to apply.

    Parameters
    ----------
    request, plan
        The arguments of the caller, and the segments to write.
    shared
        The source of the plan, as a task's result.
    before
        The data set to which data is appended, whose values and scalings are applied, or None.

    Raises
    ------
    DataError
        If the scaling would fill in the zeros of sparse data, the data is scaled and values may be
        missing, or some features have no value in `null_from`.
    """
    rows, names = request.rows, plan.feature_names
    known = known_fill(rows, before)
    fill = None if known is None else _restricted(known, names)
    of_source, present = fill_of(plan.steps), scalings_of(plan.steps)
    if of_source is not None:
        fill = _with_filled(names, fill, of_source, rows.null)
    elif present and (fill is not None or rows.null != "error"):
        raise scaled_already(present)
    if before is not None:
        added = missing_transforms(before.transforms, present)
        return _fitted(plan, fill, added, rows.null)
    moments, n_documents = None, 0
    if (fill is None and rows.null in ("minimum", "mean")) or request.normalize == "standard":
        parts = measured(request.executor, plan, shared, _counted, _both)
        n_documents, moments = reduce(_both, parts)
    if fill is None and rows.null != "error":
        none = np.zeros(len(names))
        fill = fill_from(moments or FeatureMoments(none, none, none, none, none), rows.null)
    if fill is not None and moments is not None:
        moments = filled_moments(moments, fill.values, n_documents)
    return _fitted(plan, fill, _scalings(request, plan, shared, fill, moments), rows.null)


def _counted(block: QueryBlock) -> tuple[int, FeatureMoments]:
    """Number of documents of a block, and the moments of the values that are there."""
    return block.n_documents, feature_moments(block)


def _both(
    one: tuple[int, FeatureMoments], other: tuple[int, FeatureMoments]
) -> tuple[int, FeatureMoments]:
    return one[0] + other[0], merged_moments(one[1], other[1])


def _with_filled(
    names: Sequence[str], fill: NullFill | None, of_source: NullFill, null: NullPolicy
) -> NullFill:
    """The values for missing ones where those of the source were filled in before."""
    check_permitted(null, of_source, "the data")
    if fill is None:
        return of_source
    check_filled_alike(names, fill, of_source)
    return fill.with_gaps(np.array(of_source.gaps))


def _fitted(
    plan: Plan, fill: NullFill | None, added: tuple[Scaling, ...], null: NullPolicy
) -> Fitted:
    """The steps of the data set; DataError if some would scale by values that were filled in."""
    of_source = fill_of(plan.steps)
    if of_source is not None:
        check_none_filled_within(plan.feature_names, of_source, added)
    return Fitted(fill, _filling(plan, fill, added, null), added)


def _scalings(
    request: Request,
    plan: Plan,
    shared: Task,
    fill: NullFill | None,
    moments: FeatureMoments | None,
) -> tuple[Scaling, ...]:
    """The scalings that the caller asks for, fitted to the data with its missing values filled."""
    if request.normalize == "none":
        return ()
    if request.normalize == "standard" and moments is not None:
        return (standard_of([moments], sparse=plan.is_sparse),)
    if request.normalize == "quantile":
        filling = _filling(plan, fill, (), request.rows.null)
        return (_fit_quantile(request.executor, plan, shared, filling),)
    scaling = UNFITTED[request.normalize]()
    if plan.is_sparse:
        scaling.check_sparse()
    return (scaling,)


def _restricted(known: HasFill, names: Sequence[str]) -> NullFill | None:
    """The known values of some features."""
    position = {name: i for i, name in enumerate(raw_features_of(known))}
    absent = [name for name in names if name not in position]
    if absent:
        raise DataError(
            f"what null_from names has no values for {len(absent)} feature(s): {quoted(absent)}. "
            "Give its training data, or choose the features."
        )
    columns = np.array([position[name] for name in names], dtype=np.intp)
    return None if known.fill is None else known.fill.restricted(columns)


def _filling(
    plan: Plan, fill: NullFill | None, added: Sequence[Scaling], null: NullPolicy
) -> Filling | None:
    """The filling of blocks; the policy permits gaps also where the known data has none."""
    if fill is None:
        return None
    known = fill if null == "error" else fill.permitting()
    return filling(plan.feature_names, known, added, scalings_of(plan.steps))


def _fit_quantile(executor: Executor, plan: Plan, shared: Task, filling: Filling | None) -> Scaling:
    if plan.is_sparse:
        raise DataError(
            "quantile scaling would fill in the zeros of sparse features; "
            "scale with 'standard' or 'log', or store the data dense."
        )
    capacity = sketch_capacity(plan.n_documents, len(plan.feature_names))
    sketch = partial(feature_sketch, capacity=capacity)
    return quantile_of(measured(executor, plan, shared, sketch, QuantileSketch.merged, filling))


def measured(
    executor: Executor,
    plan: Plan,
    shared: Task,
    function: Callable[[QueryBlock], Any],
    merge: Callable[[Any, Any], Any],
    filling: Filling | None = None,
) -> Iterator[Any]:
    """A summary of each segment, in order."""
    calls = [(shared, work, function, merge, filling) for work in plan.work]
    tasks = in_turns(executor, measure_segments, calls, plan.slots, "measure")
    for part in results_of(executor, tasks, "measure"):
        yield from part
