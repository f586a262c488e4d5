"""Delta and Iceberg tables: read through Arrow; their folders and files are refused as parquet."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.bilinear.texts.preferences import read_tuples
from dranking.clicks.interleaving.credit_files import read_credits
from dranking.clicks.logs.files import find_logs
from dranking.clicks.propensities.propensity_table import read_propensity_table
from dranking.errors import DataError
from dranking.files.places import as_place

N, PER_QUERY = 300, 10
COLUMNS = dr.Columns(exclude=["day"])
LOGS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/00001-9c12.metadata.json",
    "Hudi": ".hoodie/hoodie.properties",
}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "qid": np.repeat(np.arange(N // PER_QUERY), PER_QUERY),
            "relevance": rng.integers(0, 3, N),
            "day": np.where(np.arange(N) < N // 2, "2026-11-01", "2026-11-02"),
            "x": rng.random(N),
        }
    )


def content(data):
    """Query id, grade and feature of every row, sorted; of a data set or of a table."""
    if isinstance(data, pa.Table):
        return sorted(
            zip(*(data[name].to_pylist() for name in ("qid", "relevance", "x")), strict=True)
        )
    found = []
    for block in data.read_blocks():
        ids = np.repeat(block.query_ids.to_numpy(), np.diff(block.query_ptr))
        found += zip(
            ids.tolist(), block.relevance.tolist(), block.features[:, 0].tolist(), strict=True
        )
    return sorted(found)


def assert_has(data, rows):
    found, expected = content(data), content(rows)
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    np.testing.assert_array_equal([r[2] for r in found], np.float32([r[2] for r in expected]))


@pytest.mark.parametrize(("kind", "log"), LOGS.items())
def test_folders_of_table_formats_are_refused(tmp_path, rows, kind, log):
    """Their parquet files hold rows that were removed: a folder was read with all of them."""
    (tmp_path / "t" / "data").mkdir(parents=True)
    pq.write_table(rows.drop_columns(["day"]), tmp_path / "t" / "data" / "0.parquet")
    assert_has(dr.open_dataset(tmp_path / "t"), rows)
    (tmp_path / "t" / log).parent.mkdir()
    (tmp_path / "t" / log).write_text("{}")
    with pytest.raises(DataError, match=f"table in the {kind} format, for it has {log}"):
        dr.open_dataset(tmp_path / "t")
    with pytest.raises(DataError, match="no longer"):
        dr.ingest(tmp_path / "t", tmp_path / "out")


@pytest.fixture(params=["local", "store"])
def lake(request, tmp_path):
    """A folder, local or in a store, in which folders are made as needed."""
    return as_place(tmp_path / "lake" if request.param == "local" else f"memory://{tmp_path}/lake")


def put(place, content=b"{}"):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def parquet(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("kind", LOGS)
def test_parts_of_tables_are_refused(lake, rows, kind, tmp_path):
    """A partition folder and lists of files were read, with the rows that were deleted."""
    folder = lake / "t" / "day=2026-11-01"
    files = [folder / f"{number}.parquet" for number in range(2)]
    for file, part in zip(files, (rows.slice(0, 100), rows.slice(100)), strict=True):
        put(file, parquet(part.drop_columns(["day"])))
    given = [folder, files, files[1], lake]
    for source in given:
        assert dr.open_dataset(source).n_documents > 0
    put(lake / "t" / LOGS[kind])
    for source in given:
        with pytest.raises(DataError, match=f"table in the {kind} format, for it has .*no longer"):
            dr.open_dataset(source)
        with pytest.raises(DataError, match=f"table in the {kind} format"):
            dr.ingest(source, tmp_path / "out")
    with pytest.raises(DataError, match=rf"day=2026-11-01 lies in .*t, the folder of .*{kind}"):
        dr.open_dataset(folder)


def test_links_to_files_and_folders_of_tables_are_refused(tmp_path, rows):
    put(tmp_path / "t" / "day=1" / "0.parquet", parquet(rows.drop_columns(["day"])))
    put(tmp_path / "t" / LOGS["Delta"])
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "0.parquet").symlink_to(tmp_path / "t" / "day=1" / "0.parquet")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "day=1").symlink_to(tmp_path / "t" / "day=1")
    (tmp_path / "link").symlink_to(tmp_path / "t" / "day=1")
    for source in ("file", "file/0.parquet", "folder", "link"):
        with pytest.raises(DataError, match="table in the Delta format"):
            dr.open_dataset(tmp_path / source)


def test_a_relative_path_inside_of_a_table_is_refused(tmp_path, rows, monkeypatch):
    put(tmp_path / "t" / "day=1" / "0.parquet", parquet(rows.drop_columns(["day"])))
    put(tmp_path / "t" / LOGS["Iceberg"])
    monkeypatch.chdir(tmp_path / "t" / "day=1")
    with pytest.raises(DataError, match="table in the Iceberg format"):
        dr.open_dataset("0.parquet")


def test_other_files_of_tables_are_refused(tmp_path):
    """Logs, scores, texts, preferences, propensities and credits have readers of their own."""
    words = pa.table({"id": [1, 2], "text": ["red wine", "white wine"]})
    file = tmp_path / "t" / "day=1" / "0.parquet"
    put(file, parquet(words))
    collection = dr.open_collection(file)
    readers = [
        lambda: dr.open_collection(file),
        lambda: dr.read_scores(file),
        lambda: find_logs([file.parent], []),
        lambda: find_logs([tmp_path], []),
        lambda: read_tuples(file, collection, collection),
        lambda: read_propensity_table(file),
        lambda: read_credits(file),
    ]
    put(tmp_path / "t" / LOGS["Hudi"])
    for read in readers:
        with pytest.raises(DataError, match="table in the Hudi format"):
            read()


def test_folders_that_are_no_logs_say_nothing(tmp_path, rows):
    put(tmp_path / "t" / "0.parquet", parquet(rows.drop_columns(["day"])))
    put(tmp_path / "metadata" / "notes.json")
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / ".hoodie").touch()
    assert_has(dr.open_dataset(tmp_path / "t"), rows)


def test_folders_of_a_store_that_may_not_be_listed_say_nothing(rows, monkeypatch):
    """Access to a bucket is often given below a prefix alone."""
    place = as_place("memory://closed/lake")
    put(place / "0.parquet", parquet(rows.drop_columns(["day"])))
    ls = place.fs.ls

    def refused(path, *args, **options):
        if "/lake" not in path:
            raise PermissionError(13, "Access Denied", path)
        return ls(path, *args, **options)

    monkeypatch.setattr(type(place.fs), "ls", staticmethod(refused))
    assert_has(dr.open_dataset(place), rows)


def test_a_delta_table_is_read_through_arrow(tmp_path, rows):
    """In two commits by day, with removed rows and an earlier version."""
    deltalake = pytest.importorskip("deltalake")
    place = str(tmp_path / "delta")
    for part in (rows.slice(0, N // 2), rows.slice(N // 2)):
        deltalake.write_deltalake(place, part, mode="append", partition_by=["day"])
    deltalake.DeltaTable(place).delete("qid < 3")
    for version, first in ((None, 3 * PER_QUERY), (1, 0)):
        table = deltalake.DeltaTable(place, version=version).to_pyarrow_dataset()
        data, _ = dr.ingest(table, tmp_path / f"{version}.zarr", columns=COLUMNS)
        assert_has(data, rows.slice(first))
    check_parts_are_refused(tmp_path / "delta", "Delta")


def test_an_iceberg_table_is_read_through_arrow(tmp_path, rows):
    """A scan of two commits with removed rows and a filter."""
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    place = f"file://{tmp_path}/house"
    catalog = catalogs.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=place)
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.judged", schema=rows.schema)
    for part in (rows.slice(0, N // 2), rows.slice(N // 2)):
        table.append(part)
    table.delete("qid < 3")
    whole = dr.from_table(table.scan().to_arrow_batch_reader(), columns=COLUMNS)
    assert_has(whole, rows.slice(3 * PER_QUERY))
    scan = table.scan(row_filter="day >= '2026-11-02'")
    data, _ = dr.ingest(scan.to_arrow_batch_reader(), tmp_path / "out.zarr", columns=COLUMNS)
    assert_has(data, rows.slice(N // 2))
    check_parts_are_refused(Path(table.location().removeprefix("file://")), "Iceberg")


def check_parts_are_refused(folder, kind):
    """The folder of a table, a folder in it, and its files, which hold the removed rows too."""
    files = sorted(folder.rglob("*.parquet"))
    assert sum(pq.read_metadata(file).num_rows for file in files) > N - 3 * PER_QUERY
    for source in (folder, files[0].parent, files, files[0]):
        with pytest.raises(DataError, match=f"{kind} format"):
            dr.open_dataset(source)
