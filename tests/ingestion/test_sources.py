"""Hive folders, columns that files lack, missing values, tables, other places, appended data."""

import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask.utils import parse_bytes

import dranking as dr
from dranking.data.tables.any_table import as_stream
from dranking.errors import DataError, DataWarning, UsageError
from dranking.ingestion.rows.scratch import Scratch


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
    with pytest.raises(DataError, match=r"1\.parquet: lacks 'a'.*has 'b'.*--null"):
        dr.ingest(tmp_path / "lake", tmp_path / "d")
    write(tmp_path / "ids", frame([1, None], a=[1.0, 2.0]))
    with pytest.raises(DataError, match=r"rows\.parquet: row 1: qid is missing"):
        dr.ingest(tmp_path / "ids", tmp_path / "d")


def without_type(rows, name):
    """The rows with a column that Arrow says has no type: all of its values are null."""
    table = pa.Table.from_pandas(rows, preserve_index=False)
    return table.set_column(table.column_names.index(name), name, pa.nulls(len(rows)))


@pytest.mark.parametrize("null", MISSING)
@pytest.mark.parametrize("first", [0, 1])
def test_a_column_of_nulls_without_a_type_in_one_file(tmp_path, null, first):
    """Such a column is one of missing values, in the first file and in a later one."""
    a = frame([1, 2], a=[1.0, 2.0], b=[5.0, 7.0])
    b = without_type(frame([3, 4], a=[3.0, 4.0], b=[0.0, 0.0]), "b")
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.Table.from_pandas(a), tmp_path / "lake" / f"{first}.parquet")
    pq.write_table(b, tmp_path / "lake" / f"{1 - first}.parquet")
    fill = {"zero": 0, "minimum": 5, "mean": 6}[null]
    expected = {1: [1, 5], 2: [2, 7], 3: [3, fill], 4: [4, fill]}
    stored, _ = dr.ingest(tmp_path / "lake", tmp_path / "d", rows=dr.RowRules(null=null))
    assert stored.feature_names == ("a", "b")
    assert values_of(stored).tolist() == [expected[q] for q in stored.query_ids().to_pylist()]
    dd = pytest.importorskip("dask.dataframe")
    meta = pd.DataFrame({"qid": [1], "relevance": [1.0], "a": [1.0], "b": [1.0]})
    lazy = dd.from_map(lambda part: [a, b.to_pandas()][part], [0, 1], meta=meta)
    stored, _ = dr.ingest(lazy, tmp_path / "e", rows=dr.RowRules(null=null))
    assert values_of(stored).tolist() == [expected[q] for q in (1, 2, 3, 4)]
    with pytest.raises(DataError, match=r"row 0, column 'b'.* is missing .*--null zero"):
        dr.ingest(tmp_path / "lake", tmp_path / "f")
    with pytest.raises(DataError, match=r"row 0, column 'b'.* is missing"):
        dr.open_dataset(tmp_path / "lake").block(0)


def test_a_column_that_the_first_file_lacks(tmp_path):
    write(tmp_path / "lake", frame([1, 2], a=[1.0, 2.0]), "0.parquet")
    write(tmp_path / "lake", frame([3, 4], a=[1.0, 2.0], b=[1.0, 2.0]), "1.parquet")
    with pytest.warns(DataWarning, match=r"1\.parquet: left out 'b', which .*0\.p.* not have"):
        stored, _ = dr.ingest(tmp_path / "lake", tmp_path / "c")
    assert values_of(stored).tolist() == [[1], [2], [1], [2]]
    stored, _ = dr.ingest(tmp_path / "lake", tmp_path / "d", rows=dr.RowRules(null="zero"))
    assert values_of(stored).tolist() == [[1, 0], [2, 0], [1, 1], [2, 2]]


def test_a_stream_of_batches_is_stored_without_being_held(tmp_path, monkeypatch):
    monkeypatch.setattr("dranking.ingestion.open_rows.TABLE_BYTES", 300)
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
    with pytest.raises(UsageError, match=r"null is 'mean', but .* knows no value for missing ones"):
        dr.ingest(tmp_path / "b", tmp_path / "d", append=True, rows=dr.RowRules(null="mean"))


APPENDED = {
    "docid": {"docid": [9, 8, 7]},
    "weight": {"weight": [2.0, 2.0, 2.0]},
}


@pytest.mark.parametrize("form", ["parquet", "table", "dask"])
@pytest.mark.parametrize("name", APPENDED)
def test_ids_and_weights_that_only_appended_data_has_are_never_dropped(tmp_path, name, form):
    dr.ingest(frame([1, 2], x=[1.0, 2.0]), tmp_path / "d")
    rows = frame([7, 7, 8], x=[3.0, 4.0, 5.0], **APPENDED[name])
    source = rows
    if form == "parquet":
        write(tmp_path / "b", rows)
        source = tmp_path / "b"
    if form == "dask":
        source = pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=1)
    told = rf"has no column '{name}'.*--exclude {name} \(Columns.*--overwrite"
    with pytest.raises(DataError, match=told):
        dr.ingest(source, tmp_path / "d", append=True)
    declares = dr.Columns(docid="docid", weight="weight")
    with pytest.raises(DataError, match=told):
        dr.ingest(source, tmp_path / "d", append=True, columns=declares)
    left_out = dr.Columns(exclude=[name])
    both, _ = dr.ingest(source, tmp_path / "d", append=True, columns=left_out)
    assert values_of(both)[:, 0].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("form", ["parquet", "table", "dask"])
def test_features_that_only_appended_data_has_are_left_out_with_a_line(tmp_path, form):
    dr.ingest(frame([1, 2], x=[1.0, 2.0]), tmp_path / "d")
    rows = frame([7, 7, 8], y=[1.0, 2.0, 3.0], x=[3.0, 4.0, 5.0])
    source = rows
    if form == "parquet":
        write(tmp_path / "b", rows)
        source = tmp_path / "b"
    if form == "dask":
        source = pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=1)
    named = dr.Columns(features=["x", "y"])
    with pytest.raises(DataError, match=r"'y' is asked for as a feature, and the data set"):
        dr.ingest(source, tmp_path / "d", append=True, columns=named)
    with pytest.warns(DataWarning, match=r"left out 'y', which the data set .* does not have"):
        both, _ = dr.ingest(source, tmp_path / "d", append=True)
    assert values_of(both).tolist() == [[1], [2], [3], [4], [5]]


def test_grades_and_other_names_of_appended_data(tmp_path):
    """Grades are not lost either; a name that the caller leaves open is that of the data set."""
    rows = frame([1, 2], x=[1.0, 2.0], y=[0.0, 1.0], item=["a", "b"])
    rows = rows.rename(columns={"qid": "query"})
    names = {"qid": "query", "docid": "item"}
    dr.ingest(rows, tmp_path / "d", columns=dr.Columns(relevance=None, **names))
    later = rows.assign(query=[8, 9], x=[3.0, 4.0])[["y", "item", "x", "relevance", "query"]]
    with pytest.raises(DataError, match="has no column 'relevance'"):
        dr.ingest(later, tmp_path / "d", append=True)
    both, _ = dr.ingest(later, tmp_path / "d", append=True, columns=dr.Columns(relevance=None))
    assert values_of(both).tolist() == [[1, 0], [2, 1], [3, 0], [4, 1]]
    assert both.n_unlabelled == 4
    last = later.assign(query=[18, 19], text=["a", "b"])
    without = dr.Columns(exclude=["relevance", "text", "item"])
    both, _ = dr.ingest(last, tmp_path / "d", append=True, columns=without)
    ids = [block.doc_ids for block in both.read_blocks(0, both.n_blocks)]
    assert [each if each is None else each.to_pylist() for each in ids] == [
        ["a", "b"],
        ["a", "b"],
        None,
    ]


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
    more, _ = dr.ingest(tmp_path / "c", tmp_path / "d", append=True)
    np.testing.assert_allclose(values_of(more)[-1, 0], (fill - first.mean()) / first.std())


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


def as_dask(rows, n_partitions):
    return pytest.importorskip("dask.dataframe").from_pandas(rows, n_partitions, sort=False)


@pytest.mark.parametrize("grouped", [True, False])
def test_errors_name_the_table_and_its_row_never_a_scratch_file(tmp_path, monkeypatch, grouped):
    """Also where the table is written in pieces, and where rows are brought together."""
    monkeypatch.setattr("dranking.ingestion.open_rows.TABLE_BYTES", 300)
    monkeypatch.setattr("dranking.data.tables.any_table.BATCH_ROWS", 7)
    qids = np.arange(60) // 10 if grouped else np.arange(60) % 7
    rows = frame(qids, x=np.arange(60.0))
    rows.loc[41, "x"] = np.nan
    wrong = rows.assign(x=1.0)
    wrong.loc[52, "relevance"] = np.inf
    no_id = rows.assign(x=1.0, qid=rows["qid"].where(rows.index != 33))
    repeated = rows.assign(x=1.0, qid=[*range(59), 2])
    ordered = dr.RowRules(regroup=False)
    cases = [
        (rows, f"row 41, column 'x' \\(query {qids[41]}\\)", dr.RowRules()),
        (wrong, "row 52: relevance is infinite", dr.RowRules()),
        (no_id, "row 33: qid is missing", dr.RowRules()),
        (repeated, r"row 59: query 2 appears again \(first at TITLE: row 2, ended", ordered),
    ]
    for table, told, rules in cases:
        with pytest.raises(DataError, match="^the table: " + told.replace("TITLE", "the table")):
            dr.ingest(table, tmp_path / "d", rows=rules)
    lazy = as_dask(rows, 4)  # 15 rows each
    with pytest.raises(DataError, match=r"^partition 2: row 11, column 'x'"):
        dr.ingest(lazy, tmp_path / "d")
    lazy = as_dask(wrong, 4)
    with pytest.raises(DataError, match=r"^partition 3: row 7: relevance is infinite"):
        dr.ingest(lazy[lazy["x"] > 0], tmp_path / "d")
    with pytest.raises(DataError, match=r"^the table: there are no rows"):
        dr.ingest(rows.iloc[:0], tmp_path / "d")
    texts = as_dask(rows.assign(title="a"), 4)
    with pytest.raises(DataError, match=r"^partition 0: 1 column\(s\) cannot be features: 'title'"):
        dr.ingest(texts, tmp_path / "d")


@pytest.fixture
def sources_that_need_scratch(tmp_path):
    """Rows of queries that lie apart, in four forms."""
    rng = np.random.default_rng(0)
    n_rows, names = 6_000, [f"f{i}" for i in range(30)]
    values = rng.normal(size=(n_rows, 30)).astype(np.float32)
    qids = np.arange(n_rows) % 500
    rows = frame(qids, **dict(zip(names, values.T, strict=True)))
    write(tmp_path / "lake", rows)
    with (tmp_path / "t.txt").open("w") as file:
        for qid, document in zip(qids, values, strict=True):
            features = " ".join(f"{i}:{value!r}" for i, value in enumerate(document.tolist(), 1))
            file.write(f"1 qid:{qid} {features}\n")
    return {
        "lake": tmp_path / "lake",
        "text": tmp_path / "t.txt",
        "table": pa.Table.from_pandas(rows, preserve_index=False),
        "collection": as_dask(rows, 3),
    }


def test_the_scratch_space_that_is_stated_is_about_what_the_files_take(
    tmp_path, monkeypatch, sources_that_need_scratch
):
    taken = []
    clear = Scratch.clear

    def weighed(scratch):
        files = Path(scratch.folder).glob(f"{scratch.token}*")
        taken.append(sum(file.stat().st_size for file in files))
        clear(scratch)

    monkeypatch.setattr(Scratch, "clear", weighed)
    for form, source in sources_that_need_scratch.items():
        scratch = tmp_path / f"scratch-{form}"
        _, facts = dr.ingest(source, tmp_path / "d", overwrite=True, scratch=scratch)
        assert facts.n_regrouped_queries == 500
        assert max(taken) / 1.5 < facts.n_scratch_bytes < 1.5 * max(taken)
        taken.clear()


def test_scratch_space_is_logged_and_checked_before(
    tmp_path, monkeypatch, caplog, sources_that_need_scratch
):
    """An ingest of a table asks for the columns that are stored, not for all."""
    sources = sources_that_need_scratch
    table = sources["table"]
    size = sources["text"].stat().st_size
    kept = {"columns": dr.Columns(features=["f3"])}
    cases = [
        ("text", {}, "reading the text", size, size),
        ("table", {}, "storing the table", table.nbytes, table.nbytes),
        ("table", kept, "storing the table", 6_000 * (8 + 8 + 4), 6_000 * (8 + 8 + 4)),
        ("lake", {}, "bringing the rows of each query together", 6_000 * 4 * 30, 6_000 * 4 * 60),
    ]
    caplog.set_level("INFO", logger="dranking")
    for form, options, what, least, most in cases:
        caplog.clear()
        dr.ingest(sources[form], tmp_path / "d", overwrite=True, **options)
        pattern = rf"{what} takes about ([\d.]+ \w+) there for a while; [\d.]+ [MGT]iB are free"
        [found] = [m for line in caplog.messages if (m := re.search(pattern, line))]
        asked = parse_bytes(found[1])
        assert 0.99 * least < asked < 1.01 * most
        for free, works in ((asked / 2, False), (asked * 20, True)):
            with monkeypatch.context() as patch:
                usage = SimpleNamespace(free=int(free))
                patch.setattr("shutil.disk_usage", lambda folder, usage=usage: usage)
                how = nullcontext() if works else pytest.raises(UsageError, match=f"{what} takes")
                with how as told:
                    dr.ingest(sources[form], tmp_path / "e", overwrite=works, **options)
            assert works or re.search("are free. Free some space, or .*--scratch", str(told.value))
            assert (tmp_path / "e").exists() == works
        shutil.rmtree(tmp_path / "e")


def test_streams_and_frames_have_the_bytes_of_their_columns():
    rows = {"qid": [1, 1, 2], "relevance": [0, 1, 0], "x": np.float32([0.5, 1.0, 2.0])}
    table, expected = pa.table(rows), (3 * 8, 3 * 8, 3 * 4)
    assert as_stream(table).n_bytes == as_stream(pd.DataFrame(rows)).n_bytes == expected
    assert as_stream(table.to_batches()[0]).n_bytes == expected
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(rows)
    assert as_stream(frame).n_bytes == as_stream(frame.lazy()).n_bytes == expected
    assert as_stream(table.to_reader()).n_bytes is None
