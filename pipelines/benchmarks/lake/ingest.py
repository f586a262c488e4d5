"""Ingest of parquet: three topics of `pipelines.benchmarks.lake`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from pipelines.benchmarks.clusters.faults import started
from pipelines.benchmarks.harness import (
    ARITHMETIC,
    Figure,
    arithmetic,
    figure,
    interleaved,
    processor_seconds,
    resident,
)
from pipelines.benchmarks.lake.trial import Trial
from pipelines.benchmarks.made import made_blocks

N_FEATURES = 136
SEGMENT = 65_280
MEMORY_TIMES = 4
"""Unordered data is so many times the memory of the workers, if it is large enough."""

LEAST_MEMORY = 10**9
"""Bytes of a worker. With 136 features, workers of less than some 650 MB are refused."""


def ingest(trial: Trial) -> Iterator[Figure]:
    """One thread against pyarrow's read and zarr's write of the same arrays; both synchronise."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    zarr.config.set({"threading.max_workers": 1, "async.concurrency": 1})
    source, executor = adjacent(trial), ThreadExecutor(1)
    calls = {
        "ours": partial(run, source, trial.output("ours"), executor),
        "peer": partial(read_and_write, source, trial.output("peer")),
    }
    name = f"ingest of adjacent parquet, {trial.n_documents:,} x {N_FEATURES}"
    peer = "pyarrow reading, zarr writing"
    times = trial.timed(calls)
    yield figure(name, times["ours"] / times["peer"], "x", peer=peer, at_most=1.5)
    rate = 4 * trial.n_documents * N_FEATURES / 1e6 / times["ours"]
    yield figure(f"rate of {name}", rate, "MB/s")
    times = trial.timed(calls, processor_seconds)
    executor.close()
    yield figure(f"{name}: processor seconds", times["ours"] / times["peer"], "x", peer=peer)


def adjacent(trial: Trial) -> Path:
    """Parquet whose queries lie together."""
    return trial.made(f"adjacent-{trial.n_documents}", partial(write_lake, trial.n_documents))


def write_lake(n_documents: int, folder: Path, *, in_order: bool = True) -> None:
    """Parquet files of one row group of a segment's rows; or the rows of queries far apart."""
    folder.mkdir()
    blocks: list[pa.Table] = []
    for block in made_blocks(n_documents, N_FEATURES):
        qid = np.repeat(block.query_ids.to_numpy(), np.diff(block.query_ptr))
        columns = {f"f{j}": pa.array(column) for j, column in enumerate(block.features.T)}
        blocks.append(pa.table({"qid": qid, "relevance": block.relevance, **columns}))
        if sum(map(len, blocks)) >= SEGMENT:
            write_file(folder, blocks, in_order)
    if blocks:
        write_file(folder, blocks, in_order)


def write_file(folder: Path, blocks: list[pa.Table], in_order: bool) -> None:
    number = len(list(folder.iterdir()))
    table = pa.concat_tables(blocks)
    if not in_order:  # every query has rows in other files too
        rng = np.random.default_rng(number)
        qid = rng.permutation(len(table)) + SEGMENT // 2 * rng.integers(0, 2, len(table)) * number
        table = table.set_column(0, "qid", pa.array(qid % (SEGMENT // 4)))
    pq.write_table(table, folder / f"{number}.parquet", compression="lz4")
    blocks.clear()


def run(source: Path, output: Path, executor: Any) -> None:
    """Ingest on an executor or a client."""
    dr.ingest(source, output, overwrite=True, executor=executor)


def read_and_write(source: Path, output: Path) -> None:
    """The same arrays, read by pyarrow and written by zarr with the same codecs and chunks."""
    shutil.rmtree(output, ignore_errors=True)
    codecs = [BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"), Crc32cCodec()]
    for path in sorted(source.iterdir()):
        table = pq.read_table(path, use_threads=False)
        features = np.stack([table.column(f"f{j}").to_numpy() for j in range(N_FEATURES)])
        group = zarr.open_group(output / path.stem, mode="w")
        stored = group.create_array(
            "features",
            shape=features.shape,
            chunks=(32, features.shape[1]),
            dtype="float32",
            compressors=codecs,
        )
        stored[:] = features
        pq.write_table(table.select(["qid", "relevance"]), output / f"{path.stem}.parquet")
    for path in [*output.rglob("*"), output]:
        synchronise(path)


def synchronise(path: Path) -> None:
    """Wait until a file or the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def processes(trial: Trial) -> Iterator[Figure]:
    """Two worker processes over one, and what this machine gains from its second core."""
    source = adjacent(trial)
    with started(1) as (_, one), started(1) as (_, other), started(2) as (_, two):
        calls = {
            name: partial(run, source, trial.output(name), client)
            for name, client in (("one", one), ("two", two))
        }
        apart = [
            partial(run, source, trial.output(f"apart-{i}"), c) for i, c in ((1, one), (2, other))
        ]
        calls["apart"] = partial(side_by_side, apart)
        calls |= {
            f"{name} of arithmetic": partial(arithmetic, n_threads, 2 * ARITHMETIC)
            for name, n_threads in (("one", 1), ("two", 2))
        }
        times = trial.timed(calls)
    name = f"ingest of adjacent parquet, two processes, {trial.n_documents:,} x {N_FEATURES}"
    yield figure(name, times["one"] / times["two"], "x", peer="one process", at_least=1.7)
    # Each of the two does all of the work, so that this is what the machine has to give.
    ceiling = times["one"] / (times["apart"] / 2)
    yield figure("two ingests that share nothing, side by side", ceiling, "x", peer="one by one")
    gain = times["one of arithmetic"] / times["two of arithmetic"]
    yield figure("arithmetic in two threads", gain, "x", peer="one thread")


def side_by_side(calls: Sequence[Callable[[], object]]) -> None:
    """Make calls at the same time, each of which works in a process of its own."""
    with ThreadPoolExecutor(len(calls)) as threads:
        for done in [threads.submit(call) for call in calls]:
            done.result()


def unordered(trial: Trial) -> Iterator[Figure]:
    """Rows in any order, of four times the memory of two workers, against adjacent rows."""
    n_bytes = 4 * trial.n_documents * N_FEATURES
    limit = max(n_bytes // (2 * MEMORY_TIMES), LEAST_MEMORY)
    mixed = trial.made(
        f"mixed-{trial.n_documents}", partial(write_lake, trial.n_documents, in_order=False)
    )
    with started(2, memory_limit=limit) as (_, client):
        calls = {
            name: partial(run, source, trial.output(name), client)
            for name, source in (("adjacent", adjacent(trial)), ("mixed", mixed))
        }
        times = interleaved(calls, trial.rounds, warm_up=trial.is_quick, seconds=trial.seconds)
        peaks = client.run(resident, "VmHWM").values()
    of = f"{n_bytes / 1e9:.1f} GB, two workers of {limit / 1e9:.1f} GB"
    name = f"ingest of unordered parquet, {of}"
    ratio = times["mixed"] / times["adjacent"]
    yield figure(f"{name}: time", ratio, "x", peer="adjacent parquet", at_most=4)
    yield figure(f"{name}: peak of a worker", max(peaks) / limit, "of its limit", at_most=1)
