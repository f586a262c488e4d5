from pathlib import Path

import pytest

from pipelines.benchmarks import harness, max_margin
from pipelines.benchmarks.greedy import Size


@pytest.mark.exhaustive
def test_every_figure_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(max_margin, "MADE", Size(600, 5, 20, {}, {}))
    options = harness.parser("").parse_args(["--quick", "--data", str(tmp_path)])
    figures = {figure.name: figure for figure in max_margin.measure(options)}
    assert len(figures) == 4 + 4 + 1 + 3
    gaps = [figure for name, figure in figures.items() if name.startswith("duality gap")]
    assert len(gaps) == 2
    assert all(figure.holds for figure in gaps)
    assert all(0 <= figure.value <= 1e-3 for figure in gaps)
    [seconds] = [f for f in figures.values() if f.target == 60]
    assert seconds.holds


def test_the_benchmark_data_is_fold_1(mq2008: Path):
    options = harness.parser("").parse_args(["--data", str(mq2008.parents[1])])
    name, dataset = max_margin.training_data(options)
    assert (name, dataset.n_queries, dataset.n_documents) == ("MQ2008 fold 1", 471, 9_630)
