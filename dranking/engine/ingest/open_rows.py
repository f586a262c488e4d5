"""Sources of rows, opened with tasks: parquet files, ranges of text, a table, a Dask collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dranking.data.column_forms import Scaling
from dranking.data.ingest.finish_blocks import NullPolicy
from dranking.data.ingest.parquet_rows import ParquetRows
from dranking.data.ingest.plan_parquet import (
    beyond_int64,
    distinct_schemas,
    united_layout,
    unsigned_ids,
)
from dranking.data.ingest.row_source import RowSource
from dranking.data.ingest.scratch import Scratch
from dranking.data.ingest.text_rows import RangeFile, TextRows, spill_range
from dranking.data.letor.row_buffer import BlockForm
from dranking.data.letor.text_ranges import check_ranges, text_ranges
from dranking.data.letor.text_source import check_readable
from dranking.data.parquet.files import ParquetFiles
from dranking.data.parquet.hive_folders import FoundFile, ReadFooter, find_files, read_footers
from dranking.data.roles import DEFAULT_ROLES, RELEVANCE, Columns, Roles
from dranking.data.tables.any_table import as_table
from dranking.data.tables.columns import Layout
from dranking.data.tables.feature_names import default_feature_names
from dranking.data.tables.recorded_scalings import recorded_transforms
from dranking.engine.collections.compute import as_current, computed
from dranking.engine.collections.one_expression import is_dask, is_dask_frame, partitions_of
from dranking.engine.collections.parts import Part
from dranking.engine.executor import Executor
from dranking.engine.ingest.gathering import results_of
from dranking.errors import DataError, UsageError
from dranking.files.places import AnyPlace, Place
from dranking.files.reading import file_size

FOOTERS_AT_ONCE = 64
RANGE_BYTES = 1 << 26
MIN_RANGE_BYTES = 1 << 20
"""Bytes of text that one task reads, unless a file is smaller, or compressed."""

TABLE_BYTES = 1 << 27
"""Bytes of a table that are written as one file."""


@dataclass(frozen=True)
class OpenedRows:
    """A source of rows, and what the data set says about them."""

    source: RowSource
    feature_names: tuple[str, ...]
    transforms: tuple[Scaling, ...] = ()
    roles: Roles = DEFAULT_ROLES
    is_sparse: bool = False


def open_parquet(
    executor: Executor,
    sources: Sequence[AnyPlace],
    columns: Columns,
    null: NullPolicy,
    where: str | None = None,
) -> OpenedRows:
    """Open parquet files; the footers are read by tasks.

    Raises
    ------
    DataError
        If there are no rows, a file cannot be read, or columns are missing or of a wrong type.
    UsageError
        If a column is named for two purposes, or `where` cannot be read.
    """
    files = find_files(sources, where)
    starts = range(0, len(files), FOOTERS_AT_ONCE)
    groups: list[list[FoundFile]] = [files[start : start + FOOTERS_AT_ONCE] for start in starts]
    tasks = [
        executor.submit(read_footers, group, tuple(columns.folder_features), name="plan")
        for group in groups
    ]
    footers: list[ReadFooter] = [
        footer for group in results_of(executor, tasks, "plan") for footer in group
    ]
    schemas = distinct_schemas(footers)
    layout = united_layout(schemas, columns, allow_absent=null != "error")
    read = ParquetFiles([footer.part for footer in footers])
    if not read.n_rows:
        raise DataError(f"{files[0].place}: there are no rows; give files that have rows.")
    layout = _with_large_ids(executor, read, layout, unsigned_ids(schemas, layout))
    return OpenedRows(
        ParquetRows(read, layout, missing=null != "error"),
        layout.feature_names,
        recorded_transforms(schemas, layout.feature_names),
        layout.roles,
    )


def _with_large_ids(
    executor: Executor, files: ParquetFiles, layout: Layout, unsigned: Sequence[str]
) -> Layout:
    """The layout in which ids are text if an integer is beyond int64."""
    borders = files.group_borders
    for name in unsigned:
        tasks = [
            executor.submit(_is_beyond, files, start, stop, name, name="plan-ids")
            for start, stop in pairwise(borders)
        ]
        if any(results_of(executor, tasks, "ids")):
            layout = replace(
                layout,
                qid_is_text=layout.qid_is_text or name == layout.roles.qid,
                doc_id_is_text=layout.doc_id_is_text or name == layout.roles.docid,
            )
    return layout


def _is_beyond(files: ParquetFiles, start: int, stop: int, name: str) -> bool:
    return beyond_int64(files.read(start, stop, [name]), name)


def open_text(
    executor: Executor,
    places: Sequence[Place],
    scratch: Scratch,
    null: NullPolicy,
    *,
    n_features: int | None,
    sparse: bool,
) -> OpenedRows:
    """Read text into Arrow files, in ranges side by side; compressed files are read whole.

    Raises
    ------
    DataError
        If a file cannot be read, or at the first invalid line of all files.
    """
    for place in places:
        check_readable(place)
    sizes = [file_size(place) for place in places]
    per_task = max(sum(sizes) // (4 * executor.n_slots), MIN_RANGE_BYTES)
    parts = text_ranges(places, sizes, min(RANGE_BYTES, per_task))
    scratch.check_space(sum(sizes))
    in_text: Any = "minimum" if null == "mean" else null  # both are NaN until they are known
    names = [f"text-{number:06d}" for number in range(len(parts))]
    tasks = [
        executor.submit(spill_range, scratch, name, part, n_features, in_text, name="text")
        for name, part in zip(names, parts, strict=True)
    ]
    spilled = list(results_of(executor, tasks, "read"))
    found = [each.found for each in spilled]
    check_ranges(parts, found, n_features)
    files, lines, before = [], 0, -1
    for name, part, each in zip(names, parts, spilled, strict=True):
        lines = 0 if part.file != before else lines
        files.append(RangeFile(name, str(part.place), lines, each.batch_ptr))
        lines, before = lines + each.found.n_lines, part.file
    form = BlockForm(
        n_features or max(read.widest.width for read in found),
        sparse,
        any(read.has_doc_ids for read in found),
        any(read.has_comments for read in found),
    )
    source = TextRows(scratch, files, form, sum(each.n_bytes for each in spilled))
    return OpenedRows(source, default_feature_names(form.n_features), is_sparse=sparse)


def open_table(
    executor: Executor, table: Any, columns: Columns, null: NullPolicy, scratch: Scratch
) -> OpenedRows:
    """Write a table, which may be a stream larger than memory, as parquet files, and open these.

    Raises
    ------
    DataError, UsageError
        As `open_parquet` raises them.
    """
    if hasattr(table, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(table)
    else:
        reader = as_table(table).to_reader()
    names: list[str] = []
    batches: list[pa.RecordBatch] = []

    def flush() -> None:
        names.append(f"table-{len(names):06d}.parquet")
        with scratch.writing(names[-1]) as path, path.open("wb") as file:
            rows = pa.Table.from_batches(batches, reader.schema)
            pq.write_table(rows, file, compression="lz4")
        batches.clear()

    for batch in reader:
        batches.append(batch)
        if sum(each.nbytes for each in batches) >= TABLE_BYTES:
            flush()
    if batches or not names:
        flush()
    return open_parquet(executor, [scratch.place(name) for name in names], columns, null)


def is_collection(source: Any) -> bool:
    """Whether a source is a dask DataFrame, or the dask arrays (X, y, qid)."""
    return is_dask_frame(source) or (
        isinstance(source, tuple) and len(source) == 3 and is_dask(source[0])
    )


def open_collection(
    executor: Executor, source: Any, columns: Columns, null: NullPolicy, scratch: Scratch
) -> OpenedRows:
    """Write each partition of a Dask collection as a parquet file where it lies; open the files.

    Every row is computed once, with all of its columns.

    Raises
    ------
    UsageError
        If arrays may hold different rows, their chunks are sparse, or columns are named for arrays.
    DataError
        If there are no rows; and as `open_parquet`.
    """
    from dask import delayed

    X, y, qid = (source, columns.relevance, columns.qid)
    if isinstance(source, tuple):
        if columns.chosen:
            raise UsageError(f"{', '.join(columns.chosen)}: arrays have no columns with names.")
        X, y, qid = source
        columns = Columns(relevance=None if y is None else RELEVANCE, docid=None, weight=None)
    with as_current(executor):  # the way in which Dask shuffles depends on the client
        given = partitions_of(X, y, qid, partial(computed, executor))
    if given.is_sparse:
        raise UsageError(
            "the chunks are sparse, and only text is stored sparse; write the rows as LETOR text "
            "and ingest that with RowRules(sparse=True), or fit on the dask arrays themselves."
        )
    names = [f"table-{number:06d}.parquet" for number in range(len(given.parts))]
    write = delayed(_write_part, pure=False, traverse=False)
    tasks = [write(part, scratch, name) for part, name in zip(given.parts, names, strict=True)]
    sizes = computed(executor, tasks)
    files = [scratch.place(name) for name, size in zip(names, sizes, strict=True) if size]
    if not files:
        raise DataError("the dask collection has no rows.")
    return open_parquet(executor, files, columns, null)


def _write_part(part: Part, scratch: Scratch, name: str) -> int:
    """Write the rows of a partition, if it has any; return their number."""
    n_rows: int = part.table.num_rows
    if n_rows:
        with scratch.writing(name) as path, path.open("wb") as file:
            pq.write_table(part.table, file, compression="lz4")
    return n_rows
