"""Hundreds of real Dask workers on one machine: coroutines in few processes, one thread each.

The scheduler has a process of its own, so that its processor time can be told from that of the
driver and of the workers. Messages between them go through TCP on the loopback interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

from dranking.engine.cluster.starting.deploy import LOOPBACK, SETTINGS

AT_ONCE = 50
"""Workers of a process that start at the same time; more would run into Dask's time limits."""

CONNECTIONS = 8
"""Most connections of a worker to other workers; Dask's 512 would exhaust a process's files."""

START_SECONDS = 1200

QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1 hour",
    "distributed.admin.system-monitor.interval": "1 hour",
    "distributed.comm.timeouts.connect": f"{START_SECONDS} s",
    "distributed.scheduler.worker-ttl": None,
}
"""Settings without which a thousand workers on one machine measure each other."""


@contextmanager
def coroutine_workers(n_workers: int, n_processes: int = 2) -> Iterator[Any]:
    """A client of a scheduler with `n_workers` workers of one thread, in `n_processes` processes.

    Raises
    ------
    TimeoutError
        If the workers do not start in time.
    """
    import dask
    from distributed import Client

    with dask.config.set({**SETTINGS, **QUIET}), ExitStack() as stack:
        scheduler = stack.enter_context(_process(_scheduler, ()))
        address = _answer(scheduler)
        shares = [n_workers * (p + 1) // n_processes - n_workers * p // n_processes
                  for p in range(n_processes)]  # fmt: skip
        hosts = [stack.enter_context(_process(_workers, (address, share))) for share in shares]
        for host in hosts:
            _answer(host)
        yield stack.enter_context(Client(address, set_as_default=False))


@contextmanager
def _process(function: Any, args: tuple[Any, ...]) -> Iterator[Connection]:
    """A process that calls a function with a connection, whose other end the context yields."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_run, args=(function, there, *args), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        process.kill()  # stopping a thousand workers in order takes a minute
        process.join()
        here.close()


def _answer(connection: Connection) -> Any:
    if not connection.poll(START_SECONDS):
        raise TimeoutError("the scheduler or the workers have not started")
    return connection.recv()


def _run(function: Any, connection: Connection, *args: Any) -> None:
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    import dask
    import distributed  # noqa: F401 - sets the level of its messages

    dask.config.set({**SETTINGS, **QUIET})
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    asyncio.run(function(connection, *args))


def _end_with(connection: Connection) -> None:
    """End this process when the other end of the connection is closed; nobody sends anything."""
    with contextlib.suppress(EOFError, OSError):
        connection.recv()
    os._exit(0)


async def _scheduler(connection: Connection) -> None:
    from distributed import Scheduler

    async with Scheduler(host=LOOPBACK, port=0, dashboard_address=f"{LOOPBACK}:0") as scheduler:
        connection.send(scheduler.address)
        await asyncio.Event().wait()


async def _workers(connection: Connection, address: str, n_workers: int) -> None:
    from distributed import Worker

    async with AsyncExitStack() as stack:
        for first in range(0, n_workers, AT_ONCE):
            workers = [
                Worker(
                    address,
                    nthreads=1,
                    host=LOOPBACK,
                    dashboard=False,
                    memory_limit=0,
                    connection_limit=CONNECTIONS,
                )
                for _ in range(first, min(first + AT_ONCE, n_workers))
            ]
            await asyncio.gather(*(stack.enter_async_context(worker) for worker in workers))
        connection.send(n_workers)
        await asyncio.Event().wait()
