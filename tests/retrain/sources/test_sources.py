"""Sources: what patterns find, and sources that change."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from dranking.data.roles import Roles
from dranking.data.tables.in_memory import from_table
from dranking.errors import DataError, TryAgainError
from dranking.retrain.config.config import load_config
from dranking.retrain.config.tables import DataConfig
from dranking.retrain.registry.registry import Registry
from dranking.retrain.run_plan import plan_run
from dranking.retrain.runner import retrain
from dranking.retrain.sources.content_digests import ContentDigests
from dranking.retrain.sources.sources import find_sources
from dranking.retrain.workflows import parts as parts_module
from tests.data.tables.flat_tables import frame_of, written
from tests.retrain.stream import Stream


@pytest.fixture
def stream(tmp_path):
    return Stream(tmp_path)


def run(stream, *settings, **options):
    return retrain(load_config(stream.config(), settings, {}), **options)


def test_a_source_that_changes_while_it_is_read_is_read_again(stream, monkeypatch):
    path = stream.night(1)
    ingest = parts_module.ingest

    def growing(paths, *arguments, **options):
        ingest(paths, *arguments, **options)
        if paths == [path]:
            stream.night(1, shift=0.5)
            os.utime(path, (1, 1))

    monkeypatch.setattr(parts_module, "ingest", growing)
    with pytest.raises(TryAgainError, match=r"night-01\.txt: .*changed"):
        run(stream)
    monkeypatch.undo()
    assert run(stream).accepted


def test_a_source_counts_once_whatever_finds_it(stream):
    stream.night(1)
    odd = stream.folder / "incoming" / "night [2].txt"
    stream.night(2).rename(odd)
    data = load_config(stream.config(), (), {}).data
    names = [f"{stream.folder}/incoming/*.txt", f"{stream.folder}/incoming/*1.txt", str(odd)]
    digests = ContentDigests(stream.folder / "digests.json")
    found = find_sources(names, data, digests)
    assert [Path(source.name).name for source in found] == [odd.name, "night-01.txt"]
    assert find_sources([str(odd)], data, digests) == found[:1]


def test_a_file_in_a_folder_that_changes_makes_another_source(stream):
    folder = stream.folder / "parquet"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"1")
    data = load_config(stream.config(), (), {}).data
    digests = ContentDigests(stream.folder / "digests.json")
    [before] = find_sources([str(folder)], data, digests)
    assert find_sources([str(folder)], data, digests) == [before]
    (folder / "a.parquet").write_bytes(b"12")
    assert find_sources([str(folder)], data, digests) != [before]


def test_a_digest_is_of_the_content_whatever_size_and_times_are(tmp_path, monkeypatch):
    monkeypatch.setattr("dranking.retrain.sources.content_digests.YOUNG_SECONDS", -1.0)
    file = tmp_path / "part.txt"
    file.write_text("first")
    os.utime(file, (1, 1))
    kept = ContentDigests(tmp_path / "digests.json")
    first = kept.of(file)
    kept.save()
    again = ContentDigests(tmp_path / "digests.json")
    monkeypatch.setattr(Path, "open", lambda *a, **k: pytest.fail("an old file was read again"))
    assert again.of(file) == first
    monkeypatch.undo()
    file.write_text("other")
    os.utime(file, (1, 1))
    assert ContentDigests(tmp_path / "digests.json").of(file) != first
    (tmp_path / "copy.txt").write_text("first")
    assert again.of(tmp_path / "copy.txt") == first
    (tmp_path / "digests.json").write_text("damaged")
    assert ContentDigests(tmp_path / "digests.json").of(tmp_path / "copy.txt") == first


def test_a_young_file_is_read_again(tmp_path):
    """It may change within the resolution of its change time."""
    (tmp_path / "part.txt").write_text("x")
    digests = ContentDigests(tmp_path / "digests.json")
    digests.of(tmp_path / "part.txt")
    digests.save()
    assert (tmp_path / "digests.json").read_text() == "{}"


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match=r"pipe\.txt: is no regular file"):
        ContentDigests(tmp_path / "digests.json").of(tmp_path / "pipe.txt")


def test_a_part_under_another_name_counts_once(stream):
    first = stream.night(1)
    shutil.copy(first, stream.folder / "incoming" / "night-02.txt")
    outcome = run(stream)
    assert outcome.results.statistics.n_queries == stream.n_queries
    [note] = outcome.notes
    assert "night-02.txt is left out: it has the content of" in note
    first.unlink()
    renamed = run(stream)
    assert renamed.is_unchanged
    assert renamed.notes == ()


def test_queries_that_are_spread_over_the_files_of_a_delivery_are_told(stream):
    first = stream.night(1)
    lines = first.read_text().splitlines(keepends=True)
    first.write_text("".join(lines[::2]))
    (stream.folder / "incoming" / "night-01b.txt").write_text("".join(lines[1::2]))
    outcome = run(stream)
    assert outcome.results.statistics.n_queries == stream.n_queries
    [note] = outcome.notes
    n = stream.n_queries
    assert f"{n} of {n} training queries are in several parts: each is one query" in note
    assert run(stream).notes == outcome.notes


def test_other_content_with_the_size_and_time_of_an_earlier_one_is_another_run(stream):
    path = stream.night(1)
    os.utime(path, (1, 1))
    first = run(stream)
    text = path.read_text()
    path.write_text(text.replace("1:0.1", "1:0.2"))
    os.utime(path, (1, 1))
    assert path.stat().st_size == len(text)
    assert run(stream).run_id != first.run_id


def test_judged_queries_are_not_trained_on_under_whatever_name(stream):
    stream.night(1)
    lines = (stream.folder / "holdout.txt").read_text().splitlines()
    taken = [line.replace("qid:999007", "qid:4711") for line in lines if "qid:999007" in line]
    part = stream.folder / "incoming" / "night-02.txt"
    part.write_text("\n".join(reversed(taken)) + "\n")
    [said] = run(stream).notes
    assert said.startswith("1 of 13 training queries are judged as well (4711)")
    shutil.copy(stream.folder / "holdout.txt", part)
    assert run(stream).results.ingest.n_left_out == 60


def test_text_cut_amid_a_line_is_an_error(stream):
    path = stream.night(1)
    path.write_text(path.read_text().rstrip("\n")[:-1])
    with pytest.raises(DataError, match=r"night-01\.txt: the last line"):
        run(stream)


def test_features_that_differ_are_named(stream):
    stream.night(1)
    path = stream.folder / "incoming" / "night-02.txt"
    path.write_text("1 qid:1 1:1 9:2\n0 qid:1 1:2 9:1\n")
    with pytest.raises(DataError, match=r"night-02\.txt:1: feature index 9 exceeds the 8"):
        run(stream)


def test_a_bad_part_is_set_aside_and_named_until_it_is_solved(stream):
    stream.night(1)
    rule = "data.max_set_aside=1"
    bad = stream.night(2)
    bad.write_text(bad.read_text() + "2 qid:77 1:not-a-number\n")
    with pytest.raises(DataError, match=r"night-02\.txt:97: "):
        run(stream)
    gauges = stream.folder / "d.prom"
    first = run(stream, rule, f"run.prometheus={gauges}", "export.report=true")
    assert first.accepted
    [note] = first.notes
    assert re.search(r"night-02\.txt is set aside since \d{4}-.*night-02\.txt:97: ", note)
    assert "dranking_retrain_parts_set_aside" in gauges.read_text()
    page = (stream.folder / "work" / "runs" / first.run_id / "version" / "report.html").read_text()
    assert "night-02.txt is set aside" in page
    again = run(stream, rule, "export.report=true")
    assert (again.is_unchanged, again.notes) == (True, first.notes)
    worse = stream.night(3)
    worse.write_text("x\n")
    with pytest.raises(DataError, match=r"night-03\.txt:1: .* 1 parts"):
        run(stream, rule)
    stream.night(2)
    solved = run(stream, rule)
    assert "night-03.txt" in solved.notes[0]
    stream.night(3)
    assert run(stream, rule).notes == ()
    assert not list((stream.folder / "work" / "quarantine").iterdir())


WITHDRAWN = ["gate.max_drift=100"]


def test_a_withdrawn_part_is_said_and_the_champion_measured_anew(stream):
    stream.night(1)
    run(stream, *WITHDRAWN)
    bad = stream.night(2)
    run(stream, *WITHDRAWN)
    registry = Registry(stream.folder / "registry")
    assert registry.aliases.champion == "000002"
    bad.unlink()
    outcome = run(stream, *WITHDRAWN)
    assert not outcome.is_unchanged
    assert outcome.results.evaluate.against == "000002"
    [note] = outcome.notes
    assert "version 000002 was trained on" in note
    assert "night-02.txt, no longer there" in note
    champion = registry.aliases.champion
    assert champion == "000003"
    assert registry.read("000003", "model.json") == registry.read("000001", "model.json")
    again = run(stream, *WITHDRAWN)
    assert (again.is_unchanged, again.notes) == (True, ())


def test_a_part_with_another_content_is_not_called_gone(stream):
    stream.night(1)
    part = stream.night(2)
    run(stream, *WITHDRAWN)
    stream.write_queries(part, 2, 12, seed=77)
    [note] = run(stream, *WITHDRAWN).notes
    assert f"version 000001 was trained on an earlier content of {part}: the champion" in note


def test_a_withdrawn_part_rolls_back_by_rule(stream):
    rule = [*WITHDRAWN, 'data.withdrawn="rollback"']
    stream.night(1)
    run(stream, *rule)
    bad = stream.night(2)
    run(stream, *rule)
    bad.unlink()
    plan = plan_run(load_config(stream.config(), rule, {}))
    registry = Registry(stream.folder / "registry")
    assert registry.aliases.champion == "000002"  # a plan changes nothing
    outcome = run(stream, *rule)
    assert outcome.notes == plan.notes
    assert "rolled back to version 000001" in outcome.notes[0]
    assert outcome.aliases["champion"] == registry.aliases.champion == "000001"
    assert run(stream, *rule).notes == ()


def test_a_part_that_leaves_the_window_is_not_withdrawn(stream):
    rule = [*WITHDRAWN, "data.window=2", 'data.withdrawn="rollback"']
    paths = [stream.night(night) for night in (1, 2)]
    run(stream, *rule)
    stream.night(3)
    paths[0].unlink()
    outcome = run(stream, *rule)
    assert outcome.notes == ()
    assert outcome.results.evaluate.against == "000001"


def test_parts_of_tables_with_other_names(tmp_path):
    frame = frame_of((3, 2, 4))
    plain = from_table(frame)
    renamed = frame.rename(columns={"qid": "query_id", "relevance": "label"}).assign(title="text")
    path = str(written(tmp_path / "part.parquet", renamed))
    options = {"qid": "query_id", "relevance": "label", "exclude": ["title"]}
    data = DataConfig(train=[path], holdout=[path], **options)
    digests = ContentDigests(tmp_path / "digests.json")
    sources = find_sources([path], data, digests)
    [part] = parts_module.Parts(tmp_path / "parts", data).open(sources)
    assert part.roles == Roles("query_id", "docid", "label", None)
    np.testing.assert_array_equal(part.block(0).features, plain.block(0).features)
    np.testing.assert_array_equal(part.block(0).relevance, plain.block(0).relevance)
    named = data.model_copy(update={"exclude": [], "features": [part.feature_names[1]]})
    [one] = parts_module.Parts(tmp_path / "parts", named).open(find_sources([path], named, digests))
    assert one.feature_names == part.feature_names[1:2]
    np.testing.assert_array_equal(one.block(0).features, plain.block(0).features[:, 1:2])
    other = data.model_copy(update={"exclude": []})
    assert find_sources([path], other, digests)[0].key != sources[0].key
    with pytest.raises(DataError, match=r"'title' \(.*string\)"):
        parts_module.Parts(tmp_path / "parts", other).open(find_sources([path], other, digests))
