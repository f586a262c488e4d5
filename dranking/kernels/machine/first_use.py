"""Listeners for the first compilation of this process, and kernels that another one compiles.

The first `select` of 10 features takes 1.52 times as long without the process that compiles large
kernels at the same time (`pipelines.benchmarks.first_calls`, RESULTS.md). Imports nothing heavy, so
that `--help` stays fast.
"""

import sys
from collections.abc import Callable

SAID = "compiling, which takes some seconds, on first use only ('dranking warm' compiles all) ..."
"""The line that a process writes once, when it begins to compile."""


def say_on_stderr() -> None:
    """Say on stderr, in one line, that kernels are compiled."""
    if sys.stderr is not None:
        print(f"dranking: {SAID}", file=sys.stderr, flush=True)


_say: list[Callable[[], None]] = [say_on_stderr]
_waiting: list[Callable[[], None]] = []
_elsewhere: dict[str, Callable[[], None]] = {}
_when_stopped: list[Callable[[], None]] = []
_stopped: list[bool] = []


class Stopped(BaseException):
    """The process is about to end, so that nothing is compiled any more."""


def tell_when_compiling(function: Callable[[], None]) -> None:
    """Call a function once, when the first kernel that the cache does not hold is compiled."""
    _waiting.append(function)


def say_when_compiling(function: Callable[[], None]) -> None:
    """Call a function, once, in place of `say_on_stderr`, when a kernel of dranking is compiled."""
    _say[:] = [function]


def say_once() -> None:
    """Say that kernels are compiled, here or by a worker of this process, unless it was said."""
    try:
        say = _say.pop()
    except IndexError:  # it was said
        return
    say()


def compiling(name: str) -> None:
    """Tell those who wait that the compilation of a function begins.

    Parameters
    ----------
    name
        Full name of the function. Only of the project's own is anything said.

    Raises
    ------
    Stopped
        After `stop_compiling`.
    """
    if _stopped:
        raise Stopped
    while _waiting:
        _waiting.pop()()
    if name.startswith("dranking."):
        say_once()


def compiled_elsewhere(name: str, wait: Callable[[], None]) -> None:
    """Say that another process compiles a kernel into the cache, and how to wait for it."""
    _elsewhere[name] = wait


def before_first_call(name: str) -> None:
    """Wait for the other process that compiles a kernel, if there is one."""
    if name in _elsewhere:
        _elsewhere[name]()
        _elsewhere.pop(name, None)


def stop_compiling() -> None:
    """Let threads that compile end with the function that they are at: a signal ends the process.

    A kernel calls others, each of which is a function, so that a thread ends long before its kernel
    would be compiled.
    """
    _stopped.append(True)
    while _when_stopped:
        _when_stopped.pop()()


def when_stopped(function: Callable[[], None]) -> None:
    """Call a function, which must not wait, as soon as nothing is compiled any more."""
    _when_stopped.append(function)
