"""The line that a process says once when it begins to compile, and the end of compilation.

Imports nothing heavy, so that `--help` stays fast.
"""

import sys
from collections.abc import Callable

ONCE = "compiling kernels, which happens once on a machine ('dranking warm' does it ahead) ..."
"""The line where compiled kernels are kept."""

EACH_TIME = (
    "compiling kernels in every process: no folder takes compiled code. Set NUMBA_CACHE_DIR to a "
    "folder that can be written ..."
)
"""The line where compiled kernels cannot be kept."""


def say_on_stderr(line: str) -> None:
    """Write the line to stderr; commands give it to their own output instead."""
    if sys.stderr is not None:
        print(f"dranking: {line}", file=sys.stderr, flush=True)


_line: list[str] = [ONCE]
_say: list[Callable[[str], object]] = [say_on_stderr]
_stopped: list[bool] = []


class Stopped(BaseException):
    """The process is about to end, so that nothing is compiled any more."""


def say_when_compiling(function: Callable[[str], object]) -> None:
    """Give the line to a function, in place of `say_on_stderr`, unless it was said already."""
    if _say:
        _say[:] = [function]


def say_once(line: str | None = None) -> None:
    """Say the line, that of a worker or of this process, unless a line was said."""
    try:
        say = _say.pop()
    except IndexError:  # it was said
        return
    say(_line[0] if line is None else line)


def say_that_none_is_kept() -> None:
    """Let the line say that every process compiles."""
    _line[:] = [EACH_TIME]


def is_kept() -> bool:
    """Whether later processes find the code that this process compiles."""
    return _line == [ONCE]


def compiling(name: str) -> None:
    """Say the line when the compilation of a function begins.

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
    if name.startswith("dranking."):
        say_once()


def stop_compiling() -> None:
    """Let threads that compile end with the function that they are at: a signal ends the process.

    A kernel calls others, each of which is a function, so that a thread ends long before its kernel
    would be compiled.
    """
    _stopped.append(True)
