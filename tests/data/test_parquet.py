"""Parquet read in place, against pandas; and written, against what was to be written."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dranking as dr
from dranking.data.memory import from_arrays
from dranking.data.parquet import ParquetDataset, write_parquet
from dranking.data.transforms import QueryMinMax, Standard
from dranking.errors import DataError, UsageError

HERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def frame_of(sizes=(3, 1, 4, 2), n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    frame = pd.DataFrame({"qid": np.repeat(np.arange(7, 7 + len(sizes)), sizes)})
    frame["docid"] = [f"d{i}" for i in range(n)]
    frame["relevance"] = rng.integers(0, 3, n).astype(float)
    for j in range(n_features):
        frame[f"x{j}"] = rng.normal(size=n).astype(np.float32)
    return frame


def written(path, frame, **options):
    table = (
        frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    )
    pq.write_table(table, path, **options)
    return path


def assert_holds(dataset, frame, features):
    """The blocks, joined, are the rows of the frame, and no query is in two blocks."""
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


@HERE
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


def test_weights_are_those_of_queries(tmp_path):
    frame = frame_of()
    frame["weight"] = frame["qid"] / 2.0
    block = ParquetDataset(written(tmp_path / "a.parquet", frame)).block(0)
    np.testing.assert_array_equal(block.query_weights, [3.5, 4.0, 4.5, 5.0])
    frame.loc[1, "weight"] = 9.0
    with pytest.raises(DataError, match=r"row 1: weight is 9\.0, but 3\.5 .* query 7"):
        ParquetDataset(written(tmp_path / "b.parquet", frame)).block(0)


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
        (lambda f: f.assign(qid=1.5), "qid"),
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


def test_features_by_name(tmp_path):
    path = written(tmp_path / "a.parquet", frame_of())
    dataset = ParquetDataset(path, feature_columns=["x2", "x0"])
    assert dataset.feature_names == ("x2", "x0")
    assert_holds(dataset, frame_of(), ["x2", "x0"])
    with pytest.raises(DataError, match="there is no column 'zz'"):
        ParquetDataset(path, feature_columns=["zz"])
    with pytest.raises(UsageError, match="x0"):
        ParquetDataset(path, feature_columns=["x0", "x0"])


def test_damage_is_found_and_never_read(tmp_path):
    dataset = from_arrays(np.ones((4_000, 3)), np.arange(4_000) % 2, np.repeat(range(400), 10))
    path = tmp_path / "a.parquet"
    write_parquet(dataset, path)
    content = bytearray(path.read_bytes())
    opened = ParquetDataset(path)
    content[len(content) // 3] ^= 0xFF
    damaged = tmp_path / "b.parquet"
    damaged.write_bytes(content)
    with pytest.raises(DataError, match=r"b\.parquet: cannot be read as parquet"):
        [ParquetDataset(damaged).block(b) for b in range(opened.n_blocks)]
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"a\.parquet"):
        opened.block(0)


def test_a_file_that_is_replaced_while_open(tmp_path):
    path = written(tmp_path / "a.parquet", frame_of())
    opened = ParquetDataset(path)
    written(path, frame_of(sizes=(5, 5), seed=3))
    with pytest.raises(DataError, match="was replaced since it was opened"):
        opened.block(0)


def test_what_is_not_there(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        ParquetDataset(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"has no files \*\.parquet"):
        ParquetDataset(tmp_path)


@HERE
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    max_documents=st.integers(1, 12),
    weights=st.booleans(),
    ids=st.sampled_from(["none", "text", "numbers"]),
)
def test_written_and_read_again(tmp_path_factory, sizes, max_documents, weights, ids):
    path = tmp_path_factory.mktemp("w") / "a.parquet"
    rng = np.random.default_rng(len(sizes))
    n = sum(sizes)
    y = rng.integers(0, 3, n).astype(float)
    y[rng.random(n) < 0.2] = np.nan
    doc_ids = {"none": None, "text": [f"d{i}" for i in range(n)], "numbers": range(n)}[ids]
    dataset = from_arrays(
        rng.normal(size=(n, 4)),
        y,
        np.repeat(np.arange(len(sizes)), sizes),
        doc_ids=None if doc_ids is None else list(doc_ids),
        query_weights=rng.random(len(sizes)) if weights else None,
        max_documents=max_documents,
    )
    write_parquet(dataset, path)
    again = ParquetDataset(path, max_documents=max_documents)
    assert again.feature_names == dataset.feature_names
    assert again.blocks == dataset.blocks
    for b in range(dataset.n_blocks):
        ours, theirs = dataset.block(b), again.block(b)
        assert ours.digest() == theirs.digest()
        assert (ours.doc_ids is None) == (theirs.doc_ids is None)
        if ours.doc_ids is not None:
            assert ours.doc_ids.equals(theirs.doc_ids)
        assert (ours.query_weights is None) == (theirs.query_weights is None)
    table = pq.read_table(path)
    assert table.column("relevance").null_count == np.isnan(y).sum()


def test_scalings_are_recorded(tmp_path):
    dataset = from_arrays(np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1], [1, 1, 1, 2, 2, 2])
    scalings = [QueryMinMax(), Standard(mean=(0.5, 0.25), scale=(2.0, 4.0))]
    view = dataset.transformed(scalings)
    write_parquet(view, tmp_path / "a.parquet")
    again = dr.open_dataset(tmp_path / "a.parquet")
    assert again.transforms == tuple(scalings)
    np.testing.assert_array_equal(again.block(0).features, view.block(0).features)
    one = ParquetDataset(tmp_path / "a.parquet", feature_columns=["f2"])
    assert one.transforms[1] == Standard(mean=(0.25,), scale=(4.0,))


def test_what_is_not_written(tmp_path):
    from scipy import sparse

    dataset = from_arrays(
        np.eye(4), [0, 1, 0, 1], [1, 1, 2, 2], feature_names=("a", "b", "c", "qid")
    )
    with pytest.raises(UsageError, match="'qid' has the name of another column"):
        write_parquet(dataset, tmp_path / "a.parquet")
    dataset = from_arrays(sparse.csr_array(np.eye(4)), [0, 1, 0, 1], [1, 1, 2, 2])
    with pytest.raises(UsageError, match="sparse features"):
        write_parquet(dataset, tmp_path / "a.parquet")
    path = tmp_path / "b.parquet"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        write_parquet(from_arrays(np.eye(2), [0, 1], [1, 1]), path)
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["b.parquet"]
