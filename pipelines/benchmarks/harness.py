"""The frame of all benchmarks: interleaved timing, peak memory, figures and their printing.

A benchmark is a function from its options to figures, run by `main`:

    def measure(options: argparse.Namespace) -> list[Figure]:
        times = interleaved({"ours": ours, "peer": peer})
        return [figure("speed", times["peer"] / times["ours"], "x", peer="peer", at_least=3)]

    if __name__ == "__main__":
        main(measure, parser("Speed of this against that."))
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.metadata
import math
import multiprocessing
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from dranking import __version__
from dranking.cli.output import note, print_json, print_table
from dranking.engine.memory import release_memory

REPOSITORY = Path(__file__).resolve().parents[2]
REPEATS = 5
"""Number of interleaved rounds; a figure is the median over the rounds."""

SHORT = 3
"""Calls of some hundredths of a second are timed this many times as often as longer calls."""

SETTLE_SECONDS = 0.3
"""Seconds to wait before each timed call. After a matrix product, the threads of BLAS keep spinning
for more than a tenth of a second on the cores that the next alternative needs."""

ARITHMETIC = 500_000_000
"""Steps of `arithmetic`, about a second of one core. Shared by several threads, they show how much
the machine can gain from its cores."""

WAKING = 100_000_000
"""Steps of `arithmetic` before each timed call. After a pause, the cores of a virtual machine are
slow for about as long as the shortest calls take."""

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "pyarrow", "dask")


@dataclass(frozen=True)
class Sample:
    """A quantity measured several times.

    Attributes
    ----------
    values
        The values in the order of measurement. Samples of one `interleaved` call are divided round
        by round, since whatever slows the machine down in a round slows both sides.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the values."""
        return statistics.median(self.values)

    @property
    def range(self) -> tuple[float, float]:
        """Least and greatest value."""
        return min(self.values), max(self.values)

    def __truediv__(self, other: Sample | float) -> Sample:
        if isinstance(other, Sample):
            return Sample(tuple(a / b for a, b in zip(self.values, other.values, strict=True)))
        return Sample(tuple(value / other for value in self.values))

    def __rtruediv__(self, amount: float) -> Sample:
        return Sample(tuple(amount / value for value in self.values))


@dataclass(frozen=True)
class Figure:
    """One line of a benchmark's result.

    Attributes
    ----------
    name, value, unit
        The quantity, its value and its unit. The value is a median where there is a range.
    peer
        The program that the quantity was measured against.
    target, holds
        The value that was promised, and whether it was reached; None without a promise.
    range
        Least and greatest measured value.
    skipped
        The reason why there is no value.
    """

    name: str
    value: float | None
    unit: str
    peer: str | None = None
    target: float | None = None
    holds: bool | None = None
    range: tuple[float, float] | None = None
    skipped: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The keys of the contract, with the range or the reason for skipping if there is one."""
        optional = {"range", "skipped"}
        fields = asdict(self).items()
        return {name: x for name, x in fields if name not in optional or x is not None}


def figure(
    name: str,
    value: float | Sample,
    unit: str,
    *,
    peer: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """A measured figure; `at_least` or `at_most` is the target."""
    middle, spread = (value.median, value.range) if isinstance(value, Sample) else (value, None)
    target = at_least if at_most is None else at_most
    holds = None
    if at_least is not None:
        holds = middle >= at_least
    elif at_most is not None:
        holds = middle <= at_most
    return Figure(name, middle, unit, peer, target, holds, spread)


def skipped(
    name: str, unit: str, why: str, *, peer: str | None = None, target: float | None = None
) -> Figure:
    """A figure that this machine could not measure, with the reason."""
    return Figure(name, None, unit, peer, target, skipped=why)


def interleaved(
    alternatives: Mapping[str, Callable[[], object]],
    repeats: int = REPEATS,
    *,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
    seconds: float = math.inf,
) -> dict[str, Sample]:
    """Time alternatives in turn, round after round.

    Parameters
    ----------
    alternatives
        Functions to call, by name; their results are dropped.
    repeats
        Number of rounds.
    warm_up
        Whether each function is called once beforehand, so that neither compilation nor the first
        read of a file is timed.
    clock
        The clock that is read before and after each call, for example `processor_seconds`; wall
        seconds by default.
    seconds
        Wall seconds. After the first round, no round begins that would end later if it took as
        long as the longest so far.

    Returns
    -------
    Seconds of each call, by name.
    """
    begin, longest = time.perf_counter(), 0.0
    if warm_up:
        for name, call in alternatives.items():
            note(f"warming up: {name}")
            call()
    spent: dict[str, list[float]] = {name: [] for name in alternatives}
    for round_number in range(1, repeats + 1):
        start = time.perf_counter()
        if start - begin + longest > seconds and round_number > 1:
            break
        for name, call in alternatives.items():
            spent[name].append(_seconds(call, clock))
            note(f"round {round_number} of {repeats}: {name} {spent[name][-1]:.3f} s")
        longest = max(longest, time.perf_counter() - start)
    return {name: Sample(tuple(values)) for name, values in spent.items()}


def processor_seconds() -> float:
    """Processor seconds of this process and of the child processes that it has waited for.

    As the clock of `interleaved`, this function counts only the work of the call, even where other
    work keeps the machine busy.
    """
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def arithmetic(n_threads: int, n_steps: int = ARITHMETIC) -> None:
    """Do `n_steps` of arithmetic that needs no memory, shared by `n_threads` threads."""
    parts = [n_steps // n_threads] * n_threads
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(_count, parts))


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _count(n: int) -> float:
    """A sum over n numbers, each computed from the number before."""
    state, total = np.uint64(1), 0.0
    for _ in range(n):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        total += np.float64(state >> np.uint64(40))
    return total


def _seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    gc.collect()
    time.sleep(SETTLE_SECONDS)
    arithmetic(_usable_cores() or 1, WAKING)
    start = clock()
    call()
    return clock() - start


def peak_memory(load: Callable[[], Any], run: Callable[[Any], object]) -> int:
    """Peak memory of ``run(load())``, in bytes above the memory in use after `load`.

    Both functions run in a fresh process, so both must be functions of a module, or partials of
    such functions. `load` should also run a small example, because otherwise the memory of
    compilation counts as memory of `run`. The system counts in batches: a megabyte more or less
    means nothing.

    Raises
    ------
    NotImplementedError
        If the system is not Linux.
    """
    if not Path("/proc/self/clear_refs").exists():
        raise NotImplementedError("peak memory is measured on Linux only.")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        return pool.submit(_peak_of, load, run).result()


def _peak_of(load: Callable[[], Any], run: Callable[[Any], object]) -> int:
    data = load()
    _give_back_memory()
    before = resident("VmRSS")
    # On Linux this resets the peak, so that the peak of loading does not count.
    Path("/proc/self/clear_refs").write_text("5")
    run(data)
    return resident("VmHWM") - before


def _give_back_memory() -> None:
    """Return freed memory to the system, so that a run that uses memory again is counted."""
    gc.collect()
    release_memory()


def resident(field: str) -> int:
    """Bytes of memory of this process: VmRSS for now, VmHWM for the peak. Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field + ":"))
    return 1024 * int(line.split()[1])


def machine() -> dict[str, Any]:
    """Processor, usable cores, memory in bytes, and versions of packages."""
    return {
        "cpu": _cpu_model(),
        "cores": _usable_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "dranking": __version__,
        **{name: _version(name) for name in PACKAGES},
    }


def _usable_cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark; a benchmark adds more options."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--json", action="store_true", help="print one JSON object")
    options.add_argument("--quick", action="store_true", help="smaller data, for a first look")
    options.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("DRANKING_DATA", REPOSITORY.parent / "shared" / "data"),
        metavar="DIR",
        help="folder of the public data sets (default: DRANKING_DATA, or ../shared/data)",
    )
    return options


def add_topics(
    options: argparse.ArgumentParser, topics: Collection[str]
) -> argparse.ArgumentParser:
    """Add the options of a benchmark with several topics: topics and number of rounds."""

    def named(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in topics]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(topics)}")
        return names

    options.add_argument(
        "--topics", type=named, default=list(topics), metavar="A,B", help="default: all"
    )
    options.add_argument(
        "--rounds", type=int, default=REPEATS, help="interleaved runs (default: %(default)s)"
    )
    return options


def main(
    measure: Callable[[argparse.Namespace], Sequence[Figure]],
    options: argparse.ArgumentParser,
    arguments: Sequence[str] | None = None,
) -> None:
    """Parse the arguments, measure, and print the figures."""
    parsed = options.parse_args(arguments)
    figures = measure(parsed)
    if parsed.json:
        print_json({"machine": machine(), "figures": [item.as_json() for item in figures]})
    else:
        _print_readable(figures)


def _print_readable(figures: Sequence[Figure]) -> None:
    facts = machine()
    title = f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_bytes'] / 2**30:.0f} GiB"
    columns = ("figure", "value", "unit", "least to greatest", "peer", "target", "holds")
    print_table(title, columns, [_row(item) for item in figures])
    for item in figures:
        if item.skipped:
            print(f"{item.name}: skipped, {item.skipped}")


def _row(item: Figure) -> tuple[str, ...]:
    holds = {True: "yes", False: "NO", None: ""}[item.holds]
    spread = "" if item.range is None else f"{item.range[0]:.4g} to {item.range[1]:.4g}"
    value = "skipped" if item.value is None else f"{item.value:.4g}"
    target = "" if item.target is None else f"{item.target:g}"
    return item.name, value, item.unit, spread, item.peer or "", target, holds
