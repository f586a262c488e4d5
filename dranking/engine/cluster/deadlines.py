"""How long a Dask cluster is waited for: settings, and what stays as it is for too long.

Settings are Dask's own (its YAML files, `dask.config.set`, or the environment, where the first is
`DASK_DRANKING__WORKER_SECONDS`):

| setting | default | what ends then |
|---|---|---|
| `dranking.worker-seconds` | 30 | a worker that neither dies, answers nor works; its work moves |
| `dranking.no-workers-seconds` | 300 | a job that has no worker at all |
| `dranking.scheduler-seconds` | 30 | a job whose scheduler does not answer |
| `dranking.task-seconds` | 3600 | a job of which no task has finished for so long |
| `dranking.lost-workers` | 20 | a job of which one task was on so many workers as they died |
| `dranking.start-seconds` | 300 | a job whose cluster is started for it and does not come up |
| `dranking.stop-seconds` | 60 | the wait for a cluster that was started for a job to stop |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from dranking.errors import UsageError

T = TypeVar("T")

DEFAULTS = {
    "start-seconds": 300.0,
    "stop-seconds": 60.0,
    "worker-seconds": 30.0,
    "no-workers-seconds": 300.0,
    "scheduler-seconds": 30.0,
    "task-seconds": 3600.0,
    "lost-workers": 20.0,
}


def setting(name: str) -> float:
    """The value of a setting: a number above 0, or a time such as "5 minutes".

    Raises
    ------
    UsageError
        If it is something else.
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
    """Something has not ended by its deadline."""


def within(seconds: float, function: Callable[[], T], late: Callable[[T], Any] | None = None) -> T:
    """What a function returns that may never do so: it runs in a thread of its own.

    Parameters
    ----------
    seconds
        To wait for it at most.
    function
        What it raises is raised here.
    late
        Called with what the function returns when nobody waits for it any more.

    Raises
    ------
    DeadlineError
        If the function has not returned. It goes on; its thread does not keep this process alive.
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


class Unchanged:
    """How long things have been as they are, by when this was told of them."""

    def __init__(self) -> None:
        self._since: dict[Any, tuple[Any, float]] = {}

    def seconds(self, thing: Any, state: Any) -> float:
        """For how long a thing has been in the state that it is in now."""
        now = time.monotonic()
        last, since = self._since.get(thing, (state, now))
        if last != state:
            since = now
        self._since[thing] = (state, since)
        return now - since
