"""Ingest of parquet: the topic "ingest" of `pipelines.benchmarks.lake`."""

from __future__ import annotations

import shutil
import tempfile
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
from pipelines.benchmarks.harness import Figure, figure, interleaved, resident
from pipelines.benchmarks.made import made_blocks

N_FEATURES = 136
SEGMENT = 65_280
MEMORY_TIMES = 4
"""Unordered data is so many times the memory of the workers, if it is large enough."""

LEAST_MEMORY = 10**9
"""Bytes of a worker. With 136 features, workers of 500 MB die; those of 700 MB take 610 MB."""


def ingest(n_documents: int, rounds: int) -> list[Figure]:
    """Figures of ingest against pyarrow and zarr, of two processes, and of unordered rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_lake(folder / "adjacent", n_documents)
        figures = against_peer(folder, n_documents, rounds)
        figures += two_processes(folder, n_documents, rounds)
        shutil.rmtree(folder / "adjacent")
        return figures + unordered(folder, n_documents)


def write_lake(folder: Path, n_documents: int, *, in_order: bool = True) -> None:
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


def against_peer(folder: Path, n_documents: int, rounds: int) -> list[Figure]:
    """One thread against pyarrow's read and zarr's write of the same arrays."""
    executor = ThreadExecutor(1)
    ours = partial(run, folder / "adjacent", folder / "ours", executor)
    calls = {"ours": ours, "peer": partial(read_and_write, folder / "adjacent", folder / "peer")}
    times = interleaved(calls, rounds)
    executor.close()
    name = f"ingest of adjacent parquet, {n_documents:,} x {N_FEATURES}"
    rate = 4 * n_documents * N_FEATURES / 1e6 / times["ours"]
    ratio = times["ours"] / times["peer"]
    peer = "pyarrow reading, zarr writing"
    return [
        figure(name, ratio, "x", peer=peer, at_most=1.5),
        figure(f"rate of {name}", rate, "MB/s"),
    ]


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


def two_processes(folder: Path, n_documents: int, rounds: int) -> list[Figure]:
    """Two worker processes over one."""
    with started(1) as (_, one), started(2) as (_, two):
        calls = {
            name: partial(run, folder / "adjacent", folder / name, client)
            for name, client in (("one", one), ("two", two))
        }
        times = interleaved(calls, rounds)
    name = f"ingest of adjacent parquet, two processes, {n_documents:,} x {N_FEATURES}"
    return [figure(name, times["one"] / times["two"], "x", peer="one process", at_least=1.7)]


def unordered(folder: Path, n_documents: int) -> list[Figure]:
    """Rows in any order, of four times the memory of two workers, against adjacent rows."""
    n_bytes = 4 * n_documents * N_FEATURES
    limit = max(n_bytes // (2 * MEMORY_TIMES), LEAST_MEMORY)
    for name in ("sorted", "mixed"):
        write_lake(folder / name, n_documents, in_order=name == "sorted")
    with started(2, memory_limit=limit) as (_, client):
        calls = {
            name: partial(run, folder / name, folder / f"{name}.zarr", client)
            for name in ("sorted", "mixed")
        }
        times = interleaved(calls, 1)
        peaks = client.run(resident, "VmHWM").values()
    of = f"{n_bytes / 1e9:.1f} GB, two workers of {limit / 1e9:.1f} GB"
    name = f"ingest of unordered parquet, {of}"
    ratio = times["mixed"] / times["sorted"]
    return [
        figure(f"{name}: time", ratio, "x", peer="adjacent parquet", at_most=4),
        figure(f"{name}: peak of a worker", max(peaks) / limit, "of its limit", at_most=1),
    ]
