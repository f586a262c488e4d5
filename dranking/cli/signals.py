"""Ctrl-C (SIGINT) and SIGTERM: when they end the process, and how.

While modules are imported, and after the command, there is nothing to put in order: the process
ends at once. During a command, an exception closes clusters and removes unfinished files. The
exception waits for the end of an import, since Python may turn an exception inside of one into an
ImportError, or print it and go on.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from dranking.kernels.machine.first_use import stop_compiling

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes, as shells report them: 128 and the number of the signal."""

PAUSE = 0.02
"""Seconds after which an interrupted import is looked at again."""

_waiting: list[type[BaseException]] = []


class Terminated(BaseException):
    """The process was asked to end by SIGTERM, as schedulers and containers do."""

    exit_code = TERMINATED


def end_at_once() -> None:
    """Let both signals end the process without any clean-up."""
    _handle_by(_end)


def end_in_order() -> None:
    """Let the signals raise KeyboardInterrupt and Terminated, between imports."""
    _handle_by(_raise_or_wait)
    signal.signal(signal.SIGALRM, _look_again)


def _handle_by(handler: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)  # type: ignore[arg-type]


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED if number == signal.SIGINT else TERMINATED)


def _raise_or_wait(number: int, frame: FrameType | None) -> None:
    """Raise the exception of a signal, or let it wait for an import; a second signal is urgent."""
    error = KeyboardInterrupt if number == signal.SIGINT else Terminated
    if _waiting or not _is_importing(frame):
        _raise(error)
    _waiting.append(error)
    signal.setitimer(signal.ITIMER_REAL, PAUSE, PAUSE)


def _look_again(number: int, frame: FrameType | None) -> None:
    if _waiting and not _is_importing(frame):
        _raise(_waiting[0])


def _raise(error: type[BaseException]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    _waiting.clear()
    stop_compiling()  # the command waits for its threads, one of which may be compiling
    raise error


def _is_importing(frame: FrameType | None) -> bool:
    """Whether some frame below is of Python's import system."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
