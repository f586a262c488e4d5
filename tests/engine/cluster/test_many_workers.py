"""The same bits on any number of workers: tiles of several blocks, sums that join on workers.

The workers are coroutines of this process, which talk through TCP like workers of their own.
"""

import numpy as np
import pytest
from distributed import Client, LocalCluster

import dranking as dr
from dranking.engine.choose_executor import get_executor
from dranking.engine.cluster.starting.dask_settings import SETTINGS
from dranking.engine.cluster.starting.deploy import LOOPBACK, start
from dranking.engine.executor import ThreadExecutor
from dranking.engine.tile_layout import tile_ranges
from dranking.engine.tree_sum import combining_tasks
from dranking.rankrls.leave_query_out.memory_plan import Needs
from tests.models.problems import random_problem

pytestmark = pytest.mark.cluster

SHARDS = 19


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    data = random_problem(2, n_queries=150, n_features=8).dataset(max_documents=15)
    path = tmp_path_factory.mktemp("many") / "d"
    return dr.write_dataset((data.block(b) for b in range(data.n_blocks)), path)


NUMBERS = [2, 20, *(pytest.param(number, marks=pytest.mark.exhaustive) for number in (1, 7))]


@pytest.fixture(scope="module", params=NUMBERS, ids="{} workers".format)
def many(request):
    """A client of this number of workers of one thread."""
    options = {
        "n_workers": request.param,
        "threads_per_worker": 1,
        "processes": False,
        "protocol": "tcp://",
        "host": LOOPBACK,
        "dashboard_address": f"{LOOPBACK}:0",
        "memory_limit": 0,
    }
    with start(LocalCluster, options, SETTINGS) as cluster, Client(cluster) as client:
        yield client


def bits(ranker):
    """Everything that a selection or a training found, as bytes."""
    errors = getattr(ranker, "lqo_error_", ranker.coef_)
    return np.asarray(errors).tobytes() + ranker.coef_.tobytes()


@pytest.fixture(scope="module")
def here(stored):
    """Bits on one thread, which adds all blocks one after the other."""
    one = ThreadExecutor(1)
    return {
        "selection": bits(dr.GreedyRankRLS(3, 2.0).fit(stored, executor=one)),
        "training": bits(spd().fit(stored, executor=one)),
    }


def spd():
    return dr.SPD(sgd=dr.SGD(n_epochs=2, steps_per_epoch=2000, n_shards=SHARDS))


@pytest.mark.parametrize("resident", [pytest.param(True, marks=pytest.mark.exhaustive), False])
def test_selections(stored, here, many, resident):
    """Tiles have several blocks, whose number is no power of two; some also stream X."""
    executor = get_executor(many)
    tiles = tile_ranges(stored, executor.n_slots)
    sizes = {end - start for start, end in tiles}
    assert max(sizes) > 1
    if executor.n_slots == 20:
        assert combining_tasks(len(tiles), stored.n_features)
    limit = Needs(stored, 3, executor).total(resident, resident, 1)
    ranker = dr.GreedyRankRLS(3, 2.0, memory_limit=limit).fit(stored, executor=executor)
    assert bits(ranker) == here["selection"]


def test_trainings_of_many_shards(stored, here, many):
    assert combining_tasks(SHARDS, 1)
    assert bits(spd().fit(stored, executor=many)) == here["training"]
