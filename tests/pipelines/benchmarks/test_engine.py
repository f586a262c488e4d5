"""The benchmark of the engine on small data: what does not depend on its size holds."""

import itertools
from importlib import import_module
from pkgutil import iter_modules

import pytest

from dranking.engine.tile_layout import tile_ranges
from pipelines.benchmarks import clusters, engine
from pipelines.benchmarks.clusters import kills, large, overhead, rates, sharing
from pipelines.forecast import STATE_ROWS, Rates


def quick(topic):
    options = engine.engine_parser().parse_args(["--quick", "--rounds", "1"])
    figures = engine.TOPICS[topic](options)
    assert list(figures) == [item.name for item in figures.values()]
    return figures


def held(figures):
    """By the beginning of its name, whether a figure holds."""
    return {name.split(",")[0]: item.holds for name, item in figures.items()}


def test_every_topic_is_in_the_driver():
    modules = (
        import_module(f"{clusters.__name__}.{m.name}") for m in iter_modules(clusters.__path__)
    )
    topics = {m.__name__.rpartition(".")[2] for m in modules if hasattr(m, "figures")}
    assert topics == set(engine.TOPICS)


@pytest.mark.exhaustive
@pytest.mark.cluster
@pytest.mark.slow
def test_both_sides_have_the_same_bits_and_move_what_the_model_says(monkeypatch):
    monkeypatch.setattr(overhead, "QUICK_DOCUMENTS", (1_000, 9_000))
    monkeypatch.setattr(overhead, "K", 8)
    found = held(quick("overhead"))
    assert found["same selection and errors in every bit"]
    assert found["bytes moved"]
    assert found["messages"]


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_passes_are_shared(monkeypatch):
    monkeypatch.setattr(sharing, "QUICK_DOCUMENTS", 5_000)
    [item] = quick("sharing").values()
    assert item.skipped or item.value > 0


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_kills_change_nothing(monkeypatch):
    monkeypatch.setattr(kills, "QUICK_KILLS", 1)
    found = held(quick("kills"))
    assert found["workers killed"]
    assert found["same weights in every bit"]


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_memory_of_workers_is_measured(monkeypatch):
    assert all(item.skipped for item in quick("large").values())
    found = held(large.figures(False, 20_000))
    assert found["peak memory of a worker"]
    assert found["no worker was killed"]


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_rates_are_those_of_the_cost_model():
    found = quick("rates")
    assert [item.name for item in found.values()] == [f"rate, {name}" for name in Rates._fields]
    assert all(item.value > 0 for item in found.values())


def test_rates_are_work_over_the_time_of_its_tasks(monkeypatch):
    """Were every task to take a second, a rate would be the work that the tasks share."""
    seconds = itertools.count()
    monkeypatch.setattr(rates, "processor_seconds", lambda: next(seconds))
    monkeypatch.setattr(rates, "K", 4)
    with rates.made([(2_000, 6)]) as [data]:
        found = rates.work_rates(data)
        read = 4 * data.n_documents * data.n_features
        n_tiles = len(tile_ranges(data, 1))
    assert found["read"] == read / n_tiles
    moved = sum(t + STATE_ROWS for t in range(1, 5)) * 8 * data.n_queries * data.n_features
    assert found["memory"] == moved / n_tiles  # one update goes through all upcoming picks
