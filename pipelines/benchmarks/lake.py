"""The data plane: storage, from local disks and object stores.

    python -m pipelines.benchmarks.lake --json [--quick] [--topics store,index,...]

store
    Version 2 of the data set directory against version 1, which was one folder per block: both read
    the same blocks, in a process each that tells its processor seconds; version 1 from a checkout
    of its last commit (`git worktree`). "streamed selection" selects features with the data outside
    of memory. Then the reader of chunks against zarr's own pipeline: (a) over plain chunks of 32
    features x all documents of a segment, and (b) over the shards that we write; zarr verifies the
    CRC-32C of each chunk there, and the result is cut into blocks. All in processor seconds.
index
    Opening a made data set of 10^9 documents x 1,000 features in 15,300 segments.
objects
    Requests per gigabyte of raw features, and the rate of reading where every request waits 30 ms,
    against local disks.
collections
    The driver's peak memory, above the idle process, while workers select features on a dask
    DataFrame of 1 and 4 GB of raw features.
predict
    Writing of scores by two worker processes over one, and the driver's peak memory for a data set
    and for one of four times the documents.
growth
    Seconds per document of ingest, selection and prediction, from 10^5 to 10^7 documents, on local
    disks and in fsspec's memory store.
ingest
    Adjacent parquet against pyarrow reading it and zarr writing the same arrays, each in one
    thread; two worker processes over one; and rows in any order, of four times the memory of two
    workers, against adjacent rows.
planner
    Seconds and the driver's peak memory of the plan of an ingest of 10^7 queries, of 10^9 adjacent
    rows and of 5 x 10^7 rows in any order; one run each. Then the driver's memory of the plan of
    10^9 rows x 1,000 features in any order, for 1,000 workers whose tasks do nothing.

Each topic runs by itself: ``--topics ingest``. Version 1 needs its last commit in the repository's
history; in a copy without history, such as a shallow clone, these figures are skipped and say so:
``git fetch --unshallow`` brings the history.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

import dranking as dr
from dranking.data.blocks import QueryBlock
from dranking.data.store.dataset import StoredDataset
from pipelines.benchmarks.dask_frames import driver_memory
from pipelines.benchmarks.harness import (
    REPOSITORY,
    Figure,
    add_topics,
    figure,
    interleaved,
    main,
    parser,
    peak_memory,
    processor_seconds,
    skipped,
)
from pipelines.benchmarks.lake_exchange import bookkeeping
from pipelines.benchmarks.lake_ingest import ingest
from pipelines.benchmarks.lake_planner import N_QUERIES, planner
from pipelines.benchmarks.lake_scale import growth, predict
from pipelines.benchmarks.made import made_blocks

VERSION_1 = "76247a1"
"""The last commit that read and wrote version 1 of the data set directory."""

N_FEATURES = 136
GIGABYTE = 10**9
QUICK_DOCUMENTS = 4 * 65_280

READER = """
import sys, time
import dranking as dr
from pipelines.benchmarks.made import made_blocks
path, n_documents, n_features = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
blocks = made_blocks(n_documents, n_features)
data = dr.write_dataset(blocks, path)
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
"""A process that writes a data set and then reads it at each request, in either version."""


def measure(options: argparse.Namespace) -> list[Figure]:
    n_documents = QUICK_DOCUMENTS if options.quick else 16 * 65_280
    figures: list[Figure] = []
    for topic in options.topics:
        figures += TOPICS[topic](n_documents, options.rounds)
    return figures


def store(n_documents: int, rounds: int) -> list[Figure]:
    return against_version_1(n_documents, rounds) + against_zarr(rounds)


def against_version_1(n_documents: int, rounds: int) -> list[Figure]:
    """Reading all blocks, and a streamed selection, in both versions."""
    limits = {"read": None, "select": 1.1}
    names = {"read": "reading all blocks", "select": "streamed selection"}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            old = stack.enter_context(checkout(VERSION_1, folder / "checkout"))
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            why = f"no checkout of {VERSION_1} ({error})"
            return [skipped(name, "x", why, peer="version 1") for name in names.values()]
        memory = f"{4 * n_documents * N_FEATURES * 7 // 10}B"
        spent = Spent()
        ask = {
            version: stack.enter_context(reader(root, folder / version, n_documents, memory, spent))
            for version, root in (("version 1", old), ("version 2", REPOSITORY))
        }
        figures = []
        for what, limit in limits.items():
            calls = {version: partial(request, what) for version, request in ask.items()}
            times = interleaved(calls, rounds, clock=spent.clock)
            ratio = times["version 2"] / times["version 1"]
            name = f"{names[what]}, {n_documents:,} x {N_FEATURES}"
            figures.append(figure(name, ratio, "x", peer="version 1", at_most=limit))
            rate = 4 * n_documents * N_FEATURES / GIGABYTE / times["version 2"]
            if what == "read":
                figures.append(figure(f"rate of {name}", rate, "GB/s"))
    return figures


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
    root: Path, data: Path, n_documents: int, memory: str, spent: Spent
) -> Iterator[Callable[[str], None]]:
    """A function that lets a process with the code in `root` do "read" or "select"."""
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


def against_zarr(rounds: int) -> list[Figure]:
    """Reading of one segment, cut into blocks: our reader of chunks against zarr's pipelines."""
    zarr.config.set({"threading.max_workers": 1, "async.concurrency": 1})
    with tempfile.TemporaryDirectory() as folder:
        data = dr.write_dataset(made_blocks(65_280, N_FEATURES), Path(folder, "data"))
        (entry,) = [data.index.entry(0)]
        ends = np.cumsum([0, *(block.n_documents for block in entry.blocks)]).tolist()
        arrays = {"(b) zarr, shards": zarr.open_array(data.path / entry.name / "features")}
        arrays["(a) zarr, plain chunks"] = plain_copy(arrays["(b) zarr, shards"], Path(folder, "a"))
        figures = []
        for what, (first, last, columns) in PARTS.items():
            calls: dict[str, Callable[[], object]] = {
                "ours": lambda part=(first, last, columns): list(data.read_blocks(*part))
            }
            borders = ends[first : last + 1]
            for name, array in arrays.items():
                calls[name] = partial(cut_by_zarr, array, borders, columns)
                same(calls[name](), calls["ours"]())
            times = interleaved(calls, rounds, clock=processor_seconds)
            figures += [
                figure(
                    f"{what}: zarr's time over ours", times[name] / times["ours"], "x", peer=name
                )
                for name in arrays
            ]
    return figures


PARTS: dict[str, tuple[int, int, Any]] = {
    "a whole segment": (0, 8, None),
    "32 features of it": (0, 8, np.arange(32, 64)),
    "5 features far apart": (0, 8, np.array([3, 40, 70, 100, 130])),
    "one block of it": (3, 4, None),
}
"""Parts of a segment: first and end block, and features."""


def plain_copy(array: Any, path: Path) -> Any:
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
    return copy


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


def index(n_documents: int, rounds: int) -> list[Figure]:
    """Opening 15,300 segments of eight blocks, in the driver and on a worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "huge.zarr")
        made_index(path, 15_300, 1_000)
        seconds = interleaved({"open": lambda: StoredDataset(path)}, 3 * rounds)["open"]
        driver = peak_memory(nothing, partial(open_in_driver, path)) / 1e6
        worker = peak_memory(nothing, partial(open_in_worker, pickle.dumps(StoredDataset(path))))
        size = len(pickle.dumps(StoredDataset(path)))
    name = "10^9 documents x 1,000 features"
    return [
        figure(f"opening {name}", seconds, "s", at_most=0.3),
        figure(f"opening {name}: memory with all sizes of blocks", driver, "MB", at_most=100),
        figure(f"opening {name} on a worker: memory", worker / 1e6, "MB", at_most=20),
        figure(f"what a worker gets pickled of {name}", size, "bytes"),
    ]


def made_index(path: Path, n_segments: int, n_features: int) -> None:
    """A data set whose segments are empty folders: a manifest and an index."""
    from dranking.data.store.manifest import BlockEntry, SegmentEntry, WrittenSegment
    from dranking.data.store.write_dataset import commit_dataset
    from dranking.files.writing.commit import begin_directory

    n_documents, rng = 8_190, random.Random(0)
    with begin_directory(path) as commit:
        segments = []
        for number in range(n_segments):
            digests = [rng.randbytes(16).hex() for _ in range(9)]
            blocks = tuple(
                BlockEntry(n_documents, 60 + b, 0, n_documents * n_features, digests[b], digests[b])
                for b in range(8)
            )
            name = commit.name(f"segments/{number:06d}")
            entry = SegmentEntry(name, n_features, 9_000, digests[8], blocks)
            segments.append(WrittenSegment(entry, False, "int64", None))
            (commit.root / name).mkdir(parents=True)
        commit_dataset(commit, segments)


def nothing() -> None:
    """Open a small data set, so that what is loaded on first use does not count."""
    with tempfile.TemporaryDirectory() as folder:
        made_index(Path(folder, "small.zarr"), 2, 3)
        open_in_driver(Path(folder, "small.zarr"), None)


def open_in_driver(path: Path, _: None) -> int:
    """Open a data set as a driver does, which asks for the sizes of all blocks."""
    return len(StoredDataset(path).blocks)


def open_in_worker(pickled: bytes, _: None) -> str:
    """Open a data set as a worker does, which looks up the segments of its tile."""
    data = pickle.loads(pickled)
    runs = data.entries.runs(80_000, 80_064)
    return str([data.entries.entry(segment) for segment, _, _ in runs])


DELAY = 0.03  # seconds that a request of the object store takes


def objects(n_documents: int, rounds: int) -> list[Figure]:
    """Requests per gigabyte, and the rate of reading behind a delay, of one reading task."""
    from fsspec.implementations.memory import MemoryFileSystem

    url = "memory://lake/data.zarr"
    with tempfile.TemporaryDirectory() as folder:
        local = dr.write_dataset(made_blocks(n_documents, N_FEATURES), Path(folder, "data"))
        remote = dr.write_dataset(made_blocks(n_documents, N_FEATURES), url)
        n_requests = 0
        plain = MemoryFileSystem.cat_file

        def delayed(self: Any, *arguments: Any, **options: Any) -> Any:
            nonlocal n_requests
            n_requests += 1
            time.sleep(DELAY)
            return plain(self, *arguments, **options)

        def read(data: StoredDataset) -> int:
            fresh = StoredDataset(data.path)
            return sum(block.n_documents for block in fresh.read_blocks())

        MemoryFileSystem.cat_file = delayed
        try:
            times = interleaved(
                {"local": lambda: read(local), "remote": lambda: read(remote)}, rounds
            )
            n_requests = 0
            read(remote)
        finally:
            MemoryFileSystem.cat_file = plain
            remote.path.fs.rm("/lake", recursive=True)
    gigabytes = 4 * n_documents * N_FEATURES / GIGABYTE
    return [
        figure("requests per GB of raw features", n_requests / gigabytes, "", at_most=250),
        figure(
            "streaming from a store that answers after 30 ms",
            times["local"] / times["remote"],
            "x",
            peer="local disk",
            at_least=0.6,
        ),
    ]


def collections(n_documents: int, rounds: int) -> list[Figure]:
    """The driver's peak memory for dask DataFrames; a single round, since memory hardly varies."""
    return driver_memory(GIGABYTE if n_documents > QUICK_DOCUMENTS else GIGABYTE // 10)


def plan_queries(n_documents: int, rounds: int) -> list[Figure]:
    """The plan of 10^7 queries, in a quick run of 10^5; a single round."""
    n_queries = N_QUERIES if n_documents > QUICK_DOCUMENTS else N_QUERIES // 100
    return planner(n_queries) + bookkeeping(100 * n_queries, 1_000, n_queries, 1_000)


TOPICS: Mapping[str, Callable[[int, int], list[Figure]]] = {
    "store": store,
    "index": index,
    "objects": objects,
    "collections": collections,
    "predict": predict,
    "growth": growth,
    "ingest": ingest,
    "planner": plan_queries,
}

if __name__ == "__main__":
    main(measure, add_topics(parser("Storage on local disks and object stores."), TOPICS))
