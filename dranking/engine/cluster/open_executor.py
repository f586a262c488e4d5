"""From the option --scheduler to an executor: threads, local processes, or a Dask cluster."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from dranking.engine.cluster.connect import Access, connect
from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.cluster.deadlines import exit_in_time
from dranking.engine.cluster.scheduler_address import scheduler_address
from dranking.engine.cluster.starting.deploy import local_cluster, patience, quiet
from dranking.engine.cluster.starting.make_cluster import load_maker, start_cluster
from dranking.engine.cluster.tls import take_security
from dranking.engine.executor import Executor, ThreadExecutor
from dranking.engine.memory import parse_memory
from dranking.errors import UsageError
from dranking.files.sizes import format_bytes

CONNECT_SECONDS = 30.0


@contextmanager
def open_executor(
    scheduler: str = "threads",
    options: Mapping[str, Any] | None = None,
    *,
    memory_limit: int | str | None = None,
) -> Iterator[Executor]:
    """An executor for one job. Whatever was started for the job stops at the end of the context.

    Parameters
    ----------
    scheduler
        "threads"; "local" for worker processes that only this machine can reach; an address such
        as tcp://host:8786 or tls://host:8786; a scheduler file (.json); or a Python file with a
        function `make_cluster(options)`, which returns a Dask cluster, or the address or scheduler
        file of one. The file is loaded in the calling thread; `make_cluster` runs in another
        thread, under a deadline.
    options
        Options that all clusters have: ``timeout`` (such as "60s"), the deadline for the scheduler
        file, for the scheduler and for its workers, each; ``min_workers``, the number of workers
        to wait for (default: ``n_workers``, else 1); for TLS, ``tls_ca_file``, ``tls_cert`` and
        ``tls_key``, or ``security = true``, see `dranking.engine.cluster.tls.take_security`.
        `make_cluster` gets all other options; "local" takes n_workers, threads_per_worker and
        memory_limit.
    memory_limit
        Memory that a job may take over all workers, in bytes or as text such as "8GB"; None means
        most of the available memory.

    Raises
    ------
    UsageError
        If `scheduler` is something else, if the cluster cannot be started with these options, if
        it does not accept the certificates of this client, if its workers have other versions of
        packages, or if they have less memory than `memory_limit`.
    TryAgainError
        If the cluster cannot be reached, or has too few workers.
    """
    limit = None if memory_limit is None else parse_memory(memory_limit)
    with _executor(scheduler, dict(options or {})) as executor:
        if limit is not None:
            _check_memory(executor, limit)
        executor.memory_limit = limit
        yield executor


def _check_memory(executor: Executor, limit: int) -> None:
    """Raise UsageError if a job may take more memory than the workers of a cluster have."""
    if isinstance(executor, DaskExecutor) and limit > (most := executor.workers_memory()):
        raise UsageError(
            f"--memory-limit {format_bytes(limit)} is more than the workers of the cluster have "
            f"together ({format_bytes(most)}); give a smaller limit, or leave it out."
        )


@contextmanager
def _executor(scheduler: str, options: dict[str, Any]) -> Iterator[Executor]:
    if scheduler == "threads":
        _refuse(options, "threads of this process")
        threads = ThreadExecutor()
        try:
            yield threads
        finally:
            threads.close()
        return
    if scheduler != "local" and "://" not in scheduler and Path(scheduler).suffix not in _SUFFIXES:
        raise UsageError(
            f"--scheduler {scheduler!r} is not threads, local, an address (tcp://host:8786), a "
            "scheduler file (.json) or a Python file with make_cluster(options)."
        )
    access = _take_access(options)
    # A client that was refused closes itself when it is collected. If the old client were collected
    # while the next client starts its event loop in the same thread, each client would wait for a
    # lock that the other holds.
    gc.collect()
    with (
        patience(),
        quiet(),
        _cluster(scheduler, options, access) as cluster,
        connect(cluster, scheduler, access) as executor,
    ):
        yield executor


_SUFFIXES = (".json", ".py")


def _take_access(options: dict[str, Any]) -> Access:
    """Take the options that all clusters have out of `options`."""
    seconds = _seconds(options.pop("timeout", CONNECT_SECONDS))
    asked = options.get("n_workers")
    n = options.pop("min_workers", asked if type(asked) is int and asked > 0 else 1)
    if type(n) is not int or n < 1:
        raise UsageError(f"min_workers is {n!r}; write a number of workers, 1 or more.")
    return Access(seconds, n, take_security(options))


def _seconds(timeout: Any) -> float:
    from dask.utils import parse_timedelta

    try:
        seconds = float(parse_timedelta(timeout, default="seconds"))
    except (ValueError, TypeError, KeyError, AttributeError):
        seconds = 0.0
    if isinstance(timeout, bool) or not 0 < seconds < math.inf:
        raise UsageError(f"timeout is {timeout!r}; write a time above 0, such as '60s' or '10m'.")
    return seconds


def _refuse(options: Mapping[str, Any], what: str) -> None:
    """Raise UsageError if there are options, for executors that take none."""
    if options:
        raise UsageError(
            f"cluster options {', '.join(sorted(options))}: {what} take no such options; leave the "
            "options out, or name a scheduler that starts a cluster."
        )


def _cluster(
    scheduler: str, options: dict[str, Any], access: Access
) -> AbstractContextManager[Any]:
    """A cluster that stops at the end of its context, or the address of a running cluster."""
    if scheduler == "local":
        make: Callable[[dict[str, Any]], Any] = local_cluster
    elif Path(scheduler).suffix == ".py" and "://" not in scheduler:
        make = load_maker(Path(scheduler))
    else:
        _refuse(options, "running clusters")
        return nullcontext(scheduler_address(scheduler, access.seconds, access.security))
    if access.security is not None:
        options["security"] = access.security
    cluster = start_cluster(make, options, scheduler)
    if isinstance(cluster, str):
        return nullcontext(scheduler_address(cluster, access.seconds, access.security))
    return exit_in_time(*cluster, f"the cluster of {scheduler}")
