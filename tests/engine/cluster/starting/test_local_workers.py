"""Workers on this machine reuse freed memory, and give it back near their limit."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from dranking.engine.cluster.starting import local_workers
from dranking.kernels.machine.first_use import ONCE
from tests.kernels.compiled import needs_compiled


@pytest.mark.cluster
def test_workers_of_local_use_memory_again_and_write_none_to_disk_by_its_count(client):
    for nanny_of_one in client.cluster.workers.values():
        given = nanny_of_one.pre_spawn_env
        assert given["OMP_NUM_THREADS"] == "1"
        assert "MALLOC_TRIM_THRESHOLD_" not in given

    def settings(dask_worker):
        import dask

        looks = dask_worker.periodic_callbacks["give-back"].is_running()
        return dask.config.get("distributed.worker.memory.target"), looks

    assert set(client.run(settings).values()) == {(False, True)}


@pytest.mark.parametrize(
    ("limit", "used", "n_calls"), [(1000, 599, 0), (1000, 601, 1), (None, 10**12, 0)]
)
def test_workers_give_memory_back_near_their_limit_alone(limit, used, n_calls, monkeypatch):
    calls = []
    monkeypatch.setattr(local_workers, "release_memory", lambda: calls.append(used))
    worker = SimpleNamespace(
        memory_manager=SimpleNamespace(memory_limit=limit),
        monitor=SimpleNamespace(get_process_memory=lambda: used),
    )
    local_workers.FrugalWorker.give_back(worker)
    assert len(calls) == n_calls


@pytest.mark.cluster
def test_signals_to_all_processes_of_a_command_are_left_to_the_driver(client):
    for blocked in client.run(signal.pthread_sigmask, signal.SIG_BLOCK, ()).values():
        assert {signal.SIGINT, signal.SIGTERM} <= set(blocked)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.cluster
def test_nannies_that_are_added_later_have_the_settings_and_nothing_leaks(tmp_path):
    """In a process of its own, at whose end Python tells of what leaked.

    Closing takes a fifth of a second; Dask alone would wait four seconds for workers in a task.
    """
    script = tmp_path / "later.py"
    script.write_text(LATER)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    *settings, seconds = run.stdout.split()
    assert settings == ["False", "False", "True", "True"]
    assert float(seconds) < 3.0
    assert "leaked" not in run.stderr


LATER = """
import multiprocessing
import time
from dranking.engine.cluster.open_executor import open_executor
from dranking.engine.cluster.supervisor import Supervisor

def settings(dask_worker):
    import dask
    from multiprocessing import Lock
    import __main__
    __main__.kept = Lock()  # as numcodecs does when it is imported
    return dask.config.get("distributed.worker.memory.target")

if __name__ == "__main__":
    with open_executor("local", {"n_workers": 1, "memory_limit": "1GiB"}) as executor:
        client = executor.client
        client.cluster.scale(2)
        Supervisor(client, "").wait_for_workers(2, 120, "")
        for value in client.run(settings).values():
            print(value)
        while len(client.cluster.workers) < 2:  # the scheduler may know a worker before the cluster
            time.sleep(0.05)
        for nanny in client.cluster.workers.values():
            print("MALLOC_TRIM_THRESHOLD_" not in nanny.pre_spawn_env)
        kept = [client.submit(time.sleep, 60, pure=False) for _ in range(2)]
        while len([t for tasks in client.processing().values() for t in tasks]) < 2:
            time.sleep(0.05)
        closing = time.monotonic()
    print(time.monotonic() - closing)
"""


@needs_compiled
@pytest.mark.exhaustive  # one process says so in tests/kernels/machine/test_compile.py
@pytest.mark.cluster
def test_the_driver_says_once_for_all_workers_that_they_compile(tmp_path):
    script = tmp_path / "compiling.py"
    script.write_text(COMPILES)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def said():
        run = subprocess.run(
            [sys.executable, script], env=environment, capture_output=True, text=True, timeout=300
        )
        assert run.stdout == "done\n", run.stderr
        return run.stderr.splitlines()

    assert said() == [f"dranking: {ONCE}"]
    assert said() == []


COMPILES = """
from functools import partial
import numpy as np
from dranking.engine.cluster.open_executor import open_executor
from dranking.rankrls.kernels.gram.double_double import sum_of_pairs, sums_of_products

if __name__ == "__main__":
    pairs = np.ones((2, 1, 1))
    calls = partial(sum_of_pairs, pairs, pairs), partial(sums_of_products, pairs)
    with open_executor("local", {"n_workers": 2, "memory_limit": "1GiB"}) as executor:
        workers = executor.ask(executor.client.scheduler.ncores)
        for call, worker in zip(calls, workers, strict=True):
            executor.client.submit(call, workers=[worker]).result()
    print("done")
"""
