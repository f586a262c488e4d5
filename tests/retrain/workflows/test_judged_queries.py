"""Judged queries are not trained on: a night leaves them out, by id or by content, and says so."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.errors import DataError
from dranking.retrain.registry.registry import Registry
from tests.retrain.runs import run
from tests.retrain.stream import Stream

FIXED = ("model.regularization=1.0", "tune={}")


@pytest.fixture
def night(stream):
    stream.night(1)
    return stream


def rejudged(stream):
    """The held-out file with one grade in twelve changed."""
    lines = (stream.folder / "holdout.txt").read_text().splitlines()
    changed = [f"{(int(t[0]) + 1) % 3}{t[1:]}" if i % 12 == 0 else t for i, t in enumerate(lines)]
    return lines, changed


def other_documents(stream):
    """The first 40 ids of the held-out file, with the documents of other queries."""
    lines, _ = rejudged(stream)
    ids, n = [line.split()[1] for line in lines], len(lines) // 60
    rows = [line.split() for line in reversed(lines)]
    return lines, [" ".join([r[0], i, *r[2:]]) for i, r in zip(ids, rows, strict=True)][: 40 * n]


def renumbered(stream):
    """The held-out file under other ids."""
    lines, _ = rejudged(stream)
    return lines, [line.replace("qid:999", "qid:555") for line in lines]


def in_two_parts(stream):
    """The held-out file under other ids, the second half of each query in a part of its own."""
    _, lines = renumbered(stream)
    n = len(lines) // 60
    rows = [lines[i : i + n] for i in range(0, len(lines), n)]
    first = [line for lines in rows for line in lines[: n // 2]]
    return first, [line for lines in rows for line in lines[n // 2 :]]


def weights(stream):
    registry = Registry(stream.folder / "registry")
    version = registry.versions[-1]
    return dr.LinearModel.model_validate_json(registry.read(version, "model.json")), registry


def test_a_judged_query_that_weighs_too_much_is_refused_before_the_training(tmp_path):
    stream = Stream(tmp_path)
    stream.night(1)
    [block] = dr.open_dataset(stream.folder / "holdout.txt").read_blocks()
    weights = np.where(np.arange(60) == 41, 3.5, 1.0)
    columns = {f"f{j + 1}": block.features[:, j] for j in range(8)}
    judged = {"qid": np.repeat(block.query_ids.to_pylist(), 8), "relevance": block.relevance}
    table = pa.table({**judged, "weight": np.repeat(weights, 8), **columns})
    pq.write_table(table, tmp_path / "holdout.parquet")
    settings = [f"data.holdout={tmp_path}/holdout.parquet", "data.weight=weight"]
    with pytest.raises(DataError, match=r"query 999041 weighs 3\.5, and gate\.max_query_weight"):
        run(stream, *settings)
    [log] = (tmp_path / "work" / "runs").glob("*/log.jsonl")
    assert json.loads(log.read_text().splitlines()[-1])["stage"] == "ingest"
    assert run(stream, *settings, "gate.max_query_weight=4").accepted


@pytest.mark.parametrize(("make", "n"), [(rejudged, 60), (other_documents, 40), (renumbered, 60)])
@pytest.mark.parametrize("kind", ["greedy-rankrls", "ranksvm"])
def test_judged_queries_are_left_out(night, make, n, kind):
    _, added = make(night)
    (night.folder / "incoming" / "night-02.txt").write_text("\n".join(added) + "\n")
    own = ("model={kind='ranksvm',regularization=1.0}", "tune={}")
    options = FIXED if kind == "greedy-rankrls" else own
    found = run(night, *options)
    assert found.results.ingest.n_left_out == n
    [said] = [text for text in found.notes if "left out of the training" in text]
    assert said.startswith(f"{n} of {12 + n} training queries are judged as well")
    model, registry = weights(night)
    part = dr.open_dataset(night.folder / "incoming" / "night-01.txt")
    fresh = dr.GreedyRankRLS(4, 1.0) if kind == "greedy-rankrls" else dr.RankSVM(1.0)
    np.testing.assert_allclose(model.weights, fresh.fit(part).to_model().weights, rtol=1e-6)
    assert model.queries.n_queries == 12
    assert registry.manifest("000001").lineage["left_out"] == n
    assert found.as_json()["left_out"] == n
    assert found.results.evaluate.trained_on["challenger"].n_trained_on == 0


def test_a_query_of_several_parts_is_compared_as_a_whole(night):
    for number, part in enumerate(in_two_parts(night), start=2):
        (night.folder / "incoming" / f"night-{number:02d}.txt").write_text("\n".join(part) + "\n")
    found = run(night, *FIXED)
    assert found.results.ingest.n_left_out == 60
    model, _ = weights(night)
    part = dr.open_dataset(night.folder / "incoming" / "night-01.txt")
    fresh = dr.GreedyRankRLS(4, 1.0).fit(part).to_model()
    np.testing.assert_allclose(model.weights, fresh.weights, rtol=1e-6)


def test_ids_of_validation_and_holdout_are_kept_apart(night):
    """A query of two judged parts, whose id stands for another query in the validation data."""
    first, second = in_two_parts(night)
    whole = night.folder / "incoming" / "night-02.txt"
    n = len(first) // 60
    rows = [line for i in range(0, len(first), n) for p in (first, second) for line in p[i : i + n]]
    whole.write_text("\n".join(line.replace("qid:555", "qid:444") for line in rows) + "\n")
    for name, part in (("a", first), ("b", second)):
        (night.folder / f"judged-{name}.txt").write_text("\n".join(part) + "\n")
    night.write_queries(night.folder / "validation.txt", 3, 60, seed=555)
    given = (f"data.holdout={night.folder}/judged-*.txt", "tune={}")
    used = f"data.validation={night.folder}/validation.txt"
    grid = ("model.regularization=2^-1..2^1", "tune={metric='ndcg@10'}")
    assert run(night, *FIXED[:1], *given).results.ingest.n_left_out == 60
    assert run(night, given[0], used, *grid).results.ingest.n_left_out == 60


def test_a_part_of_a_query_is_compared_by_itself(night):
    lines, added = renumbered(night)
    n = len(lines) // 60
    others = [line.replace("qid:999", "qid:555") for line in rejudged(night)[0][n : 2 * n]]
    others = [line.replace("qid:555001", "qid:555000") for line in others]
    for number, part in enumerate((added[:n], others), start=2):
        (night.folder / "incoming" / f"night-{number:02d}.txt").write_text("\n".join(part) + "\n")
    assert run(night, *FIXED).results.ingest.n_left_out == 1


def test_queries_whose_documents_are_alike_are_not_the_same_by_that(night):
    """Two queries without any feature, one of them judged, are equal by chance."""
    blank = "0 qid:{0} 1:0 8:0 #docid = 0\n1 qid:{0} 1:0 8:0 #docid = 1\n"
    for path, qid in (("holdout.txt", 7), ("incoming/night-01.txt", 8)):
        with (night.folder / path).open("a") as file:
            file.write(blank.format(qid))
    found = run(night, *FIXED, "data.holdout_overlap=error")
    assert found.results.ingest.n_left_out == 0


def test_the_configuration_can_refuse(night):
    _, added = rejudged(night)
    (night.folder / "incoming" / "night-02.txt").write_text("\n".join(added) + "\n")
    with pytest.raises(DataError, match=r"60 of 72 training queries .* data.holdout_overlap"):
        run(night, "data.holdout_overlap=error")
    assert not Registry(night.folder / "registry").versions


def test_the_queries_of_the_champion_are_checked(night):
    lines, _ = rejudged(night)
    run(night, *FIXED)
    part = (night.folder / "incoming" / "night-01.txt").read_text().splitlines()
    judged = night.folder / "later.txt"
    judged.write_text("\n".join([*lines, *part[: 3 * 8]]) + "\n")
    night.night(2)
    found = run(night, *FIXED, f"data.holdout={judged}", "export.report=true")
    assert found.results.evaluate.trained_on["champion"].n_trained_on == 3
    said = "champion: 3 of 63 judged queries were trained on"
    assert said in found.notes
    registry = Registry(night.folder / "registry")
    lineage = registry.manifest(registry.versions[-1]).lineage
    assert lineage["trained_on"]["champion"]["n_trained_on"] == 3
    page = registry.read(registry.versions[-1], "report.html").decode()
    assert "The champion: 3 of 63 judged queries were trained on." in page
    assert "left out of the training" in page
