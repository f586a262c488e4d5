"""Manifests of data sets that are damaged or wrong name the entry."""

import json

import pytest

from dranking.data.store.dataset import StoredDataset
from dranking.errors import DataError
from tests.data.store.blocks import edit_manifest


def test_no_data_set(tmp_path):
    with pytest.raises(DataError, match="nowhere: does not exist"):
        StoredDataset(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no manifest\.json"):
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
        (b'{"format": "dranking-dataset", "schema_version": 5}', "newer.*upgrade dranking"),
        (b'{"format": "dranking-dataset", "schema_version": 3}', "older.*ingest the data anew"),
        (b'{"format": "dranking-dataset"}', "damaged, the entry 'digest' is missing"),
    ],
)
def test_damaged_manifests(tmp_path, text, message):
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(DataError, match=message):
        StoredDataset(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(n_documents="3"), r"n_documents: .*integer"),
        (lambda m: m.update(n_queries=0), r"n_queries"),
        (lambda m: m.pop("index"), r"index: Field required"),
        (lambda m: m["index"].update(name="/etc/passwd"), r"index\.name"),
        (lambda m: m["index"].update(name="../x-index.parquet"), r"index\.name"),
        (lambda m: m["index"].update(name=m["index"]["name"] + "\n"), r"index\.name"),
        (lambda m: m["index"].update(n_bytes=10**18), r"index\.n_bytes"),
        (lambda m: m["index"].update(digest="0" * 31), r"index\.digest"),
        (lambda m: m.update(writers=[]), r"writers: .*at least 1"),
        (lambda m: m.update(sparse=1), "sparse: .*boolean"),
        (lambda m: m.update(colour="red"), "colour: there is no such key"),
        (lambda m: m.update(schema_version="3"), "schema_version"),
        (lambda m: m.update(schema_version=0), "schema_version"),
        (
            lambda m: m.update(constants={"policy": "mean", "values": [0.5], "gaps": [True]}),
            "constants has 1 values, not 70",
        ),
        (lambda m: m.update(feature_names=["a"] * 70), "occur more than once: a"),
        (lambda m: m.update(transforms=[{"kind": "magic"}]), r"transforms\.0"),
        (
            lambda m: m.update(transforms=[{"kind": "standard", "mean": None, "scale": [1]}]),
            "transforms: standard is for 1 features, not 70",
        ),
    ],
)
def test_wrong_manifests_name_the_field(written, change, message):
    edit_manifest(written, change)
    with pytest.raises(DataError, match=rf"manifest\.json: .*{message}"):
        StoredDataset(written)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(n_documents=7),
        lambda m: m.update(n_queries=5),
        lambda m: m.update(n_blocks=3),
        lambda m: m.update(n_segments=2),
        lambda m: m.update(n_unlabelled=1),
        lambda m: m.update(writers=["0" * 16]),
        lambda m: m.update(feature_names=m["feature_names"][:-1]),
        lambda m: m.update(sparse=True),
    ],
)
def test_manifests_that_contradict_the_index_or_the_segments(written, change):
    edit_manifest(written, change)
    with pytest.raises(DataError, match=r"contradicts itself or the manifest|is damaged"):
        StoredDataset(written).block(0)


def test_a_manifest_that_was_edited_by_hand(written):
    file = written / "manifest.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content))  # another layout is the same content
    assert StoredDataset(written).n_documents == 6
    file.write_text(json.dumps({**content, "n_documents": 7}))
    with pytest.raises(DataError, match=r"manifest\.json: damaged"):
        StoredDataset(written)
