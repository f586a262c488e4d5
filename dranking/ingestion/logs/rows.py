"""Tables of the documents of a log: of a range of a file first, then in the form of all ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dranking.data.roles import DOC_ID, QID, RELEVANCE, WEIGHT, Columns
from dranking.errors import DataError
from dranking.ingestion.judgements import Judgements
from dranking.ingestion.letor.invalid_lines import InvalidLine
from dranking.ingestion.letor.text_ranges import TextRange
from dranking.ingestion.logs.documents import Document, DocumentReader
from dranking.ingestion.logs.features import LogError
from dranking.ingestion.logs.values import json_values

__all__: list[str] = []

PIECE_BYTES = 1 << 25
"""About the bytes of JSON whose documents become one table."""

LINE = "line of the log"
"""Column of the line that a document comes from, counted from the beginning of the file."""

_RESPONSE, _FEATURE = "response", "feature:"
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class ReadLog:
    """Facts of the documents of a range of a log; lines are counted from its beginning.

    Attributes
    ----------
    n_lines
        Number of lines.
    names, widths, numbers, left_out, lines
        Those of `FeatureReader`.
    columns
        Which of the columns of document ids, grades and weights have a value.
    texts
        Which of the columns of ids have a text, or a number beyond int64.
    n_unnamed
        Number of responses that name no query.
    named_line, unnamed_line
        First line with a document whose query is named, and is not; 0 if there is none.
    invalid
        The first invalid line; None if all are valid.
    """

    n_lines: int = 0
    names: tuple[str, ...] = ()
    widths: dict[str, int] = field(default_factory=dict)
    numbers: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    lines: dict[str, int] = field(default_factory=dict)
    columns: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    n_unnamed: int = 0
    named_line: int = 0
    unnamed_line: int = 0
    invalid: InvalidLine | None = None


def read_log(
    part: TextRange, lines: bool, columns: Columns, write: Callable[[pa.Table], None]
) -> ReadLog:
    """Read the documents of a range of a log up to the first invalid line.

    Parameters
    ----------
    part, lines
        The range, and whether each line has one value.
    columns
        The roles that the caller gives to keys.
    write
        Called with tables of the documents, in order, which `completed` takes.

    Raises
    ------
    DataError
        If the file cannot be read.
    """
    reader = DocumentReader(columns)
    rows: list[tuple[int, Document]] = []
    n_bytes = line = named = unnamed = 0
    there: set[str] = set()
    texts: set[str] = set()
    invalid = None

    def flush() -> None:
        write(_table(rows, tuple(reader.features.names), there, texts))
        rows.clear()

    for line, value, size in json_values(part, lines):
        if value is None and not size:
            continue
        try:
            if isinstance(value, LogError):
                raise value
            reader.features.line = line
            found = list(reader.documents(value))
        except (LogError, RecursionError) as error:
            text = str(error) if isinstance(error, LogError) else "the value is nested too deep."
            invalid = InvalidLine(line, text)
            break
        rows += [(line, each) for each in found]
        if any(each.response >= 0 for each in found):
            unnamed = unnamed or line
        if any(each.query is not None for each in found):
            named = named or line
        n_bytes += size
        if n_bytes >= PIECE_BYTES:
            flush()
            n_bytes = 0
    if rows and invalid is None:
        flush()
    facts = _facts(reader, there, texts)
    return replace(facts, n_lines=line, named_line=named, unnamed_line=unnamed, invalid=invalid)


def _facts(reader: DocumentReader, there: set[str], texts: set[str]) -> ReadLog:
    """What a reader found; without lines."""
    features = reader.features
    return ReadLog(
        names=tuple(features.names),
        widths=features.widths,
        numbers=frozenset(features.numbers),
        left_out=frozenset(features.left_out),
        lines=features.lines,
        columns=frozenset(there),
        texts=frozenset(texts),
        n_unnamed=reader.n_unnamed,
    )


def _table(
    rows: Sequence[tuple[int, Document]], names: Sequence[str], there: set[str], texts: set[str]
) -> pa.Table:
    """The documents as a table, with ids as texts; notes which columns have values, and texts."""
    documents = [document for _, document in rows]
    ids = {QID: [d.query for d in documents], DOC_ID: [d.document for d in documents]}
    numbers = {RELEVANCE: [d.grade for d in documents], WEIGHT: [d.weight for d in documents]}
    columns: dict[str, pa.Array] = {}
    for name, values in ids.items():
        columns[name] = pa.array([None if v is None else str(v) for v in values], pa.string())
        if any(isinstance(v, str) or (v is not None and v not in _INT64) for v in values):
            texts.add(name)
        if columns[name].null_count < len(values):
            there.add(name)
    for name, grades in numbers.items():
        columns[name] = pa.array(np.array(grades, dtype=np.float64))
        if not np.isnan(grades).all():
            there.add(name)
    columns[LINE] = pa.array([line for line, _ in rows], pa.int64())
    columns[_RESPONSE] = pa.array([d.response for d in documents], pa.int64())
    for name in names:
        values_of = [d.features.get(name) for d in documents]
        columns[_FEATURE + name] = pa.array(values_of, pa.float64())
    return pa.table(columns)


@dataclass(frozen=True)
class LogForm:
    """The form that the tables of all ranges get.

    Attributes
    ----------
    names
        Names of the features, in order.
    columns
        Names of the columns of ids, grades and weights, by role; those that no table has are
        absent.
    texts
        Roles of the ids that are texts.
    by_order
        Judgements whose queries come in the order of the responses; None where queries are named.
    """

    names: tuple[str, ...]
    columns: dict[str, str]
    texts: frozenset[str]
    by_order: Judgements | None = None


def completed(
    table: pa.Table, form: LogForm, n_lines: int, n_responses: int, path: str
) -> pa.Table:
    """A table of `read_log` in the form of all ranges, with lines counted from the file's start.

    Parameters
    ----------
    table, form
        The table, and the form.
    n_lines, n_responses
        Number of lines of the file, and of responses without a query, before the range.
    path
        The file.

    Raises
    ------
    DataError
        If a response has no document that is judged for the query at its place.
    """
    lines = pc.add(table[LINE], n_lines)
    columns: dict[str, Any] = {}
    for role, name in form.columns.items():
        values = table[role]
        if role == QID and form.by_order is not None:
            values = _queries_in_order(table, form.by_order, n_responses, lines, path)
        is_number = role in (QID, DOC_ID) and role not in form.texts
        columns[name] = values.cast(pa.int64()) if is_number else values
    for name in form.names:
        stored = _FEATURE + name
        there = stored in table.column_names
        values = table[stored] if there else pa.nulls(table.num_rows, pa.float64())
        columns[name] = values
    return pa.table({**columns, LINE: lines})


def _queries_in_order(
    table: pa.Table, judgements: Judgements, n_before: int, lines: pa.ChunkedArray, path: str
) -> pa.Array:
    """Query ids of responses that name none, from the order of the judged queries."""
    at = table[_RESPONSE].to_numpy() + n_before
    queries = judgements.queries.take(pa.array(at))
    judged = ~np.isnan(judgements.grades(queries, table[DOC_ID]))
    for response in np.unique(at[~np.isin(at, at[judged])])[:1].tolist():
        row = int(np.argmax(at == response))
        raise DataError(
            f"{path}:{lines[row]}: response {response + 1} names no query, and by the order of "
            f"{judgements.where} is of query {queries[row]}, which has none of its documents among "
            "its judged ones. Is the order another one? Write the id of the query beside each "
            'response, as {"query_id": "q1", "response": {...}}.'
        )
    return queries


def check_collisions(form: LogForm, where: str) -> None:
    """Raise DataError if a feature has the name of a column with another role."""
    taken = [name for name in form.names if name in (*form.columns.values(), LINE)]
    if taken:
        raise DataError(
            f"{where}: feature {taken[0]!r} has the name of the column of ids, grades, weights or "
            "lines. Leave it out with --exclude (Columns(exclude=[...]), for retrain "
            "data.exclude), or give the column another name (Columns(qid=..., relevance=...))."
        )
