"""Prediction on two workers, and growth with the data: topics of `pipelines.benchmarks.lake`."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from dranking.errors import SelectionWarning
from dranking.files.places import Place, as_place, is_local
from pipelines.benchmarks.clusters.faults import started
from pipelines.benchmarks.harness import Figure, figure, interleaved, peak_memory
from pipelines.benchmarks.made import made_blocks

N_FEATURES = 136
N_GROWTH_FEATURES = 16


def predict(n_documents: int, rounds: int) -> list[Figure]:
    """Writing of scores by two worker processes over one, and the driver's memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for times in (1, 4):
            blocks = made_blocks(times * n_documents, N_FEATURES)
            dr.write_dataset(blocks, folder / f"{times}.zarr")
        with started(1) as (_, one), started(2) as (_, two):
            calls = {
                name: partial(score, folder / "4.zarr", folder / name, client)
                for name, client in (("one", one), ("two", two))
            }
            times_of = interleaved(calls, rounds)
        peaks = [
            peak_memory(
                partial(cluster_that_scored, folder),
                partial(score_on, folder / f"{times}.zarr", folder / "scores"),
            )
            / 1e6
            for times in (1, 4)
        ]
    long = f"prediction of {4 * n_documents:,} x {N_FEATURES}"
    what = f"prediction of {n_documents:,} x {N_FEATURES}"
    ratio = times_of["one"] / times_of["two"]
    return [
        figure(f"{long}, two processes", ratio, "x", peer="one process", at_least=1.7),
        figure(f"{what}: driver's peak", peaks[0], "MB"),
        figure(f"{what}: driver's peak for 4 times the documents", peaks[1], "MB"),
    ]


def score(data: Path, output: Path, client: Any) -> None:
    """Score a data set with a model of all its features, and write the scores."""
    dataset = dr.open_dataset(data)
    weights = tuple(np.linspace(-1, 1, dataset.n_features).tolist())
    model = dr.LinearModel(feature_names=dataset.feature_names, weights=weights)
    dr.write_scores(model, dataset, output, overwrite=True, executor=client)


def cluster_that_scored(folder: Path) -> Any:
    """Two worker processes that have scored a small data set, and their client."""
    context = started(2)
    _, client = context.__enter__()
    dr.write_dataset(made_blocks(4_000, 3), folder / "small.zarr", overwrite=True)
    score(folder / "small.zarr", folder / "small", client)
    return context, client


def score_on(data: Path, output: Path, cluster: Any) -> None:
    """Score on a cluster, and end the cluster."""
    context, client = cluster
    score(data, output, client)
    context.__exit__(None, None, None)


def growth(n_documents: int, rounds: int) -> list[Figure]:
    """Seconds per document from 10^5 to 10^7 documents, or to 10^6 in a quick run."""
    sizes = [10**5, 10**6] if n_documents < 10**6 else [10**5, 10**6, 10**7]
    figures = []
    for kind in ("local disk", "object store in memory"):
        spent = [per_document(size, kind) for size in sizes]
        for step in spent[0]:
            ratio = max(times[step] for times in spent) / spent[0][step]
            name = f"{step}, {kind}: time per document, 10^5 to {sizes[-1]:.0e} documents"
            figures.append(figure(name, ratio, "x", peer="10^5 documents", at_most=1.3))
    return figures


def per_document(n_documents: int, kind: str) -> dict[str, float]:
    """Seconds per document of each step; small steps are repeated until a second is over."""
    warnings.simplefilter("ignore", SelectionWarning)
    executor = ThreadExecutor(1)
    with tempfile.TemporaryDirectory() as name:
        write_parquet(Path(name, "lake"), n_documents)
        at: Place = Path(name) if kind == "local disk" else as_place("memory://growth")
        data = at / "data.zarr"
        memory = f"{4 * n_documents * N_GROWTH_FEATURES * 7 // 10 + 50_000_000}B"
        ranker = dr.GreedyRankRLS(n_features=3, memory_limit=memory)

        def store() -> None:
            dr.ingest(Path(name, "lake"), data, overwrite=True, executor=executor)

        steps: dict[str, Callable[[], object]] = {
            "ingest": store,
            "selection": lambda: ranker.fit(dr.open_dataset(data), executor=executor),
            "prediction": lambda: score(data, at / "scores", executor),
        }
        spent = {step: seconds_of(call) / n_documents for step, call in steps.items()}
        if not is_local(at):
            at.fs.rm(at.path, recursive=True)
    executor.close()
    return spent


def seconds_of(call: Callable[[], object]) -> float:
    """Seconds of a call, the mean of as many calls as fit into two seconds, after one for free."""
    call()
    start, n_calls = time.perf_counter(), 0
    while n_calls == 0 or time.perf_counter() - start < 2:
        call()
        n_calls += 1
    return (time.perf_counter() - start) / n_calls


def write_parquet(folder: Path, n_documents: int) -> None:
    """Made data as adjacent parquet, in files of 10^6 documents at most."""
    folder.mkdir()
    tables: list[pa.Table] = []
    for block in made_blocks(n_documents, N_GROWTH_FEATURES):
        qid = np.repeat(block.query_ids.to_numpy(), np.diff(block.query_ptr))
        columns = {f"f{j}": pa.array(column) for j, column in enumerate(block.features.T)}
        tables.append(pa.table({"qid": qid, "relevance": block.relevance, **columns}))
        if sum(map(len, tables)) >= 10**6:
            flush(folder, tables)
    if tables:
        flush(folder, tables)


def flush(folder: Path, tables: list[pa.Table]) -> None:
    """Write the tables as the next file, with a row group for each block."""
    number = len(list(folder.iterdir()))
    with pq.ParquetWriter(folder / f"{number}.parquet", tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    tables.clear()
