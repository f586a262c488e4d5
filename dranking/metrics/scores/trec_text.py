"""Lines of TREC runs and of TREC judgements (qrels): words between blanks or tabs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from dranking.errors import DataError
from dranking.files.arrow_tables import read_csv

_BLANKS: Final = bytes.maketrans(b"\t\v\f\r", b"    ")


class LineForm(NamedTuple):
    """The form of a line: its name, its fields, the place of the number, and other forms."""

    name: str
    fields: str
    number_at: int
    others: str

    @property
    def n_fields(self) -> int:
        """Number of fields of a line."""
        return len(self.fields.split())


RUN: Final = LineForm(
    "TREC run", "query Q0 document rank score tag", 4, "Scores may also be CSV (.csv), JSON lines "
    "(.jsonl) or parquet of qid, docid, score.",
)  # fmt: skip
QRELS: Final = LineForm(
    "TREC qrels", "query iteration document grade", 3, "Judgements may also be CSV (.csv), JSON "
    "lines (.jsonl) or parquet of query_id, doc_id, relevance.",
)  # fmt: skip


def begins_with(content: bytes, form: LineForm) -> bool:
    """Whether the first line that is not blank has the fields of a form, and is no LETOR text."""
    fields = next((fields for line in content.split(b"\n") if (fields := line.split())), [])
    if len(fields) != form.n_fields or fields[1].startswith(b"qid:"):
        return False
    try:
        float(fields[form.number_at])
    except ValueError:
        return False
    return True


Fields = tuple[pa.Array, pa.Array, NDArray[np.float64]]
"""Query ids, document ids and numbers, of the lines that are not blank."""


def parse_lines(content: bytes, form: LineForm, where: str) -> Fields:
    """Fields of all lines; Arrow reads them, and a plain loop the lines that Arrow refuses.

    Raises
    ------
    DataError
        If a line has another form; the message has its number.
    """
    try:
        return _by_arrow(content, form)
    except (pa.ArrowException, UnicodeDecodeError):
        return _by_line(content, form, where)


def line_place(content: bytes, where: str) -> Callable[[int], str]:
    """Describes the place of the n-th line that is not blank, from 0, for errors."""

    def place(row: int) -> str:
        lines = content.split(b"\n")
        return f"{where}:{[n for n, line in enumerate(lines, 1) if line.strip()][row]}"

    return place


def _by_arrow(content: bytes, form: LineForm) -> Fields:
    text = content.translate(_BLANKS)
    if b"  " in text or b" \n" in text or b"\n " in text or text[:1] == b" " or text[-1:] == b" ":
        text = re.sub(rb" +", b" ", text)
        text = re.sub(rb" ?\n ?", b"\n", text).strip()
    names = [str(i) for i in range(form.n_fields)]
    used = ["0", "2", str(form.number_at)]
    kinds = {"0": pa.dictionary(pa.int32(), pa.string()), "2": pa.string(), used[2]: pa.float64()}
    table = read_csv(
        text,
        read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=kinds,
            include_columns=used,
            null_values=[],
            quoted_strings_can_be_null=False,
        ),
    )
    query, document, number = (table[name].combine_chunks() for name in used)
    return query.cast(pa.string()), document, number.to_numpy()


def _by_line(content: bytes, form: LineForm, where: str) -> Fields:
    queries, documents, numbers = [], [], []
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: is neither parquet nor text ({error}).") from error
    for number, line in enumerate(content.split(b"\n"), start=1):
        # Bytes are split at the blanks of ASCII alone, as Arrow splits them.
        fields = [field.decode() for field in line.split()]
        if not fields:
            continue
        if len(fields) == 1 and form is RUN:
            raise DataError(
                f"{where}:{number}: a line of one field names no query. Scores alone, one on "
                "each line in the order of the data, are passed in Python: "
                f"dranking.evaluate(numpy.loadtxt({where!r}), data)."
            )
        try:
            if len(fields) != form.n_fields:
                raise ValueError(f"{len(fields)} fields")
            written = fields[form.number_at]
            if "_" in written or not written.isascii():  # which Python reads as a number
                raise ValueError(f"{written!r} is no number")
            numbers.append(float(written))
        except ValueError as error:
            raise DataError(
                f"{where}:{number}: no line of a {form.name} ({error}). A line is: {form.fields}. "
                f"{form.others}"
            ) from error
        queries.append(fields[0])
        documents.append(fields[2])
    return (
        pa.array(queries, pa.string()),
        pa.array(documents, pa.string()),
        np.array(numbers, dtype=np.float64),
    )
