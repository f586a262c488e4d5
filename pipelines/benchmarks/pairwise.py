"""Speed of SPD: steps a second in memory, while streaming, and with a second worker.

The same rounds time the public C++ reference, sofia-ml, where its program is there (`--sofia`).
sofia-ml reads its data as text in each run, so the time of a run with one step is subtracted. In
memory, seconds are processor seconds of one core. While streaming, and with workers, seconds are
wall seconds, so that other work on the machine shows.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

import dranking as dr
from dranking.data.blocks import MAX_BLOCK_DOCUMENTS
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor, ThreadExecutor
from dranking.pairwise.spd import SPD
from pipelines.benchmarks.clusters.runs import worker_processes
from pipelines.benchmarks.greedy import Arrays, Size, make_arrays
from pipelines.benchmarks.harness import (
    Figure,
    Sample,
    arithmetic,
    figure,
    interleaved,
    main,
    parser,
    peak_memory,
    processor_seconds,
    skipped,
)
from pipelines.benchmarks.made import QUERY_SIZE, made_blocks

LAMBDA = 1e-4
TARGETS = ((Size(70_000, 46, 40, {}, {}), 2e6), (Size(200_000, 136, 50, {}, {}), 1e6))
QUICK = ((Size(7_000, 46, 40, {}, {}), 2e6),)
STEPS = 2_000_000
STREAMED = (100_000, 10_000_000)
QUICK_STREAMED = (50_000, 200_000)
STEPS_PER_DOCUMENT = 2
SHARED = 16 * (MAX_BLOCK_DOCUMENTS - MAX_BLOCK_DOCUMENTS % QUERY_SIZE)
"""Documents that two workers share. Each worker gets the same number of whole blocks, because an
epoch waits for the larger half."""
QUICK_SHARED = SHARED // 8
SOFIA = "sofia-ml"


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Figures in memory at both sizes, while streaming, and with two workers."""
    n_steps = STEPS // 10 if options.quick else STEPS
    sizes = QUICK if options.quick else TARGETS
    figures: list[Figure] = []
    for size, target in sizes:
        figures += in_memory(size, target, n_steps, options.sofia)
    figures += two_workers(QUICK_SHARED if options.quick else SHARED, 16 * n_steps)
    return figures + streaming(QUICK_STREAMED if options.quick else STREAMED)


def in_memory(size: Size, target: float, n_steps: int, sofia: str | None) -> list[Figure]:
    """Steps a second of one core, against sofia-ml."""
    arrays = make_arrays(size)
    dataset, core = arrays.dataset(), ThreadExecutor(1)
    name, ratio = f"steps a second, {size}", f"times the steps a second, {size}"
    with tempfile.TemporaryDirectory() as folder:
        runs = {"ours": lambda: epochs(n_steps).fit(dataset, executor=core)}
        if sofia:
            text = write_text(arrays, Path(folder, "train.txt"))
            runs["sofia"] = lambda: run_sofia(sofia, text, size.n_features, n_steps)
            runs["sofia, one step"] = lambda: run_sofia(sofia, text, size.n_features, 1)
        times = interleaved(runs, clock=processor_seconds)
    figures = [figure(name, n_steps / times["ours"], "1/s", at_least=target)]
    if not sofia:
        why = "sofia-ml is not there; name its program with --sofia"
        return [*figures, skipped(ratio, "x", why, peer=SOFIA, target=2.5)]
    theirs = Sample(
        tuple(
            a - b
            for a, b in zip(times["sofia"].values, times["sofia, one step"].values, strict=True)
        )
    )
    return [
        *figures,
        figure(f"{SOFIA}'s {name}", n_steps / theirs, "1/s"),
        figure(ratio, theirs / times["ours"], "x", peer=SOFIA, at_least=2.5),
    ]


def epochs(n_steps: int, n_shards: int = 1) -> SPD:
    """A ranker that trains for a number of steps; estimating the objective counts as training."""
    return SPD(LAMBDA, sgd=dr.SGD(n_epochs=2, steps_per_epoch=n_steps // 2, n_shards=n_shards))


def two_workers(n_documents: int, n_steps: int) -> list[Figure]:
    """The same two shards on one worker and on two workers: threads, then Dask worker processes.

    Each worker process is pinned to one core. Arithmetic that needs no memory shows how much the
    machine itself gains from two cores.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stored = dr.write_dataset(made_blocks(n_documents, 46), Path(folder, "data"))
        executors: dict[str, list[Executor]] = {
            "threads": [ThreadExecutor(1), ThreadExecutor(2)],
            "worker processes": [
                get_executor(stack.enter_context(worker_processes(n, pinned=True))) for n in (1, 2)
            ],
        }
        runs = {
            f"{n} {kind}": partial(epochs(n_steps, 2).fit, stored, executor=executor)
            for kind, of_kind in executors.items()
            for n, executor in enumerate(of_kind, start=1)
        }
        times = interleaved({**runs, **{f"{n} cores": partial(arithmetic, n) for n in (1, 2)}})
    gain = {kind: times[f"1 {kind}"] / times[f"2 {kind}"] for kind in (*executors, "cores")}
    return [
        *(figure(f"steps a second, two {kind} over one", gain[kind], "x", at_least=1.7)
          for kind in executors),
        figure("plain arithmetic, two cores over one", gain["cores"], "x"),
    ]  # fmt: skip


def streaming(sizes: Sequence[int]) -> list[Figure]:
    """Steps a second from storage, one block read ahead, for few and for many documents.

    The number of steps of an epoch is proportional to the number of documents, and small data gets
    more epochs. Only the epochs are timed.
    """
    core, largest = ThreadExecutor(1), max(sizes)
    speeds: dict[int, list[float]] = {m: [] for m in sizes}

    def train(m: int, data: Dataset) -> None:
        steps = {"n_epochs": min(10, largest // m), "steps_per_epoch": STEPS_PER_DOCUMENT * m}
        ranker = SPD(LAMBDA, memory_limit=1, sgd=steps).fit(data, executor=core)
        speeds[m].append(ranker.n_steps_ / ranker.learning_curve_[-1].seconds)

    with tempfile.TemporaryDirectory() as folder:
        paths = {m: Path(folder, str(m)) for m in sizes}
        data = {m: dr.write_dataset(made_blocks(m, 46), path) for m, path in paths.items()}
        interleaved({f"{m:,} documents": partial(train, m, data[m]) for m in sizes})
        memory = peak_memory(partial(load, paths[largest]), partial(train_once, largest))
    of_size = {m: Sample(tuple(values[1:])) for m, values in speeds.items()}  # without the warm-up
    at, few, many = "steps a second, streaming", min(sizes), largest
    return [
        *(figure(f"{at} {m:,} documents", speed, "1/s") for m, speed in of_size.items()),
        figure(f"{at} {few:,} over {many:,} documents", of_size[few] / of_size[many], "x",
               at_most=1.3),
        figure(f"peak memory, streaming {many:,} documents", memory / 2**20, "MiB"),
    ]  # fmt: skip


def load(path: Path) -> Dataset:
    """Open the data, and compile all kernels."""
    data = dr.open_dataset(path)
    train_once(1, data)
    return data


def train_once(n_documents: int, data: Dataset) -> SPD:
    """Train for one epoch while streaming; the number of steps follows from `n_documents`."""
    n_steps = STEPS_PER_DOCUMENT * n_documents
    ranker = SPD(LAMBDA, sgd=dr.SGD(n_epochs=1, steps_per_epoch=n_steps), memory_limit=1)
    return ranker.fit(data, executor=ThreadExecutor(1))


def write_text(arrays: Arrays, path: Path, first_query: int = 100_000) -> Path:
    """Write the data as SVMlight text. Query ids have one width, since sofia-ml misreads others."""
    sizes = np.diff(arrays.query_ptr)
    qid = np.repeat(first_query + np.arange(len(sizes)), sizes)
    with path.open("w") as file:
        for y, q, row in zip(arrays.y, qid, arrays.X, strict=True):
            values = " ".join(f"{i}:{value:.6g}" for i, value in enumerate(row, start=1))
            file.write(f"{y:g} qid:{q} {values}\n")
    return path


def run_sofia(program: str, text: Path, n_features: int, n_steps: int) -> None:
    """Train with the SPD of sofia-ml: rank loop, Pegasos steps."""
    subprocess.run(
        [
            program,
            "--learner_type", "pegasos",
            "--loop_type", "rank",
            "--lambda", str(LAMBDA),
            "--iterations", str(n_steps),
            "--dimensionality", str(n_features + 1),
            "--training_file", str(text),
            "--model_out", str(text.with_suffix(".model")),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip


if __name__ == "__main__":
    options = parser(__doc__.splitlines()[0])
    options.add_argument(
        "--sofia", default=shutil.which(SOFIA), metavar="PROGRAM", help="the sofia-ml program"
    )
    main(measure, options)
