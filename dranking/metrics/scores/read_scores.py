"""Scores read from files: directories of parts, parquet, CSV, and TREC runs."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.csv

from dranking.errors import DataError
from dranking.files.arrow_tables import read_csv, read_parquet
from dranking.files.file_kinds import N_BYTES, foreign_kind
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.reading import arrow_input, open_input, read_bytes
from dranking.files.requests import request
from dranking.files.table_formats import check_no_table_format
from dranking.metrics.scores.score_directory import is_score_directory, read_parts
from dranking.metrics.scores.score_table import DOCID, QID, SCORE, ScoreTable

ScoreForm: TypeAlias = Literal["directory", "parquet", "csv", "trec"]

RUN_FIELDS = 6
"""Fields of a line of a TREC run: query, Q0, document, rank, score, tag."""


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
        A directory that `dranking predict` wrote; a parquet file or a CSV file (``.csv``, ``.tsv``,
        also ``.gz``) with columns of query ids, ``score`` and, if documents have ids, document ids;
        or a TREC run, also ``.gz``.
    qid, docid, score
        Names of the columns of ids and scores in parquet and CSV. Where a file lacks such a column
        of ids, and in a directory, the names are ``qid`` and ``docid``.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.

    Raises
    ------
    DataError
        If the file is not there, is of no such form, or has a flaw; the message names the line.
    """
    place = as_place(path, storage_options)
    try:
        form = score_form(place)
        if form == "trec":
            return _read_run(place)
        if form == "directory":
            table, score = read_parts(place), SCORE
        elif form == "parquet":
            check_no_table_format([place])
            with arrow_input(place) as file:
                table = read_parquet(file)
        else:
            table = _read_csv(place, {qid, QID, docid, DOCID} - {score}, score)
    except FileNotFoundError as error:
        raise DataError(f"{place}: there is no such file or directory.") from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{place}: cannot be read as {form} ({error}).") from error
    present = {*table.column_names}
    if qid not in present and QID in present:
        qid = QID
    if docid not in present:
        docid = DOCID
    return ScoreTable.from_table(table, qid, docid, str(place), score)


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
        return "csv"
    if request(place, place.is_dir):
        raise DataError(
            f"{place}: is no directory of scores, as dranking predict writes them. The model or "
            "the scores come first, the data after them."
        )
    with open_input(place) as file:
        return "parquet" if file.read(4) == b"PAR1" else "trec"


def _content(place: Place) -> bytes:
    """Text of a file, decompressed and without a byte order mark; DataError for other kinds."""
    content = read_bytes(place)
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"{place}: cannot be decompressed ({error}); copy or make the file anew."
            ) from error
    kind = foreign_kind(content[:N_BYTES])
    if kind is not None:
        raise DataError(f"{place}: {kind}; scores are parquet, CSV or a TREC run.")
    return content.removeprefix(codecs.BOM_UTF8)


def _read_csv(place: Place, ids: Collection[str], score: str) -> pa.Table:
    """Columns of ids as text, so that no zero in front of an id is lost, and the score."""
    separator = "\t" if ".tsv" in map(str.lower, place.suffixes) else ","
    return read_csv(
        _content(place),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={**dict.fromkeys(ids, pa.string()), score: pa.float64()}
        ),
    )


def _read_run(place: Place) -> ScoreTable:
    """A TREC run; the scores order the documents, as in trec_eval, and not the ranks."""
    queries, documents, scores = [], [], []
    try:
        lines = _content(place).decode().splitlines()
    except (UnicodeDecodeError, EOFError) as error:
        raise DataError(f"{place}: is neither parquet nor text ({error}).") from error
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) == 1:
            raise DataError(
                f"{place}:{number}: a line of one field names no query. Scores alone, one on "
                "each line in the order of the data, are passed in Python: "
                f"dranking.evaluate(numpy.loadtxt({str(place)!r}), data)."
            )
        try:
            if len(fields) != RUN_FIELDS:
                raise ValueError(f"{len(fields)} fields")
            scores.append(float(fields[4]))
        except ValueError as error:
            raise DataError(
                f"{place}:{number}: no line of a TREC run ({error}). A line is: query Q0 document "
                "rank score tag. Scores may also be CSV (.csv) or parquet of qid, docid, score."
            ) from error
        queries.append(fields[0])
        documents.append(fields[2])
    if not scores:
        raise DataError(f"{place}: holds no scores.")
    return ScoreTable(pa.array(queries), pa.array(scores), pa.array(documents), str(place))
