"""The data plane: storage, from local disks and object stores.

    python -m pipelines.benchmarks.lake --json [--quick] [--topics store,index,...]

Each topic runs by itself, prints its figures as it goes, and begins no round after ``--seconds``
(of each comparison). Data that was made is kept in ``--folder``: a first run with ``--rounds 1``
makes it, and a second one measures for a few minutes only, on a machine that does nothing else.
Data is read from the page cache.

reading, selection
    Version 2 of the data set directory against version 1, which was one folder per block: both read
    the same blocks, or select features with the data outside of memory, in a process each that
    tells its processor seconds; version 1 from a checkout of its last commit (`git worktree`). A
    copy without history, such as a shallow clone, lacks it: these figures are skipped there and say
    so, and ``git fetch --unshallow`` brings the history.
decoder
    The reader of chunks against zarr's own pipeline: (a) over plain chunks of 32 features x all
    documents of a segment, and (b) over the shards that we write; zarr verifies the CRC-32C of
    each chunk there, and the result is cut into blocks. In processor seconds.
forms
    Parquet and the data set directory, read into matrices, over pyarrow reading the same parquet:
    all features, five of them, and one block of each segment. In processor seconds.
index
    Opening a made data set of 10^9 documents x 1,000 features in 15,300 segments.
objects
    Requests per gigabyte of raw features, and the rate of reading where every request waits 30 ms,
    against local disks.
small-files
    Seconds of the plan of an ingest of 64 small parquet files of a store, and of opening them,
    where every request waits 30 ms.
network
    Ingest from and to a store, and reading, where every request waits 30 ms, and where each 50th
    connection is dropped and each 30th request refused besides, over the same without either.
collections
    The driver's peak memory, above the idle process, while workers select features on a dask
    DataFrame of 1 and 4 GB of raw features.
predict
    Writing of scores by two worker processes over one, and the driver's peak memory for a data set
    and for one of four times the documents.
growth, growth-in-store
    Seconds per document of ingest, selection and prediction, from 10^5 to 10^7 documents x 16, on
    local disks and in fsspec's memory store.
ingest
    Adjacent parquet against pyarrow reading it and zarr writing the same arrays, each in one
    thread, and synchronised with the disk.
processes
    Two worker processes over one for the same ingest, beside arithmetic in two threads over one.
unordered
    Rows in any order, of four times the memory of two workers, against adjacent rows. Workers have
    1 GB at least, so that ``--documents 14700000`` reaches four times.
planner
    Seconds and the driver's peak memory of the plan of an ingest of 10^7 queries, of 10^9 adjacent
    rows and of 5 x 10^7 rows in any order; one run each. Then the driver's memory of the plan of
    10^9 rows x 1,000 features in any order, for 1,000 workers whose tasks do nothing.
"""

from __future__ import annotations

import argparse
import math
import pickle
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import dranking as dr
from dranking.data.store.dataset import StoredDataset
from pipelines.benchmarks.dask_frames import driver_memory
from pipelines.benchmarks.harness import Figure, add_topics, figure, note, parser, peak_memory
from pipelines.benchmarks.lake.exchange import bookkeeping
from pipelines.benchmarks.lake.ingest import ingest, processes, unordered
from pipelines.benchmarks.lake.network import network, small_files
from pipelines.benchmarks.lake.planner import N_QUERIES, planner
from pipelines.benchmarks.lake.scale import growth, growth_in_store, predict
from pipelines.benchmarks.lake.store import decoder, forms, reading, selection
from pipelines.benchmarks.lake.trial import Trial
from pipelines.benchmarks.made import made_blocks

N_FEATURES = 136
GIGABYTE = 10**9
QUICK_DOCUMENTS = 4 * 65_280

N_DOCUMENTS = 16 * 65_280
MOST_GROWTH = 10**7


def measure(given: argparse.Namespace) -> list[Figure]:
    figures: list[Figure] = []
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "outputs").mkdir(exist_ok=True)
        for topic in given.topics:
            n_documents = QUICK_DOCUMENTS if given.quick else N_DOCUMENTS
            if topic in GROWTH:
                n_documents = MOST_GROWTH // 10 if given.quick else MOST_GROWTH
            trial = Trial(
                folder,
                given.documents or n_documents,
                given.rounds,
                given.seconds,
                given.quick,
            )
            for found in TOPICS[topic](trial):
                note(f"{found.name}: {found.value} {found.unit} {found.range or ''}")
                figures.append(found)
    return figures


def index(trial: Trial) -> list[Figure]:
    """Opening 15,300 segments of eight blocks, in the driver and on a worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "huge.zarr")
        made_index(path, 15_300, 1_000)
        seconds = trial.timed({"open": lambda: StoredDataset(path)})["open"]
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


def objects(trial: Trial) -> list[Figure]:
    """Requests per gigabyte, and the rate of reading behind a delay, of one reading task."""
    from fsspec.implementations.memory import MemoryFileSystem

    n_documents = trial.n_documents
    write = partial(dr.write_dataset, made_blocks(n_documents, N_FEATURES))
    local = StoredDataset(trial.made(f"predict-{n_documents}", write))
    remote = dr.write_dataset(made_blocks(n_documents, N_FEATURES), "memory://lake/data.zarr")
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
        times = trial.timed({"local": partial(read, local), "remote": partial(read, remote)})
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


def collections(trial: Trial) -> Iterator[Figure]:
    """The driver's peak memory for dask DataFrames; a single round, since memory hardly varies."""
    return driver_memory(GIGABYTE // 10 if trial.is_quick else GIGABYTE)


def plan_queries(trial: Trial) -> Iterator[Figure]:
    """The plan of 10^7 queries, in a quick run of 10^5; a single round."""
    n_queries = N_QUERIES // 100 if trial.is_quick else N_QUERIES
    yield from planner(n_queries)
    yield from bookkeeping(100 * n_queries, 1_000, n_queries, 1_000)


TOPICS: Mapping[str, Callable[[Trial], Iterable[Figure]]] = {
    "reading": reading,
    "selection": selection,
    "decoder": decoder,
    "forms": forms,
    "index": index,
    "objects": objects,
    "small-files": small_files,
    "network": network,
    "collections": collections,
    "predict": predict,
    "growth": growth,
    "growth-in-store": growth_in_store,
    "ingest": ingest,
    "processes": processes,
    "unordered": unordered,
    "planner": plan_queries,
}

GROWTH = ("growth", "growth-in-store")


def options() -> argparse.ArgumentParser:
    """The options: topics, sizes, the folder of the data, and the seconds of a comparison."""
    found = add_topics(parser("Storage on local disks and object stores."), TOPICS)
    found.prog = "python -m pipelines.benchmarks.lake"
    found.add_argument("--documents", type=int, metavar="N", help="documents of the made data")
    found.add_argument(
        "--folder", type=Path, metavar="DIR", help="keep made data here, and use what is there"
    )
    found.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        metavar="S",
        help="begin no round of a comparison that would end later",
    )
    return found
