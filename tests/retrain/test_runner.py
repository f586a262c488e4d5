"""Runs night after night: a month, windows, bits of scratch fits, and what is refused."""

import collections
import json
import re
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from dranking.data.store.dataset import StoredDataset
from dranking.errors import DataError, RetrainWarning, TryAgainError, UsageError
from dranking.models.linear.model import load_model
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.results import STAGES
from dranking.retrain.run_plan import plan_run
from dranking.retrain.runner import retrain
from dranking.retrain.sources.content_digests import ContentDigests
from dranking.retrain.sources.sources import find_sources
from dranking.retrain.stage_runner import only_warned
from dranking.tuning.families import ModelName
from tests.retrain.runs import (
    check_whole,
    run,
    weights_of,
)
from tests.retrain.stream import Stream


def test_a_first_night_is_promoted_and_a_second_run_does_nothing(stream):
    stream.night(1)
    first = run(stream, "export.report=true")
    assert first.accepted
    assert first.done == tuple(STAGES)
    registry = Registry(stream.folder / "registry")
    assert registry.aliases.champion == "000001"
    assert set(registry.manifest("000001").checksums) == {
        "model.json",
        "profile.npz",
        "model.queries",
        "per_query.parquet",
        "gate.json",
        "card.html",
        "card.json",
        "exports/solr.json",
        "report.html",
    }
    page = registry.read("000001", "report.html").decode()
    assert first.run_id in page
    assert "Stability of the selection" in page
    [place] = re.findall('href="([^#d"][^"]*)"', page)
    nights = stream.folder / "registry" / "versions" / "000001" / place
    assert "1 promoted, 0 rejected, 0 postponed" in nights.read_text()
    again = run(stream, "export.report=true")
    assert again.is_unchanged
    assert again.as_json()["unchanged"]
    assert again.run_id == first.run_id
    assert registry.versions == ["000001"]


def test_new_data_or_another_configuration_makes_another_run(stream):
    stream.night(1)
    first = run(stream)
    stream.night(2)
    second = run(stream)
    third = run(stream, "model.n_features=3")
    assert len({first.run_id, second.run_id, third.run_id}) == 3
    elsewhere = plan_run(load_config(stream.config(), ["model.n_features=3"], {}))
    assert elsewhere.run_id == third.run_id
    assert elsewhere.stages == ()


def forget_old_features(stream):
    """Delete the blocks of all ingested training parts, so that reading old features fails."""
    config = load_config(stream.config(), (), {})
    digests = ContentDigests(stream.folder / "digests.json")
    for source in find_sources(config.data.train, config.data, digests):
        segments = config.run.place / "parts" / source.key / "segments"
        if any(segments.iterdir()):
            shutil.rmtree(segments)
            segments.mkdir()


@pytest.mark.parametrize(
    "normalize",
    [*(pytest.param(n, marks=pytest.mark.exhaustive) for n in ("none", "minmax")), "standard"],
)
def test_a_night_equals_a_fit_from_scratch_and_reads_no_old_data(stream, tmp_path, normalize):
    settings = [f"data.normalize={normalize}"]
    for night in range(1, 4):
        stream.night(night)
        incremental = run(stream, *settings, f"export.report={str(night == 3).lower()}")
        assert incremental.results.statistics.n_parts_read == 1
        forget_old_features(stream)

    other = [f"run.work={tmp_path}/fresh", f"registry.location={tmp_path}/other"]
    scratch = run(stream, *settings, *other)
    assert scratch.results.statistics.n_parts_read == 3
    ours = weights_of(Registry(stream.folder / "registry"), incremental.results.publish.version)
    assert ours == weights_of(Registry(tmp_path / "other"), "000001")


@pytest.mark.parametrize("kind", ["greedy-rankrls", "ranksvm"])
def test_standard_scaling_is_that_of_all_documents_of_the_night(stream, kind):
    for night in (1, 2, 3):
        stream.night(night, shift=0.3 * night)
    untuned = ["tune={}", "model.regularization=1", f"model.kind={kind}", "data.window=2"]
    size = "model.n_features=4" if kind == "greedy-rankrls" else "export.name=x"
    path = Path(stream.config())
    path.write_text(path.read_text().replace("n_features = 4", ""))
    outcome = retrain(load_config(path, [*untuned, size, "data.normalize=standard"], {}))
    content = json.loads(Registry(stream.folder / "registry").read("000001", "model.json"))
    rows = [
        [float(word.partition(":")[2]) for word in line.partition("#")[0].split()[2:]]
        for night in (2, 3)
        for line in (stream.folder / "incoming" / f"night-{night:02d}.txt").read_text().splitlines()
    ]
    columns = np.array(rows)[
        :, [int(name.removeprefix("f")) - 1 for name in content["feature_names"]]
    ]
    [scaling] = content["transforms"]
    np.testing.assert_allclose(scaling["scale"], columns.std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(scaling["mean"], columns.mean(axis=0), rtol=1e-6)
    assert outcome.results.statistics.used == (kind == "greedy-rankrls")


def test_old_nights_leave_the_window_and_a_night_opens_a_part_once(stream, tmp_path, monkeypatch):
    opened = []
    read = StoredDataset._read_manifest
    monkeypatch.setattr(
        StoredDataset, "_read_manifest", lambda self: opened.append(self.path.name) or read(self)
    )
    for night in range(1, 5):
        stream.night(night)
        opened.clear()
        outcome = run(stream, "data.window=2")
        counts = sorted(collections.Counter(opened).values())
        # The newest part is also opened where it is written, as are the judged data of the first.
        assert counts == ([2, 2] if night == 1 else [1, 1, 2])
    assert outcome.results.ingest.data["train"].n_queries == 2 * stream.n_queries
    assert len(list((stream.folder / "work" / "parts").glob("*/manifest.json"))) == 3  # + holdout
    other = Stream(tmp_path / "other")
    for night in (3, 4):
        other.night(night)
    run(other)
    ours = Registry(stream.folder / "registry")
    assert weights_of(ours, ours.versions[-1]) == weights_of(
        Registry(other.folder / "registry"), "000001"
    )


@pytest.mark.exhaustive
def test_a_month(stream):
    registry = Registry(stream.folder / "registry")
    promoted = 0
    for night in range(1, 31):
        champion = registry.aliases.champion
        if night == 10:
            path = stream.night(night)
            path.write_text(path.read_text() + "2 qid:77 1:not-a-number\n")
            with pytest.raises(DataError, match=r"night-10\.txt:97: "):
                run(stream)
            assert registry.aliases.champion == champion
            stream.night(night)
        elif night == 11:
            path = stream.night(night, shift=3.0)
            outcome = run(stream)
            assert not outcome.accepted
            assert [r["rule"] for r in outcome.as_json()["reasons"] if not r["passed"]] == [
                "max_drift"
            ]
            assert registry.aliases.champion == champion
            assert registry.aliases.challenger == registry.versions[-1]
            path.unlink()
            continue
        elif night == 20:
            stream.night(night)
            with registry.running(), pytest.raises(TryAgainError):
                run(stream)
        elif night == 25:
            now = registry.rollback()
            assert now.previous == champion
            stream.night(night)
        else:
            stream.night(night)
        promoted += run(stream).accepted
        check_whole(registry)
    assert promoted >= 20
    assert len(registry.versions) == 30


def test_worse_data_is_rejected(stream):
    for night in range(1, 4):
        stream.night(night)
    run(stream)
    for night in range(4, 12):
        stream.night(night, sign=-1.0)
    outcome = run(stream, "gate.false_promotions_per_year=0.5")
    assert not outcome.accepted
    failed = {reason["rule"] for reason in outcome.as_json()["reasons"] if not reason["passed"]}
    assert failed == {"false_promotions_per_year"}
    assert Registry(stream.folder / "registry").aliases.champion == "000001"


def test_drift_is_from_the_champion_measured_against(stream, monkeypatch):
    shifts = {1: 0.0, 2: 1.0, 3: 1.0}
    for night in (1, 2):
        stream.night(night, shift=shifts[night])
        run(stream, "data.window=1", "gate.max_drift=100")
    registry = Registry(stream.folder / "registry")
    settings = ["data.window=1", "gate.max_drift=100", "gate.seed=1"]
    registry.promote("2")
    stream.night(3, shift=shifts[3])
    near = run(stream, *settings, "gate.minimum_effect=1").results.evaluate
    registry.promote("1")
    far = run(stream, *settings, "gate.minimum_effect=1", from_stage="gate").results.evaluate
    assert (near.against, far.against) == ("000002", "000001")
    shifts = [max(s.index for s in found.drift[0].features.values()) for found in (near, far)]
    assert shifts[0] < shifts[1]


def test_a_part_that_has_drifted_is_seen_on_later_nights_too(stream):
    settings = ["gate.max_drift=2"]
    stream.night(1)
    run(stream, *settings)
    stream.night(2, shift=3.0)
    assert not run(stream, *settings).accepted
    stream.night(3)
    outcome = run(stream, *settings)
    failed = [r["rule"] for r in outcome.as_json()["reasons"] if not r["passed"]]
    assert failed == ["max_drift"]
    (stream.folder / "incoming" / "night-02.txt").unlink()
    assert run(stream, *settings).accepted


def test_other_segments_are_judged_anew(stream):
    import pyarrow as pa
    import pyarrow.parquet as pq

    settings = [f"data.segments={stream.folder}/s.parquet", "gate.max_segment_loss=0.5"]
    stream.night(1)
    runs = []
    for segment in ("de", "de", "fr"):
        if segment != "de" or not runs:
            table = pa.table({"qid": ["999000"], "segment": [segment * 9]})
            pq.write_table(table, stream.folder / "s.parquet")
        runs.append(run(stream, *settings).run_id)
    assert runs[0] == runs[1] != runs[2]


def test_queries_may_come_again_on_other_nights(stream):
    """Query ids repeat in two training parts, and in two files of held-out queries."""
    again = stream.folder / "holdout-2.txt"
    stream.write_queries(again, night=0, n_queries=20, seed=999)
    holdout = f"data.holdout={stream.folder}/holdout*.txt"
    for night in (1, 2):
        path = stream.folder / "incoming" / f"night-{night}.txt"
        stream.write_queries(path, night, n_queries=12, seed=1)
        found = run(stream, holdout, "gate.max_drift=100").results.evaluate
        assert found.n_queries == 80
    store = StatisticsDataset(stream.folder / "work" / "statistics")
    assert (store.n_queries, store.n_documents) == (12, 192)


def test_statistics_of_an_older_version_are_built_anew(stream):
    stream.night(1)
    run(stream)
    manifest = stream.folder / "work" / "statistics" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"schema_version": 1}))
    stream.night(2)
    assert run(stream).results.statistics.n_parts_read == 2
    assert json.loads(manifest.read_text())["schema_version"] == content["schema_version"]


def test_no_credentials_are_left_in_the_working_directory(stream):
    """A URL with a password is refused, and the refusal does not repeat the password."""
    stream.night(1)
    prometheus = stream.folder / "work" / "d.prom"
    secret = ["registry.location=memory://key:hidden@bucket/models", "export.report=true"]
    with pytest.raises(UsageError) as error:
        run(stream, *secret, f"run.prometheus={prometheus}")
    assert "hidden" not in str(error.value)
    files = [file for file in (stream.folder / "work").rglob("*") if file.is_file()]
    assert prometheus in files
    assert [file.name for file in files if b"hidden" in file.read_bytes()] == []


@pytest.mark.parametrize("kind", sorted(set(get_args(ModelName)) - {"greedy-rankrls"}))
def test_any_linear_ranker_can_be_the_challenger(stream, kind):
    path = stream.night(1)
    if kind == "lcra":  # its views learn to agree on documents without label
        path.write_text(re.sub(r"(?m)^0 (.* #docid = [0-3])$", r"-1 \1", path.read_text()))
    text = (stream.folder / "retrain.toml", stream.config())[0].read_text()
    path = stream.folder / "other.toml"
    path.write_text(
        text.replace("n_features = 4", f'kind = "{kind}"')
        .replace('criterion = "lqo-squared_error"', "")
        .replace('"2^-2..2^2"', "1.0")
    )
    outcome = retrain(load_config(path, (), {}))
    assert outcome.accepted
    assert outcome.results.fit.n_features == 8
    assert outcome.results.statistics.used == (kind == "rankrls")


def test_segments_have_their_own_guard(stream):
    import pyarrow as pa
    import pyarrow.parquet as pq

    qids = [f"999{query:03d}" for query in range(60)]
    table = pa.table({"qid": qids, "market": ["de" if q < 30 else "fr" for q in range(60)]})
    pq.write_table(table, stream.folder / "segments.parquet")
    segments = [
        f"data.segments={stream.folder}/segments.parquet",
        "data.segment_column=market",
        "gate.max_segment_loss=0.5",
    ]
    stream.night(1)
    run(stream, *segments)
    stream.night(2)
    outcome = run(stream, *segments)
    texts = [r["text"] for r in outcome.as_json()["reasons"] if r["rule"] == "max_segment_loss"]
    assert [text.split(":")[0] for text in texts] == ["segment de", "segment fr"]
    with pytest.raises(DataError, match="needs the columns qid and state"):
        run(stream, *segments, "data.segment_column=state")


def test_the_model_can_be_used_outside(stream, tmp_path):
    stream.night(1)
    run(stream)
    content = Registry(stream.folder / "registry").read("000001", "model.json")
    (tmp_path / "m.json").write_bytes(content)
    assert len(load_model(tmp_path / "m.json").weights) <= 4


def test_what_cannot_be_is_refused(stream):
    with pytest.raises(DataError, match="nothing is there"):
        run(stream)
    stream.night(1)
    with pytest.raises(DataError, match=r"12 of 12 training queries .* nothing is left"):
        run(stream, f"data.holdout={stream.folder}/incoming/night-01.txt")
    with pytest.raises(DataError, match=r"12 of 12 training queries .* nothing is left"):
        run(stream, f"data.holdout={stream.folder}/incoming/../incoming/night-01.txt")


def test_a_warning_about_a_side_task_names_the_line_that_ran_it():
    with (
        pytest.warns(RetrainWarning, match="the page could not be written: no room") as found,
        only_warned("the page could not be written"),
    ):
        raise OSError("no room")
    assert [warning.filename for warning in found] == [__file__]
