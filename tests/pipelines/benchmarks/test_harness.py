import json
from functools import partial

import numpy as np
import pytest

from pipelines.benchmarks import harness, ingest
from pipelines.benchmarks.harness import Sample, figure, interleaved, peak_memory, skipped

CONTRACT = ["name", "value", "unit", "peer", "target", "holds"]


class TestFigures:
    def test_samples_divide_round_by_round(self):
        ratio = Sample((10.0, 40.0, 6.0)) / Sample((1.0, 10.0, 3.0))
        assert ratio.values == (10.0, 4.0, 2.0)
        assert ratio.median == 4.0
        assert ratio.range == (2.0, 10.0)
        assert (20 / Sample((4.0, 5.0))).values == (5.0, 4.0)

    @pytest.mark.parametrize(
        ("value", "target", "holds"),
        [
            (3.0, {"at_least": 3}, True),
            (2.9, {"at_least": 3}, False),
            (3.2, {"at_most": 3.2}, True),
            (3.3, {"at_most": 3.2}, False),
            (Sample((1.0, 4.0, 5.0)), {"at_least": 3}, True),
            (Sample((1.0, 2.0, 5.0)), {"at_least": 3}, False),
            (1.0, {}, None),
        ],
    )
    def test_whether_a_target_holds(self, value, target, holds):
        assert figure("speed", value, "x", **target).holds is holds

    def test_json_has_the_keys_of_the_contract(self):
        assert list(figure("speed", 2.0, "x", peer="it", at_least=3).as_json()) == CONTRACT
        with_range = figure("speed", Sample((1.0, 3.0, 2.0)), "x").as_json()
        assert with_range["value"] == 2.0
        assert with_range["range"] == (1.0, 3.0)
        left_out = skipped("speed", "x", "it is not installed", peer="it", target=3).as_json()
        assert left_out["value"] is left_out["holds"] is None
        assert left_out["skipped"] == "it is not installed"


class TestMeasuring:
    def test_alternatives_take_turns(self):
        calls = []
        seconds = interleaved(
            {"a": partial(calls.append, "a"), "b": partial(calls.append, "b")}, repeats=3
        )
        assert calls == ["a", "b"] * 4  # once to warm up
        assert {name: len(sample.values) for name, sample in seconds.items()} == {"a": 3, "b": 3}
        assert min(seconds["a"].values) >= 0

    @pytest.mark.slow
    def test_peak_memory_is_that_of_the_run_alone(self):
        # Loading takes 80 MB for a moment and keeps 40; running takes 20 and frees them.
        peak = peak_memory(partial(np.cumsum, range(5_000_000)), np.float32)
        assert 19e6 < peak < 25e6  # the system counts resident pages in batches


class TestPrinting:
    def run(self, capsys, *arguments):
        figures = [
            figure("speed", 3.5, "x", peer="it", at_least=3),
            skipped("other", "s", "no peer"),
        ]
        harness.main(lambda options: figures, harness.parser("A benchmark."), arguments)
        return capsys.readouterr().out

    def test_json(self, capsys):
        printed = json.loads(self.run(capsys, "--json", "--quick"))
        assert list(printed) == ["machine", "figures"]
        assert printed["machine"]["cores"] >= 1
        assert [item["name"] for item in printed["figures"]] == ["speed", "other"]

    def test_table(self, capsys):
        printed = self.run(capsys)
        assert "speed" in printed
        assert "other: skipped, no peer" in printed


class TestIngest:
    def test_the_peer_reads_the_same_documents(self, tmp_path):
        path = tmp_path / "text.txt"
        text = ingest.synthetic_text(n_queries=4, n_features=5)
        ingest.write_repeated(text, path, 2 * len(text))
        assert 1.8 * len(text) < path.stat().st_size <= 2 * len(text)
        n_documents = path.read_bytes().count(b"\n")
        assert ingest.read_all(path) == n_documents
        for query_id in (False, True):
            assert ingest.read_sklearn(path, query_id) == n_documents

    @pytest.mark.slow
    def test_memory_does_not_follow_the_file(self, tmp_path):
        text = ingest.synthetic_text(n_queries=50)
        small, large = tmp_path / "small.txt", tmp_path / "large.txt"
        for path, megabytes in ((small, 12), (large, 36)):
            ingest.write_repeated(text, path, megabytes * ingest.MEGABYTE)
        peak, ratio = ingest.memory("text", small, large, repeats=1)
        assert peak.value < 60  # megabytes
        assert ratio.value < 3 / 2
