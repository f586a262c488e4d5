import json
import sys
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest

import dranking as dr
from pipelines.benchmarks import greedy, greedy_scale, harness, scale
from pipelines.benchmarks.greedy import Size, make_arrays
from pipelines.benchmarks.scale import growth, passes, rlscore_peer, speed, statistics

TINY = Size(400, 12, 20, {3: 0.0}, {})


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(greedy, "BANDWIDTH_BYTES", 2**20)


def quick(topic, *more):
    options = greedy_scale.scale_parser().parse_args(["--quick", "--rounds", "1", *more])
    figures = greedy_scale.TOPICS[topic](options)
    assert list(figures) == [item.name for item in figures.values()]
    assert all((item.value is None) == bool(item.skipped) for item in figures.values())
    return figures


def test_every_topic_is_in_the_driver():
    modules = {
        item.name: import_module(f"{scale.__name__}.{item.name}")
        for item in iter_modules(scale.__path__)
    }
    topics = {name for name, module in modules.items() if hasattr(module, "figures")}
    assert topics == set(greedy_scale.TOPICS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("topic", ["speed", "passes", "growth", "statistics"])
def test_every_topic_is_measured(topic, tmp_path):
    figures = quick(topic, "--data", str(tmp_path))
    assert any(item.target is not None for item in figures.values())


@pytest.mark.exhaustive
def test_memory_is_measured():
    figures = quick("memory")
    assert sum("peak memory over X" in name for name in figures) == 2
    [same] = (item for name, item in figures.items() if name.startswith("same selection"))
    assert same.holds


@pytest.mark.exhaustive
def test_the_driver_prints_the_topics_asked_for(capsys, tmp_path):
    arguments = [
        "--json",
        "--quick",
        "--rounds",
        "1",
        "--topics",
        "passes",
        "--data",
        str(tmp_path),
    ]
    harness.main(greedy_scale.measure, greedy_scale.scale_parser(), arguments)
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures[0]["name"].startswith("passes over k")
    assert "skipped" in figures[-1]  # MQ2008 is not there
    with pytest.raises(SystemExit):
        greedy_scale.scale_parser().parse_args(["--topics", "speed,other"])
    assert "'other' is not one of speed" in capsys.readouterr().err


def test_a_read_is_of_every_feature_of_every_block():
    arrays = make_arrays(TINY)
    dataset = arrays.dataset()
    total = sum(speed.read(dataset.block(b)) for b in range(dataset.n_blocks))
    assert total == pytest.approx(arrays.X.sum(dtype=np.float64), rel=1e-4)
    assert speed.size_of(dataset) == arrays.X.nbytes


def test_the_peer_gets_centred_queries():
    values = np.array([[1.0, 5.0], [3.0, 9.0], [7.0, 7.0]])
    expected = [[-1.0, -2.0], [1.0, 2.0], [0.0, 0.0]]
    assert rlscore_peer.centred(values, np.array([0, 2, 3])).tolist() == expected
    assert rlscore_peer.centred(values[:, 0], np.array([0, 1, 3])).tolist() == [0.0, -2.0, 2.0]


def test_a_peer_is_run_as_a_program(tmp_path, monkeypatch):
    """A program in its place: it gets the learner, the data and k."""
    program = tmp_path / "peer.py"
    program.write_text(
        "import json, sys\n"
        "import numpy as np\n"
        "assert sys.argv[1] in ('nfold', 'loo') and len(np.load(sys.argv[2])['y']) == 400\n"
        "print(json.dumps({'seconds': 1e6, 'selected': list(range(int(sys.argv[3])))}))\n"
    )
    monkeypatch.setattr(rlscore_peer, "__file__", str(program))
    figures = speed.against_rlscore(TINY, 3, sys.executable, rounds=1)
    assert [item.holds for item in figures if item.target] == [True, True]
    [_, faster, _, *_] = figures
    assert faster.value > 1e4
    left_out = speed.against_rlscore(TINY, 3, None, rounds=1)
    assert [item.target for item in left_out] == [1000.0, 40.0]


def test_the_clock_of_passes_counts_them_alone():
    dataset = make_arrays(Size(3_000, 46, 40, {}, {})).dataset()
    times = passes.timed(dataset, [1.0], rounds=2)
    for total, inside, rest in zip(
        *(times[name].values for name in ("total", "in passes", "updates")), strict=True
    ):
        assert 0.0 < inside < total
        assert inside + rest == pytest.approx(total)
    assert times["passes"].values == (passes.select(dataset, [1.0]).n_passes,) * 2


@pytest.mark.exhaustive
def test_growth_streams_and_cleans_up(tmp_path):
    figures = {item.name: item for item in growth.growth(tmp_path, (1_000, 2_000), rounds=1)}
    stored = dr.open_dataset(tmp_path / "2000")
    assert (stored.n_documents, stored.n_features, stored.n_queries) == (2_000, 136, 20)
    n_passes = figures["passes over X, 2,000 x 136 from storage, k = 10"].value
    asked = []
    stored.block, block = (lambda b, *columns: asked.append(b) or block(b, *columns)), stored.block
    assert growth.select_streaming(stored).n_passes == n_passes == len(asked)


def test_new_queries_are_the_last_and_no_old_ones():
    arrays = make_arrays(Size(4_000, 3, 20, {}, {}))
    old, new = statistics.split(arrays)
    np.testing.assert_array_equal(np.vstack([old.X, new.X]), arrays.X)
    assert 0 < len(new.y) < 80
    assert new.query_ptr[0] == 0
    assert new.query_ptr[-1] == len(new.y)
    assert len(old.query_ptr) + len(new.query_ptr) == len(arrays.query_ptr) + 1
    one = make_arrays(Size(60, 3, 20, {}, {}))
    assert len(statistics.split(one)[1].query_ptr) == 2
