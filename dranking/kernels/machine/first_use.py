"""Who is told when this process begins to compile, and which kernels another process compiles.

Imports nothing, so that `--help` stays fast.
"""

from collections.abc import Callable

_waiting: list[Callable[[], None]] = []
_elsewhere: dict[str, Callable[[], None]] = {}
_when_stopped: list[Callable[[], None]] = []
_stopped: list[bool] = []


class Stopped(BaseException):
    """The process is about to end, so that nothing is compiled any more."""


def tell_when_compiling(function: Callable[[], None]) -> None:
    """Call a function once, when the first kernel that the cache does not hold is compiled."""
    _waiting.append(function)


def compiling() -> None:
    """Tell those who wait that the compilation of a function begins.

    Raises
    ------
    Stopped
        After `stop_compiling`.
    """
    if _stopped:
        raise Stopped
    while _waiting:
        _waiting.pop()()


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
