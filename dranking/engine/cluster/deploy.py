"""What the ways to start a cluster (the files of ``cluster/``) have in common."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, cast

from dranking.engine.cluster.deadlines import setting
from dranking.errors import UsageError

LOOPBACK = "127.0.0.1"

SETTINGS: dict[str, Any] = {
    # A task that is stolen takes its tile along: hundreds of megabytes, for milliseconds of work.
    "distributed.scheduler.work-stealing": False,
    # States share arrays with those that they came from. By the sizes of both, workers would write
    # to disk what there is room for; by the memory of their process they still do.
    "distributed.worker.memory.target": False,
}
"""Of Dask, for clusters that are started for the engine."""

REUSE_MEMORY: dict[str, Any] = {
    # By itself Dask has workers give every large array back to the system at once. What takes its
    # place comes page by page, each cleared first: a third of the time of a selection.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
}
"""Of Dask, for workers that give memory back themselves before they have too much of it."""


def start(
    cluster: Callable[..., Any],
    options: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """Start a cluster with the engine's settings.

    Parameters
    ----------
    cluster
        A cluster of Dask's, as a class or function.
    options
        Its keyword arguments.
    settings
        More of Dask's configuration, for the processes that inherit it.
    """
    import dask

    with dask.config.set({**SETTINGS, **(settings or {})}):
        return cluster(**options)


def patience() -> AbstractContextManager[Any]:
    """Settings of Dask in this process for as long as a cluster is used.

    By itself a cluster stops the nanny of a worker that is not back after 15 seconds, for good. On
    a busy machine a nanny may take longer to start a worker again.
    """
    import dask

    seconds = setting("no-workers-seconds")
    settings = {"distributed.deploy.lost-worker-timeout": f"{seconds} s"}
    return cast(AbstractContextManager[Any], dask.config.set(settings))


def optional(module: str, extra: str) -> Any:
    """A module of a package that is not needed otherwise.

    Parameters
    ----------
    module
        Its name.
    extra
        The extra of this project that brings it.

    Raises
    ------
    UsageError
        If it cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(
            f"this needs the package {module.partition('.')[0]}: pip install 'dranking[{extra}]' "
            f"({error})."
        ) from error


def job_queues(extra: str) -> Any:
    """The package dask_jobqueue, imported without the signal handler that it installs.

    Importing dask_jobqueue 0.9 makes Ctrl-C exit with code 0, and fails outside the main thread.
    The files of ``cluster/`` therefore call this function when they are loaded, which the main
    thread does; `make_cluster` runs in a thread that has a deadline.

    Parameters
    ----------
    extra
        The extra of this project that brings the package.

    Raises
    ------
    UsageError
        If the package cannot be imported.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return optional("dask_jobqueue", extra)
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def check_options(options: Mapping[str, Any], known: Collection[str], what: str) -> None:
    """Raise UsageError if there are options that something does not have."""
    unknown = sorted(set(options) - {*known, "security"})
    if unknown:
        raise UsageError(f"cluster options {', '.join(unknown)}: {what} has none of these.")


def refuse_security(options: Mapping[str, Any], why: str) -> None:
    """Raise UsageError with the reason if there are certificates, for what cannot use them."""
    if options.get("security") is not None:
        raise UsageError(f"security, tls_ca_file, tls_cert, tls_key: {why}")


def local_cluster(options: Mapping[str, Any]) -> Any:
    """Worker processes on this machine, reachable from it alone.

    Parameters
    ----------
    options
        n_workers, threads_per_worker, memory_limit (of each worker), security, and what else
        `distributed.LocalCluster` takes.
    """
    from distributed import LocalCluster

    from dranking.engine.cluster.local_workers import QuickNanny

    # Loopback only, the dashboard too, which by itself would listen on every interface.
    defaults: dict[str, Any] = {
        "host": LOOPBACK,
        "dashboard_address": f"{LOOPBACK}:0",
        "threads_per_worker": 1,
        "processes": True,
    }
    if options.get("processes", True):
        defaults["worker_class"] = QuickNanny
    return start(LocalCluster, {**defaults, **options}, REUSE_MEMORY)


def batch_options(options: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Keyword arguments of a cluster of dask-jobqueue, with what suits the engine.

    Workers of one thread each, as many as a job has cores, with the engine's settings of Dask; the
    scheduler's dashboard on the loopback interface, and none of workers.

    Parameters
    ----------
    options
        As given: cores and memory of a job, n_workers, queue, walltime, and what else the cluster
        takes.
    section
        Where Dask's configuration has the rest, behind ``jobqueue.``.
    """
    import dask

    found = dict(options)
    if "cores" in found:
        found.setdefault("processes", found["cores"])

    def given(name: str) -> Any:
        """An option; else what the configuration has, if anything."""
        value = found.pop(name, None)
        in_file = f"jobqueue.{section}.{name.replace('_', '-')}"
        return dask.config.get(in_file, None) if value is None else value

    dashboard = ["--no-dashboard", "--dashboard-address", f"{LOOPBACK}:0"]  # metrics are there too
    found["worker_extra_args"] = [*dashboard, *(given("worker_extra_args") or [])]
    at_home = {"dashboard_address": f"{LOOPBACK}:0"}
    found["scheduler_options"] = {**at_home, **(given("scheduler_options") or {})}
    exports = [f"export {name}={value}" for name, value in settings_variables().items()]
    found["job_script_prologue"] = [*exports, *(given("job_script_prologue") or [])]
    return found


def settings_variables() -> dict[str, str]:
    """The engine's settings as variables, which Dask reads on machines that inherit nothing."""
    names = {name.replace(".", "__").replace("-", "_").upper(): SETTINGS[name] for name in SETTINGS}
    return {f"DASK_{name}": str(value) for name, value in names.items()}
