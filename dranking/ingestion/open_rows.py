"""Sources of rows, opened with tasks: parquet files, ranges of text, a table, a Dask collection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dranking.data.column_constants import ColumnConstants
from dranking.data.parquet.files import ParquetFiles
from dranking.data.parquet.hive_folders import (
    FoundFile,
    ReadFooter,
    find_files,
    read_footers,
    with_origins,
)
from dranking.data.roles import DEFAULT_ROLES, RELEVANCE, Columns, Roles
from dranking.data.steps import Steps, constants_of
from dranking.data.tables.any_table import Stream, as_stream, check_index, is_dask, is_dask_frame
from dranking.data.tables.columns import Layout
from dranking.data.tables.feature_names import default_feature_names
from dranking.data.tables.numeric_values import is_number
from dranking.data.tables.recorded_steps import recorded_steps
from dranking.data.tables.refused_columns import TABLE
from dranking.data.tables.vectors import (
    read_widths,
    stored_names,
    vectors_to_read,
    width_of,
    with_elements,
)
from dranking.engine.executor import Executor
from dranking.errors import DataError, UsageError
from dranking.files.places import AnyPlace, Place
from dranking.files.reading import file_size
from dranking.ingestion.arrow_files import arrow_stream, without_values
from dranking.ingestion.collections.arguments import partitions_of
from dranking.ingestion.collections.compute import as_current, computed
from dranking.ingestion.collections.partitions import Part
from dranking.ingestion.gathering import results_of
from dranking.ingestion.letor.row_buffer import BlockForm
from dranking.ingestion.letor.text_ranges import check_ranges, text_ranges
from dranking.ingestion.letor.text_source import check_readable
from dranking.ingestion.rows.parquet_rows import ParquetRows
from dranking.ingestion.rows.plan_parquet import (
    ColumnRules,
    beyond_int64,
    distinct_schemas,
    reader_bytes,
    unsigned_ids,
)
from dranking.ingestion.rows.row_source import RowSource
from dranking.ingestion.rows.scratch import Scratch
from dranking.ingestion.rows.text_rows import RangeFile, TextRows, spill_range

FOOTERS_AT_ONCE = 64
RANGE_BYTES = 1 << 26
MIN_RANGE_BYTES = 1 << 20
"""Bytes of text that one task reads, unless a file is smaller, or compressed."""

TABLE_BYTES = 1 << 27
"""Bytes of a table that are written as one file."""


@dataclass(frozen=True)
class OpenedRows:
    """A source of rows, and the properties of the data set that it becomes.

    The files that were written to the scratch place from text, a table or a Dask collection have
    `n_scratch_bytes` together. A reader of the rows takes about `reader_bytes` as long as it is
    open.
    """

    source: RowSource
    feature_names: tuple[str, ...]
    steps: Steps = ()
    roles: Roles = DEFAULT_ROLES
    is_sparse: bool = False
    n_scratch_bytes: int = 0
    reader_bytes: int = 0


def open_parquet(
    executor: Executor,
    sources: Sequence[AnyPlace],
    rules: ColumnRules,
    where: str | None = None,
    titles: Sequence[str] = (),
    line_column: str | None = None,
) -> OpenedRows:
    """Open parquet files; the footers are read by tasks.

    Errors name the files, unless there are titles: then each file is a piece of what its title
    names, and the files of one title are in the order of their rows. Where the rows come from lines
    of text, `line_column` has the numbers of these lines, for errors.

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
    tasks = [executor.submit(read_footers, group, rules.asked, name="plan") for group in groups]
    footers: list[ReadFooter] = [
        footer for group in results_of(executor, tasks, "plan") for footer in group
    ]
    if titles:
        footers = list(_with_titles(footers, titles))
    schemas = distinct_schemas(footers)
    layout = rules.layout(schemas)
    steps = recorded_steps(schemas, layout.feature_names)
    filled = constants_of(steps)
    layout = with_origins(layout, footers, {} if filled else rules.asked.origins)
    subtracted = ColumnConstants.of_origins(layout.origins)
    if subtracted is not None:
        steps = (subtracted, *steps)
    read = ParquetFiles([footer.part for footer in footers])
    if rules.judgements is not None:
        read = rules.judgements.joined(read, layout.roles)
    if not read.n_rows:
        raise DataError(f"{read.parts[0].name}: there are no rows; give data that has rows.")
    layout = _with_large_ids(executor, read, layout, unsigned_ids(schemas, layout))
    return OpenedRows(
        ParquetRows(read, layout, missing=rules.nullable, line_column=line_column),
        layout.feature_names,
        steps,
        layout.roles,
        reader_bytes=reader_bytes(footers, layout.to_read(np.arange(len(layout.feature_names)))),
    )


def _with_titles(footers: Sequence[ReadFooter], titles: Sequence[str]) -> Iterator[ReadFooter]:
    n_rows: dict[str, int] = {}
    for footer, title in zip(footers, titles, strict=True):
        first = n_rows.get(title, 0)
        yield footer._replace(part=replace(footer.part, title=title, first_row=first))
        n_rows[title] = first + footer.part.n_rows


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
    nullable: bool,
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
    scratch.check_space(sum(sizes), "reading the text")
    names = [f"text-{number:06d}" for number in range(len(parts))]
    tasks = [
        executor.submit(spill_range, scratch, name, part, n_features, nullable, name="text")
        for name, part in zip(names, parts, strict=True)
    ]
    spilled = list(results_of(executor, tasks, "read"))
    found = [each.found for each in spilled]
    check_ranges(parts, found, n_features, sparse)
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
    n_scratch_bytes = sum(each.n_file_bytes for each in spilled)
    names_of_features = default_feature_names(form.n_features)
    return OpenedRows(source, names_of_features, is_sparse=sparse, n_scratch_bytes=n_scratch_bytes)


def open_table(executor: Executor, table: Any, rules: ColumnRules, scratch: Scratch) -> OpenedRows:
    """Write a table, which may be a stream larger than memory, as parquet files, and open these.

    Only the columns that are read later are written.

    Raises
    ------
    DataError, UsageError
        As `open_parquet` raises them; and if the table cannot be read to its end.
    """
    check_index(table, rules.columns)
    stream, widths = _with_widths(as_stream(table), rules.columns)
    layout = rules.layout([(TABLE, with_elements(stream.schema, widths))])
    read = layout.to_read(np.arange(len(layout.feature_names)))
    wanted = {*stored_names(read, widths)}
    columns = [name for name in stream.schema.names if name in wanted]
    if stream.n_bytes is not None:
        sizes = dict(zip(stream.schema.names, stream.n_bytes, strict=True))
        scratch.check_space(sum(sizes[name] for name in columns), "storing the table")
    written = list(_write_stream(stream, columns, scratch, "table"))
    roles = layout.roles
    same = Columns(roles.qid, roles.relevance, roles.docid, roles.weight, layout.columns)
    same = replace(same, origins=rules.asked.origins)
    places = [scratch.place(name) for name, _ in written]
    titles = [TABLE] * len(written)
    opened = open_parquet(executor, places, replace(rules, asked=same, before=None), titles=titles)
    return replace(opened, n_scratch_bytes=sum(n_bytes for _, n_bytes in written))


def _with_widths(stream: Stream, columns: Columns) -> tuple[Stream, dict[str, int]]:
    """The stream, and the length of the first list of each column of lists of numbers."""
    names, widths = vectors_to_read(stream.schema, columns), dict[str, int]()
    begun: list[pa.RecordBatch] = []
    while len(widths) < len(names) and (batch := next(stream.batches, None)) is not None:
        begun.append(batch)
        for name in names:
            width = width_of([batch.column(name)])
            if width:
                widths.setdefault(name, width)
    widths = read_widths(widths, columns)
    return stream._replace(batches=chain(begun, stream.batches)), widths


def open_arrow(
    executor: Executor, places: Sequence[Place], rules: ColumnRules, scratch: Scratch
) -> OpenedRows:
    """Write Arrow files as parquet files, one task a file, and open these.

    Raises
    ------
    DataError, UsageError
        As `open_parquet`; and if a file is damaged, or the disk is full.
    """
    scratch.check_space(sum(map(file_size, places)), "storing the tables")
    names = [f"table-{number:06d}" for number in range(len(places))]
    tasks = [
        executor.submit(spill_arrow, scratch, name, place, rules.asked.exclude, name="arrow")
        for name, place in zip(names, places, strict=True)
    ]
    of_each: list[list[tuple[str, int]]] = list(results_of(executor, tasks, "read"))
    written = [
        (name, str(place), n_bytes)
        for place, files in zip(places, of_each, strict=True)
        for name, n_bytes in files
    ]
    files = [scratch.place(name) for name, _, _ in written]
    opened = open_parquet(executor, files, rules, titles=[title for _, title, _ in written])
    return replace(opened, n_scratch_bytes=sum(n_bytes for _, _, n_bytes in written))


def spill_arrow(
    scratch: Scratch, stem: str, place: Place, exclude: Sequence[str]
) -> list[tuple[str, int]]:
    """Write an Arrow file as parquet files of a scratch place: a task; names and bytes of these."""
    stream = without_values(arrow_stream(place), exclude)
    return list(_write_stream(stream, stream.schema.names, scratch, stem))


def is_collection(source: Any) -> bool:
    """Whether a source is a dask DataFrame, or the dask arrays (X, y, qid)."""
    return is_dask_frame(source) or (
        isinstance(source, tuple) and len(source) == 3 and is_dask(source[0])
    )


def open_collection(
    executor: Executor, source: Any, rules: ColumnRules, scratch: Scratch
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

    X, y, qid = (source, rules.columns.relevance, rules.columns.qid)
    if isinstance(source, tuple):
        chosen = rules.asked.chosen
        if chosen:
            raise UsageError(f"{', '.join(chosen)}: arrays have no columns with names.")
        X, y, qid = source
        columns = Columns(relevance=None if y is None else RELEVANCE, docid=None, weight=None)
        columns = replace(columns, origins=rules.asked.origins)
        rules = replace(rules, asked=columns, before=None)
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
    filled = [number for number, size in enumerate(sizes) if size]
    if not filled:
        raise DataError("the dask collection has no rows.")
    places = [scratch.place(names[number]) for number in filled]
    titles = [f"partition {number}" for number in filled]
    opened = open_parquet(executor, places, rules, titles=titles)
    return replace(opened, n_scratch_bytes=sum(sizes))


def _write_part(part: Part, scratch: Scratch, name: str) -> int:
    """Write the rows of a partition, if it has any; return the bytes of the file, or 0."""
    if not part.table.num_rows:
        return 0
    return _write_table(_without_empty_texts(part.table), scratch, name)


def _write_stream(
    stream: Stream, columns: Sequence[str], scratch: Scratch, stem: str
) -> Iterator[tuple[str, int]]:
    """Write some columns of a stream as parquet files; the name and the bytes of each."""
    batches: list[pa.RecordBatch] = []
    n_bytes = n_files = 0
    for batch in chain(stream.batches, [None]):
        if batch is not None:
            batches.append(batch)
            n_bytes += batch.nbytes
        if n_bytes >= TABLE_BYTES or (batch is None and (batches or not n_files)):
            rows = pa.Table.from_batches(batches, stream.schema).select(columns)
            name = f"{stem}-{n_files:06d}.parquet"
            yield name, _write_table(rows, scratch, name)
            batches, n_bytes, n_files = [], 0, n_files + 1


def _write_table(rows: pa.Table, scratch: Scratch, name: str) -> int:
    """Write a parquet file; return its bytes."""
    with scratch.writing(name) as path, path.open("wb") as file:
        pq.write_table(rows, file, compression="lz4")
        return file.tell()


def _without_empty_texts(table: pa.Table) -> pa.Table:
    """The table in which columns of no value but nulls have no type, unless it is a number's.

    Dask makes text of a column of Python's None, also where other partitions hold numbers.
    """
    for position, field in enumerate(table.schema):
        if table.column(position).null_count == table.num_rows and not is_number(field.type):
            table = table.set_column(position, field.name, pa.nulls(table.num_rows))
    return table
