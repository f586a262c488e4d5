"""Threads and Dask behave alike: results in order, errors raised, futures as arguments."""

import threading
import time

import pytest

from dranking.engine.choose_executor import get_executor
from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.executor import ThreadExecutor
from dranking.errors import UsageError


def add(a, b):
    return a + b


def fail(message):
    raise ValueError(message)


@pytest.fixture(params=["threads", pytest.param("dask", marks=pytest.mark.cluster)])
def executor(request):
    if request.param == "threads":
        return ThreadExecutor(2)
    return DaskExecutor(request.getfixturevalue("client_here"))


def test_results_come_in_order_and_futures_are_arguments(executor):
    first = [executor.submit(add, i, 1, name="first") for i in range(20)]
    second = [executor.submit(add, future, 100, name="second") for future in first]
    assert executor.gather(second) == [101 + i for i in range(20)]


def test_the_first_error_is_raised(executor):
    tasks = [executor.submit(add, 1, 1, name="good"), executor.submit(fail, "here", name="bad")]
    with pytest.raises(ValueError, match="here"):
        executor.gather(tasks)


def test_an_error_reaches_what_depends_on_it(executor):
    bad = executor.submit(fail, "upstream", name="bad")
    with pytest.raises(ValueError, match="upstream"):
        executor.gather([executor.submit(add, bad, 1, name="after")])


def test_memory_is_what_is_there_or_the_limit(executor):
    assert executor.memory_bytes > 2**28
    executor.memory_limit = 1_000
    assert executor.memory_bytes == 1_000


def test_after_an_error_no_task_is_started():
    executor, started, gate = ThreadExecutor(1), [], threading.Event()
    tasks = [executor.submit(fail, "first", name="bad")]
    tasks += [executor.submit(gate.wait, name="wait")]
    tasks += [executor.submit(started.append, i, name="late") for i in range(3)]
    with pytest.raises(ValueError, match="first"):
        executor.gather(tasks)
    gate.set()
    time.sleep(0.05)
    assert started == []


def test_a_deep_chain_on_one_thread_does_not_lock():
    executor = ThreadExecutor(1)
    value = executor.submit(add, 0, 1, name="start")
    for _ in range(200):
        value = executor.submit(add, value, 1, name="next")
    assert executor.gather([value]) == [201]


def test_get_executor_takes_threads_executors_and_nothing_else():
    assert isinstance(get_executor("threads"), ThreadExecutor)
    assert get_executor() is get_executor("threads")
    mine = ThreadExecutor(3)
    assert get_executor(mine) is mine
    with pytest.raises(UsageError, match="'threads' or a distributed"):
        get_executor("processes")


@pytest.mark.cluster
def test_get_executor_takes_a_client_given_or_current(client_here):
    executor = get_executor(client_here)
    assert isinstance(executor, DaskExecutor)
    assert executor.n_slots == 2
    assert isinstance(get_executor(), ThreadExecutor)
    with client_here.as_current():
        assert isinstance(get_executor(), DaskExecutor)


@pytest.mark.cluster
def test_large_data_travels_without_a_warning(client_here):
    executor = get_executor(client_here)
    [size] = executor.gather([executor.submit(len, bytes(20_000_000), name="size")])
    assert size == 20_000_000
