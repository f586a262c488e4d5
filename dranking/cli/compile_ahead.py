"""A second process that compiles large kernels while the command compiles the others.

Numba compiles one function at a time in a process. So where a command has to compile, and a second
core is there, another process compiles some of the kernels that the command needs later, into the
cache that both share. It begins at once where the cache looks empty, while the command still
imports its modules, and else with the first kernel that the command itself compiles.

The process asks before it begins a kernel. Before the first call of such a kernel the command waits
for it if the process has begun it, and else compiles the kernel itself. A failure of the other
process costs nothing but time.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO

from dranking.kernels.machine import first_use

SELECTION = ("update", "dense_gram_rows")
LISTWISE = ("most_violated_by_ndcg", "sum_of_hinges")  # the rest of `largest_hinges` is left

AHEAD: dict[str, tuple[str, ...]] = {
    "select": SELECTION,
    "tune": (*SELECTION, "rank_order"),
    "quickstart": ("update", "dense_moments", "dense_gram_rows", "rank_order"),
    "train lcra": ("coregularised_steps",),
    "train max-margin": ("largest_hinges",),
    "train ranksvm": ("hinge_curvature", "plain_hinge"),
    "bounds": LISTWISE,
    "report --train": SELECTION + LISTWISE,
    "retrain": ("update", "dense_moments", "rank_order", *LISTWISE),
}
"""Names in `JOBS` of `dranking.cli.compile_jobs`, in the order in which the process takes them."""


def compile_ahead(arguments: Sequence[str]) -> None:
    """Start a second process now, or as soon as the command has to compile its first kernel.

    Parameters
    ----------
    arguments
        The arguments of the command line, the name of the command first.
    """
    names = names_of(arguments)
    if not names or _n_cores() == 1 or "--help" in arguments:
        return
    if _looks_empty(names[0]):
        _start(names)
    else:
        first_use.tell_when_compiling(partial(_start, names))


def names_of(arguments: Sequence[str]) -> tuple[str, ...]:
    """The kernels of a command that the process compiles."""
    command = " ".join(arguments[: 2 if arguments[:1] == ["train"] else 1])
    if any(text.startswith("--train") for text in arguments):
        command += " --train"
    return AHEAD.get(command, ())


def _n_cores() -> int:
    """Cores on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _looks_empty(name: str) -> bool:
    """Whether kernels are cached, and no file of the cache has the name of a kernel.

    The answer is a guess, which needs no import. A wrong guess costs an import in the other
    process, or delays the other process until the command's first compilation.
    """
    if "NUMBA_DISABLE_JIT" in os.environ:
        return False
    folder = os.environ.get("NUMBA_CACHE_DIR")
    if folder:
        return not any(Path(folder).glob(f"*/*.{name}-*.nbi"))
    kernels = Path(first_use.__file__).parents[1]
    return os.access(kernels, os.W_OK) and not any(kernels.glob(f"*/__pycache__/*.{name}-*.nbi"))


def _start(names: Sequence[str]) -> None:
    if "numba" in sys.modules:
        from dranking.kernels.machine.compile import kept_on_disk

        if not kept_on_disk():
            return
    try:
        other = SecondProcess(command_of(names))
    except OSError:
        return  # no process can be started: this one compiles all
    for name in names:
        first_use.compiled_elsewhere(name, partial(other.wait_for, name))


def command_of(names: Sequence[str]) -> list[str]:
    """The command of the process that compiles kernels."""
    return [sys.executable, "-P", "-m", "dranking.cli.compile_jobs", *names]


class SecondProcess:
    """A process such as `dranking.cli.compile_jobs`, which asks before it compiles a kernel."""

    def __init__(self, command: Sequence[str]) -> None:
        # The process imports from the same places as this one, and not from the present directory.
        places = os.pathsep.join(os.path.abspath(place) for place in sys.path)
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": places},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.begun: set[str] = set()
        self._done: set[str] = set()
        self._kept: set[str] = set()
        self._has_ended = False
        self._changed = threading.Condition()
        pipes = _pipes_of(self.process)
        answer = threading.Thread(
            target=self._answer, args=pipes, name="dranking-compile", daemon=True
        )
        answer.start()
        atexit.register(self._end)
        first_use.when_stopped(self.process.terminate)

    def wait_for(self, name: str) -> None:
        """Wait for a kernel that the process compiles, and keep a kernel that it has not begun."""
        with self._changed:
            if name not in self.begun:
                self._kept.add(name)
                return
            self._changed.wait_for(lambda: name in self._done or self._has_ended)

    def _answer(self, answers: IO[str], questions: IO[str]) -> None:
        """Read what the process says, and let it begin kernels that this process has not kept."""
        for line in questions:
            said, _, name = line.strip().partition(" ")
            with self._changed:
                if said == "done":
                    self._done.add(name)
                    self._changed.notify_all()
                    continue
                begins = name not in self._kept
                if begins:
                    self.begun.add(name)
            try:
                print("yes" if begins else "no", file=answers, flush=True)
            except OSError:  # the process has ended
                break
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _end(self) -> None:
        self.process.terminate()
        self.process.wait()


def _pipes_of(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    """The pipes to a process and from it.

    Raises
    ------
    ValueError
        If the process was started without them.
    """
    if process.stdin is None or process.stdout is None:
        raise ValueError("the process was started without pipes for its input and output.")
    return process.stdin, process.stdout
