"""Replacements of missing values, and scalings, from one pass over the data before the write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.column_constants import (
    ColumnConstants,
    ValueRule,
    check_origins,
    check_permitted,
)
from dranking.data.column_forms import Scaling, missing_transforms, source_names
from dranking.data.filling import (
    ColumnSummary,
    FilledColumns,
    column_summary,
    constants_from,
    scaled_already,
    with_indicators,
)
from dranking.data.quantile_sketch import QuantileSketch, sketch_capacity
from dranking.data.scaling import (
    FROM_MOMENTS,
    UNFITTED,
    FeatureMoments,
    feature_sketch,
    leaving_indicators,
    quantile_of,
)
from dranking.data.steps import (
    Filling,
    check_filled_alike,
    check_none_filled_within,
    constants_of,
    filled_of,
    filling,
    scalings_of,
)
from dranking.data.store.dataset import StoredDataset
from dranking.data.transforms import Form
from dranking.engine.executor import Executor, Task
from dranking.errors import DataError, quoted
from dranking.ingestion.gathering import results_of
from dranking.ingestion.ingest_plan import Plan, Request
from dranking.ingestion.rows.finish_blocks import filled_moments
from dranking.ingestion.rows.row_rules import (
    HasConstants,
    RowRules,
    known_constants,
    raw_features_of,
)
from dranking.ingestion.rows.segments import measure_segments
from dranking.ingestion.segment_memory import in_turns


class Fitted(NamedTuple):
    """The features, the values for missing ones, and the scalings to apply.

    Attributes
    ----------
    feature_names
        Names of the features: the columns, and what tells of their missing values.
    constants
        The values for the record of the data set; None if no value may be missing.
    filling
        Replaces the missing values of a block, or refuses them; None if no value is missing.
    added
        Scalings, in order.
    """

    feature_names: tuple[str, ...]
    constants: ColumnConstants | None
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
    known = known_constants(rows, before)
    of_source, present = filled_of(plan.steps), scalings_of(plan.steps)
    if of_source is None and present and (known is not None or rows.null != "error"):
        raise scaled_already(present)
    columns = FilledColumns(names, None)
    origins = constants_of(plan.steps)
    if of_source is not None:
        constants = None if known is None else _of_features(known, names)
        columns = FilledColumns(names, _with_filled(names, constants, of_source, rows.missing))
    elif known is not None:
        columns = _of_columns(known, names)
        of_columns = None if known.constants is None else columns.constants
        if of_columns is not None:
            of_columns = of_columns.restricted(np.arange(len(names)))
        check_origins(names, of_columns, origins, "the data")
    elif origins is not None:
        columns = FilledColumns(names, origins)
    if before is not None:
        added = missing_transforms(before.transforms, present)
        return _fitted(request, plan, shared, columns, added)
    is_new = rows.null != "error" and (columns.constants is None or columns.constants is origins)
    found = None
    of_moments = request.normalize in FROM_MOMENTS
    if (is_new and (rows.null != "zero" or rows.null_indicator)) or of_moments:
        summary = partial(_counted, grouped=is_new and rows.null_indicator)
        found = reduce(_both, measured(request.executor, plan, shared, summary, _both))
    if is_new:
        columns = _first_constants(names, rows, found, origins)
    return _fitted(request, plan, shared, columns, None, found)


def _of_features(known: HasConstants, names: Sequence[str]) -> ColumnConstants | None:
    """The known values of some features, of which some may tell of missing values."""
    constants, there = known.constants, source_names(known.feature_names, known.transforms)
    return None if constants is None else constants.restricted(_positions(names, there))


def _of_columns(known: HasConstants, names: tuple[str, ...]) -> FilledColumns:
    """The features of columns, with known values and the known indicators of missing values."""
    constants = known.constants
    if constants is None:
        return FilledColumns(names, None)
    of_names = constants.restricted(_positions(names, raw_features_of(known)))
    if not constants.indicates:
        return FilledColumns(names, of_names)
    told = dict.fromkeys(of for of in constants.indicates if of in names)
    plain = of_names.model_copy(update={"indicates": ("",) * len(names)})
    return with_indicators(names, plain, [names.index(of) for of in told])


def _first_constants(
    names: tuple[str, ...],
    rows: RowRules,
    found: tuple[int, ColumnSummary] | None,
    origins: ColumnConstants | None,
) -> FilledColumns:
    """The features of columns whose values for missing ones are fitted to these columns."""
    none = np.zeros(len(names))
    n_documents, summary = found or (0, None)
    moments = FeatureMoments(none, none, none, none, none) if summary is None else summary.moments
    constants = constants_from(moments, rows.null, n_documents)
    constants = constants if origins is None else constants.with_origins(origins.origin_of_each)
    if summary is None or summary.groups is None:
        return FilledColumns(names, constants)
    return with_indicators(names, constants, summary.groups.firsts)


def _counted(block: QueryBlock, grouped: bool) -> tuple[int, ColumnSummary]:
    """Number of documents of a block, and the summary of its columns."""
    return block.n_documents, column_summary(block, grouped)


def _both(
    one: tuple[int, ColumnSummary], other: tuple[int, ColumnSummary]
) -> tuple[int, ColumnSummary]:
    return one[0] + other[0], one[1].merged(other[1])


def _with_filled(
    names: Sequence[str],
    constants: ColumnConstants | None,
    of_source: ColumnConstants,
    null: ValueRule,
) -> ColumnConstants:
    """The values for missing ones where those of the source were filled in before."""
    check_permitted(null, of_source, "the data")
    if constants is None:
        return of_source
    check_filled_alike(names, constants, of_source)
    return constants.with_gaps(np.array(of_source.gaps))


def _fitted(
    request: Request,
    plan: Plan,
    shared: Task,
    columns: FilledColumns,
    added: tuple[Scaling, ...] | None,
    found: tuple[int, ColumnSummary] | None = None,
) -> Fitted:
    """The steps of the data set; scalings are fitted where none are given.

    Raises
    ------
    DataError
        If some steps would scale by values that were filled in.
    """
    names, constants = columns.names, columns.constants
    of_source, present = filled_of(plan.steps), scalings_of(plan.steps)

    def how(scalings: Sequence[Scaling]) -> Filling | None:
        """The filling of blocks; the policy permits gaps also where the known data has none."""
        if constants is None:
            return None
        known = constants if request.rows.null == "error" else constants.permitting()
        known = known if of_source is None else known.without_indicators()
        return filling(names, known, scalings, present, columns.sources)

    if added is None:
        scalings = _scalings(request, plan, shared, columns, how(()), found)
        added = tuple(leaving_indicators(scaling, names, constants) for scaling in scalings)
    if of_source is not None:
        check_none_filled_within(names, of_source, added)
    return Fitted(names, constants, how(added), added)


def _scalings(
    request: Request,
    plan: Plan,
    shared: Task,
    columns: FilledColumns,
    how: Filling | None,
    found: tuple[int, ColumnSummary] | None,
) -> tuple[Form, ...]:
    """The scalings that the caller asks for, fitted to the data with its missing values filled."""
    if request.normalize == "none":
        return ()
    if request.normalize in FROM_MOMENTS and found is not None:
        n_documents, moments = found[0], found[1].moments
        if columns.sources is not None:
            moments = FeatureMoments(*(each[columns.sources] for each in moments))
        if columns.constants is not None:
            moments = filled_moments(moments, columns.constants.values, n_documents)
        return (FROM_MOMENTS[request.normalize]([moments], sparse=plan.is_sparse),)
    if request.normalize == "quantile":
        return (_fit_quantile(request.executor, plan, shared, how),)
    scaling = UNFITTED[request.normalize]()
    if plan.is_sparse:
        scaling.check_sparse()
    return (scaling,)


def _positions(names: Sequence[str], there: Sequence[str]) -> NDArray[np.intp]:
    """Positions of some features among those that `null_from` knows."""
    position = {name: i for i, name in enumerate(there)}
    absent = [name for name in names if name not in position]
    if absent:
        raise DataError(
            f"what null_from names has no values for {len(absent)} feature(s): {quoted(absent)}. "
            "Give its training data, or choose the features."
        )
    return np.array([position[name] for name in names], dtype=np.intp)


def _fit_quantile(executor: Executor, plan: Plan, shared: Task, filling: Filling | None) -> Form:
    if plan.is_sparse:
        raise DataError(
            "quantile scaling would fill in the zeros of sparse features; "
            "scale with 'standard', 'minmax' or 'log', or store the data dense."
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
