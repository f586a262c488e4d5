"""The plan of an ingest: a source of data, and the segments that each task makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dranking.data.blocks import segment_borders
from dranking.data.dataset import Dataset
from dranking.data.named_columns import by_name
from dranking.data.regrouping.layout import plan_segments
from dranking.data.roles import Columns, Roles
from dranking.data.scaling import Normalize
from dranking.data.steps import Steps, filled_of
from dranking.data.store.dataset import StoredDataset
from dranking.data.tables.any_table import is_table
from dranking.engine.executor import Executor, Task
from dranking.engine.tile_tasks import given
from dranking.errors import DataError, UsageError
from dranking.ingestion.exchange_rows import Exchange, exchange_rows
from dranking.ingestion.gathering import results_of
from dranking.ingestion.judgements import Judgements
from dranking.ingestion.open import data_form, open_dataset
from dranking.ingestion.open_logs import open_log
from dranking.ingestion.open_rows import (
    OpenedRows,
    is_collection,
    open_arrow,
    open_collection,
    open_parquet,
    open_table,
    open_text,
)
from dranking.ingestion.order_rows import (
    ScannedRows,
    adjacent_work,
    queries_in_order,
    scan_queries,
)
from dranking.ingestion.rows.plan_parquet import ColumnRules
from dranking.ingestion.rows.repeated_query import repeated_query
from dranking.ingestion.rows.row_rules import (
    RowRules,
    known_constants,
    origins_of_columns,
    raw_columns_of,
)
from dranking.ingestion.rows.scan import hashes_of_any_type, ids_with, known_hashes
from dranking.ingestion.rows.scratch import Scratch
from dranking.ingestion.rows.segments import StoredBlocks, Work
from dranking.ingestion.segment_memory import TaskMemory, plan_memory


class IngestFacts(NamedTuple):
    """Facts that an ingest found.

    Attributes
    ----------
    n_queries_without_pairs
        Queries without two labelled documents of different grades; rankers learn nothing from them.
    n_regrouped_queries, n_regrouped_documents
        Number of queries whose rows lay apart, and of the documents of these queries.
    n_judged, n_judged_absent
        Number of documents to which judgements gave a grade, and of judged documents that the data
        lacks; 0 without judgements.
    n_scratch_bytes
        About the bytes of scratch space for text, tables and rows that were brought together.
    """

    n_queries_without_pairs: int
    n_regrouped_queries: int = 0
    n_regrouped_documents: int = 0
    n_scratch_bytes: int = 0
    n_judged: int = 0
    n_judged_absent: int = 0


@dataclass(frozen=True)
class Request:
    """The arguments of `ingest` that concern the data, and the executor."""

    source: Any
    executor: Executor
    columns: Columns
    where: str | None
    rows: RowRules
    normalize: Normalize
    judgements: Judgements | None = None


@dataclass(frozen=True)
class Plan:
    """The plan of an ingest: a source that all tasks read, the work of each task, and facts.

    Tasks that make segments run in `slots`, one in each at a time.
    """

    source: Any
    work: Sequence[Work]
    feature_names: tuple[str, ...]
    steps: Steps
    roles: Roles
    is_sparse: bool
    n_documents: int
    facts: IngestFacts
    slots: tuple[int, ...] = ()


def open_source(
    request: Request, scratch: Scratch, before: StoredDataset | None
) -> OpenedRows | Dataset:
    """Open the data; a table, which may be a stream, and text are read to their end.

    Parameters
    ----------
    request
        What the caller asks for.
    scratch
        Place for temporary files.
    before
        The data set to which data is appended, or None.

    Raises
    ------
    DataError
        If the data is wrong.
    UsageError
        If an option does not fit the data, or the disk of the scratch place is full.
    """
    permits, known_values = request.rows.null != "error", known_constants(request.rows, before)
    nullable = permits or known_values is not None
    columns = request.columns
    if request.rows.shift == "auto" and before is None and not columns.origins:
        columns = columns.shifted_if(True)
    if known_values is not None:
        columns = replace(columns, origins=origins_of_columns(known_values))
    rules = ColumnRules(columns, nullable, permits, before, request.judgements)
    if is_table(request.source) or is_collection(request.source):
        _check_options(request, "table", "the source")
        opened = open_collection if is_collection(request.source) else open_table
        return opened(request.executor, request.source, rules, scratch)
    paths = request.source
    form = data_form(paths)
    _check_options(request, form, str(paths[0]))
    if form == "directory":
        data = open_dataset(paths)
        known, is_filled = rules.known, filled_of(data.preparation) is not None
        if before is not None and known is not None and is_filled:
            known = known._replace(names=before.feature_names)
        return data if known is None else by_name(data, known, str(paths[0]))
    if form == "parquet":
        return open_parquet(request.executor, paths, rules, request.where)
    if form == "json":
        return open_log(request.executor, paths, rules, scratch)
    if form == "arrow":
        return open_arrow(request.executor, paths, rules, scratch)
    if form == "text":
        return open_text(
            request.executor,
            paths,
            scratch,
            rules.nullable,
            n_features=request.rows.n_features if before is None else len(raw_columns_of(before)),
            sparse=request.rows.sparse if before is None else before.is_sparse,
        )
    assert_never(form)


def make_plan(
    request: Request,
    opened: OpenedRows | Dataset,
    scratch: Scratch,
    key: int,
    before: StoredDataset | None,
) -> Plan:
    """Find the queries of the data, and bring their rows together if need be.

    Parameters
    ----------
    request
        What the caller asks for.
    opened
        The result of `open_source`.
    scratch
        Place for temporary files of this plan alone.
    key
        Key of the hashes of query ids.
    before
        The data set to which data is appended, or None.

    Raises
    ------
    DataError
        If the data is wrong, or queries are in the data set already.
    UsageError
        If the disk of the scratch place is full, or a segment does not fit into the memory limit
        of the job or of a worker.
    HashCollisionError
        If two query ids have one hash.
    """
    memory = plan_memory(request.executor, opened)
    if isinstance(opened, OpenedRows):
        plan = _plan_rows(request, opened, scratch, key, before, memory)
    else:
        plan = _plan_blocks(opened, before)
    return replace(plan, slots=memory.slots)


def _check_options(request: Request, form: str, name: str) -> None:
    """Raise UsageError if an option is given that data of this form does not have."""
    text = {"n_features": request.rows.n_features is not None, "sparse": request.rows.sparse}
    parquet = {"where": request.where, "folder_features": request.columns.folder_features}
    tables = dict.fromkeys(request.columns.chosen, True)
    shift, null = request.rows.shift != "none", request.rows.null != "error"
    judged = {"judgements": request.judgements is not None}
    of_tables = ("parquet", "arrow", "json", "table")
    rules = (
        ("text", ("text",), text),
        ("parquet", ("parquet",), parquet),
        ("tables and logs", of_tables, {**tables, "shift": shift, **judged}),
        ("text, tables and logs", ("text", *of_tables), {"null": null}),
    )
    for allowed, forms, options in rules:
        wrong = [option for option, is_given in options.items() if is_given]
        if wrong and form not in forms:
            kind = {"directory": "a dataset directory", "table": "a table"}.get(form, form)
            raise UsageError(f"{', '.join(wrong)}: only for {allowed}, but {name} is {kind}.")


def _plan_blocks(dataset: Dataset, before: StoredDataset | None) -> Plan:
    dataset.check_documents()
    if before is not None:
        _check_absent(before, before.query_ids(), dataset.query_ids().cast(pa.string()))
    borders = segment_borders([info.n_documents for info in dataset.blocks])
    work = [
        StoredBlocks(((number, start, stop),))
        for number, (start, stop) in enumerate(pairwise(borders))
    ]
    return Plan(
        dataset,
        work,
        dataset.feature_names,
        dataset.preparation,
        dataset.roles,
        dataset.is_sparse,
        dataset.n_documents,
        IngestFacts(0),
    )


def _plan_rows(
    request: Request,
    rows: OpenedRows,
    scratch: Scratch,
    key: int,
    before: StoredDataset | None,
    memory: TaskMemory,
) -> Plan:
    """Find the queries, and bring their rows together if need be."""
    executor, source = request.executor, rows.source
    shared = executor.submit(given, source, name="source")
    scan = scan_queries(executor, shared, source, scratch, key)
    if before is not None:
        _check_new(executor, shared, scratch, scan, before, key)
    if scan.n_scattered_queries and not request.rows.regroup:
        raise repeated_query(source)
    segments = plan_segments(queries_in_order(executor, scratch, scan))
    work: Sequence[Work]
    n_scratch_bytes = rows.n_scratch_bytes
    if scan.n_scattered_queries:
        exchange = Exchange(executor, shared, scratch, scan, key, memory)
        work, needed = exchange_rows(exchange, source, segments)
        n_scratch_bytes += needed
    else:
        work = adjacent_work(source, segments, executor.n_slots)
    return Plan(
        source,
        work,
        rows.feature_names,
        rows.steps,
        rows.roles,
        rows.is_sparse,
        source.n_rows,
        IngestFacts(0, scan.n_scattered_queries, scan.n_scattered_rows, n_scratch_bytes),
    )


def _check_new(
    executor: Executor,
    shared: Task,
    scratch: Scratch,
    scan: ScannedRows,
    before: StoredDataset,
    key: int,
) -> None:
    """Raise DataError if a query is in the data set already, to which data is appended."""
    ids = before.query_ids()
    hashes = hashes_of_any_type(ids, key)
    tasks = [
        executor.submit(known_hashes, scratch, scan.lines(part), hashes, name="known")
        for part in scan.partitions
    ]
    known = np.concatenate(list(results_of(executor, tasks, "known")))
    if not len(known):
        return
    tasks = [
        executor.submit(ids_with, shared, *rows, known, key, name="known") for rows in scan.ranges
    ]
    found: set[str] = set().union(*results_of(executor, tasks, "known"))
    _check_absent(before, ids, pa.array(sorted(found), pa.string()))


def _check_absent(before: StoredDataset, ids: pa.Array, new: pa.Array) -> None:
    """Raise DataError if one of the new ids (texts) is among the ids of a data set."""
    there = ids.filter(pc.is_in(ids.cast(pa.string()), new))
    if len(there):
        raise DataError(
            f"{before.path}: has query {there[0]} already, and {len(there)} queries of the new "
            "data in all. Append new queries only, or ingest everything anew with dranking ingest "
            "--overwrite."
        )
