"""Starting Dask clusters with the settings of the engine; used by the files of ``cluster/``."""

from __future__ import annotations

import inspect
import logging
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from numbers import Integral
from typing import Any, cast

from dranking.engine.cluster.deadlines import setting
from dranking.engine.cluster.starting.dask_settings import (
    REUSE_MEMORY,
    SETTINGS,
    dropping_silent_workers,
    settings_variables,
)
from dranking.errors import UsageError

LOOPBACK = "127.0.0.1"

DASK_LOGGERS = ("distributed", "tornado.application", "asyncio")
"""Loggers of Dask; asyncio reports tasks of Dask's client that a signal interrupted."""

LOG_DIRECTORY = "dranking-jobs"
"""Folder below the working directory for the outputs of batch jobs, unless the user names one."""


def start(
    cluster: Callable[..., Any],
    options: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """Start a cluster with the settings of the engine.

    Parameters
    ----------
    cluster
        A cluster class of Dask, or a function that returns a cluster.
    options
        Keyword arguments of the class or function.
    settings
        More settings of Dask, for the processes that inherit the configuration.
    """
    import dask

    with dask.config.set({**SETTINGS, **(settings or {})}):
        return cluster(**options)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Dask's own messages below critical ones; the supervisor says what users must know.

    Dask's configuration (``logging:``) keeps its meaning: what users ask for there is shown.
    """
    import dask

    if dask.config.get("logging", None):
        yield
        return
    loggers = [logging.getLogger(name) for name in DASK_LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            # A signal ends the process. Until its end, asyncio reports tasks that it interrupted.
            before = [logger.level for logger in loggers]
        raise
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def patience() -> AbstractContextManager[Any]:
    """Dask's settings in this process for the time that a cluster is used, as a context.

    By default, a Dask cluster stops the nanny of a lost worker after 15 seconds, for good. On a
    busy machine a nanny may take longer to start another worker. Schedulers that start meanwhile,
    those of users' files among them, drop silent workers.
    """
    import dask

    seconds = setting("no-workers-seconds")
    settings = {"distributed.deploy.lost-worker-timeout": f"{seconds} s"}
    context = dask.config.set({**settings, **dropping_silent_workers()})
    return cast(AbstractContextManager[Any], context)


def optional(module: str, extra: str) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    module
        Name of the module.
    extra
        The extra of this project that brings the package.

    Raises
    ------
    UsageError
        If the module cannot be imported.
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
    """Raise UsageError if there are unknown options."""
    unknown = sorted(set(options) - {*known, "security"})
    if unknown:
        raise UsageError(f"cluster options {', '.join(unknown)}: {what} takes no such options.")


def refuse_security(options: Mapping[str, Any], why: str) -> None:
    """Raise UsageError, with the reason, if there are certificates; for clusters without TLS."""
    if options.get("security") is not None:
        raise UsageError(f"security, tls_ca_file, tls_cert, tls_key: {why}")


def local_cluster(options: Mapping[str, Any]) -> Any:
    """Start worker processes on this machine, which only this machine can reach.

    Parameters
    ----------
    options
        n_workers, threads_per_worker, memory_limit (of each worker), security, and other keyword
        arguments of `distributed.LocalCluster`.

    Raises
    ------
    UsageError
        If an option is unknown, or ``n_workers`` is no number of workers.
    """
    from distributed import LocalCluster, Nanny, Worker
    from distributed.core import Server

    from dranking.engine.cluster.starting.local_workers import QuickNanny, signals_for_the_driver

    taken = {name for each in (LocalCluster, Nanny, Worker, Server) for name in arguments_of(each)}
    if unknown := sorted(set(options) - taken):
        raise UsageError(
            f"local has no option {', '.join(unknown)}; the most frequent ones are n_workers, "
            "threads_per_worker and memory_limit of each worker, and distributed.LocalCluster "
            "lists all."
        )
    n_workers = options.get("n_workers")  # None lets Dask choose
    if isinstance(n_workers, bool) or not isinstance(n_workers, Integral | None):
        raise UsageError(f"n_workers is {options['n_workers']!r}; write a number of workers.")
    # By default, the dashboard would listen on every interface.
    defaults: dict[str, Any] = {
        "host": LOOPBACK,
        "dashboard_address": f"{LOOPBACK}:0",
        "threads_per_worker": 1,
        "processes": True,
    }
    if options.get("processes", True):
        defaults["worker_class"] = QuickNanny
    with signals_for_the_driver():
        return start(LocalCluster, {**defaults, **options}, REUSE_MEMORY)


def arguments_of(made: type) -> set[str]:
    """Names of the arguments with which a class makes an object."""
    arguments = inspect.signature(made.__init__).parameters.values()  # type: ignore[misc]
    return {a.name for a in arguments if a.kind not in (a.VAR_KEYWORD, a.VAR_POSITIONAL)} - {"self"}


def batch_options(options: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Keyword arguments of a dask-jobqueue cluster, with the defaults of the engine.

    A job runs one worker of one thread for each core, with the engine's settings of Dask, and
    writes its output to a file in `LOG_DIRECTORY`. The dashboard of the scheduler listens on the
    loopback interface; workers have none.

    Parameters
    ----------
    options
        Options of the user: cores and memory of a job, n_workers, queue, walltime, and other
        keyword arguments of the cluster.
    section
        The part of Dask's configuration, below ``jobqueue``, that holds the user's other options.
    """
    import dask

    found = dict(options)
    if "cores" in found:
        found.setdefault("processes", found["cores"])

    def given(name: str) -> Any:
        """An option of the user; else of the configuration; else None."""
        value = found.pop(name, None)
        in_file = f"jobqueue.{section}.{name.replace('_', '-')}"
        return dask.config.get(in_file, None) if value is None else value

    dashboard = ["--no-dashboard", "--dashboard-address", f"{LOOPBACK}:0"]  # metrics are there too
    found["log_directory"] = given("log_directory") or LOG_DIRECTORY
    found["worker_extra_args"] = [*dashboard, *(given("worker_extra_args") or [])]
    loopback = {"dashboard_address": f"{LOOPBACK}:0"}
    found["scheduler_options"] = {**loopback, **(given("scheduler_options") or {})}
    exports = [f"export {name}={value}" for name, value in settings_variables().items()]
    found["job_script_prologue"] = [*exports, *(given("job_script_prologue") or [])]
    return found
