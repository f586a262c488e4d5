"""Delta and Iceberg tables: read through Arrow; their folders are refused as parquet."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.errors import DataError

N, PER_QUERY = 300, 10
COLUMNS = dr.Columns(exclude=["day"])


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


@pytest.mark.parametrize(
    ("kind", "log"),
    [
        ("Delta", "_delta_log/00000000000000000000.json"),
        ("Iceberg", "metadata/00001-9c12.metadata.json"),
        ("Hudi", ".hoodie/hoodie.properties"),
    ],
)
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
    with pytest.raises(DataError, match="Delta format"):
        dr.open_dataset(place)


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
    with pytest.raises(DataError, match="Iceberg format"):
        dr.open_dataset(table.location().removeprefix("file://"))
