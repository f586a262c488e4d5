"""Damage to the files of a statistics store is found."""

import json

import numpy as np
import pyarrow as pa
import pytest

from dranking.errors import DataError
from dranking.files.checksums import checksum
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.manifest import QUERY_TABLE
from tests.data.store.blocks import everything_in
from tests.rankrls.statistics.stores import blocks_of, edited, matrices, written


def arrow(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("is_sparse", [False, True])
def test_flipped_bytes_are_found(tmp_path, is_sparse):
    store = written(blocks_of(1, is_sparse), tmp_path / "store", [5])
    files = [f for f in everything_in(store.path / "blocks") if f.name != "zarr.json"]
    assert len(files) == 2
    for file in files:
        content = file.read_bytes()
        for position in range(0, len(content), 7):  # checksums know no places
            broken = bytearray(content)
            broken[position] ^= 1
            file.write_bytes(broken)
            message = f"block 0 of .*{file.name}.* or build the statistics anew"
            with pytest.raises(DataError, match=message):
                matrices(store.pieces(0))
        for size in (0, 1, len(content) // 2, len(content) - 1):
            file.write_bytes(content[:size])
            with pytest.raises(DataError, match=r"block 0 of .* is damaged"):
                matrices(store.pieces(0))
        file.unlink()
        with pytest.raises(DataError, match="is missing"):
            store.pieces(0)
        file.write_bytes(content)
    assert matrices(store.pieces(0)).shape == (3, 4, 4)


def _without_label_norms(content):
    table = pa.ipc.open_file(content).read_all()
    return arrow(table.drop_columns(["label_norm"]))


def _with_two_rows(content):
    return arrow(pa.ipc.open_file(content).read_all().slice(0, 2))


def _with_ids_beyond_the_end(content):
    offsets = pa.ipc.open_file(content).read_all()["query_id"].chunk(0).buffers()[1].to_pybytes()
    beyond = np.frombuffer(offsets, "<i4").copy()
    beyond[3] = 1_000_000
    assert content.count(offsets) == 1
    return content.replace(offsets, beyond.tobytes())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without_label_norms, "has other columns or rows"),
        (_with_two_rows, "has other columns or rows"),
        (lambda content: b"no table", "is not an Arrow file"),
        (_with_ids_beyond_the_end, "is not an Arrow file"),
    ],
)
def test_a_table_of_queries_that_is_none_is_refused(tmp_path, change, message):
    store = written(blocks_of(1), tmp_path / "store")
    file = next(f for f in everything_in(store.path / "blocks") if f.name == QUERY_TABLE)
    content = change(file.read_bytes())
    file.write_bytes(content)
    [entry] = json.loads((store.path / "manifest.json").read_text())["blocks"]
    checksums = entry["checksums"] | {QUERY_TABLE: checksum(content)}
    edited(store.path, blocks=[entry | {"checksums": checksums}])
    with pytest.raises(DataError, match=f"block 0 of .*{QUERY_TABLE} {message}"):
        StatisticsDataset(store.path).block(0)


def test_what_is_of_queries_alone_needs_no_rows(tmp_path):
    store = written(blocks_of(1), tmp_path / "store")
    [block] = store.queries()
    assert block.n_features == 0
    assert list(block.rows([])) == []
    assert block.digest()
