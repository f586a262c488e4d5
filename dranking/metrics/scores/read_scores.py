"""Scores read from files: directories of parts, parquet, CSV, and TREC runs."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from dranking.data.roles import DOCUMENT_NAMES, GRADE_NAMES, QUERY_NAMES
from dranking.data.tables.numeric_values import as_numbers
from dranking.errors import DataError, quoted
from dranking.files.arrow_tables import read_csv, read_json_lines, read_parquet
from dranking.files.file_kinds import N_BYTES, foreign_kind
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.reading import arrow_input, open_input, read_bytes
from dranking.files.requests import request
from dranking.files.table_formats import check_no_table_format
from dranking.metrics.scores.rows import (
    Rows,
    are_judgement_columns,
    first_of,
    rows_of_dictionaries,
    rows_of_table,
    surplus_columns,
)
from dranking.metrics.scores.score_directory import is_score_directory, read_parts
from dranking.metrics.scores.score_table import DOCID, QID, SCORE, ScoreTable
from dranking.metrics.scores.trec_text import (
    QRELS,
    RUN,
    LineForm,
    begins_with,
    line_place,
    parse_lines,
)

ScoreForm: TypeAlias = Literal["directory", "parquet", "csv", "json lines", "json", "trec"]


GAIN_NAMES = ("grade", "gain")
"""Names of the columns of a table of gains."""

BEGINNING = 4_096
"""Bytes of a text file that tell whether it holds judgements."""


def read_scores(
    path: AnyPlace,
    qid: str = QID,
    docid: str = DOCID,
    score: str = SCORE,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> ScoreTable:
    """Read scores of documents.

    Parameters
    ----------
    path
        A directory that `dranking predict` wrote; a parquet file, a CSV file (``.csv``, ``.tsv``)
        or JSON lines (``.jsonl``, ``.ndjson``) with columns of query ids, ``score`` and, if
        documents have ids, document ids; a JSON file (``.json``) with an object for each query,
        from document to score, as ranx writes it; or a TREC run. Text may be compressed by gzip.
    qid, docid, score
        Names of the columns of ids and scores in parquet, CSV and JSON lines. Where a file lacks
        such a column of ids, and in a directory, the names are ``qid`` or ``query_id`` or ``q_id``,
        and ``docid`` or ``doc_id``, or ``query-id`` and ``corpus-id``
        of BEIR.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.

    Raises
    ------
    DataError
        If the file is not there, is of no such form, or has a flaw; the message names the line.
    """
    place = as_place(path, storage_options)
    form, where = _form_of(place), str(place)
    if form in ("trec", "json"):
        rows = _rows_of_text(place, form, RUN)
        return ScoreTable(rows.query, rows.number, rows.document, where, rows.place, rows.empty)
    ids = {qid, docid, *QUERY_NAMES, *DOCUMENT_NAMES} - {score}
    table = _read_table(place, form, ids, [score])
    return ScoreTable.from_table(table, qid, docid, where, SCORE if form == "directory" else score)


def read_judgements(
    path: AnyPlace,
    qid: str = QID,
    docid: str = DOCID,
    relevance: str = GRADE_NAMES[0],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Rows:
    """Read judgements (qrels): a grade for each of some pairs of a query and a document.

    Parameters
    ----------
    path
        TREC qrels, ``query iteration document grade`` in each line; or parquet, CSV, JSON lines or
        JSON as `read_scores` reads them. Text may be compressed by gzip.
    qid, docid, relevance
        Names of the columns in parquet, CSV and JSON lines; where a file lacks such a column, the
        names that dranking, ir_measures and ranx give it.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.

    Raises
    ------
    DataError
        If the file is not there, is of no such form, or has a flaw; the message names the line.
    """
    place = as_place(path, storage_options)
    form, where = _form_of(place), str(place)
    if form in ("trec", "json"):
        return _rows_of_text(place, form, QRELS)
    names = ([qid, *QUERY_NAMES], [docid, *DOCUMENT_NAMES], [relevance, *GRADE_NAMES])
    return rows_of_table(_read_table(place, form, {*names[0], *names[1]}, names[2]), names, where)


def read_query_table(path: AnyPlace, column: str, qid: str) -> tuple[pa.Array, pa.Array]:
    """Query ids and a column of parquet, CSV or JSON lines; names as in `read_judgements`.

    Raises
    ------
    DataError
        If the file is not there or of another form, or lacks a column.
    """
    place = as_place(path)
    form = _form_of(place)
    if form not in ("parquet", "csv", "json lines"):
        raise DataError(
            f"{place} is no table with a column {column!r}; give CSV, JSON lines or parquet."
        )
    names = [qid, *QUERY_NAMES]
    table = _read_table(place, form, {*names, column}, ())
    found = first_of(names, table.column_names)
    if found is None or column not in table.column_names:
        missing = repr(column) if found else f"of query ids ({quoted(names[1:])})"
        raise DataError(
            f"{place}: there is no column {missing}; the columns are {quoted(table.column_names)}."
        )
    return table[found], table[column]


def read_gains(place: Place) -> list[tuple[float, float]]:
    """Grades and their gains in CSV, JSON lines or parquet with these two columns.

    Raises
    ------
    DataError
        If the file is no such table, or a grade or a gain is no number.
    """
    form = _form_of(place)
    table = _read_table(place, form if form in ("parquet", "json lines") else "csv", (), GAIN_NAMES)
    table = table.rename_columns([name.strip(' "').lower() for name in table.column_names])
    if sorted(table.column_names) != sorted(GAIN_NAMES):
        raise DataError(
            f"{place}: the columns are {quoted(table.column_names)}; gains have the columns "
            f"{quoted(GAIN_NAMES)}."
        )
    columns = [as_numbers(table[name], f"{place}: column {name!r}") for name in GAIN_NAMES]
    for row, numbers in enumerate(zip(*columns, strict=True), start=1):
        if not np.isfinite(numbers).all():
            raise DataError(f"{place}, row {row}: a grade and a gain are finite numbers.")
    return [(float(grade), float(gain)) for grade, gain in zip(*columns, strict=True)]


def _rows_of_text(place: Place, form: ScoreForm, lines: LineForm) -> Rows:
    """Rows of TREC lines, or of a JSON object with an object for each query."""
    where = str(place)
    if form == "json":
        return rows_of_dictionaries(_read_json(place), where)
    content = _content(place)
    return Rows(*parse_lines(content, lines, where), where, line_place(content, where))


def _form_of(place: Place) -> ScoreForm:
    """The form of a file; DataError if nothing is there."""
    try:
        return score_form(place)
    except FileNotFoundError as error:
        raise DataError(f"{place}: there is no such file or directory.") from error
    except OSError as error:
        raise DataError(f"{place}: cannot be read ({error}).") from error


def _read_table(
    place: Place, form: ScoreForm, ids: Collection[str], numbers: Sequence[str]
) -> pa.Table:
    """The table in a directory of scores, or in parquet, CSV or JSON lines."""
    try:
        if form == "directory":
            return read_parts(place)
        if form == "parquet":
            check_no_table_format([place])
            with arrow_input(place) as file:
                return read_parquet(file)
        if form == "json lines":
            return read_json_lines(pa.BufferReader(_content(place, is_json=True)))
        return _read_csv(place, ids, numbers)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{place}: cannot be read as {form} ({error}).") from error


def _read_json(place: Place) -> Any:
    """An object with an object for each query."""
    try:
        found = json.loads(_content(place, is_json=True))
    except ValueError as error:
        raise DataError(f"{place}: cannot be read as JSON ({error}).") from error
    if not isinstance(found, dict):
        raise DataError(f"{place}: is no JSON object with an object for each query.")
    return found


def score_form(place: Place) -> ScoreForm:
    """The form of scores at a place.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    """
    if is_score_directory(place):
        return "directory"
    names = place.name.lower().removesuffix(".gz")
    if names.endswith((".csv", ".tsv")):
        text = _beginning(place)
        return "trec" if begins_with(text, RUN) or begins_with(text, QRELS) else "csv"
    if names.endswith((".jsonl", ".ndjson")):
        return "json lines"
    if names.endswith(".json"):
        return "json"
    if request(place, place.is_dir):
        raise DataError(
            f"{place}: is no directory of scores, as dranking predict writes them. The model or "
            "the scores come first, the data after them."
        )
    with open_input(place) as file:
        return "parquet" if file.read(4) == b"PAR1" else "trec"


def is_judgement_file(
    place: Place, names: Sequence[str] = (), further: Collection[str] = ()
) -> bool:
    """Whether a file holds judgements, and no rows with features.

    Tables hold judgements if they have their columns alone, or `further` ones as well where
    `are_judgement_columns` counts these, under the names that `read_judgements` knows or under
    `names`; JSON (``.json``) if its first value is an
    object, and text if its first line is one of TREC qrels.
    """
    try:
        form = score_form(place)
        if form == "parquet":
            with arrow_input(place) as file:
                return are_judgement_columns(pq.read_schema(file).names, names, further)
        if form == "directory":
            return False
        content = _beginning(place)
        if form == "trec":
            return begins_with(content, QRELS)
        if form == "json":  # a model begins otherwise: {"format": "...
            return bool(re.match(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{', content))
        found = _first_names(content, form)
        return are_judgement_columns(found, names, further, can_be_rows=form != "csv")
    except (DataError, OSError, ValueError, pa.ArrowException):
        return False


def judgement_advice(place: Place) -> str:
    """The forms of judgements, where a file is text without queries of LETOR; else no text."""
    try:
        form, surplus = score_form(place), None
        if form in ("csv", "json lines"):
            surplus = surplus_columns(_first_names(_beginning(place), form))
        elif form != "trec" or b"qid:" in _beginning(place):
            return ""
    except (DataError, OSError, ValueError):
        return ""
    leave_out = ""
    if surplus:
        leave_out = (
            f" Leave out {quoted(surplus)}, or name one of them with --by of dranking evaluate."
        )
    return (
        " Judgements are lines of query, iteration, document and grade (TREC), or CSV of query_id, "
        f"doc_id, relevance and no other column.{leave_out}"
    )


def _first_names(content: bytes, form: ScoreForm) -> list[str]:
    """Names of the columns of CSV, or of the first object of JSON lines, if it is one."""
    first = content.split(b"\n")[0].strip().decode()
    columns = json.loads(first) if form == "json lines" else re.split("[,\t]", first)
    return [str(name).strip('"') for name in columns] if isinstance(columns, dict | list) else []


def _beginning(place: Place) -> bytes:
    """The first bytes of text, decompressed and without a byte order mark."""
    with open_input(place) as file:
        content: bytes = file.read(BEGINNING)
    if content[:2] == b"\x1f\x8b":
        try:
            content = zlib.decompressobj(wbits=31).decompress(content)
        except zlib.error:
            return b""
    return content.removeprefix(codecs.BOM_UTF8)


def _content(place: Place, *, is_json: bool = False) -> bytes:
    """Text of a file, decompressed and without a byte order mark; DataError for other kinds."""
    try:
        content = read_bytes(place)
    except FileNotFoundError as error:
        raise DataError(f"{place}: there is no such file or directory.") from error
    except OSError as error:
        raise DataError(f"{place}: cannot be read ({error}).") from error
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"{place}: cannot be decompressed ({error}); copy or make the file anew."
            ) from error
    kind = None if is_json else foreign_kind(content[:N_BYTES])
    if kind is not None:
        raise DataError(
            f"{place}: {kind}; scores and judgements are parquet, CSV, JSON lines or TREC text."
        )
    return content.removeprefix(codecs.BOM_UTF8)


def _read_csv(place: Place, ids: Collection[str], numbers: Sequence[str]) -> pa.Table:
    """Columns of ids as text, so that no zero in front of an id is lost, and of numbers."""
    separator = "\t" if ".tsv" in map(str.lower, place.suffixes) else ","
    return read_csv(
        _content(place),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={
                **dict.fromkeys(ids, pa.string()),
                **dict.fromkeys(numbers, pa.float64()),
            }
        ),
    )
