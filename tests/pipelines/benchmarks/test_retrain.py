"""The benchmark of nightly retraining: its figures, and that it sees what is opened."""

import json

import pytest

from dranking.retrain.markers import Cost
from pipelines.benchmarks import retrain
from pipelines.benchmarks.harness import main


@pytest.mark.exhaustive
def test_it_measures_and_every_figure_holds(capsys, monkeypatch):
    monkeypatch.setattr(retrain, "N_PARTS", 4)
    main(retrain.measure, retrain.options(), ["--json", "--quick", "--rounds", "2"])
    found = {item["name"]: item for item in json.loads(capsys.readouterr().out)["figures"]}
    assert found["same model as from scratch, bit for bit"]["holds"]
    assert found["old features opened by a night"]["holds"]
    assert found["old features opened by a full build"]["holds"]
    [ratio] = [item for name, item in found.items() if name.endswith("by processor seconds")]
    assert ratio["value"] > 0
    assert ratio["target"] is None


def test_what_is_opened_is_counted_once(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "file").write_bytes(b"12345")
    for _ in range(2):
        with retrain.bytes_opened([inside]) as sizes:
            (inside / "file").read_bytes()
            (outside / "file").read_bytes()
        assert sizes == [5]
    (inside / "file").read_bytes()
    assert sizes == [5]


@pytest.mark.parametrize("limit", [0.05, None])
def test_a_limit_is_for_the_share_of_the_data_stages(limit):
    def night(seconds, old_bytes):
        cost = Cost(seconds, seconds / 2, 0)
        costs = dict.fromkeys(("validate", "ingest", "statistics"), cost)
        costs |= {"tune": Cost(100.0, 100.0, 0)}
        outcome = retrain.Outcome("run", None, costs, {}, (), (), ())
        return retrain.Night(outcome, (["1"], [0.5]), old_bytes)

    found = retrain.figures("size", [night(0.06, 0)], [night(1.0, 10)], limit)
    shares = [item for item in found if item.unit == "x"]
    assert [item.value for item in shares] == pytest.approx([0.06, 0.06])
    assert {item.holds for item in shares} == ({False} if limit else {None})
    assert [item.holds for item in found[-3:]] == [True, True, True]
    touched = retrain.figures("size", [night(0.06, 1)], [night(1.0, 0)], limit)
    assert [item.holds for item in touched[-2:]] == [False, False]
