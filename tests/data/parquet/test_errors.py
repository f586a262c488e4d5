"""Parquet files that are damaged or no ranking data: the error says what is wrong and where."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dranking.data.parquet.dataset import ParquetDataset
from dranking.errors import DataError
from tests.data.tables.flat_tables import frame_of, written


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("x1", np.nan, r"a\.parquet: row 5, column 'x1' \(query 9\): the value is missing"),
        ("x0", np.inf, r"row 5, column 'x0' \(query 9\): the value is infinite"),
        ("x2", 1e39, r"row 5, column 'x2' \(query 9\): the value is 1e\+39, beyond float32"),
        ("relevance", np.inf, r"row 5: relevance is infinite"),
        (
            "relevance",
            1e154,
            r"row 5: relevance is 1e\+154; it must be a number from -1e\+50 to 1e\+50",
        ),
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
        (
            lambda f: f.drop(columns="relevance"),
            r"--relevance-column \(Columns\(relevance=\.\.\.\), .* ingest --no-relevance .*=None\)",
        ),
        (lambda f: f[["qid", "relevance"]], "there is no feature column"),
        (lambda f: f.iloc[:0], "there are no rows"),
        (lambda f: f.assign(relevance="good"), "column 'relevance' is .*string"),
        (lambda f: f.assign(qid=1.5), r"row 0: qid is 1\.5; ids are integers or strings"),
        (lambda f: f.assign(qid=True), "column 'qid' is bool; ids are integers or strings"),
        (lambda f: f.assign(weight="much"), "column 'weight' is .*string; it must hold numbers"),
        (
            lambda f: f.assign(features=[["a", "b"]] * 10).drop(columns=["x0", "x1", "x2"]),
            r"1 column\(s\) cannot be features: 'features' \(list",
        ),
    ],
)
def test_tables_that_are_no_ranking_data(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        ParquetDataset(written(tmp_path / "a.parquet", change(frame_of())))
