"""Greedy selection with and without the instructions of `dranking.kernels.machine.instructions`.

A kernel may use an exceptional instruction only where a figure is 1.25 times better with it. Every
variant runs in a process of its own, with its own cache of compiled kernels, and the variants take
turns. `fma` is there for equal bits on every machine and has no variant without it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numba

from dranking.engine.executor import get_executor
from dranking.engine.tiles import Tiles
from dranking.kernels.gram import dense
from dranking.rankers.gram.moments import QueryMoments
from pipelines.benchmarks.greedy import QUICK, SELECTED, SIZES, Size, make_arrays, select
from pipelines.benchmarks.harness import Figure, Sample, figure, interleaved, main, parser

WITH, WITHOUT = "with prefetch", "without prefetch"
ROUNDS = 15


def serve(pipe: Connection, variant: str, size: Size) -> None:
    """Run what the pipe names, until the pipe closes; tell the pipe when each run has ended."""
    if variant == WITHOUT:
        leave_out_prefetch()
    dataset = make_arrays(size).dataset()
    runs: dict[str, Callable[[], object]] = {
        "moments": lambda: QueryMoments(Tiles(dataset, get_executor("threads")))
    }
    runs |= {f"{k} features": partial(select, k, dataset) for k in SELECTED}
    while name := pipe.recv():
        runs[name]()
        pipe.send(name)


def leave_out_prefetch() -> None:
    """Compile the kernels, of which none was called yet, without the instruction."""
    dense.prefetch = numba.njit(lambda row, i: None)


def compare(size: Size, rounds: int) -> list[Figure]:
    """Times without an instruction, in times the time with it."""
    context = get_context("spawn")
    pipes: dict[str, Connection] = {}
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        for variant in (WITH, WITHOUT):
            os.environ["NUMBA_CACHE_DIR"] = os.path.join(folder, variant.split()[0])
            pipes[variant], theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, variant, size))
            process.start()
            processes.append(process)
        found = []
        for work in ("moments", *(f"{k} features" for k in SELECTED)):
            times = interleaved({v: partial(ask, pipe, work) for v, pipe in pipes.items()}, rounds)
            pairs = zip(times[WITHOUT].values, times[WITH].values, strict=True)
            ratio = Sample(tuple(without / there for without, there in pairs))
            name = f"prefetch, {work} of {size}"
            found.append(figure(name, ratio, "x", peer=WITHOUT, at_least=1.25))
        for pipe in pipes.values():
            pipe.send("")
        for process in processes:
            process.join()
    return found


def ask(pipe: Connection, work: str) -> None:
    """Have a process do some work, and wait for its end."""
    pipe.send(work)
    pipe.recv()


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Figures of all sizes."""
    sizes, rounds = (QUICK, 3) if options.quick else (SIZES, ROUNDS)
    return [item for size in sizes for item in compare(size, rounds)]


if __name__ == "__main__":
    main(measure, parser(__doc__ or ""))
