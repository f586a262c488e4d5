"""Questions of the executor to the workers of a cluster."""

import errno
import os

import pytest

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.errors import UsageError

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
