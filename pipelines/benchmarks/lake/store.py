"""Version 2 of the data set directory against version 1, and reading by us and by zarr."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

import dranking as dr
from dranking.data.blocks import QueryBlock
from dranking.data.store.dataset import StoredDataset
from pipelines.benchmarks.harness import (
    REPOSITORY,
    Figure,
    Sample,
    figure,
    processor_seconds,
    skipped,
)
from pipelines.benchmarks.lake.ingest import adjacent
from pipelines.benchmarks.lake.trial import Trial
from pipelines.benchmarks.made import made_blocks

GIGABYTE = 10**9
N_FEATURES = 136

VERSION_1 = "76247a1"
"""The last commit that read and wrote version 1 of the data set directory."""

READER = """
import os, sys, time
import dranking as dr
from pipelines.benchmarks.made import made_blocks
path, n_documents, n_features = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if not os.path.exists(path):
    dr.write_dataset(made_blocks(n_documents, n_features), path)
data = dr.open_dataset(path)
from dranking.engine.block_source import BlockSource
from dranking.engine.executor import ThreadExecutor
def read():
    return sum(block.n_documents for block in BlockSource(data, 0, data.n_blocks))
def select():
    ranker = dr.GreedyRankRLS(n_features=5, memory_limit=sys.argv[4])
    ranker.fit(data, executor=ThreadExecutor(1))
print("ready", flush=True)
for line in sys.stdin:
    start = time.process_time()
    {"read": read, "select": select}[line.strip()]()
    print(time.process_time() - start, flush=True)
"""
"""A process that reads a data set at each request, in either version, and writes it if need be."""


def reading(trial: Trial) -> Iterator[Figure]:
    """Reading all blocks, in both versions."""
    name = f"reading all blocks, {trial.n_documents:,} x {N_FEATURES}"
    times = of_both_versions(trial, "read")
    if isinstance(times, str):
        yield skipped(name, "x", times, peer="version 1")
        return
    yield figure(name, times["version 2"] / times["version 1"], "x", peer="version 1")
    rate = 4 * trial.n_documents * N_FEATURES / GIGABYTE / times["version 2"]
    yield figure(f"rate of {name}", rate, "GB/s")


def selection(trial: Trial) -> Iterator[Figure]:
    """A selection that reads the data again and again, in both versions."""
    name = f"streamed selection, {trial.n_documents:,} x {N_FEATURES}"
    times = of_both_versions(trial, "select")
    if isinstance(times, str):
        yield skipped(name, "x", times, peer="version 1", target=1.1)
        return
    ratio = times["version 2"] / times["version 1"]
    yield figure(name, ratio, "x", peer="version 1", at_most=1.1)


def of_both_versions(trial: Trial, what: str) -> dict[str, Sample] | str:
    """Processor seconds of what a reader of either version does; or why there is none."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            old = stack.enter_context(checkout(VERSION_1, folder / "checkout"))
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            return f"no checkout of {VERSION_1} ({error})"
        spent = Spent()
        ask = {}
        for number, root in ((1, old), (2, REPOSITORY)):
            data = trial.folder / f"version-{number}-{trial.n_documents}"
            ask[f"version {number}"] = partial(
                stack.enter_context(reader(root, data, trial.n_documents, spent)), what
            )
        return trial.timed(ask, spent.clock)


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """The files of a commit, for as long as the context lasts."""
    git = ["git", "-C", str(REPOSITORY), "worktree"]
    subprocess.run([*git, "add", "--detach", str(folder), commit], check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True, capture_output=True)


class Spent:
    """Processor seconds that the readers have told of, as a clock."""

    seconds = 0.0

    def clock(self) -> float:
        """Processor seconds so far."""
        return self.seconds


@contextmanager
def reader(
    root: Path, data: Path, n_documents: int, spent: Spent
) -> Iterator[Callable[[str], None]]:
    """A function that lets a process with the code in `root` do "read" or "select"."""
    memory = f"{4 * n_documents * N_FEATURES * 7 // 10}B"
    arguments = [str(data), str(n_documents), str(N_FEATURES), memory]
    with subprocess.Popen(
        [sys.executable, "-c", READER, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the reader in {root} did not start")

        def ask(what: str) -> None:
            print(what, file=process.stdin, flush=True)
            answer = process.stdout.readline()
            if not answer:
                raise RuntimeError(f"the reader in {root} failed")
            spent.seconds += float(answer)

        try:
            yield ask
        finally:
            process.stdin.close()


def decoder(trial: Trial) -> Iterator[Figure]:
    """Reading of one segment, cut into blocks: our reader of chunks against zarr's pipelines."""
    zarr.config.set({"threading.max_workers": 1, "async.concurrency": 1})
    path = trial.made("segment", partial(dr.write_dataset, made_blocks(65_280, N_FEATURES)))
    data = StoredDataset(path)
    (entry,) = [data.index.entry(0)]
    ends = np.cumsum([0, *(block.n_documents for block in entry.blocks)]).tolist()
    arrays = {"(b) zarr, shards": zarr.open_array(data.path / entry.name / "arrays/features")}
    plain = trial.made("segment in plain chunks", partial(plain_copy, *arrays.values()))
    arrays["(a) zarr, plain chunks"] = zarr.open_array(plain)
    for what, (first, last, columns) in PARTS.items():
        calls: dict[str, Callable[[], object]] = {
            "ours": lambda part=(first, last, columns): list(data.read_blocks(*part))
        }
        borders = ends[first : last + 1]
        for name, array in arrays.items():
            calls[name] = partial(cut_by_zarr, array, borders, columns)
            same(calls[name](), calls["ours"]())
        times = trial.timed(calls, processor_seconds)
        for name in arrays:
            ratio = times[name] / times["ours"]
            yield figure(f"{what}: zarr's time over ours", ratio, "x", peer=name)


def forms(trial: Trial) -> Iterator[Figure]:
    """Parquet and the data set directory, read into matrices, against pyarrow; processor seconds.

    Pyarrow reads whole row groups, of a segment's rows each.
    """
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    source = adjacent(trial)
    write = partial(dr.write_dataset, made_blocks(trial.n_documents, N_FEATURES))
    data = dr.open_dataset(trial.made(f"predict-{trial.n_documents}", write))
    some = PARTS["5 features far apart"][2]

    def by_us(place: Path, columns: Any = None) -> int:
        return sum(b.features.size for b in dr.open_dataset(place).read_blocks(columns=columns))

    def by_pyarrow(columns: Any = None) -> int:
        return sum(len(matrix_of(path, columns)) for path in sorted(source.iterdir()))

    calls: dict[str, dict[str, Callable[[], object]]] = {
        "all features": {
            "pyarrow": by_pyarrow,
            "parquet": partial(by_us, source),
            "directory": partial(by_us, data.path),
        },
        "5 features": {
            "pyarrow": partial(by_pyarrow, some),
            "parquet": partial(by_us, source, some),
            "directory": partial(by_us, data.path, some),
        },
        "one block of each 8": {
            "pyarrow": by_pyarrow,
            "directory": lambda: [data.block(i) for i in range(0, data.n_blocks, 8)],
        },
    }
    for what, ways in calls.items():
        times = trial.timed(ways, processor_seconds)
        for way in [*ways][1:]:
            name = f"{way} to matrices, {what}, {trial.n_documents:,} x {N_FEATURES}"
            most = 2 if (what, way) == ("all features", "parquet") else None
            yield figure(name, times[way] / times["pyarrow"], "x", peer="pyarrow", at_most=most)


def matrix_of(path: Path, columns: Any) -> Any:
    """The features of a parquet file as pyarrow reads them."""
    names = [f"f{j}" for j in (range(N_FEATURES) if columns is None else columns)]
    table = pq.read_table(path, columns=["qid", "relevance", *names], use_threads=False)
    return np.stack([table.column(name).to_numpy() for name in names])


PARTS: dict[str, tuple[int, int, Any]] = {
    "a whole segment": (0, 8, None),
    "32 features of it": (0, 8, np.arange(32, 64)),
    "5 features far apart": (0, 8, np.array([3, 40, 70, 100, 130])),
    "one block of it": (3, 4, None),
}
"""Parts of a segment: first and end block, and features."""


def plain_copy(array: Any, path: Path) -> None:
    """The same values in chunks of 32 features x all documents."""
    copy = zarr.create_array(
        path,
        shape=array.shape,
        dtype=array.dtype,
        chunks=(32, array.shape[1]),
        compressors=[BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"), Crc32cCodec()],
        fill_value=float("nan"),
    )
    copy[:] = array[:]


def cut_by_zarr(array: Any, borders: list[int], columns: Any) -> list[Any]:
    """Features of blocks as zarr reads them, each block F-ordered."""
    documents = slice(borders[0], borders[-1])
    if columns is None:
        columns = np.arange(array.shape[0])
    if (np.diff(columns) == 1).all():
        values = array[columns[0] : columns[-1] + 1, documents]
    else:
        values = array.oindex[columns, documents]
    starts = [border - borders[0] for border in borders]
    return [np.ascontiguousarray(values[:, start:end]).T for start, end in pairwise(starts)]


def same(found: list[Any], blocks: list[QueryBlock]) -> None:
    """Raise AssertionError unless both readers read the same."""
    for features, block in zip(found, blocks, strict=True):
        np.testing.assert_array_equal(features, block.features)
