"""Hive folders, columns that files lack, missing values, tables, other places, appended data."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.errors import DataError, UsageError


def frame(qids, **features):
    return pd.DataFrame({"qid": qids, "relevance": np.arange(len(qids)) % 2.0, **features})


def write(folder, rows, name="rows.parquet"):
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / name)


def values_of(dataset):
    return np.concatenate([dataset.block(b).features for b in range(dataset.n_blocks)])


@pytest.fixture
def hive(tmp_path):
    """A folder without files directly in it."""
    for day, qids in (("2026-10-31", [1, 1]), ("2026-11-01", [2, 2]), ("a%20b", [3, 3])):
        write(tmp_path / "lake" / f"day={day}" / f"hour={qids[0]}", frame(qids, x=[1.0, 2.0]))
    return tmp_path / "lake"


def test_folders_are_ignored_a_filter_or_a_feature(hive, tmp_path):
    plain, _ = dr.ingest(hive, tmp_path / "a")
    assert plain.feature_names == ("x",)
    assert plain.query_ids().to_pylist() == [1, 2, 3]
    one, _ = dr.ingest(hive, tmp_path / "b", where="day >= '2026-11-01' and day != 'a b'")
    assert one.query_ids().to_pylist() == [2]
    hours, _ = dr.ingest(hive, tmp_path / "c", columns=dr.Columns(folder_features=["hour"]))
    assert hours.feature_names == ("x", "hour")
    assert values_of(hours)[:, 1].tolist() == [1, 1, 2, 2, 3, 3]
    read = dr.open_dataset(
        hive, where="day < '2026-11-02'", columns=dr.Columns(folder_features=["hour"])
    )
    assert read.feature_names == ("x", "hour")
    assert values_of(read).tolist() == [[1, 1], [2, 1], [1, 2], [2, 2]]
    with pytest.raises(UsageError, match="where, folder_features: only for parquet"):
        dr.open_dataset(tmp_path / "a", where="day < '2026-11-02'")
    with pytest.raises(DataError, match="none of 3 files lies in such folders"):
        dr.ingest(hive, tmp_path / "d", where="day == '1999'")
    with pytest.raises(DataError, match=r"day=.* is not a number"):
        dr.ingest(hive, tmp_path / "d", columns=dr.Columns(folder_features=["day"]))
    with pytest.raises(DataError, match=r"lies in no folder month="):
        dr.ingest(hive, tmp_path / "d", columns=dr.Columns(folder_features=["month"]))
    with pytest.raises(DataError, match="has a column 'x'"):
        dr.ingest(hive, tmp_path / "d", columns=dr.Columns(folder_features=["x"]))


MISSING = {
    "zero": [[1, 0], [0, 7], [3, 0], [0, 5]],
    "minimum": [[1, 5], [1, 7], [3, 5], [1, 5]],
    "mean": [[1, 6], [2, 7], [3, 6], [2, 5]],
}


@pytest.mark.parametrize("null", MISSING)
def test_missing_values_of_every_form(tmp_path, null):
    """A column that a file lacks, nulls, NaN and NULL are the same."""
    write(tmp_path / "lake", frame([1, 2], a=[1.0, np.nan], b=[np.nan, 7.0]), "0.parquet")
    write(tmp_path / "lake", frame([3], a=[3]), "1.parquet")
    write(tmp_path / "lake", frame([4], b=[5.0]), "2.parquet")
    (tmp_path / "t.txt").write_text(
        "0 qid:1 1:1 2:NULL\n1 qid:2 1:NULL 2:7\n0 qid:3 1:3 2:NULL\n0 qid:4 1:NULL 2:5\n"
    )
    for source in (tmp_path / "lake", tmp_path / "t.txt"):
        dataset, _ = dr.ingest(source, tmp_path / "d", rows=dr.RowRules(null=null), overwrite=True)
        assert values_of(dataset).tolist() == MISSING[null]
        scaled, _ = dr.ingest(
            source,
            tmp_path / "s",
            rows=dr.RowRules(null=null),
            normalize="standard",
            overwrite=True,
        )
        wide = np.array(MISSING[null], dtype=np.float64)
        expected = (wide - wide.mean(axis=0)) / wide.std(axis=0)
        np.testing.assert_allclose(values_of(scaled), expected, rtol=1e-6, atol=1e-7)
    lists = pa.FixedSizeListArray.from_arrays(
        pa.array([1, None, None, 7, 3, np.nan, None, 5], pa.float32()), 2
    )
    table = pa.table({"qid": [1, 2, 3, 4], "relevance": [0, 1, 0, 0], "features": lists})
    dataset, _ = dr.ingest(table, tmp_path / "l", rows=dr.RowRules(null=null))
    assert values_of(dataset).tolist() == MISSING[null]


def test_missing_values_without_a_policy(tmp_path):
    write(tmp_path / "lake", frame([1, 2], a=[1.0, np.nan]), "0.parquet")
    with pytest.raises(DataError, match=r"0\.parquet: row 1, column 'a'.*missing.*--null"):
        dr.ingest(tmp_path / "lake", tmp_path / "d")
    write(tmp_path / "lake", frame([1], b=[1.0]), "1.parquet")
    with pytest.raises(DataError, match=r"1\.parquet: it lacks 'a'.*--null"):
        dr.ingest(tmp_path / "lake", tmp_path / "d")
    write(tmp_path / "ids", frame([1, None], a=[1.0, 2.0]))
    with pytest.raises(DataError, match=r"rows\.parquet: row 1: qid is missing"):
        dr.ingest(tmp_path / "ids", tmp_path / "d")


def test_a_stream_of_batches_is_stored_without_being_held(tmp_path, monkeypatch):
    monkeypatch.setattr("dranking.engine.ingest.open_rows.TABLE_BYTES", 300)
    rows = frame(np.arange(60) % 7, x=np.arange(60.0))
    batches = pa.Table.from_pandas(rows, preserve_index=False).to_batches(max_chunksize=9)
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
    dataset, facts = dr.ingest(reader, tmp_path / "d")
    assert values_of(dataset)[:, 0].tolist() == [r for q in range(7) for r in range(q, 60, 7)]
    assert facts.n_regrouped_documents == 60


def test_ids_beyond_int64(tmp_path):
    ids = np.array([1, 2**63 + 1, 1, 5], dtype=np.uint64)
    write(tmp_path / "lake", frame(ids, x=[1.0, 2.0, 3.0, 4.0]))
    dataset, _ = dr.ingest(tmp_path / "lake", tmp_path / "d")
    assert dataset.query_ids().to_pylist() == ["1", str(2**63 + 1), "5"]
    assert values_of(dataset)[:, 0].tolist() == [1, 3, 2, 4]


def test_from_and_to_an_object_store(tmp_path):
    rows = frame(np.arange(60) % 7, x=np.arange(60.0), y=np.arange(60.0) ** 2)
    write(tmp_path / "lake", rows)
    text = "".join(f"{r.relevance:g} qid:{r.qid} 1:{r.x} 2:{r.y}\n" for r in rows.itertuples())
    (tmp_path / "t.txt").write_text(text)
    from upath import UPath

    root = UPath("memory://ingest-places")
    (root / "lake/day=1/rows.parquet").write_bytes((tmp_path / "lake/rows.parquet").read_bytes())
    (root / "t.txt").write_text(text)
    local, _ = dr.ingest(tmp_path / "t.txt", tmp_path / "d")
    for number, source in enumerate(("lake", "t.txt")):
        stored, _ = dr.ingest(f"{root}/{source}", f"{root}/out{number}.zarr")
        assert stored.fingerprint == local.fingerprint or source == "lake"
        np.testing.assert_array_equal(values_of(stored), values_of(local))
        inside, _ = dr.ingest(
            root / source, root / f"in{number}.zarr", scratch=root / "scratch", normalize="standard"
        )
        assert inside.n_documents == 60
    assert not [p for p in root.fs.find(root.path) if "scratch" in p]


def test_appended_queries(tmp_path):
    first = frame([1, 1, 2], x=[1.0, 2.0, 3.0]).rename(columns={"qid": "query"})
    write(tmp_path / "a", first)
    write(tmp_path / "b", first.assign(query=[7, 8, 7], x=[9.0, 8.0, 7.0]))
    before, _ = dr.ingest(
        tmp_path / "a", tmp_path / "d", columns=dr.Columns(qid="query"), normalize="standard"
    )
    both, _ = dr.ingest(tmp_path / "b", tmp_path / "d", append=True)
    assert both.query_ids().to_pylist() == [1, 2, 7, 8]
    assert both.transforms == before.transforms
    (scaling,) = both.transforms
    expected = (np.array([1, 2, 3, 9, 7, 8.0]) - scaling.mean[0]) / scaling.scale[0]
    np.testing.assert_allclose(values_of(both)[:, 0], expected, rtol=1e-6)
    with pytest.raises(DataError, match="has query 7 already, and 2 queries"):
        dr.ingest(tmp_path / "b", tmp_path / "d", append=True)
    with pytest.raises(UsageError, match="scalings of the data set apply"):
        dr.ingest(tmp_path / "b", tmp_path / "d", append=True, normalize="log")
    assert dr.open_dataset(tmp_path / "d").query_ids().to_pylist() == [1, 2, 7, 8]
    with pytest.raises(UsageError, match=r"null is 'mean', but in .* stands for a missing value"):
        dr.ingest(tmp_path / "b", tmp_path / "d", append=True, rows=dr.RowRules(null="mean"))


@pytest.mark.parametrize(("null", "fill"), [("minimum", 2.0), ("mean", 3.0)])
def test_appended_missing_values_are_those_of_the_first_part(tmp_path, null, fill):
    write(tmp_path / "a", frame([1, 1, 1], x=[2.0, 4.0, np.nan]))
    write(tmp_path / "b", frame([2, 2, 2], x=[-9.0, np.nan, 100.0]))
    dr.ingest(tmp_path / "a", tmp_path / "d", rows=dr.RowRules(null=null), normalize="standard")
    both, _ = dr.ingest(tmp_path / "b", tmp_path / "d", rows=dr.RowRules(null=null), append=True)
    first = np.array([2.0, 4.0, fill])
    expected = (np.array([*first, -9.0, fill, 100.0]) - first.mean()) / first.std()
    np.testing.assert_allclose(values_of(both)[:, 0], expected, rtol=1e-6)
    write(tmp_path / "c", frame([3], x=[np.nan]))
    with pytest.raises(UsageError, match=f"the {null} of the feature stands for"):
        dr.ingest(tmp_path / "c", tmp_path / "d", rows=dr.RowRules(null="zero"), append=True)
    with pytest.raises(DataError, match="missing"):
        dr.ingest(tmp_path / "c", tmp_path / "d", append=True)


LARGEST = 2**63 - 1


@pytest.mark.parametrize("there", ["integers", "texts", "mixed"])
@pytest.mark.parametrize("form", ["integers", "texts", "text file", "directory"])
def test_a_query_is_the_same_whatever_the_type_of_its_id(tmp_path, there, form):
    ids = [5, -LARGEST - 1, LARGEST]
    old = {"integers": ids, "texts": [str(q) for q in ids], "mixed": [*map(str, ids), "07"]}[there]
    write(tmp_path / "a", frame(old, x=np.arange(float(len(old)))).rename(columns={"x": "f1"}))
    dr.ingest(tmp_path / "a", tmp_path / "d")

    def source(query):
        path = tmp_path / f"new{query}"
        if form == "text file":
            path.write_text(f"1 qid:{query} 1:2\n0 qid:9 1:3\n")
            return path
        qids = [str(query), "9"] if form == "texts" else [query, 9]
        write(path, frame(qids, f1=[1.0, 2.0]))
        if form != "directory":
            return path
        return dr.ingest(path, tmp_path / f"new{query}.zarr")[0].path

    for query in ids:
        with pytest.raises(DataError, match=f"has query {query} already, and 1 queries"):
            dr.ingest(source(query), tmp_path / "d", append=True)
    both, _ = dr.ingest(source(7), tmp_path / "d", append=True)
    assert [str(q) for q in both.query_ids().to_pylist()] == [*map(str, old), "7", "9"]


def test_what_is_no_rule_of_rows_is_refused():
    with pytest.raises(
        UsageError, match="null is 'median'; choose from error, zero, minimum, mean"
    ):
        dr.RowRules(null="median")
    with pytest.raises(UsageError, match="n_features is 0; it must be at least 1"):
        dr.RowRules(n_features=0)


def test_options_of_files_are_refused_for_a_table(tmp_path):
    table = pa.table({"qid": [1, 1], "relevance": [0.0, 1.0], "f": [1.0, 2.0]})
    sparse, wide = dr.RowRules(sparse=True), dr.RowRules(n_features=3)
    for options in ({"rows": sparse}, {"where": "f > 1"}, {"rows": wide}):
        with pytest.raises(UsageError, match="but the source is a table"):
            dr.ingest(table, tmp_path / "d", **options)
