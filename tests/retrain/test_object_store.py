"""Nights whose data, working directory and registry are in an object store."""

import json
import os
import secrets
import time
from pathlib import Path

import pytest
from upath import UPath

from dranking.data.store.dataset import StoredDataset
from dranking.errors import DataError, TryAgainError
from dranking.files.reading import list_files
from dranking.files.writing.clean import clean
from dranking.files.writing.names import MANIFEST_NAME
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.runner import retrain
from tests.files.writing.kills import mortal_store
from tests.retrain.runs import check_whole, killed, killed_after
from tests.retrain.stream import Stream


class Remote:
    """The stream of nights, delivered to a bucket, with everything else in the bucket, too."""

    def __init__(self, folder, bucket):
        self.local = Stream(folder)
        self.bucket = bucket
        text = Path(self.local.config()).read_text()
        self.path = folder / "remote.toml"
        self.path.write_text(text.replace(str(folder), bucket))
        self.deliver("holdout.txt")

    def deliver(self, name):
        (UPath(self.bucket) / name).write_bytes((self.local.folder / name).read_bytes())

    def night(self, night):
        path = self.local.night(night)
        self.deliver(f"incoming/{path.name}")

    def run(self, *settings, **options):
        return retrain(load_config(self.path, settings, {}), **options)

    @property
    def registry(self):
        return Registry(f"{self.bucket}/registry")


def weights_of(registry, version):
    stored = json.loads(registry.read(version, "model.json"))
    return stored["feature_names"], stored["weights"]


@pytest.mark.exhaustive
def test_nights_in_an_object_store_are_those_on_disk(bucket, tmp_path):
    remote = Remote(tmp_path, bucket)
    local = load_config(remote.local.config(), (), {})
    for night in (1, 2):
        remote.night(night)
        there, here = remote.run(), retrain(local)
        assert there.results.statistics.n_parts_read == here.results.statistics.n_parts_read == 1
        values = [[(r.rule, r.value) for r in o.results.gate.reasons] for o in (there, here)]
        assert values[0] == values[1]
        version = there.results.publish.version
        found = Registry(tmp_path / "registry")
        assert weights_of(remote.registry, version) == weights_of(found, version)
    assert remote.run().is_unchanged
    check_whole(remote.registry)
    assert not Path("s3:").exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize("stage", ["ingest", "statistics", "tune", "evaluate", "publish"])
def test_a_night_in_an_object_store_that_is_killed_is_finished(
    bucket, tmp_path, stage, monkeypatch
):
    remote = Remote(tmp_path, bucket)
    remote.night(1)
    remote.run()
    remote.night(2)
    assert killed(killed_after, stage, str(remote.path))
    check_whole(remote.registry)
    assert stage in remote.run().done
    check_whole(remote.registry)
    assert remote.registry.versions == ["000001", "000002"]


@pytest.mark.exhaustive
@pytest.mark.timeout(3_000)
def test_a_night_is_killed_after_any_twentieth_change_and_finished(tmp_path, monkeypatch):
    """The next run on the host takes the locks over, and ends with the model of a calm night."""
    mortal = mortal_store(monkeypatch)
    monkeypatch.setattr("dranking.files.writing.locks.has_ended", lambda process: True)
    stream = Remote(tmp_path, f"memory://{secrets.token_hex(4)}")
    stream.night(1)
    begun = mortal.n_changes
    stream.run()
    expected = weights_of(stream.registry, "000001")
    for last in range(0, mortal.n_changes - begun, 20):
        folder = tmp_path / str(last)
        folder.mkdir()
        killed = Remote(folder, f"memory://{secrets.token_hex(4)}")
        killed.night(1)
        assert mortal.killed_after(last, killed.run)
        check_whole(killed.registry)
        killed.run()
        check_whole(killed.registry)
        assert weights_of(killed.registry, killed.registry.versions[-1]) == expected
        for file in list_files(UPath(killed.bucket)):
            if file.name == MANIFEST_NAME and "/parts/" in str(file):
                clean(file.parent, 0)
                StoredDataset(file.parent).check_documents()


def test_a_lock_that_is_dated_far_ahead_is_damaged(bucket):
    lease = {"holder": "x", "expires": time.time() + 1e6}
    (UPath(bucket) / "registry" / ".lock").write_bytes(json.dumps(lease).encode())
    with pytest.raises(DataError, match=r"\.lock: .*clock"):
        with Registry(f"{bucket}/registry").locked():
            pass


def test_an_error_of_the_system_while_publishing_is_ours(tmp_path, monkeypatch):
    stream = Stream(tmp_path)
    stream.night(1)

    def failing(self, *inputs, **options):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(Registry, "add", failing)
        with pytest.raises(TryAgainError, match=r"could not be stored \(No space left"):
            retrain(load_config(stream.config(), (), {}))
    again = retrain(load_config(stream.config(), (), {}))
    assert again.done == ("gate", "export", "publish")
