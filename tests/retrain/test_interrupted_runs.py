"""Runs that are killed at every stage, resumed, or overlap."""

import json

import pytest

from dranking.errors import TryAgainError, UsageError
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.results import STAGES
from dranking.retrain.runner import retrain
from dranking.retrain.stages import stages
from tests.retrain.runs import (
    check_whole,
    killed,
    killed_after,
    killed_at_rename,
    run,
    weights_of,
)
from tests.retrain.stream import Stream


@pytest.fixture(scope="module")
def second_night(tmp_path_factory):
    """The weights after two nights that nothing disturbed."""
    stream = Stream(tmp_path_factory.mktemp("undisturbed"), n_judged_documents=6)
    for night in (1, 2):
        stream.night(night)
    assert run(stream).accepted
    return weights_of(Registry(stream.folder / "registry"), "000001")


IN_EVERY_RUN = ["statistics", "fit", "publish"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(stage, marks=() if stage in IN_EVERY_RUN else pytest.mark.exhaustive)
        for stage in STAGES
    ],
)
def test_a_run_killed_at_any_stage_is_finished_by_the_next(stream, stage, second_night):
    stream.night(1)
    run(stream)
    stream.night(2)
    assert killed(killed_after, stage, stream.config())
    registry = Registry(stream.folder / "registry")
    check_whole(registry)
    finished = run(stream, resume=True)
    assert stage in finished.done
    check_whole(registry)
    assert registry.versions == ["000001", "000002"]
    assert weights_of(registry, "000002") == second_night
    lines = (stream.folder / "work" / "runs.jsonl").read_text().splitlines()
    ends = [json.loads(line) for line in lines]
    assert [(end["stage"], end["exit_code"]) for end in ends] == [
        ("publish", 0),
        (stage, None),
        ("publish", 0),
    ]
    assert ends[1]["error"].startswith("killed")


@pytest.mark.exhaustive
def test_a_run_killed_between_any_two_renames_is_finished_by_the_next(stream):
    stream.night(1)
    run(stream)
    stream.night(2)
    registry = Registry(stream.folder / "registry")
    for count in range(1, 100):
        if not killed(killed_at_rename, count, stream.config()):
            break
        check_whole(registry)
    else:
        pytest.fail("a run does not end")
    assert count > 4
    check_whole(registry)
    assert registry.versions == ["000001", "000002"]


def interrupted(*inputs):
    raise KeyboardInterrupt


def test_leftovers_of_another_host_never_enter_a_version(stream, monkeypatch):
    """A pod was killed while it wrote; the pod of the next night has another host name."""
    stream.night(1)
    with monkeypatch.context() as patch:
        patch.setattr(stages, "publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(stream)
    work = stream.folder / "work"
    [folder] = (work / "runs").iterdir()
    hidden = "tmp-deadbeef-1-00c0ffee"
    (folder / "version" / f".gate.json.{hidden}").touch()
    (folder / "version" / "exports" / f".solr.json.{hidden}").touch()
    (work / "parts" / f".0123.{hidden}").mkdir()
    (work / f".statistics.{hidden}").mkdir()
    assert run(stream).accepted
    registry = Registry(stream.folder / "registry")
    check_whole(registry)
    assert not [name for name in registry.storage.files("") if hidden in name]
    assert len(list(work.rglob(f"*{hidden}"))) == 4
    monkeypatch.setattr(
        "dranking.files.writing.local_output.GRACE_SECONDS", {"tmp": -1.0, "old": -1.0}
    )
    run(stream)
    assert not list(work.rglob(f"*{hidden}"))


def test_a_champion_promoted_meanwhile_is_measured_against(stream, monkeypatch):
    for night in (1, 2, 3):
        stream.night(night)
        run(stream)
    registry = Registry(stream.folder / "registry")
    assert registry.aliases.champion == "000003"
    stream.night(4)
    gate = stages.gate

    def promoting(*inputs):
        registry.promote("1")
        return gate(*inputs)

    monkeypatch.setattr(stages, "gate", promoting)
    with pytest.raises(TryAgainError, match="champion has changed since"):
        run(stream)
    monkeypatch.setattr(stages, "gate", gate)
    outcome = run(stream)
    assert outcome.results.evaluate.against == "000001"
    assert outcome.done[0] == "evaluate"


def test_a_run_goes_on_with_its_own_statistics_after_another(stream, tmp_path, monkeypatch):
    """A failed run is finished on its old data, although another run has changed the store."""
    stream.night(1)

    def failing(*inputs):
        raise TryAgainError("the cluster is away")

    untuned = ["tune={}", "model.regularization=1"]
    with monkeypatch.context() as patch:
        patch.setattr(stages, "fit", failing)
        with pytest.raises(TryAgainError):
            run(stream, *untuned)
    later = stream.night(2)
    run(stream, *untuned)
    later.unlink()
    outcome = run(stream, *untuned)
    assert outcome.done[0] == "fit"
    run(stream, *untuned, f"run.work={tmp_path}/w", f"registry.location={tmp_path}/r")
    ours = weights_of(Registry(stream.folder / "registry"), outcome.results.publish.version)
    assert ours == weights_of(Registry(tmp_path / "r"), "000001")


def test_stages_can_be_run_again(stream):
    stream.night(1)
    run(stream)
    assert run(stream, from_stage="export").done == ("export", "publish")
    assert run(stream, force=True).done == tuple(STAGES)
    assert Registry(stream.folder / "registry").versions == ["000001"]
    with pytest.raises(UsageError, match="no stage 'bake'"):
        run(stream, from_stage="bake")


def test_stages_before_the_one_wanted_are_run_if_they_are_not_done(stream):
    stream.night(1)
    assert run(stream, from_stage="gate").done == tuple(STAGES)


def test_there_must_be_something_to_resume(stream):
    stream.night(1)
    run(stream)
    with pytest.raises(UsageError, match="no unfinished run"):
        run(stream, resume=True)


def test_resuming_uses_the_data_that_the_run_began_with(stream, monkeypatch):
    stream.night(1)

    def failing(*inputs):
        raise TryAgainError("the cluster is away")

    with monkeypatch.context() as patch:
        patch.setattr(stages, "fit", failing)
        with pytest.raises(TryAgainError):
            run(stream)
    stream.night(2)
    with pytest.raises(UsageError, match="another configuration"):
        run(stream, "model.n_features=2", resume=True)
    outcome = run(stream, resume=True)
    assert outcome.results.ingest.data["train"].n_queries == stream.n_queries
    assert outcome.done[0] == "fit"


def _killed_on_host(host, count, config):
    """A night on a host of this name, killed right before the given number of renames."""
    import dranking.files.writing.names

    dranking.files.writing.names.HOST = host
    killed_at_rename(count, config)


@pytest.mark.exhaustive
def test_fifty_kills_under_changing_host_names(tmp_path, monkeypatch):
    """Each pod has another name: what a killed one leaves hinders nobody and enters no version."""
    stream = Stream(tmp_path)
    registry = Registry(tmp_path / "registry")
    n_kills = night = 0
    while n_kills < 50:
        night += 1
        stream.night(night)
        count = 1
        while killed(_killed_on_host, f"{n_kills:08x}", count, stream.config()):
            n_kills += 1
            count += 1
            check_whole(registry)
        assert len(registry.versions) == night
    assert list(tmp_path.rglob(".*.tmp-*"))  # in no version: see `check_whole`
    monkeypatch.setattr(
        "dranking.files.writing.local_output.GRACE_SECONDS", {"tmp": -1.0, "old": -1.0}
    )
    stream.night(night + 1)
    retrain(load_config(stream.config(), (), {}))
    hidden = [path.relative_to(tmp_path) for path in tmp_path.rglob(".*.tmp-*")]
    assert hidden == []
