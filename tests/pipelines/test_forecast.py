"""The forecast against what the engine counts, and cluster/COSTS.md against the forecast."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.data.blocks import MAX_BLOCK_DOCUMENTS
from dranking.engine.executor import ThreadExecutor
from dranking.engine.tree_sum import FAN_IN
from dranking.ingestion.ingest import ingest
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out.memory_plan import Needs
from pipelines.benchmarks.clusters import rates
from pipelines.benchmarks.lake.exchange import made_plan
from pipelines.cluster_costs import main
from pipelines.forecast import Rates, SelectionForecast, Sketch
from pipelines.pass_costs import OBJECTS_PER_SEGMENT, IngestSizes
from tests.engine.executors import Remote
from tests.models.problems import random_problem

K = 7


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    data = random_problem(2, n_queries=120, n_features=20).dataset(max_documents=40)
    path = tmp_path_factory.mktemp("forecast") / "d"
    return dr.write_dataset((data.block(b) for b in range(data.n_blocks)), path)


class Counting(Remote):
    """Threads that are treated like workers, and count their tasks."""

    n_tasks = 0

    def submit(self, function, /, *args, name, slot=None):
        self.n_tasks += 1
        return super().submit(function, *args, name=name, slot=slot)


def selected(data, executor, prefetch, resident, keep_rows, k=K):
    limit = Needs(data, k, executor).total(resident, keep_rows, 1)
    rules = SelectionRules(k, prefetch=prefetch)
    return select_paths(data, [1.0], rules, memory_limit=limit, executor=executor)


@pytest.mark.parametrize(("resident", "keep_rows"), [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("n_workers", [1, 3])
def test_the_engine_counts_what_the_forecast_says(stored, n_workers, resident, keep_rows):
    """If every pass fetches one row, all numbers are known beforehand."""
    executor = Counting(n_workers)
    found = selected(stored, executor, 1, resident, keep_rows)
    forecast = SelectionForecast(
        stored, K, n_workers, prefetch=1, resident=resident, keep_rows=keep_rows
    )
    assert found.traffic == forecast.traffic
    assert found.n_passes == forecast.n_passes
    assert found.bytes_read == forecast.bytes_read
    assert executor.n_tasks == forecast.n_tasks


@pytest.mark.parametrize("wide", [1, 10**6])
def test_sums_of_many_tiles_are_tasks_too(stored, wide, monkeypatch):
    monkeypatch.setattr("dranking.engine.tile_layout.MAX_TILE_BYTES", 1)
    monkeypatch.setattr("dranking.engine.tree_sum.WIDE", wide)
    executor = Counting(2)
    selected(stored, executor, 1, True, True)
    forecast = SelectionForecast(stored, K, 2, prefetch=1)
    assert forecast.n_tiles == stored.n_blocks
    assert forecast.n_tiles > FAN_IN
    assert forecast.n_tiles % FAN_IN
    assert executor.n_tasks == forecast.n_tasks


def given_the_passes(data, found, prefetch, k):
    """The forecast, given the passes and updates of a selection."""
    n_updates = found.traffic["update"].n_operations
    n_passes = found.n_passes - 1
    return SelectionForecast(
        data, k, 2, prefetch=prefetch, n_row_passes=n_passes, n_updates=n_updates
    )


def test_given_the_passes_the_rest_is_close(stored):
    """The numbers of rows of the last passes follow from the picks that the passes serve."""
    found = selected(stored, Counting(2), 4, True, True)
    forecast = given_the_passes(stored, found, 4, K)
    sent = sum(each.n_bytes for each in found.traffic.values())
    assert forecast.bytes_sent == pytest.approx(sent, rel=0.1)


@pytest.mark.parametrize("prefetch", [4, None])
def test_given_wrong_guesses_too_messages_and_tasks_are_exact(stored, prefetch):
    executor, k = Counting(2), 15
    found = selected(stored, executor, prefetch, True, True, k)
    forecast = given_the_passes(stored, found, prefetch, k)
    assert forecast.n_updates > forecast.n_row_passes
    assert forecast.n_messages == sum(each.n_messages for each in found.traffic.values())
    assert {n: t.n_operations for n, t in forecast.traffic.items()} == {
        n: t.n_operations for n, t in found.traffic.items()
    }
    assert executor.n_tasks == forecast.n_tasks


def test_a_sketch_has_the_sizes_of_the_data():
    data = Sketch(1_000_003, 10, 9_999)
    assert (data.n_documents, data.n_features, data.n_queries) == (1_000_003, 10, 9_999)
    assert max(block.n_documents for block in data.blocks) <= 8_192
    assert data.n_blocks == 124
    with pytest.raises(NotImplementedError):
        data.block(0)


def test_rows_are_fetched_for_picks_to_come():
    assert SelectionForecast(Sketch(100, 9, 10), 5, 1, prefetch=1).rows_fetched == [1] * 5
    several = SelectionForecast(Sketch(100, 9, 10), 9, 1, prefetch=8, n_row_passes=3)
    assert several.rows_fetched == [8, 6, 3]


def test_twice_the_workers_halve_the_work_and_the_memory_but_not_what_is_dasks():
    data = Sketch(1024 * MAX_BLOCK_DOCUMENTS, 1000, 16 * MAX_BLOCK_DOCUMENTS)
    few, many = (SelectionForecast(data, 10, w, resident=False) for w in (4, 8))
    assert few.n_tiles == many.n_tiles
    assert many.seconds_per_round - many.dask_seconds / 10 == pytest.approx(
        (few.seconds_per_round - few.dask_seconds / 10) / 2
    )
    assert many.dask_seconds == few.dask_seconds
    assert many.worker_bytes < few.worker_bytes


def test_the_page_has_the_tables_of_its_commands(capsys):
    page = (Path(__file__).parents[2] / "cluster" / "COSTS.md").read_text()
    command = "python -m pipelines.cluster_costs "
    lines = [line for line in page.splitlines() if command in line]
    assert len(lines) == 2
    for line in lines:
        main(line.partition(command)[2].split())
        for row in capsys.readouterr().out.splitlines():
            assert row in page.splitlines()


def test_a_round_on_a_thousand_workers_takes_five_seconds_and_dask_less_than_half():
    """The target, by the model with measured rates of Dask; five minutes for 50 features."""
    costs = SelectionForecast(Sketch(10**9, 1000, 10**7), 50, 1000)
    assert costs.seconds_per_round < 5.0
    assert costs.dask_seconds / 50 < costs.seconds_per_round / 2
    assert 50 * costs.seconds_per_round < 300


def test_the_planner_of_ingest_makes_the_tasks_of_the_forecast(tmp_path):
    """Adjacent rows and rows in any order: scans, merged lines, exchanges and segments."""
    rng = np.random.default_rng(0)
    m, q = 150_000, 1_500
    table = {
        "qid": np.repeat(np.arange(q), m // q),
        "relevance": rng.integers(0, 3, m),
        "f0": rng.normal(size=m).astype(np.float32),
        "f1": rng.normal(size=m).astype(np.float32),
    }
    for in_order, order in ((True, np.arange(m)), (False, rng.permutation(m))):
        path = tmp_path / f"{in_order}.parquet"
        rows = pa.table({name: values[order] for name, values in table.items()})
        pq.write_table(rows, path, row_group_size=2**13)
        executor = NamingExecutor(2)
        ingest(path, tmp_path / f"{in_order}.zarr", executor=executor)
        sizes = IngestSizes(Sketch(m, 2, q), 2, in_order)
        found = Counter(executor.names)
        assert abs(found["scan"] - sizes.n_ranges) <= 1
        assert found["reduce"] == sizes.n_partitions
        assert found["exchange"] == (0 if in_order else found["scan"])
        assert found["write"] == (sizes.n_segments if in_order else sizes.n_buckets)
        folders = list((tmp_path / f"{in_order}.zarr" / "segments").glob("*-*"))
        assert len(folders) == sizes.n_segments
        for folder in folders:
            assert sum(file.is_file() for file in folder.rglob("*")) == OBJECTS_PER_SEGMENT


def test_groups_of_buckets_are_split_as_the_forecast_says():
    """So many rows that one step would sort them into too many buckets; tasks do nothing."""
    sizes = IngestSizes(Sketch(10**8, 1_000, 10**6), 100, in_order=False)
    executor, work = made_plan(sizes)
    assert abs(executor.n_tasks.pop("order") - sizes.n_parts) <= 1
    assert executor.n_tasks == {
        "scan": sizes.n_ranges,
        "reduce": sizes.n_partitions,
        "answer": sizes.n_partitions,
        "cuts": 1 + sizes.n_groups,
        "exchange": sizes.n_ranges,
        "split": sizes.n_splits,
    }
    assert len(work) == sizes.n_buckets > 1_024
    assert sizes.n_splits > sizes.n_groups > 1
    n_parts = [len(each.parts.numbers) for each in work]
    assert max(n_parts) < 60  # of 1,600 files; about the square root of all
    assert sum(n_parts) == sizes.n_splits * sizes.n_buckets // sizes.n_groups


class NamingExecutor(ThreadExecutor):
    """Threads that note the names of their tasks."""

    def __init__(self, n_threads):
        super().__init__(n_threads)
        self.names = []

    def submit(self, function, /, *args, name, slot=None):
        self.names.append(name)
        return super().submit(function, *args, name=name, slot=slot)


def test_rates_may_be_those_of_the_machine(capsys, monkeypatch):
    """Workers that are twice as fast in everything take half the time."""
    options = "--documents 10^6 --features 100 --queries 10^4 --select 10 --workers 2".split()
    main(options)
    slow = capsys.readouterr().out.splitlines()[2].split("|")
    default = Rates()
    work = {name: 2 * getattr(default, name) for name in ("read", "products", "memory")}
    dask = {name: getattr(default, name) / 2 for name in ("task_seconds", "step_seconds")}
    monkeypatch.setattr(rates, "rates", lambda: Rates(**work, **dask))
    main([*options, "--measure"])
    fast = capsys.readouterr().out.splitlines()[2].split("|")
    assert fast[:8] == slow[:8]
    data = Sketch(10**6, 100, 10**4)
    forecast = [SelectionForecast(data, 10, 2, rates=r) for r in (default, rates.rates())]
    assert forecast[1].seconds_per_round == pytest.approx(forecast[0].seconds_per_round / 2)
