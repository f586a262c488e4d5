"""From the name of a scheduler to an executor: threads, local processes, or a cluster at hand."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dranking.engine.executor import DaskExecutor, Executor, ThreadExecutor
from dranking.engine.memory import parse_memory
from dranking.errors import TryAgainError, UsageError

CONNECT_SECONDS = 30


@contextmanager
def open_executor(
    scheduler: str = "threads",
    options: Mapping[str, Any] | None = None,
    *,
    memory_limit: int | str | None = None,
) -> Iterator[Executor]:
    """An executor for the time of a job; what was started for it is stopped afterwards.

    Parameters
    ----------
    scheduler
        "threads"; "local" for worker processes on this machine, reachable from it alone; an
        address such as tcp://host:8786; a scheduler file (.json); or a Python file with a function
        `make_cluster(options)` that returns a Dask cluster.
    options
        For `make_cluster`, and for "local": n_workers, threads_per_worker, memory_limit.
    memory_limit
        Bytes that jobs may take over all workers, or text such as "8GB"; None means most of what
        is there.

    Raises
    ------
    UsageError
        If the scheduler is none of these.
    TryAgainError
        If the cluster cannot be reached.
    """
    limit = None if memory_limit is None else parse_memory(memory_limit)
    with _executor(scheduler, dict(options or {})) as executor:
        executor.memory_limit = limit
        yield executor


@contextmanager
def _executor(scheduler: str, options: dict[str, Any]) -> Iterator[Executor]:
    if scheduler == "threads":
        yield ThreadExecutor()
    elif scheduler == "local":
        with local_cluster(options) as cluster:
            yield from _connected(cluster)
    elif "://" in scheduler:
        yield from _connected(scheduler)
    elif scheduler.endswith(".json"):
        if not Path(scheduler).exists():
            raise TryAgainError(f"{scheduler}: the scheduler has not written this file yet.")
        yield from _connected(None, scheduler_file=scheduler)
    elif scheduler.endswith(".py"):
        with _cluster_from_file(Path(scheduler), options) as cluster:
            yield from _connected(cluster)
    else:
        raise UsageError(
            f"--scheduler {scheduler!r} is not threads, local, an address (tcp://host:8786), a "
            "scheduler file (.json) or a Python file with make_cluster(options)."
        )


def _connected(address: Any, **arguments: Any) -> Iterator[Executor]:
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False, **arguments)
    except (OSError, TimeoutError) as error:
        raise TryAgainError(
            f"no Dask scheduler answered at {address or arguments} within {CONNECT_SECONDS} s."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            raise TryAgainError(
                f"the scheduler at {client.scheduler.address} has had no worker for "
                f"{CONNECT_SECONDS} s."
            ) from error
        yield DaskExecutor(client)


def local_cluster(options: Mapping[str, Any]) -> Any:
    """Worker processes on this machine, reachable from it alone.

    Parameters
    ----------
    options
        n_workers, threads_per_worker, memory_limit and what else `distributed.LocalCluster` takes.
    """
    from distributed import LocalCluster

    # Loopback only, the dashboard too, which by itself would listen on every interface.
    defaults = {
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "threads_per_worker": 1,
        "processes": True,
    }
    return LocalCluster(**{**defaults, **options})


def _cluster_from_file(path: Path, options: Mapping[str, Any]) -> Any:
    if not path.exists():
        raise UsageError(f"{path}: there is no such file; it should define make_cluster(options).")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "make_cluster"):
        raise UsageError(f"{path}: has no function make_cluster(options).")
    return module.make_cluster(options)
