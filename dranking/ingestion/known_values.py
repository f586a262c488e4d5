"""The values for missing ones of several sources together, before any of them is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from dranking.data.column_forms import Scaling
from dranking.data.filling import fill_from
from dranking.data.null_fill import NullFill, NullPolicy
from dranking.data.roles import Columns
from dranking.data.scaling import FeatureMoments, feature_moments, merged_moments
from dranking.engine.executor import Executor
from dranking.engine.tile_tasks import given
from dranking.files.places import Place
from dranking.files.writing.debris import job_folder, new_token
from dranking.ingestion.fit import measured
from dranking.ingestion.ingest_plan import Request, make_plan, open_source
from dranking.ingestion.rows.row_rules import HasFill, RowRules, values_of
from dranking.ingestion.rows.scratch import Scratch


@dataclass(frozen=True)
class KnownValues:
    """The values that stand for missing ones, by the names of the features."""

    feature_names: tuple[str, ...]
    fill: NullFill
    transforms: tuple[Scaling, ...] = ()


def measure_source(
    source: Any, columns: Columns, rows: RowRules, folder: Place, executor: Executor
) -> tuple[tuple[str, ...], FeatureMoments]:
    """Names of the features of a source, and moments of the values that are there.

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
        parts = measured(executor, plan, shared, feature_moments, merged_moments)
        return plan.feature_names, reduce(merged_moments, parts)
    finally:
        scratch.clear()


def known_values(
    names: tuple[str, ...],
    moments: Iterable[FeatureMoments],
    null: NullPolicy,
    earlier: HasFill | None = None,
) -> KnownValues:
    """The values for missing ones from the moments of several sources.

    Parameters
    ----------
    names
        Names of the features.
    moments
        The moments of each source.
    null
        "zero", "minimum" or "mean".
    earlier
        A model whose values are kept, where it has a feature and the same policy.
    """
    fill = fill_from(reduce(merged_moments, moments), null)
    if earlier is None or earlier.fill is None or earlier.fill.policy != null:
        return KnownValues(names, fill)
    return KnownValues(names, fill.keeping(names, values_of(earlier)))
