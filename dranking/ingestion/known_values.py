"""The values for missing ones of several sources together, before any of them is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

from dranking.data.column_constants import ColumnConstants, NullPolicy
from dranking.data.column_forms import Scaling
from dranking.data.filling import ColumnSummary, column_summary, constants_from, with_indicators
from dranking.data.roles import Columns
from dranking.data.steps import constants_of
from dranking.engine.executor import Executor
from dranking.engine.tile_tasks import given
from dranking.files.places import Place
from dranking.files.writing.names import job_folder, new_token
from dranking.ingestion.fit import measured
from dranking.ingestion.ingest_plan import Request, make_plan, open_source
from dranking.ingestion.rows.row_rules import HasConstants, RowRules, values_of
from dranking.ingestion.rows.scratch import Scratch


@dataclass(frozen=True)
class KnownValues:
    """The values that stand for missing ones, by the names of the features."""

    feature_names: tuple[str, ...]
    constants: ColumnConstants
    transforms: tuple[Scaling, ...] = ()


class Measured(NamedTuple):
    """Columns of a source: their names, a summary, and the origins that were subtracted."""

    names: tuple[str, ...]
    summary: ColumnSummary
    origins: ColumnConstants | None


def measure_source(
    source: Any, columns: Columns, rows: RowRules, folder: Place, executor: Executor
) -> Measured:
    """Names of the columns of a source, and a summary of their values and gaps.

    Parameters
    ----------
    source, columns, rows
        As `ingest` takes them.
    folder
        Folder that all workers see, for temporary files.
    executor
        Executor of the pass over the source.

    Raises
    ------
    DataError, UsageError
        As `ingest`.
    """
    token = new_token()
    scratch = Scratch(job_folder(folder, token), token)
    request = Request(source, executor, columns, None, rows, "none")
    try:
        plan = make_plan(request, open_source(request, scratch, None), scratch.part("0"), 0, None)
        shared = executor.submit(given, plan.source, name="source")
        summary = partial(column_summary, grouped=rows.null_indicator)
        parts = measured(executor, plan, shared, summary, ColumnSummary.merged)
        found = reduce(ColumnSummary.merged, parts)
        return Measured(plan.feature_names, found, constants_of(plan.steps))
    finally:
        scratch.clear()


def known_values(
    names: tuple[str, ...],
    summaries: Iterable[ColumnSummary],
    null: NullPolicy,
    earlier: HasConstants | None = None,
    origins: ColumnConstants | None = None,
) -> KnownValues:
    """The values for missing ones from the summaries of several sources.

    Parameters
    ----------
    names
        Names of the columns.
    summaries
        The summary of each source.
    null
        "zero", "minimum" or "mean"; "error" for the origins alone.
    earlier
        A model whose values are kept, where it has a column and the same policy; indicators of
        missing values that it has are made in any case.
    origins
        The origins that were subtracted from the columns of all sources; None if there are none.

    Raises
    ------
    DataError
        If a column has the name of an indicator.
    """
    if null == "error":
        none = (0.0,) * len(names)
        nothing = ColumnConstants(policy="error", values=none, gaps=(False,) * len(names))
        return KnownValues(names, origins or nothing)
    found = reduce(ColumnSummary.merged, summaries)
    constants = constants_from(found.moments, null)
    constants = constants if origins is None else constants.with_origins(origins.origin_of_each)
    columns = set() if found.groups is None else {*found.groups.firsts}
    if earlier is not None and earlier.constants is not None:
        columns |= {names.index(of) for of in earlier.constants.indicates if of in names}
        if earlier.constants.policy == null:
            constants = constants.keeping(names, values_of(earlier))
    if found.groups is None and not columns:
        return KnownValues(names, constants)
    made = with_indicators(names, constants, sorted(columns))
    return KnownValues(made.names, made.constants or constants)
