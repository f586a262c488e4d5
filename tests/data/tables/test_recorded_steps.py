"""Scalings, and values for missing ones, recorded in the metadata of parquet files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.data.column_constants import ColumnConstants
from dranking.data.parquet.dataset import ParquetDataset, write_parquet
from dranking.data.roles import Columns
from dranking.data.tables.in_memory import from_arrays, from_table
from dranking.data.transforms import QueryMinMax, Standard
from dranking.errors import DataError, UsageError
from tests.data.tables.flat_tables import written


def test_scalings_are_recorded(tmp_path):
    dataset = from_arrays(np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1], [1, 1, 1, 2, 2, 2])
    scalings = [QueryMinMax(), Standard(mean=(0.5, 0.25), scale=(2.0, 4.0))]
    view = dataset.transformed(scalings)
    write_parquet(view, tmp_path / "a.parquet")
    again = dr.open_dataset(tmp_path / "a.parquet")
    assert again.transforms == tuple(scalings)
    np.testing.assert_array_equal(again.block(0).features, view.block(0).features)
    one = ParquetDataset(tmp_path / "a.parquet", columns=Columns(features=["f2"]))
    assert one.transforms[1] == Standard(mean=(0.25,), scale=(4.0,))
    assert from_table(pq.read_table(tmp_path / "a.parquet")).transforms == tuple(scalings)


def test_scalings_of_files_that_do_not_fit_together(tmp_path):
    a, b = tmp_path / "a.parquet", tmp_path / "b.parquet"
    raw = from_arrays(np.arange(6.0).reshape(6, 1), [0, 1] * 3, [1, 1, 1, 2, 2, 2])
    write_parquet(raw.transformed([QueryMinMax()]), a)
    write_parquet(from_arrays(np.ones((2, 1)), [0, 1], [3, 3]), b)
    with pytest.raises(DataError, match=r"b\.parquet: .*scaled.*a\.p"):
        ParquetDataset(tmp_path)
    table = pq.read_table(a)
    written(b, table.append_column("added", pa.array(np.ones(6))))
    with pytest.raises(DataError, match=r"column .added."):
        ParquetDataset(b)
    assert ParquetDataset(b, columns=Columns(features=["f1"])).transforms == (QueryMinMax(),)
    newer = {**table.schema.metadata, b"dranking.transforms": b'[{"kind": "unknown"}]'}
    written(b, table.replace_schema_metadata(newer))
    with pytest.raises(DataError, match=r"b\.parquet: .*scalings"):
        ParquetDataset(b)


def with_gap(path, value):
    """A written file with its missing value filled by the mean of the others, which is `value`."""
    rows = pa.table({"qid": [1, 1, 1], "relevance": [0, 1, 2], "f1": [value, None, value]})
    written(path, rows)
    write_parquet(dr.open_dataset(path, null="mean"), path, overwrite=True)
    return path


def test_values_for_missing_ones_are_recorded(tmp_path):
    path = with_gap(tmp_path / "a.parquet", 3.0)
    for again in (dr.open_dataset(path), from_table(pq.read_table(path))):
        assert again.constants == ColumnConstants(policy="mean", values=(3.0,), gaps=(True,))
    assert dr.open_dataset(path, null="mean").constants == again.constants
    with pytest.raises(UsageError, match="the mean"):
        dr.open_dataset(path, null="zero")
    table = pq.read_table(path)
    record = {b"dranking.fill": table.schema.metadata[b"dranking.constants"]}
    earlier = table.replace_schema_metadata(record)
    written(path, earlier)
    for again in (lambda: dr.open_dataset(path), lambda: from_table(earlier)):
        with pytest.raises(DataError, match=r"an earlier version .*write_parquet from its source"):
            again()


def test_a_model_refuses_files_filled_with_other_values(tmp_path):
    path = with_gap(tmp_path / "a.parquet", 3.0)
    constants = ColumnConstants(policy="mean", values=(4.0,), gaps=(True,))
    model = dr.LinearModel(feature_names=("f1",), weights=(1.0,), constants=constants)
    for data in (dr.open_dataset(path), pq.read_table(path)):
        with pytest.raises(DataError, match="'f1' with 3"):
            model.predict(data)


def test_files_filled_with_different_values_are_no_data_set(tmp_path):
    with_gap(tmp_path / "a.parquet", 3.0)
    with_gap(tmp_path / "b.parquet", 4.0)
    with pytest.raises(DataError, match=r"a\.parquet and .*b\.parquet"):
        ParquetDataset(tmp_path)


@pytest.mark.parametrize("form", ["file", "directory"])
def test_ingest_keeps_the_record_of_data_filled_before(tmp_path, form):
    source = with_gap(tmp_path / "a.parquet", 3.0)
    if form == "directory":
        dr.ingest(source, tmp_path / "first")
        source = tmp_path / "first"
    filled = dr.open_dataset(source).constants
    assert filled is not None
    dr.ingest(source, tmp_path / "again")
    assert dr.open_dataset(tmp_path / "again").constants == filled
    other = ColumnConstants(policy="mean", values=(4.0,), gaps=(False,))
    model = dr.LinearModel(feature_names=("f1",), weights=(1.0,), constants=other)
    with pytest.raises(DataError, match="'f1' with 3"):
        dr.ingest(source, tmp_path / "other", rows=dr.RowRules(null_from=model))
    with pytest.raises(DataError, match="which a filled value would move"):
        dr.ingest(source, tmp_path / "scaled", normalize="query-minmax")


def test_ingest_takes_the_values_of_a_model_of_forms(tmp_path):
    rows = pa.table({"qid": [1, 1, 1], "relevance": [0, 1, 2], "f1": [1.0, None, 3.0]})
    forms = dr.with_forms(from_table(rows, null="mean"), ("log",))
    model = dr.RankRLS().fit(forms).to_model()
    dr.ingest(rows.slice(1), tmp_path / "later", rows=dr.RowRules(null_from=model))
    later = dr.open_dataset(tmp_path / "later")
    np.testing.assert_array_equal(later.block(0).features, [[2.0], [3.0]])
    np.testing.assert_array_equal(model.predict(later), model.predict(rows.slice(1)))
