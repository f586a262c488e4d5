"""Parquet files that are damaged or no ranking data: the error says what is wrong and where."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dranking.data.parquet.dataset import ParquetDataset, write_parquet
from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError
from tests.data.tables.flat_tables import frame_of, written


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("x1", np.nan, r"a\.parquet: row 5, column 'x1' \(query 9\): the value is missing"),
        ("x0", np.inf, r"row 5, column 'x0' \(query 9\): the value is infinite"),
        ("x2", 1e39, r"row 5, column 'x2' \(query 9\): the value is 1e\+39, beyond float32"),
        ("relevance", np.inf, r"row 5: relevance is infinite"),
    ],
)
def test_values_that_cannot_be(tmp_path, column, value, message):
    frame = frame_of().astype({"x0": float, "x1": float, "x2": float})
    frame.loc[5, column] = value
    dataset = ParquetDataset(written(tmp_path / "a.parquet", frame, row_group_size=4))
    with pytest.raises(DataError, match=message):
        dataset.block(0)


def test_rows_of_a_query_that_are_not_adjacent(tmp_path):
    frame = frame_of()
    frame.loc[9, "qid"] = 7
    with pytest.raises(DataError, match=r"row 9: query 7 appears again \(first at .*row 0"):
        ParquetDataset(written(tmp_path / "a.parquet", frame))


def test_rows_of_a_query_in_files_that_are_not_adjacent(tmp_path):
    for name in ("part-2", "part-10", "part-1"):
        written(tmp_path / f"{name}.parquet", frame_of((2, 3) if name == "part-2" else (4,)))
    with pytest.raises(
        DataError,
        match=r"part-10\.parquet: row 0: query 7 appears again \(first at .*part-1\.parquet: row 0"
        r", ended at .*part-2\.parquet: row 1",
    ):
        ParquetDataset(tmp_path)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[1.0, 2.0], [3.0, None], [5.0, 6.0]], r"row 1, column 'f2' \(query 1\).*missing"),
        ([[1.0, 2.0], [3.0, 4.0], None], r"row 2, column 'f1' \(query 2\).*missing"),
        ([[1.0, 2.0], [3.0, 4.0], [np.inf, 6.0]], r"row 2, column 'f1' \(query 2\).*infinite"),
    ],
)
def test_lists_that_cannot_be(tmp_path, lists, message):
    table = pa.table({"qid": [1, 1, 2], "relevance": [0, 1, None]})
    table = table.append_column("features", pa.array(lists, pa.list_(pa.float32(), 2)))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    with pytest.raises(DataError, match=message):
        ParquetDataset(tmp_path / "a.parquet").block(0)


def test_a_query_id_that_is_missing(tmp_path):
    frame = frame_of().astype({"qid": "Int64"})
    frame.loc[4, "qid"] = pd.NA
    with pytest.raises(DataError, match="row 4: qid is missing"):
        ParquetDataset(written(tmp_path / "a.parquet", frame))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="qid"), "there is no column 'qid'"),
        (lambda f: f.drop(columns="relevance"), "make relevance a column of nulls"),
        (lambda f: f[["qid", "relevance"]], "there is no feature column"),
        (lambda f: f.iloc[:0], "there are no rows"),
        (lambda f: f.assign(relevance="good"), "column 'relevance' is .*string"),
        (lambda f: f.assign(qid=1.5), "qid holds floats that are not whole numbers"),
        (lambda f: f.assign(qid=True), "column 'qid' is bool; ids are integers or strings"),
        (lambda f: f.assign(weight="much"), "column 'weight' is .*string; it must hold numbers"),
        (
            lambda f: f.assign(features=[[1.0, 2.0]] * 10).drop(columns=["x0", "x1", "x2"]),
            "no fixed-size-list column 'features'.* features \\(list",
        ),
    ],
)
def test_tables_that_are_no_ranking_data(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        ParquetDataset(written(tmp_path / "a.parquet", change(frame_of())))


def test_files_with_other_columns(tmp_path):
    written(tmp_path / "a.parquet", frame_of())
    written(tmp_path / "b.parquet", frame_of(seed=1).rename(columns={"x1": "y"}))
    with pytest.raises(
        DataError, match=r"b\.parquet: it lacks 'x1' and it adds 'y', unlike .*a\.p"
    ):
        ParquetDataset(tmp_path)


def test_files_with_ids_or_lists_of_another_type(tmp_path):
    written(tmp_path / "a.parquet", frame_of())
    written(tmp_path / "b.parquet", frame_of().assign(qid="q"))
    with pytest.raises(DataError, match=r"'qid' holds strings in .*b\.parquet but integers in .*a"):
        ParquetDataset(tmp_path)
    ids = frame_of().drop(columns=["x0", "x1", "x2"])
    table = pa.Table.from_pandas(ids, preserve_index=False)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(20)), 2)
    written(tmp_path / "b.parquet", table.append_column("features", lists))
    with pytest.raises(
        DataError, match=r"b\.parquet: its features are lists of length 2, not columns of numbers"
    ):
        ParquetDataset(tmp_path)


def test_what_is_not_there(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        ParquetDataset(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"has no files \*\.parquet"):
        ParquetDataset(tmp_path)


def test_no_damage_is_read_as_values(tmp_path):
    """Every byte of the file is inverted in turn, except the column names in the footer."""
    rng = np.random.default_rng(0)
    dataset = from_arrays(rng.normal(size=(12, 2)), [0, 1, 2] * 4, [3] * 5 + [4] * 7)
    path, damaged = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write_parquet(dataset, path)
    content = path.read_bytes()
    expected = dataset.block(0).digest()
    messages = []
    for position in range(len(content)):
        damaged.write_bytes(
            content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]
        )
        try:
            found = ParquetDataset(damaged)
            if found.feature_names == ("f1", "f2"):
                assert found.block(0).digest() == expected, position
        except DataError as error:
            messages.append(str(error))
    assert len(messages) > len(content) / 3
    assert all("b.parquet" in message for message in messages)


def test_a_file_that_is_cut_short_while_open(tmp_path):
    path = written(tmp_path / "a.parquet", frame_of())
    opened = ParquetDataset(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as parquet"):
        opened.block(0)


def test_a_file_that_is_replaced_while_open(tmp_path):
    path = written(tmp_path / "a.parquet", frame_of())
    opened = ParquetDataset(path)
    written(path, frame_of(sizes=(5, 5), seed=3))
    with pytest.raises(DataError, match="was replaced since it was opened"):
        opened.block(0)
    with pytest.raises(DataError, match="was replaced since it was opened"):
        _ = opened.fingerprint
