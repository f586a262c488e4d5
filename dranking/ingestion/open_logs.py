"""Feature logs of search engines, and JSON rows, opened with tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dranking.data.roles import DOC_ID, QID, RELEVANCE, WEIGHT, Columns
from dranking.data.tables.vectors import vector_names
from dranking.engine.executor import Executor
from dranking.engine.tile_tasks import given
from dranking.errors import DataError, DataWarning, quoted, warn_user
from dranking.files.places import Place
from dranking.files.reading import file_size
from dranking.ingestion import open_rows
from dranking.ingestion.gathering import results_of
from dranking.ingestion.judgements import Judgements
from dranking.ingestion.letor.text_ranges import TextRange, text_ranges
from dranking.ingestion.letor.text_source import check_readable
from dranking.ingestion.logs.documents import HOW_TO_NAME
from dranking.ingestion.logs.features import unequal_lists
from dranking.ingestion.logs.rows import (
    LINE,
    LogForm,
    ReadLog,
    check_collisions,
    completed,
    read_log,
)
from dranking.ingestion.logs.values import is_json_lines
from dranking.ingestion.open_rows import OpenedRows, open_parquet
from dranking.ingestion.rows.plan_parquet import ColumnRules
from dranking.ingestion.rows.scratch import Scratch

__all__: list[str] = []


class SpilledLog(NamedTuple):
    """Facts of a range of a log, the names of the Arrow files of its documents, and their bytes."""

    found: ReadLog
    pieces: tuple[str, ...]
    n_bytes: int


def open_log(
    executor: Executor, places: Sequence[Place], rules: ColumnRules, scratch: Scratch
) -> OpenedRows:
    """Read the documents of a log in ranges side by side; compressed files are read whole.

    Raises
    ------
    DataError
        If a file cannot be read, or at the first invalid value of all files; and as `open_parquet`.
    """
    parts, lines, sizes = log_ranges(places, 4 * executor.n_slots)
    scratch.check_space(sum(sizes), "reading the log")
    columns = replace(rules.columns, known=rules.known)
    names = [f"log-{number:06d}" for number in range(len(parts))]
    tasks = [
        executor.submit(spill_log, scratch, name, part, in_lines, columns, name="log")
        for name, part, in_lines in zip(names, parts, lines, strict=True)
    ]
    spilled: list[SpilledLog] = list(results_of(executor, tasks, "read"))
    found = [each.found for each in spilled]
    form, read = log_form(parts, found, columns, rules.judgements)
    shared = executor.submit(given, form, name="form")
    calls = [
        (scratch, piece, f"{piece}.parquet", shared, *before, str(part.place))
        for part, each, before in zip(parts, spilled, starts_of(parts, found), strict=True)
        for piece in each.pieces
    ]
    tasks = [executor.submit(complete_piece, *call, name="complete") for call in calls]
    n_bytes = sum(results_of(executor, tasks, "complete")) + sum(each.n_bytes for each in spilled)
    files = [scratch.place(call[2]) for call in calls]
    titles = [call[-1] for call in calls]
    opened = open_parquet(
        executor, files, replace(rules, asked=read), titles=titles, line_column=LINE
    )
    return replace(opened, n_scratch_bytes=n_bytes)


def read_whole_log(places: Sequence[Place], columns: Columns) -> tuple[pa.Table, Columns]:
    """The documents of a log in memory, and the roles of their columns.

    Raises
    ------
    DataError
        At the first invalid value of all files, or if there are no documents.
    """
    parts, lines, _ = log_ranges(places, 1)
    pieces: list[list[pa.Table]] = [[] for _ in parts]
    found = [
        read_log(part, in_lines, columns, tables.append)
        for part, in_lines, tables in zip(parts, lines, pieces, strict=True)
    ]
    form, read = log_form(parts, found, columns, None)
    tables = [
        completed(table, form, *before, str(part.place))
        for part, of_part, before in zip(parts, pieces, starts_of(parts, found), strict=True)
        for table in of_part
    ]
    return pa.concat_tables(tables), read


def log_ranges(
    places: Sequence[Place], n_tasks: int
) -> tuple[list[TextRange], list[bool], list[int]]:
    """Ranges of the files, whether a value stands on each line of a range, and the files' bytes."""
    for place in places:
        check_readable(place)
    sizes = [file_size(place) for place in places]
    lines = [is_json_lines(place) for place in places]
    per_task = max(sum(sizes) // n_tasks, open_rows.MIN_RANGE_BYTES)
    whole = [size if in_lines else 0 for size, in_lines in zip(sizes, lines, strict=True)]
    parts = text_ranges(places, whole, min(open_rows.RANGE_BYTES, per_task))
    return parts, [lines[part.file] for part in parts], sizes


def spill_log(
    scratch: Scratch, name: str, part: TextRange, lines: bool, columns: Columns
) -> SpilledLog:
    """Read a range of a log into Arrow files of a scratch place: a task."""
    pieces: list[str] = []
    n_bytes = 0

    def write(table: pa.Table) -> None:
        nonlocal n_bytes
        pieces.append(f"{name}-{len(pieces):06d}")
        with scratch.writing(pieces[-1]) as path, path.open("wb") as file:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.ipc.new_file(file, table.schema, options=options) as writer:
                writer.write_table(table)
            n_bytes += file.tell()

    return SpilledLog(read_log(part, lines, columns, write), tuple(pieces), n_bytes)


def complete_piece(
    scratch: Scratch,
    piece: str,
    name: str,
    form: LogForm,
    n_lines: int,
    n_responses: int,
    path: str,
) -> int:
    """Write a table of `spill_log` as a parquet file in the form of all: a task; its bytes."""
    with scratch.open_arrow(piece) as reader:
        table = completed(reader.read_all(), form, n_lines, n_responses, path)
    with scratch.writing(name) as target, target.open("wb") as file:
        pq.write_table(table, file, compression="lz4")
        return file.tell()


def starts_of(parts: Sequence[TextRange], found: Sequence[ReadLog]) -> Iterator[tuple[int, int]]:
    """Number of lines of its file, and of responses without a query, before each range."""
    file, n_lines, n_responses = -1, 0, 0
    for part, read in zip(parts, found, strict=True):
        n_lines = n_lines if part.file == file else 0
        yield n_lines, n_responses
        file, n_lines, n_responses = part.file, n_lines + read.n_lines, n_responses + read.n_unnamed


def log_form(
    parts: Sequence[TextRange],
    found: Sequence[ReadLog],
    columns: Columns,
    judgements: Judgements | None,
) -> tuple[LogForm, Columns]:
    """The form of the tables of all ranges, and the roles of their columns.

    Raises
    ------
    DataError
        At the first invalid value; if lists differ in length; if responses name no query, and the
        order of the judgements does not tell it.
    """
    starts = [lines for lines, _ in starts_of(parts, found)]
    for part, read, start in zip(parts, found, starts, strict=True):
        if read.invalid is not None:
            line, message = read.invalid
            raise DataError(f"{part.place}:{start + line}: {message}")
    where = str(parts[0].place)
    widths = _common_widths(parts, found, starts)
    there = set().union(*(read.columns for read in found))
    if not any(read.named_line or read.unnamed_line for read in found):
        raise DataError(f"{where}: there are no documents in the log; give one that has some.")
    needs_features = columns.needed is None or len(columns.needed) > 0
    if needs_features and not any(read.names for read in found):
        raise DataError(
            f"{where}: no document has a feature. Does the search log them (ext.ltr_log "
            "in Elasticsearch and OpenSearch, fl=[features] in Solr), and has its feature set or "
            "feature store features?"
        )
    by_order = _by_order(parts, found, starts, judgements)
    names = dict.fromkeys(name for read in found for name in read.names if name not in widths)
    roles = {
        QID: columns.qid,
        DOC_ID: columns.docid,
        RELEVANCE: columns.relevance,
        WEIGHT: columns.weight,
    }
    there |= {QID}
    form = LogForm(
        tuple(names),
        {role: name for role, name in roles.items() if name is not None and role in there},
        frozenset().union(*(read.texts for read in found), {QID} if by_order else ()),
        by_order,
    )
    check_collisions(form, where)
    left_out = set().union(*(read.left_out for read in found))
    roles_left = [name for name in columns.exclude if name in form.columns.values()]
    unknown = sorted({*columns.exclude} - left_out - {*roles_left})
    if unknown:
        raise DataError(
            f"{where}: there is no feature {quoted(unknown)} to leave out. The features are "
            f"{quoted([*names])}."
        )
    features = columns.features
    if features is not None:
        vectors = (vector_names(f, widths[f]) if f in widths else (f,) for f in features)
        features = [name for each in vectors for name in each]
    exclude = () if features is not None else (LINE, *roles_left)
    return form, replace(columns, features=features, exclude=exclude, no_index=tuple(names))


def _common_widths(
    parts: Sequence[TextRange], found: Sequence[ReadLog], starts: Sequence[int]
) -> dict[str, int]:
    """Length of the lists of each feature that is a list, the same in all ranges."""
    widths: dict[str, int] = {}
    numbers: set[str] = set()
    for part, read, start in zip(parts, found, starts, strict=True):
        for name, width in read.widths.items():
            place = f"{part.place}:{start + read.lines[name]}"
            if widths.setdefault(name, width) != width:
                raise DataError(f"{place}: {unequal_lists(name, width, widths[name])}")
        numbers |= read.numbers
        for name in sorted(numbers & widths.keys()):
            place = f"{part.place}:{start + read.lines[name]}"
            raise DataError(f"{place}: feature {name!r} is a list in some documents, and a number.")
    return widths


def _by_order(
    parts: Sequence[TextRange],
    found: Sequence[ReadLog],
    starts: Sequence[int],
    judgements: Judgements | None,
) -> Judgements | None:
    """The judgements if their order tells the queries of the responses; None if these are named."""
    if not any(read.unnamed_line for read in found):
        return None
    n_unnamed = sum(read.n_unnamed for read in found)
    at = next(i for i, read in enumerate(found) if read.unnamed_line)
    place = f"{parts[at].place}:{starts[at] + found[at].unnamed_line}"
    if any(read.named_line for read in found):
        raise DataError(f"{place}: the response names no query, and others do. {HOW_TO_NAME}")
    if judgements is None:
        raise DataError(f"{place}: the response names no query. {HOW_TO_NAME}")
    n_queries = len(judgements.queries)
    if n_unnamed != n_queries:
        raise DataError(
            f"{place}: {n_unnamed} responses name no query, and {judgements.where} has {n_queries} "
            "queries, so that the order does not tell the query of each. Write the id of the "
            'query beside each response, as {"query_id": "q1", "response": {...}}.'
        )
    warn_user(
        f"{parts[0].place}: the responses name no queries; they were taken in the order of the "
        f"queries of {judgements.where}.",
        DataWarning,
    )
    return judgements
