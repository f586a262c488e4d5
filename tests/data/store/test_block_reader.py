"""Damage to the files of a data set is found; the error says where and what to do."""

import shutil

import numpy as np
import pyarrow as pa
import pytest

from dranking.data.store.dataset import StoredDataset, write_dataset
from dranking.errors import DataError
from tests.data.store.blocks import assert_same, edit_manifest, everything_in, simple_block


@pytest.mark.parametrize("chunk", ["c/0/0", "c/2/0"])
def test_a_missing_chunk_is_an_error(written, chunk):
    (written / "blocks" / "000001" / "features" / chunk).unlink()
    dataset = StoredDataset(written)
    assert dataset.block(0).n_documents == 3
    message = rf"block 1 of .*000001/features/{chunk} is missing.*copy, or ingest the data anew"
    with pytest.raises(DataError, match=message):
        dataset.block(1)
    present = np.arange(32, 64)
    np.testing.assert_array_equal(
        dataset.block(1, present).features, simple_block(70).features[:, 32:64]
    )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_every_flipped_byte_is_found(tmp_path, is_sparse):
    block = simple_block(
        is_sparse=is_sparse,
        comments=pa.array(["a", "b", "c"]),
        doc_ids=pa.array(["x", "y", "z"]),
        query_weights=np.ones(2),
    )
    dataset = write_dataset([block], tmp_path / "data")
    files = [f for f in everything_in(dataset.path / "blocks") if f.name != "zarr.json"]
    assert len(files) == (5 if is_sparse else 3)
    for file in files:
        content = file.read_bytes()
        for position in range(len(content)):
            damaged = bytearray(content)
            damaged[position] ^= 1 << position % 8
            file.write_bytes(damaged)
            with pytest.raises(DataError, match=f"block 0 of .*{file}.*checksum"):
                dataset.block(0)
        file.write_bytes(content)
    assert_same(dataset.block(0), block)


@pytest.mark.parametrize("name", ["features/c/1/0", "documents.parquet", "queries.parquet"])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "directory"])
def test_other_damage_to_files(written, name, damage):
    file = written / "blocks" / "000000" / name
    content = file.read_bytes()
    file.unlink()
    if damage == "directory":
        file.mkdir()
    elif damage != "missing":
        file.write_bytes(content[:-1] if damage == "cut" else b"")
    with pytest.raises(DataError, match=f"{file} (is|cannot)"):
        StoredDataset(written).block(0)


@pytest.mark.parametrize("name", ["features/c/1/0", "queries.parquet"])
def test_a_whole_file_of_another_block_is_found(written, name):
    shutil.copy(written / "blocks/000000" / name, written / "blocks/000001" / name)
    if name == "features/c/1/0":  # equal features: the same file
        StoredDataset(written).block(1)
        return
    with pytest.raises(DataError, match="checksum is wrong"):
        StoredDataset(written).block(1)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_queries": 9},
        {"n_documents": 4, "n_values": 280},
        {"n_documents": 2, "n_values": 140},
    ],
)
def test_a_manifest_that_contradicts_the_files(written, changes):
    edit_manifest(written, lambda m: m["blocks"][0].update(changes))
    with pytest.raises(DataError, match="block 0 of"):
        StoredDataset(written).block(0)
