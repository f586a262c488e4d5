"""Nights after files of the registry were lost, or an older copy was restored."""

import shutil

import pytest

from dranking.errors import DataError
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.run_plan import plan_run
from dranking.retrain.runner import retrain


@pytest.fixture
def night(stream):
    """Run a night with the default gate; return its outcome."""
    text = stream.folder / "default.toml"

    def run(number, **changes):
        stream.night(number, **changes)
        written = (stream.folder / "retrain.toml", stream.config())[0].read_text()
        start, stop = written.index("[gate]"), written.index("[export]")
        text.write_text(written[:start] + written[stop:])
        return retrain(load_config(text, ["gate.max_drift=100"], {}))

    return run


@pytest.mark.parametrize("name", ["aliases.json", "ledger.json"])
def test_a_night_without_aliases_or_ledger_is_refused(stream, night, name):
    night(1)
    night(2)
    lost = stream.folder / "registry" / name
    kept = lost.read_bytes()
    lost.unlink()
    with pytest.raises(DataError, match=rf"{name} is missing, .* Restore the file from a copy"):
        night(3, sign=-1.0)
    assert Registry(stream.folder / "registry").versions == ["000001", "000002"]
    lost.write_bytes(kept)
    outcome = night(3, sign=-1.0)
    assert not outcome.accepted
    assert Registry(stream.folder / "registry").aliases.champion == "000001"


def test_a_registry_that_was_restored_from_an_older_copy_is_noticed(stream, night):
    night(1)
    shutil.copytree(stream.folder / "registry", stream.folder / "copy")
    second = night(2)
    assert second.results.publish.version == "000002"
    shutil.rmtree(stream.folder / "registry")
    (stream.folder / "copy").rename(stream.folder / "registry")
    planned = plan_run(load_config(stream.folder / "default.toml", ["gate.max_drift=100"], {}))
    assert planned.stages == ("evaluate", "gate", "export", "publish")
    outcome = night(2)
    assert not outcome.is_unchanged
    [note] = [note for note in outcome.notes if "as if it was restored" in note]
    assert f"has no version 000002 of run {second.run_id}" in note
    registry = Registry(stream.folder / "registry")
    assert registry.manifest("000002").run_id == second.run_id
    assert [entry.version for entry in registry.ledger.entries] == ["000002"]
    assert night(2).is_unchanged


def test_an_older_copy_is_noticed_by_a_night_with_new_data(stream, night):
    night(1)
    shutil.copytree(stream.folder / "registry", stream.folder / "copy")
    second = night(2)
    shutil.rmtree(stream.folder / "registry")
    (stream.folder / "copy").rename(stream.folder / "registry")
    third = night(3)
    said = f"has no version 000002 of run {second.run_id}, as if it was restored from an older copy"
    assert said in third.notes[0]
    assert third.results.publish.version == "000002"
