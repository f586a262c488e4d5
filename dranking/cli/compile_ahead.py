"""A second process that compiles large kernels while the command compiles the others.

Numba compiles one function at a time in a process. So where a command has to compile, and a second
core is there, another process compiles some of the kernels that the command needs later, into the
cache that both share. Before the first call of such a kernel the command waits for it. Whatever
fails there costs nothing but time: the command then compiles the kernel itself.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial

from dranking.kernels.machine import first_use

SELECTION = ("update",)
LISTWISE = ("largest_hinges", "sum_of_hinges")

AHEAD: dict[str, tuple[str, ...]] = {
    "select": SELECTION,
    "tune": SELECTION,
    "quickstart": SELECTION,
    "bounds": LISTWISE,
    "report": LISTWISE,
}
"""Names in `JOBS` of `dranking.cli.compile_jobs`, in the order in which a command needs them."""


def compile_ahead(arguments: Sequence[str]) -> None:
    """Start a second process as soon as the command has to compile its first kernel.

    Parameters
    ----------
    arguments
        The arguments of the command line, the name of the command first.
    """
    names: tuple[str, ...] = AHEAD.get(arguments[0], ()) if arguments else ()
    if arguments[:1] == ["report"] and any(text.startswith("--train") for text in arguments):
        names = SELECTION + LISTWISE
    if names and _n_cores() > 1:
        first_use.tell_when_compiling(partial(_start, names))


def _n_cores() -> int:
    """Cores on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start(names: Sequence[str]) -> None:
    from dranking.kernels.machine.compile import kept_on_disk

    if kept_on_disk():
        try:
            other = _SecondProcess(names)
        except OSError:
            return  # no process can be started: this one compiles all
        for name in names:
            first_use.compiled_elsewhere(name, partial(other.wait_for, name))


class _SecondProcess:
    """A process of `dranking.cli.compile_jobs`, which says each name when it is done."""

    def __init__(self, names: Sequence[str]) -> None:
        # The same modules, from the same places; none from the present directory.
        places = os.pathsep.join(os.path.abspath(place) for place in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dranking.cli.compile_jobs", *names],
            env={**os.environ, "PYTHONPATH": places},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._done: set[str] = set()
        self._one_reads = threading.Lock()
        atexit.register(self._end)

    def wait_for(self, name: str) -> None:
        """Wait until the process has compiled a kernel, or has ended."""
        assert self._process.stdout is not None
        with self._one_reads:
            while name not in self._done:
                line = self._process.stdout.readline()
                if not line:
                    return
                self._done.add(line.strip())

    def _end(self) -> None:
        self._process.terminate()
        self._process.communicate()
