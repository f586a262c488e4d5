"""Rows in any order, in any files and row groups, are stored as plain loops regroup them."""

import os
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dranking as dr
from dranking.data.regrouping import query_lines, rows_by_bucket
from dranking.errors import DataError
from dranking.files.writing.names import token_of
from dranking.ingestion.letor.reader import read_letor
from dranking.ingestion.rows import scan
from tests.reference.regrouping import blocks, regrouped, scattered

pytestmark = pytest.mark.usefixtures("small_tasks")


class Rows(NamedTuple):
    """A table in plain lists: ids, grades (None if unlabelled), features, and borders of files."""

    qids: list
    grades: list
    X: list
    files: list
    row_group: int


@st.composite
def tables(draw):
    qids = draw(st.lists(st.integers(0, 6), min_size=1, max_size=40))
    order = draw(st.sampled_from(["any", "sorted", "one query apart"]))
    if order != "any":
        qids = sorted(qids)
    if order == "one query apart":
        qids.append(qids[0])
    n = len(qids)
    grades = draw(st.lists(st.sampled_from([0, 1, 2, None]), min_size=n, max_size=n))
    X = [[100.0 * i + j for j in range(2)] for i in range(n)]
    files = sorted(draw(st.lists(st.integers(0, n), max_size=3)))
    return Rows(qids, grades, X, [0, *files, n], draw(st.integers(1, 9)))


def write_parquet(folder, rows, kind):
    """Files with other orders and types of columns; some of them may have no rows."""
    folder.mkdir()
    for number, (a, b) in enumerate(zip(rows.files[:-1], rows.files[1:], strict=True)):
        columns = {
            "qid": pa.array(rows.qids[a:b], pa.int32() if kind == "integers" else pa.int64()),
            "relevance": pa.array(rows.grades[a:b], pa.float64()),
            "f1": pa.array([x[0] for x in rows.X[a:b]], pa.float64()),
            "f2": pa.array([x[1] for x in rows.X[a:b]]).cast(
                pa.int64() if number % 2 else pa.float32()
            ),
            "docid": pa.array([f"d{row}" for row in range(a, b)], pa.string()),
        }
        if kind == "strings":
            columns["qid"] = columns["qid"].cast(pa.string()).dictionary_encode()
        names = list(columns)[:: -1 if number % 2 else 1]
        table = pa.table({name: columns[name] for name in names})
        pq.write_table(table, folder / f"part.{number}.parquet", row_group_size=rows.row_group)


def write_text(folder, rows):
    """The same rows as text, in the same files, except files without rows."""
    for number, (a, b) in enumerate(zip(rows.files[:-1], rows.files[1:], strict=True)):
        lines = [
            f"{-1 if rows.grades[i] is None else rows.grades[i]} qid:{rows.qids[i]} "
            f"1:{rows.X[i][0]} 2:{rows.X[i][1]} # docid = d{i}\n"
            for i in range(a, b)
        ]
        if lines:
            (folder / f"{number}.txt").write_text("".join(lines))


def check_stored(dataset, rows):
    """Compare a data set, block by block, with plain loops."""
    packed = blocks(regrouped(rows.qids), 6)
    assert dataset.n_blocks == len(packed)
    for index, queries in enumerate(packed):
        block, order = dataset.block(index), [row for query in queries for row in query]
        assert [str(q) for q in block.query_ids.to_pylist()] == [
            str(rows.qids[q[0]]) for q in queries
        ]
        assert np.diff(block.query_ptr).tolist() == [len(query) for query in queries]
        assert block.features.tolist() == [rows.X[row] for row in order]
        grades = [None if np.isnan(grade) else grade for grade in block.relevance]
        assert grades == [rows.grades[row] for row in order]
        assert block.doc_ids.to_pylist() == [f"d{row}" for row in order]


@settings(max_examples=30)
@given(rows=tables(), kind=st.sampled_from(["integers", "strings"]))
def test_parquet_in_any_order(tmp_path_factory, threads, rows, kind):
    folder = tmp_path_factory.mktemp("parquet")
    lake = folder / "lake"
    write_parquet(lake, rows, kind)
    dataset, facts = dr.ingest(lake, folder / "d.zarr", executor=threads)
    check_stored(dataset, rows)
    apart = scattered(rows.qids)
    assert facts[1:3] == (len(apart), sum(map(len, apart)))
    assert (facts.n_scratch_bytes > 0) == bool(apart)
    assert not [p for p in (folder / "d.zarr").rglob("*") if "scratch" in str(p)]
    if apart:
        message = "appears again.*rows count from 0.*adjacent"
        with pytest.raises(DataError, match=message):
            dr.ingest(lake, folder / "e.zarr", executor=threads, rows=dr.RowRules(regroup=False))
        assert not (folder / "e.zarr").exists()


@settings(max_examples=20)
@given(rows=tables())
def test_text_in_any_order_is_stored_as_parquet_is(tmp_path_factory, threads, rows):
    folder = tmp_path_factory.mktemp("text")
    write_text(folder, rows)
    files = sorted(folder.glob("*.txt"), key=lambda file: int(file.stem))
    dataset, _ = dr.ingest(files, folder / "d.zarr", executor=threads)
    check_stored(dataset, rows)
    write_parquet(folder / "p", rows, "strings")
    same, _ = dr.ingest(folder / "p", folder / "e.zarr", executor=threads)
    assert dataset.fingerprint == same.fingerprint
    if scattered(rows.qids):
        with pytest.raises(DataError) as expected:
            list(read_letor(files))
        with pytest.raises(DataError) as found:
            dr.ingest(files, folder / "f.zarr", executor=threads, rows=dr.RowRules(regroup=False))
        assert str(found.value) == str(expected.value)


def some_rows(n=60, n_queries=7):
    qids = np.random.default_rng(0).integers(0, n_queries, n).tolist()
    return Rows(qids, [q % 3 for q in qids], [[float(i), -i] for i in range(n)], [0, 25, n], 9)


@pytest.mark.parametrize("order", ["apart", "adjacent"])
def test_two_ids_with_one_hash_are_told_apart(tmp_path, threads, monkeypatch, order):
    """A hash of one bit under the first key; adjacent queries with one hash look like one query."""
    rows, keys, strong = some_rows(), [], query_lines.hash_ids
    if order == "adjacent":
        rows = rows._replace(qids=sorted(rows.qids))

    def weak(ids, key=0):
        keys.append(key)
        return strong(ids, key) % 2 if key == 0 else strong(ids, key)

    for module in (query_lines, rows_by_bucket, scan):
        monkeypatch.setattr(module, "hash_ids", weak)
    write_parquet(tmp_path / "lake", rows, "integers")
    regroup = order == "apart"
    dataset, _ = dr.ingest(
        tmp_path / "lake", tmp_path / "d.zarr", rows=dr.RowRules(regroup=regroup), executor=threads
    )
    check_stored(dataset, rows)
    assert set(keys) == {0, 1}
    table = pq.read_table(tmp_path / "lake")
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=9))
    stored, _ = dr.ingest(stream, tmp_path / "s.zarr", executor=threads)
    assert stored.fingerprint == dataset.fingerprint
    more = table.set_column(
        table.schema.get_field_index("qid"), "qid", pc.add(table.column("qid"), 100)
    )
    both, _ = dr.ingest(more, tmp_path / "d.zarr", append=True, executor=threads)
    assert both.n_queries == 2 * dataset.n_queries
    assert {token_of(name) for name in os.listdir(tmp_path / "d.zarr/segments")} <= {
        None,
        *both.manifest.writers,
    }
