"""Damage to the files of a data set is found; the error says where and what to do."""

import shutil

import numpy as np
import pyarrow as pa
import pytest

from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import write_dataset
from dranking.errors import DataError
from tests.data.store.blocks import (
    assert_same,
    edit_chunks,
    edit_index,
    everything_in,
    simple_block,
)


def segments(path):
    """The folders of the segments, in order."""
    return sorted(path.glob("segments/*-0*"))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Two segments of one block each, of 70 features in three chunks."""
    path = tmp_path_factory.mktemp("original") / "data.zarr"
    blocks = [simple_block(70, first_id=10 * i) for i in range(9)]
    write_dataset(blocks, path)
    assert len(segments(path)) == 2
    return path


@pytest.fixture
def two(original, tmp_path):
    """A copy to damage: blocks 0 to 7 in the first segment, block 8 in the second."""
    return shutil.copytree(original, tmp_path / "data.zarr")


def test_a_missing_object_is_an_error_and_never_fill_values(two):
    name = segments(two)[1].name
    (segments(two)[1] / "arrays/features/c/0/0").unlink()
    dataset = StoredDataset(two)
    assert dataset.block(7).n_documents == 3
    message = rf"segment segments/{name} of \S+ is damaged: \S+/features/c/0/0 is missing. Restore"
    with pytest.raises(DataError, match=message):
        dataset.block(8)
    assert dataset.block(8, np.array([], int)).n_documents == 3


@pytest.mark.parametrize("is_sparse", [False, True])
def test_flipped_bits_are_found(tmp_path, is_sparse):
    block = simple_block(
        is_sparse=is_sparse,
        comments=pa.array(["a", "b", "c"]),
        doc_ids=pa.array(["x", "y", "z"]),
        query_weights=np.ones(2),
    )
    dataset = write_dataset([block], tmp_path / "data")
    (folder,) = segments(dataset.path)
    files = [f for f in everything_in(folder) if f.name != "zarr.json"]
    assert len(files) == (6 if is_sparse else 4)
    for file in files:
        content = file.read_bytes()
        # The shard's own index, for other readers of Zarr, follows the chunks.
        n_read = len(content) - (20 if file.parent.name in ("c", "0") else 0)
        for position in range(0, n_read, max(1, n_read // 30)):
            damaged = bytearray(content)
            damaged[position] ^= 1 << position % 8
            file.write_bytes(damaged)
            with pytest.raises(DataError, match=f"segment segments/.*{file}.*(sum|gest)"):
                StoredDataset(dataset.path).block(0)
        file.write_bytes(content)
    assert_same(StoredDataset(dataset.path).block(0), block)


def test_flipped_bits_of_the_manifest_and_the_index_are_found(tmp_path):
    dataset = write_dataset([simple_block()], tmp_path / "data")
    for file in (dataset.path / "manifest.json", dataset.path / dataset.manifest.index.name):
        content = file.read_bytes()
        for position in range(0, len(content) - 1, len(content) // 50):
            damaged = bytearray(content)
            damaged[position] ^= 1 << position % 8
            file.write_bytes(damaged)
            if damaged.split() == content.split():  # another space between entries
                continue
            with pytest.raises(DataError, match=str(file)):
                StoredDataset(dataset.path)
        file.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["arrays/features/c/0/0", "documents.parquet", "queries.parquet", "chunks.parquet"]
)
@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "directory"])
def test_other_damage_to_files(two, name, damage):
    file = segments(two)[0] / name
    content = file.read_bytes()
    file.unlink()
    if damage == "directory":
        file.mkdir()
    elif damage != "missing":
        file.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    with pytest.raises(DataError, match=f"segment .*{file} (is|cannot).*ingest the data anew"):
        StoredDataset(two).block(7)
    assert StoredDataset(two).block(8).n_documents == 3


@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_damage_to_the_index(two, damage):
    file = two / StoredDataset(two).manifest.index.name
    content = file.read_bytes()
    file.unlink()
    if damage == "cut":
        file.write_bytes(content[:-1])
    with pytest.raises(DataError, match=f"{file.name}.*ingest the data anew"):
        StoredDataset(two)


@pytest.mark.parametrize("name", ["queries.parquet", "chunks.parquet", "documents.parquet"])
def test_a_whole_file_of_another_segment_is_found(two, name):
    first, second = segments(two)
    shutil.copy(first / name, second / name)
    with pytest.raises(DataError, match=r"(checksum|digest) is wrong|were asked for"):
        StoredDataset(two).block(8)


def test_chunks_that_changed_places_are_found(tmp_path):
    features = np.random.default_rng(0).random((3, 64), np.float32)
    path = write_dataset([simple_block(64, features=features)], tmp_path / "data").path
    file = segments(path)[0] / "arrays/features/c/0/0"
    content = file.read_bytes()
    n = (len(content) - 36) // 2  # two chunks and the index of the shard
    file.write_bytes(content[n : 2 * n] + content[:n] + content[2 * n :])
    with pytest.raises(DataError, match=r"arrays/features/c/0/0 .*checksum"):
        StoredDataset(path).block(0)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[0]["n_queries"].__setitem__(0, 1),
        lambda rows: rows[0].update(n_features=69),
        lambda rows: rows[0].update(n_documents=[4, 2, 3, 3, 3, 3, 3, 3]),
        lambda rows: rows[0].update(name=rows[1]["name"]),
        lambda rows: rows[0].update(n_unlabelled=[4] + [0] * 7),
        lambda rows: rows[0].update(name="../../etc/passwd"),
        lambda rows: rows[0].update(chunks_digest=None),
        lambda rows: rows[0].update(n_documents=rows[0]["n_documents"][1:]),
        lambda rows: rows.pop(),
    ],
)
def test_an_index_that_contradicts_the_segments(two, change):
    edit_index(two, change)
    with pytest.raises(DataError, match=r"contradicts itself|no index of|is damaged"):
        StoredDataset(two).block(0)


def far(rows):
    """Chunks that are far behind the end of the file."""
    for row in rows:
        row["offset"] += 10**15


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.pop(),
        lambda rows: rows.append(rows[-1]),
        lambda rows: rows[0].update(file="../../etc/passwd"),
        lambda rows: [row.update(length=10**15) for row in rows],
        lambda rows: [row.update(length=3) for row in rows],
        lambda rows: [row.update(length=-1) for row in rows],
        lambda rows: [row.update(offset=-1) for row in rows],
        far,
    ],
)
def test_a_table_of_chunks_that_contradicts_the_files(two, change):
    edit_chunks(two, change)
    with pytest.raises(DataError, match=r"segment .* is damaged"):
        StoredDataset(two).block(0)
