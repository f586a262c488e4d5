"""Manifests of data sets that are damaged or wrong name the entry."""

import pytest

from dranking.data.store.dataset import StoredDataset
from dranking.errors import DataError
from tests.data.store.blocks import edit_manifest


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
            "transforms: standard is for 1 features, not 70",
        ),
        (lambda m: m.update(features_per_chunk=0), "features_per_chunk"),
    ],
)
def test_wrong_manifests_name_the_field(written, change, message):
    edit_manifest(written, change)
    with pytest.raises(DataError, match=rf"manifest\.json: .*{message}"):
        StoredDataset(written)
