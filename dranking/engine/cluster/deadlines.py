"""Deadlines: their settings, and functions and context managers that end in time.

Settings are part of Dask's configuration: its YAML files, `dask.config.set`, or variables of the
environment such as `DASK_DRANKING__WORKER_SECONDS`.

| setting | default | what ends at the deadline |
|---|---|---|
| `dranking.worker-seconds` | 60 | a worker that is silent or full; its tasks move |
| `dranking.no-workers-seconds` | 300 | a job without any worker |
| `dranking.scheduler-seconds` | 30 | a job whose scheduler does not answer |
| `dranking.task-seconds` | 3600 | a job none of whose tasks finishes in this time |
| `dranking.lost-workers` | 20 | a job with a task on which more workers than this died |
| `dranking.start-seconds` | 300 | a job whose own cluster does not come up |
| `dranking.stop-seconds` | 60 | the wait until the cluster of a finished job has stopped |
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from dranking.errors import UsageError

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULTS = {
    "start-seconds": 300.0,
    "stop-seconds": 60.0,
    # One call of native code may hold Python's lock for half a minute; the worker would be dropped
    # for nothing, again and again. Processes that end are noticed at once.
    "worker-seconds": 60.0,
    "no-workers-seconds": 300.0,
    "scheduler-seconds": 30.0,
    "task-seconds": 3600.0,
    "lost-workers": 20.0,
}


def setting(name: str) -> float:
    """The setting ``dranking.<name>`` of Dask, above 0; times may be text such as "5 minutes".

    Raises
    ------
    UsageError
        If the value is something else.
    """
    import dask
    from dask.utils import parse_timedelta

    value = dask.config.get(f"dranking.{name}", DEFAULTS[name])
    try:
        number = float(parse_timedelta(value))
    except (ValueError, TypeError, KeyError, AttributeError):
        number = 0.0
    if not number > 0.0:
        raise UsageError(f"dranking.{name} is {value!r}; it must be a number above 0.")
    return number


class DeadlineError(Exception):
    """A function has not returned by its deadline."""


def within(seconds: float, function: Callable[[], T], late: Callable[[T], Any] | None = None) -> T:
    """Call a function that may never return, in a thread of its own, and return its result.

    Parameters
    ----------
    seconds
        The deadline.
    function
        The errors of this function are raised here.
    late
        Called with the result if the function returns after the wait has ended.

    Raises
    ------
    DeadlineError
        If the function has not returned in time. Its thread goes on, but does not keep this process
        alive.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    def undo(ended: Future[T]) -> None:
        if late is not None and ended.exception() is None:
            late(ended.result())

    threading.Thread(target=run, name="dranking-deadline", daemon=True).start()
    try:
        in_time = bool(wait([outcome], timeout=seconds).done)
    except BaseException:  # such as Ctrl-C
        outcome.add_done_callback(undo)
        raise
    if not in_time:
        outcome.add_done_callback(undo)
        raise DeadlineError
    return outcome.result()


@contextmanager
def exit_in_time(manager: Any, entered: Any, name: str) -> Iterator[Any]:
    """The context of a client or a cluster, whose end takes ``dranking.stop-seconds`` at most.

    Parameters
    ----------
    manager
        A context manager that was entered already.
    entered
        The value that entering it returned.
    name
        The name by which the warning calls a client or a cluster that has not stopped in time.
    """
    limit = setting("stop-seconds")
    try:
        yield entered
    finally:
        exception = sys.exc_info()
        try:
            within(limit, lambda: manager.__exit__(*exception))
        except DeadlineError:
            _LOG.warning(
                "%s has not stopped within %g s (dranking.stop-seconds) and is left behind: check "
                "whether its processes still run",
                name,
                limit,
            )


class Unchanged:
    """Measures for how long things have been in the state that was last reported of them."""

    def __init__(self) -> None:
        self._since: dict[Any, tuple[Any, float]] = {}

    def seconds(self, thing: Any, state: Any) -> float:
        """Report the state of a thing; return for how many seconds it has been in this state."""
        now = time.monotonic()
        last, since = self._since.get(thing, (state, now))
        if last != state:
            since = now
        self._since[thing] = (state, since)
        return now - since
