"""Parts of CSV files against pyarrow's own reading of the whole file."""

from collections import Counter

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dranking.clicks.logs import csv_records, files
from dranking.clicks.logs.read import read_log
from dranking.engine.executor import ThreadExecutor
from dranking.files.places import as_place

HEADER = "a,b\n"
TEXTS = st.text(st.sampled_from('a",\n\ré'), max_size=60)
BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return as_place(tmp_path_factory.mktemp("csv") / "log.csv")


def whole(path, delimiter=","):
    """The rows that pyarrow reads in one piece, and how many lines it refuses."""
    refused = []

    def skip(row):
        refused.extend(row.text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        return "skip"

    found = pa.csv.read_csv(
        path,
        pa.csv.ReadOptions(use_threads=False),
        pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
        pa.csv.ConvertOptions(
            column_types={"a": pa.string(), "b": pa.string()},
            strings_can_be_null=True,
            null_values=[""],
        ),
    )
    return found.to_pylist(), len(refused)


def in_parts(path, range_bytes):
    """The rows of all parts in order, and how many lines are refused."""
    before = files.RANGE_BYTES
    files.RANGE_BYTES = range_bytes
    try:
        parts = csv_records.with_states(files.find_logs([path], ()), ThreadExecutor(1))
    finally:
        files.RANGE_BYTES = before
    found, rows = Counter(), []
    for part in parts:
        for table in read_log(part, ["a", "b"], ["a", "b"], found):
            rows += table.to_pylist()
    return rows, found["unreadable_lines"]


@example(text='a"a,a\n"a\na",a\n', range_bytes=1)
@example(text='"a"a\na,a\n', range_bytes=3)
@example(text='"a""\n",a\r\n\r\na,"', range_bytes=2)
@example(text="a,a", range_bytes=2)
@given(text=TEXTS, range_bytes=st.integers(1, 30))
def test_parts_are_the_rows_of_the_whole_file(path, text, range_bytes):
    path.write_bytes((HEADER + text).encode())
    try:
        expected = whole(path)
    except pa.ArrowInvalid:
        assume(False)
    assert in_parts(path, range_bytes) == expected


@pytest.mark.parametrize("range_bytes", [4, 5, 11])
def test_byte_order_marks(path, range_bytes):
    """One at the beginning of the file is none of its text, others are."""
    rows = f'{BYTE_ORDER_MARK}1,2\n"3\n",4\n{BYTE_ORDER_MARK}5,6\n' * 3
    path.write_text(f'{BYTE_ORDER_MARK}"a",b\n{rows}', encoding="utf-8", newline="")
    expected = whole(path)
    assert expected[0][0]["a"] == f"{BYTE_ORDER_MARK}1"
    assert in_parts(path, range_bytes) == expected


def test_tabs_separate_the_fields_of_tsv(path):
    path = path.with_name("log.tsv")
    path.write_text('a\tb\nx,"y\t1\n"2\n"\t3\n')
    expected = ([{"a": 'x,"y', "b": "1"}, {"a": "2\n", "b": "3"}], 0)
    assert whole(path, "\t") == expected
    assert in_parts(path, 4) == expected
