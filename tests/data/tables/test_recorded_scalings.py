"""Scalings recorded in the metadata of parquet files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.data.parquet.dataset import ParquetDataset, write_parquet
from dranking.data.roles import Columns
from dranking.data.tables.in_memory import from_arrays, from_table
from dranking.data.transforms import QueryMinMax, Standard
from dranking.errors import DataError
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
    with pytest.raises(DataError, match=r"b\.parquet: its values are scaled otherwise than .*a\.p"):
        ParquetDataset(tmp_path)
    table = pq.read_table(a)
    written(b, table.append_column("added", pa.array(np.ones(6))))
    with pytest.raises(DataError, match="are scaled, but column 'added' was added afterwards"):
        ParquetDataset(b)
    assert ParquetDataset(b, columns=Columns(features=["f1"])).transforms == (QueryMinMax(),)
    newer = {**table.schema.metadata, b"dranking.transforms": b'[{"kind": "unknown"}]'}
    written(b, table.replace_schema_metadata(newer))
    with pytest.raises(DataError, match=r"b\.parquet: the record of its scalings cannot be read"):
        ParquetDataset(b)
