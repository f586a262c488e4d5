"""Replacements of missing values, and scalings, from one pass over the data before the write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.column_forms import Scaling, missing_transforms
from dranking.data.ingest.finish_blocks import NullPolicy, fill_values, filled_moments
from dranking.data.ingest.segments import measure_segments
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
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.manifest import NullFill
from dranking.engine.executor import Executor, Task
from dranking.engine.ingest.gathering import results_of
from dranking.engine.ingest.ingest_plan import Plan, Request
from dranking.engine.ingest.segment_memory import in_turns
from dranking.errors import DataError, UsageError

Fill: TypeAlias = NDArray[np.float32] | None


def fit(
    request: Request, plan: Plan, shared: Task, before: StoredDataset | None
) -> tuple[Fill, tuple[Scaling, ...]]:
    """The values that replace missing values, and the scalings to apply.

    Parameters
    ----------
    request, plan
        The arguments of the caller, and the segments to write.
    shared
        The source of the plan, as a task's result.
    before
        The data set to which data is appended, whose scalings are applied, or None.

    Returns
    -------
    fill
        (n_features,) values, or None if no value may be missing. Where data is appended, these are
        the values of the data set.
    added
        Scalings, in order.

    Raises
    ------
    DataError
        If the scaling would fill in the zeros of sparse data.
    """
    if before is not None:
        return fill_as(before, request.rows.null), missing_transforms(
            before.transforms, plan.transforms
        )
    moments, fill = None, None
    if request.rows.null in ("minimum", "mean") or request.normalize == "standard":
        parts = _measured(request.executor, plan, shared, feature_moments, merged_moments)
        moments = reduce(merged_moments, parts)
    if request.rows.null != "error":
        none = np.zeros(len(plan.feature_names))
        known = moments or FeatureMoments(none, none, none, none, none)
        fill = fill_values(known, request.rows.null)
        moments = moments and filled_moments(moments, fill, plan.n_documents)
    if request.normalize == "none":
        return fill, ()
    if request.normalize == "standard" and moments is not None:
        return fill, (standard_of([moments], sparse=plan.is_sparse),)
    if request.normalize == "quantile":
        return fill, (_fit_quantile(request.executor, plan, shared, fill),)
    scaling = UNFITTED[request.normalize]()
    if plan.is_sparse:
        scaling.check_sparse()
    return fill, (scaling,)


def fill_as(before: StoredDataset, null: NullPolicy) -> Fill:
    """The values that stand for missing values in a data set that exists.

    Raises
    ------
    UsageError
        If its missing values stand for something else.
    """
    recorded = before.manifest.null_fill
    if null == "error":
        return None
    if null != ("zero" if recorded is None else recorded.policy):
        theirs = "no minimum or mean" if recorded is None else f"the {recorded.policy}"
        raise UsageError(
            f"null is {null!r}, but in {before.path} {theirs} of the feature stands for a missing "
            "value. Append with the same null, or ingest everything anew."
        )
    if recorded is None:
        return np.zeros(before.n_features, np.float32)
    return np.asarray(recorded.values, np.float32)


def null_fill(request: Request, fill: Fill) -> NullFill | None:
    """The manifest's record of the values that stand for missing values."""
    if fill is None or request.rows.null not in ("minimum", "mean"):
        return None
    return NullFill(policy=request.rows.null, values=tuple(fill.tolist()))


def _fit_quantile(executor: Executor, plan: Plan, shared: Task, fill: Fill) -> Scaling:
    if plan.is_sparse:
        raise DataError(
            "quantile scaling would fill in the zeros of sparse features; "
            "scale with 'standard' or 'log', or store the data dense."
        )
    capacity = sketch_capacity(plan.n_documents, len(plan.feature_names))
    sketch = partial(feature_sketch, capacity=capacity)
    return quantile_of(_measured(executor, plan, shared, sketch, QuantileSketch.merged, fill))


def _measured(
    executor: Executor,
    plan: Plan,
    shared: Task,
    function: Callable[[QueryBlock], Any],
    merge: Callable[[Any, Any], Any],
    fill: Fill = None,
) -> Iterator[Any]:
    """A summary of each segment, in order."""
    calls = [(shared, work, function, merge, fill) for work in plan.work]
    tasks = in_turns(executor, measure_segments, calls, plan.slots, "measure")
    for part in results_of(executor, tasks, "measure"):
        yield from part
