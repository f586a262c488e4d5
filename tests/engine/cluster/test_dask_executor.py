"""Questions of the executor to the workers of a cluster and to its scheduler."""

import errno
import os
from types import SimpleNamespace

import pytest
from distributed import KilledWorker

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.errors import TryAgainError, UsageError

pytestmark = pytest.mark.cluster

asked: list[int] = []


def full_disk():
    """Of a worker whose disk is full, as kernels are stored there: three times, then no more."""
    asked.append(0)
    if len(asked) <= 3:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return 0


def nothing():
    """Of a worker that holds no memory."""
    return 0


def test_slots_of_workers_that_left_count_in_the_memory_of_those_that_are_there(client_here):
    executor = DaskExecutor(client_here)
    own = executor.rooms(nothing)
    assert [len(room.slots) for room in own] == [1, 1]
    executor._slots += ["tcp://left:1", "tcp://left:1", "tcp://left:2"]
    found = executor.rooms(nothing)
    assert sorted(slot for room in found for slot in room.slots) == [0, 1, 2, 3, 4]
    assert [room.slots[:1] for room in found] == [room.slots for room in own]
    assert {len(room.slots) for room in found} == {2, 3}


def test_an_error_of_the_disk_of_a_worker_is_told_and_not_asked_again(client_here):
    with pytest.raises(UsageError, match=r"worker tcp://.* cannot be used.*No space left"):
        DaskExecutor(client_here).rooms(full_disk)


def test_a_task_on_which_silent_workers_died_is_told(client_here, monkeypatch):
    silent = SimpleNamespace(address="tcp://silent:1", memory_limit=1)

    async def killed(tasks, asynchronous):
        raise KilledWorker("hold-lock-run-0", silent, 3)

    monkeypatch.setattr(client_here, "gather", killed)
    event = {"action": "worker-ttl-timed-out", "workers": [silent.address], "ttl": 60}
    client_here.log_event("scheduler", event)
    with pytest.raises(TryAgainError, match=r"^4 workers .*'hold-lock', the last .* for 60 s\. A "):
        DaskExecutor(client_here).gather([])
