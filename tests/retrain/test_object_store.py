"""Nights whose data, working directory and registry are in an object store."""

import json
import os
import time
from pathlib import Path

import pytest
from upath import UPath

from dranking.errors import DataError, TryAgainError
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.runner import retrain
from tests.retrain.remote import Remote
from tests.retrain.runs import check_whole, killed, killed_after
from tests.retrain.stream import Stream


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
