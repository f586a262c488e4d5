"""Data sets that are damaged: every flaw is found, and the error says where and what to do."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest

from dranking.data.store.dataset import StoredDataset, write_dataset
from dranking.errors import DataError
from tests.data.store.stored import assert_same, everything_in, simple_block


@pytest.fixture
def written(tmp_path):
    """A data set of two dense blocks of 70 features: three chunks each."""
    path = tmp_path / "data.zarr"
    write_dataset([simple_block(70), simple_block(70, first_id=20)], path)
    return path


def edit_manifest(path, change):
    file = path / "manifest.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


# Damage


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


# Manifest


def test_no_data_set(tmp_path):
    with pytest.raises(DataError, match="nowhere: does not exist"):
        StoredDataset(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no manifest\.json: not a data set, or an interrupted"):
        StoredDataset(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="not a directory"):
        StoredDataset(tmp_path / "file")
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        StoredDataset(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "damaged, not JSON"),
        (b'{"format": "dranking-dat', "damaged, not JSON"),
        (b"\xff\xfe", "damaged, not JSON"),
        (b"[" * 100_000, "damaged, not JSON"),
        (b"[]", "not the manifest of a data set"),
        (b'{"format": "dranking-model"}', "not the manifest of a data set"),
        (b'{"format": "dranking-dataset", "schema_version": 2}', "newer.*upgrade dranking"),
        (b'{"format": "dranking-dataset"}', "feature_names: Field required"),
    ],
)
def test_damaged_manifests(tmp_path, text, message):
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(DataError, match=message):
        StoredDataset(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["blocks"][1].update(n_documents="3"), r"blocks\.1\.n_documents: .*integer"),
        (lambda m: m["blocks"][1].update(n_queries=0), r"blocks\.1\.n_queries"),
        (lambda m: m["blocks"][1].pop("digest"), r"blocks\.1\.digest: Field required"),
        (lambda m: m["blocks"][0].update(path="/etc"), r"blocks\.0\.path"),
        (lambda m: m["blocks"][0].update(path="blocks/../../x"), r"blocks\.0\.path"),
        (lambda m: m["blocks"][0].update(path="blocks/000000/.."), r"blocks\.0\.path"),
        (lambda m: m["blocks"][0].update(path="blocks/000000\n"), r"blocks\.0\.path"),
        (lambda m: m["blocks"][0]["checksums"].popitem(), r"blocks\.0\.checksums"),
        (lambda m: m["blocks"][0].update(n_features=71), r"blocks\.0\.n_features: 71 > 70"),
        (lambda m: m["blocks"][0].update(n_features=65), r"blocks\.0\.n_values"),
        (lambda m: m["blocks"][0].update(n_null=1), r"blocks\.0\.n_null"),
        (lambda m: m.update(blocks=[]), r"blocks: .*at least 1"),
        (lambda m: m.update(sparse=1), "sparse: .*boolean"),
        (lambda m: m.update(sparse=True), "checksums"),
        (lambda m: m.update(colour="red"), "colour: there is no such key"),
        (lambda m: m.update(schema_version="1"), "schema_version"),
        (lambda m: m.update(schema_version=0), "schema_version"),
        (lambda m: m.update(null_fill=[0.5]), "null_fill has 1 values, not 70"),
        (lambda m: m.update(feature_names=["a"] * 70), "occur more than once: a"),
        (lambda m: m.update(transforms=[{"kind": "magic"}]), r"transforms\.0"),
        (
            lambda m: m.update(transforms=[{"kind": "standard", "mean": None, "scale": [1]}]),
            "transforms: 1 scales, not 70",
        ),
        (lambda m: m.update(features_per_chunk=0), "features_per_chunk"),
    ],
)
def test_wrong_manifests_name_the_field(written, change, message):
    edit_manifest(written, change)
    with pytest.raises(DataError, match=rf"manifest\.json: .*{message}"):
        StoredDataset(written)
