"""Parquet read in place, against pandas."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.data.parquet.dataset import ParquetDataset, write_parquet
from dranking.data.roles import Columns
from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError, UsageError
from tests.data.tables.flat_tables import frame_of, written


def assert_holds(dataset, frame, features):
    """The blocks together are the rows of the frame, and no query is in two blocks."""
    start = 0
    seen = []
    for b in range(dataset.n_blocks):
        block = dataset.block(b)
        rows = frame.iloc[start : start + block.n_documents]
        np.testing.assert_array_equal(block.features, rows[features].to_numpy(np.float32))
        np.testing.assert_array_equal(block.relevance, rows["relevance"].to_numpy(float))
        ids = [str(i) for i in block.query_ids.to_pylist()]
        assert ids == [str(i) for i in rows["qid"].unique()]
        sizes = rows.groupby("qid", sort=False).size().to_numpy()
        np.testing.assert_array_equal(np.diff(block.query_ptr), sizes)
        assert block.doc_ids.to_pylist() == rows["docid"].tolist()
        assert block.info == dataset.blocks[b]
        seen += ids
        start += block.n_documents
    assert start == len(frame)
    assert len(seen) == len(set(seen))


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    n_files=st.integers(1, 3),
    row_group=st.integers(1, 12),
    max_documents=st.integers(1, 15),
    text=st.booleans(),
    as_list=st.booleans(),
    missing=st.booleans(),
)
def test_queries_that_span_row_groups_and_files(
    tmp_path_factory, sizes, n_files, row_group, max_documents, text, as_list, missing
):
    folder = tmp_path_factory.mktemp("p")
    frame = frame_of(sizes)
    if text:
        frame["qid"] = "q" + frame["qid"].astype(str)
    if missing:
        frame.loc[::3, "relevance"] = np.nan
    columns = ["x0", "x1", "x2"]
    cuts = np.linspace(0, len(frame), n_files + 1).astype(int)
    for i in range(n_files):
        table = pa.Table.from_pandas(frame.iloc[cuts[i] : cuts[i + 1]], preserve_index=False)
        if as_list:
            values = frame[columns].to_numpy(np.float32)[cuts[i] : cuts[i + 1]].ravel()
            lists = pa.FixedSizeListArray.from_arrays(pa.array(values), 3)
            table = table.drop(columns).append_column("features", lists)
        pq.write_table(table, folder / f"part.{i}.parquet", row_group_size=row_group)
    dataset = ParquetDataset(folder, max_documents=max_documents)
    assert_holds(dataset, frame, columns)
    assert dataset.feature_names == (("f1", "f2", "f3") if as_list else ("x0", "x1", "x2"))
    assert dataset.n_unlabelled == frame["relevance"].isna().sum()


def test_blocks_in_any_order_and_of_some_columns(tmp_path):
    frame = frame_of(sizes=(5,) * 20, n_features=6)
    dataset = ParquetDataset(written(tmp_path / "a.parquet", frame, row_group_size=13),
                             max_documents=10)  # fmt: skip
    wanted = np.array([4, 0])
    for b in (7, 2, 9, 0, 3, 4):
        rows = frame.iloc[10 * b : 10 * b + 10]
        block = dataset.block(b, wanted)
        np.testing.assert_array_equal(block.features, rows[["x4", "x0"]])
    assert dataset.block(0, np.empty(0, dtype=np.intp)).features.shape == (10, 0)


def test_columns_not_asked_for_are_not_read(tmp_path):
    path = tmp_path / "a.parquet"
    write_parquet(from_arrays(np.ones((50, 3)), [0, 1] * 25, np.repeat(range(5), 10)), path)
    chunk = pq.read_metadata(path).row_group(0).column(3)
    assert chunk.path_in_schema == "f2"
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 2] ^= 1
    path.write_bytes(content)
    dataset = ParquetDataset(path)
    np.testing.assert_array_equal(dataset.block(0, np.array([2, 0])).features, np.ones((50, 2)))
    with pytest.raises(DataError, match=r"a\.parquet: .* damaged in row group 0"):
        dataset.block(0, np.array([1]))


def test_blocks_read_by_several_threads(tmp_path):
    frame = frame_of(sizes=(5,) * 40)
    path = written(tmp_path / "a.parquet", frame, row_group_size=90)
    dataset = ParquetDataset(path, max_documents=10)
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(dataset.block, list(range(20)) * 3))
    for b, block in enumerate(blocks):
        rows = frame.iloc[10 * (b % 20) :][:10]
        np.testing.assert_array_equal(block.features, rows[["x0", "x1", "x2"]])


def test_it_travels_as_a_small_pickle(tmp_path):
    frame = frame_of(sizes=(5,) * 200)
    dataset = ParquetDataset(written(tmp_path / "a.parquet", frame), max_documents=50)
    copy = pickle.dumps(dataset)
    assert len(copy) < 20_000
    assert_holds(pickle.loads(copy), frame, ["x0", "x1", "x2"])


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "float32", "float64", "bool"])
def test_features_of_any_number_type(tmp_path, kind):
    frame = frame_of()
    frame["x1"] = np.arange(len(frame)).astype(kind)
    dataset = ParquetDataset(written(tmp_path / "a.parquet", frame))
    np.testing.assert_array_equal(
        dataset.block(0).features[:, 1], frame["x1"].to_numpy().astype(np.float32)
    )


@pytest.mark.parametrize("qid", [np.int8, np.uint32, np.int64, "categories", "beyond int64"])
def test_query_ids_of_any_type(tmp_path, qid):
    frame = frame_of()
    if qid == "categories":
        frame["qid"] = frame["qid"].astype(str).astype("category")
    elif qid == "beyond int64":
        frame["qid"] = frame["qid"].astype(np.uint64) + np.uint64(2**63)
    else:
        frame["qid"] = frame["qid"].astype(qid)
    assert_holds(ParquetDataset(written(tmp_path / "a.parquet", frame)), frame, ["x0", "x1", "x2"])


def test_document_ids_of_which_one_is_beyond_int64(tmp_path):
    frame = frame_of()
    frame["docid"] = np.arange(len(frame), dtype=np.uint64)
    frame.loc[9, "docid"] = np.uint64(2**64 - 1)
    dataset = ParquetDataset(written(tmp_path / "a.parquet", frame), max_documents=3)
    ids = [i for b in range(dataset.n_blocks) for i in dataset.block(b).doc_ids.to_pylist()]
    assert ids == [str(i) for i in frame["docid"]]  # the same type in all blocks


def test_what_pandas_keeps_to_restore_an_index_is_no_feature(tmp_path):
    frame = frame_of()
    frame.index = pd.Index(np.arange(len(frame)) * 3, name="row")
    frame.to_parquet(tmp_path / "a.parquet")
    assert ParquetDataset(tmp_path / "a.parquet").feature_names == ("x0", "x1", "x2")
    frame.set_index("qid").to_parquet(tmp_path / "b.parquet")
    assert_holds(ParquetDataset(tmp_path / "b.parquet"), frame, ["x0", "x1", "x2"])


def test_weights_are_those_of_queries(tmp_path):
    frame = frame_of()
    frame["weight"] = frame["qid"] / 2.0
    block = ParquetDataset(written(tmp_path / "a.parquet", frame)).block(0)
    np.testing.assert_array_equal(block.query_weights, [3.5, 4.0, 4.5, 5.0])
    frame.loc[1, "weight"] = 9.0
    with pytest.raises(DataError, match=r"row 1: weight is 9\.0, but 3\.5 .* query 7"):
        ParquetDataset(written(tmp_path / "b.parquet", frame)).block(0)


def test_features_by_name(tmp_path):
    path = written(tmp_path / "a.parquet", frame_of())
    dataset = ParquetDataset(path, columns=Columns(features=["x2", "x0"]))
    assert dataset.feature_names == ("x2", "x0")
    assert_holds(dataset, frame_of(), ["x2", "x0"])
    with pytest.raises(DataError, match="there is no column 'zz'"):
        ParquetDataset(path, columns=Columns(features=["zz"]))
    with pytest.raises(UsageError, match="x0"):
        ParquetDataset(path, columns=Columns(features=["x0", "x0"]))


def test_the_fingerprint_sees_each_value(tmp_path):
    """A changed value that leaves sizes, extremes and metadata alone changes the fingerprint."""
    path = tmp_path / "a.parquet"
    write_parquet(from_arrays(np.ones((6, 1)), [0, 2, 1, 1, 0, 2], [1] * 6), path)
    before = ParquetDataset(path).fingerprint
    assert ParquetDataset(path).fingerprint == before
    table = pq.read_table(path)
    relevance = pa.array([0.0, 2.0, 1.0, 0.0, 1.0, 2.0])
    written(path, table.set_column(1, "relevance", relevance))
    changed = ParquetDataset(path).fingerprint
    written(path, table)
    assert len({before, changed, ParquetDataset(path).fingerprint}) == 3
