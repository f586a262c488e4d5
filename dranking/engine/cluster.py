"""From the name of a scheduler to an executor: threads, local processes, or a cluster at hand."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from dranking.engine.dask_executor import DaskExecutor
from dranking.engine.executor import Executor, ThreadExecutor
from dranking.engine.memory import parse_memory
from dranking.errors import DrankingError, TryAgainError, UsageError

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
        If the scheduler is none of these, or cannot be started with these options.
    TryAgainError
        If the cluster cannot be reached, or has no workers.
    """
    limit = None if memory_limit is None else parse_memory(memory_limit)
    with _executor(scheduler, dict(options or {})) as executor:
        executor.memory_limit = limit
        yield executor


@contextmanager
def _executor(scheduler: str, options: dict[str, Any]) -> Iterator[Executor]:
    if scheduler == "threads":
        threads = ThreadExecutor()
        try:
            yield threads
        finally:
            threads.close()
    elif scheduler == "local":
        with _started(local_cluster, options, "a local cluster") as cluster:
            yield from _connected(cluster, "the local cluster")
    elif "://" in scheduler:
        yield from _connected(scheduler, scheduler)
    elif scheduler.endswith(".json"):
        yield from _connected(_address_in(Path(scheduler)), scheduler)
    elif scheduler.endswith(".py"):
        with _started(_cluster_maker(Path(scheduler)), options, scheduler) as cluster:
            yield from _connected(cluster, scheduler)
    else:
        raise UsageError(
            f"--scheduler {scheduler!r} is not threads, local, an address (tcp://host:8786), a "
            "scheduler file (.json) or a Python file with make_cluster(options)."
        )


def _connected(cluster: Any, name: str) -> Iterator[Executor]:
    """The executor over a cluster or the address of one; `name` is what users call it."""
    from distributed import Client

    try:
        client = Client(cluster, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise TryAgainError(
            f"no Dask scheduler answered at {name} within {CONNECT_SECONDS} s."
        ) from error
    except (ValueError, TypeError) as error:  # of the address: its scheme, its port, no TLS set up
        raise UsageError(
            f"{name}: not the address of a Dask scheduler, such as tcp://host:8786 ({error})."
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


def _address_in(path: Path) -> str:
    """The address in a scheduler file."""
    try:
        text = path.read_text()
    except FileNotFoundError as error:
        raise TryAgainError(f"{path}: the scheduler has not written this file yet.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a scheduler file ({error}).") from error
    if not text:
        raise TryAgainError(f"{path}: the scheduler has not filled this file yet.")
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path}: not a scheduler file, no JSON ({error}).") from error
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str):
        raise UsageError(f"{path}: not a scheduler file, it has no 'address'.")
    return address


def local_cluster(options: Mapping[str, Any]) -> Any:
    """Worker processes on this machine, reachable from it alone.

    Parameters
    ----------
    options
        n_workers, threads_per_worker, memory_limit and what else `distributed.LocalCluster` takes.
    """
    import dask
    from distributed import LocalCluster

    # Loopback only, the dashboard too, which by itself would listen on every interface.
    defaults = {
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "threads_per_worker": 1,
        "processes": True,
    }
    # A task that is stolen takes its tile along: hundreds of megabytes, for milliseconds of work.
    with dask.config.set({"distributed.scheduler.work-stealing": False}):
        return LocalCluster(**{**defaults, **options})


def _started(make: Callable[[dict[str, Any]], Any], options: dict[str, Any], name: str) -> Any:
    """A cluster, which its maker starts with the options; a context manager that stops it."""
    try:
        cluster = make(options)
    except DrankingError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(f"{name} cannot be started with options {options}: {problem}") from error
    if not hasattr(cluster, "__exit__"):
        raise UsageError(
            f"{name}: make_cluster(options) returned a {type(cluster).__name__}; it must return a "
            "Dask cluster."
        )
    return cluster


def _cluster_maker(path: Path) -> Callable[[dict[str, Any]], Any]:
    """The function make_cluster of a Python file."""
    if not path.exists():
        raise UsageError(f"{path}: there is no such file; it should define make_cluster(options).")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: cannot be loaded, {problem}") from error
    maker = getattr(module, "make_cluster", None)
    if not callable(maker):
        raise UsageError(f"{path}: has no function make_cluster(options).")
    return cast(Callable[[dict[str, Any]], Any], maker)
