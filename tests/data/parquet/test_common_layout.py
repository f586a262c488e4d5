"""Files of one data set that differ in their columns."""

import numpy as np
import pyarrow as pa
import pytest

from dranking.data.parquet.dataset import ParquetDataset
from dranking.errors import DataError, DataWarning
from tests.data.tables.flat_tables import frame_of, written


def test_files_with_other_columns(tmp_path):
    written(tmp_path / "a.parquet", frame_of())
    written(tmp_path / "b.parquet", frame_of(seed=1).rename(columns={"x1": "y"}))
    with pytest.raises(DataError, match=r"b\.parquet: .*'x1'.*a\.p.*'y'"):
        ParquetDataset(tmp_path)


@pytest.mark.parametrize("may_lack", [False, True])
def test_a_column_of_texts_that_the_first_file_lacks_is_left_out(tmp_path, may_lack):
    written(tmp_path / "a.parquet", frame_of())
    written(tmp_path / "b.parquet", frame_of(seed=1).assign(qid=lambda t: t.qid + 99, title="t"))
    with pytest.warns(DataWarning, match=r"b\.parquet: left out 'title', which .*a\.parquet does"):
        found = ParquetDataset(tmp_path, may_lack=may_lack)
    assert found.feature_names == ("x0", "x1", "x2")


def test_files_with_ids_or_lists_of_another_type(tmp_path):
    written(tmp_path / "a.parquet", frame_of())
    written(tmp_path / "b.parquet", frame_of().assign(qid="q"))
    with pytest.raises(DataError, match=r"'qid' .*strings.*b\.parquet.*integers.*a"):
        ParquetDataset(tmp_path)
    ids = frame_of().drop(columns=["x0", "x1", "x2"])
    table = pa.Table.from_pandas(ids, preserve_index=False)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(20)), 2)
    written(tmp_path / "b.parquet", table.append_column("features", lists))
    with pytest.raises(DataError, match=r"b\.parquet: .*lists of length 2"):
        ParquetDataset(tmp_path)
