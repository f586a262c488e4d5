"""Data sets behind URLs: the same as on local disks, and damage there is found."""

import pickle
import secrets

import numpy as np
import pyarrow as pa
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem

from dranking.data.blocks import QueryBlock
from dranking.data.store import segment_reader
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.segment_writer import write_segment
from dranking.data.store.write_dataset import commit_dataset, write_dataset
from dranking.data.transforms import QueryMinMax
from dranking.engine.executor import ThreadExecutor
from dranking.errors import DataError, TryAgainError, UsageError
from dranking.files.places import as_place, is_local
from dranking.files.writing.commit import begin_directory
from dranking.rankrls.leave_query_out.memory_plan import Needs
from tests.data.store.blocks import assert_same, simple_block


def blocks_of(n_blocks, is_sparse=False):
    """Blocks of 100 documents and 70 features; eight of them are a segment."""
    return [
        simple_block(
            70,
            sizes=(40, 60),
            first_id=10 * b,
            is_sparse=is_sparse,
            doc_ids=pa.array([f"d{b}-{d}" for d in range(100)]),
        )
        for b in range(n_blocks)
    ]


@pytest.fixture(params=["memory", "s3", "local"])
def place(request, tmp_path):
    """The URL or path of a data set that is not there yet."""
    if request.param == "local":
        return str(tmp_path / "data.zarr")
    if request.param == "memory":
        return f"memory://{secrets.token_hex(4)}/data.zarr"
    return f"{request.getfixturevalue('bucket')}/data.zarr"


@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_is_written_is_read(place, is_sparse):
    blocks = blocks_of(18, is_sparse=is_sparse)
    dataset = write_dataset(blocks, place)
    assert dataset.index.n_segments == 3
    for block, expected in zip(StoredDataset(place).read_blocks(), blocks, strict=True):
        assert_same(block, expected)
    columns = np.array([69, 3, 40])
    for found, expected in zip(dataset.read_blocks(7, 17, columns), blocks[7:17], strict=True):
        wanted = expected.features.toarray() if is_sparse else expected.features
        got = found.features.toarray() if is_sparse else found.features
        np.testing.assert_array_equal(got, wanted[:, columns])
    with pytest.raises(UsageError, match="--overwrite"):
        write_dataset(blocks, place)
    replaced = write_dataset(blocks[:3], place, overwrite=True)
    assert replaced.n_blocks == StoredDataset(place).n_blocks == 3
    assert pickle.loads(pickle.dumps(replaced)).query_ids().to_pylist() == [0, 1, 10, 11, 20, 21]


def test_segments_that_tasks_write_become_a_data_set_at_once(place):
    blocks = blocks_of(12)
    with begin_directory(place) as commit:
        parts = [blocks[5:], blocks[:5]]  # the second segment is ready first
        names = [commit.name(f"segments/{number:06d}") for number in (1, 0)]
        last, first = (
            pickle.loads(pickle.dumps(write_segment(commit.root, name, part)))
            for name, part in zip(names, parts, strict=True)
        )
        again = write_segment(commit.root, names[0], parts[0])  # its worker was thought lost
        assert again == last
        with pytest.raises(DataError):
            StoredDataset(place)
        dataset = commit_dataset(commit, [first, last])
    for found, expected in zip(dataset.read_blocks(), blocks, strict=True):
        assert_same(found, expected)


def test_append_begins_a_new_block(place):
    blocks = blocks_of(11)
    write_dataset(blocks[:9], place)
    appended = write_dataset(blocks[9:], place, append=True)
    assert appended.index.n_segments == 3
    assert len(appended.manifest.writers) == 2
    assert [b.n_documents for b in appended.blocks] == [100] * 11
    for found, expected in zip(StoredDataset(place).read_blocks(), blocks, strict=True):
        assert_same(found, expected)
    whole = write_dataset(blocks, f"memory://{secrets.token_hex(4)}/whole.zarr")
    assert appended.fingerprint == whole.fingerprint


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ([simple_block(71)], "71 features, but 70"),
        ([simple_block(70, is_sparse=True)], "sparse differ"),
    ],
)
def test_append_of_other_data_changes_nothing(place, new, message):
    before = write_dataset(blocks_of(2), place)
    with pytest.raises(DataError, match=message):
        write_dataset(new, place, append=True)
    with pytest.raises(DataError, match="can be appended to"):
        write_dataset(blocks_of(1), f"{place}-absent", append=True)
    assert StoredDataset(place).manifest == before.manifest


def test_of_two_that_append_one_must_begin_again(place):
    write_dataset(blocks_of(2), place)
    with begin_directory(place, append=True) as commit:
        segment = write_segment(commit.root, commit.name("segments/000000"), blocks_of(1))
        if is_local(as_place(place)):  # a lock
            with pytest.raises(TryAgainError):
                write_dataset(blocks_of(3), place, append=True)
            commit_dataset(commit, [segment], append=True)
        else:
            write_dataset(blocks_of(3), place, append=True)
            with pytest.raises(TryAgainError):
                commit_dataset(commit, [segment], append=True)
    assert StoredDataset(place).n_blocks == (3 if is_local(as_place(place)) else 5)


def test_other_readers_of_zarr_open_the_url(place):
    if place.startswith("s3"):
        pytest.skip("zarr's own client of S3 needs settings of its own")
    blocks = blocks_of(2)
    dataset = write_dataset(blocks, place)
    name = dataset.index.entry(0).name
    array = zarr.open_group(f"{place}/{name}/arrays", mode="r")["features"]
    expected = np.concatenate([block.features for block in blocks]).T
    np.testing.assert_array_equal(array[:], expected)


@pytest.mark.parametrize("damage", ["flipped", "short", "gone"])
def test_damage_behind_a_url_names_the_segment(damage):
    place = f"memory://{secrets.token_hex(4)}/data.zarr"
    dataset = write_dataset(blocks_of(2), place)
    name = dataset.index.entry(0).name
    target = as_place(place) / name / "arrays/features/c/0/0"
    content = target.fs.cat_file(target.path)
    target.fs.rm_file(target.path)
    if damage == "flipped":
        target.fs.pipe_file(target.path, content[:40] + bytes([content[40] ^ 1]) + content[41:])
    elif damage == "short":
        target.fs.pipe_file(target.path, content[:100])
    with pytest.raises(DataError, match=f"segment {name} of .* is damaged.*ingest the data anew"):
        StoredDataset(place).block(0)


def test_a_chunk_that_came_damaged_is_fetched_once_more(monkeypatch):
    place = f"memory://{secrets.token_hex(4)}/data.zarr"
    blocks = blocks_of(2)
    dataset = write_dataset(blocks, place)
    plain, bad = MemoryFileSystem.cat_file, []

    def damaged_once(self, path, start=None, end=None, **options):
        content = plain(self, path, start, end, **options)
        if "arrays/features/c" in path and path not in bad:
            bad.append(path)
            return bytes([content[0] ^ 1]) + content[1:]
        return content

    monkeypatch.setattr(MemoryFileSystem, "cat_file", damaged_once)
    assert_same(dataset.block(1), blocks[1])
    assert len(bad) == 1


def test_neighbouring_blocks_are_few_requests(monkeypatch):
    """A whole segment: the table of chunks, documents, queries, and a window after another."""
    n_documents, n_features = 4 * 4_096, 64
    features = np.random.default_rng(0).random((n_documents, n_features), np.float32)
    block = QueryBlock(
        features=features,
        relevance=np.zeros(n_documents),
        query_ptr=np.array([0, n_documents]),
        query_ids=pa.array([1]),
    )
    dataset = write_dataset([block], f"memory://{secrets.token_hex(4)}/data.zarr")
    window = 2 * 4_096 * n_features * 4  # two groups of documents
    monkeypatch.setattr(segment_reader, "WINDOW_BYTES", window)
    requests = []
    plain = MemoryFileSystem.cat_file
    monkeypatch.setattr(
        MemoryFileSystem,
        "cat_file",
        lambda self, path, start=None, end=None, **o: (
            requests.append(path) or plain(self, path, start, end, **o)
        ),
    )
    np.testing.assert_array_equal(next(dataset.read_blocks()).features, features)
    assert len(requests) == 3 + 2
    assert dataset.bytes_ahead >= 2 * window  # of this segment and the next one


def test_memory_that_is_fetched_ahead_is_planned(tmp_path):
    blocks = blocks_of(3)
    local = write_dataset(blocks, tmp_path / "data")
    remote = write_dataset(blocks, f"memory://{secrets.token_hex(4)}/data.zarr")
    assert local.bytes_ahead == 0
    run = ThreadExecutor(3)
    needs = [Needs(data.transformed([QueryMinMax()]), 5, run) for data in (local, remote)]
    run.close()
    assert needs[1].stream == needs[0].stream + 3 * remote.bytes_ahead


def test_query_ids_are_fetched_without_documents():
    place = f"memory://{secrets.token_hex(4)}/data.zarr"
    blocks = blocks_of(18)
    dataset = write_dataset(blocks, place)
    for file in dataset.path.fs.find(dataset.path.path):
        if file.endswith(("documents.parquet", "/c/0/0")):
            dataset.path.fs.rm_file(file)
    expected = [query for block in blocks for query in block.query_ids.to_pylist()]
    assert StoredDataset(place).query_ids().to_pylist() == expected
