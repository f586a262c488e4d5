"""Prediction on two workers, and growth with the data: topics of `pipelines.benchmarks.lake`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from dranking.errors import SelectionWarning
from dranking.files.places import Place, as_place
from pipelines.benchmarks.clusters.faults import started
from pipelines.benchmarks.harness import Figure, figure, peak_memory
from pipelines.benchmarks.lake.trial import Trial
from pipelines.benchmarks.made import made_blocks

N_FEATURES = 136
N_GROWTH_FEATURES = 16


def predict(trial: Trial) -> Iterator[Figure]:
    """Writing of scores by two worker processes over one, and the driver's memory."""
    data = [
        trial.made(
            f"predict-{n_documents}",
            partial(dr.write_dataset, made_blocks(n_documents, N_FEATURES)),
        )
        for n_documents in (trial.n_documents, 4 * trial.n_documents)
    ]
    with started(1) as (_, one), started(2) as (_, two):
        calls = {
            name: partial(score, data[1], trial.output(name), client)
            for name, client in (("one", one), ("two", two))
        }
        times = trial.timed(calls)
    name = f"prediction of {4 * trial.n_documents:,} x {N_FEATURES}, two processes"
    yield figure(name, times["one"] / times["two"], "x", peer="one process", at_least=1.7)
    for path, size in zip(data, ("", " for 4 times the documents"), strict=True):
        peak = peak_memory(
            partial(cluster_that_scored, trial.folder),
            partial(score_on, path, trial.output("scores")),
        )
        what = f"prediction of {trial.n_documents:,} x {N_FEATURES}: driver's peak{size}"
        yield figure(what, peak / 1e6, "MB")


def score(data: Place, output: Place, client: Any) -> None:
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


def growth(trial: Trial) -> Iterator[Figure]:
    """Seconds per document, from 10^5 documents up, on the local disk."""
    yield from of_sizes(trial, trial.output("growth"), "local disk")


def growth_in_store(trial: Trial) -> Iterator[Figure]:
    """Seconds per document, from 10^5 documents up, in fsspec's memory store."""
    yield from of_sizes(trial, as_place("memory://growth"), "object store in memory")


def of_sizes(trial: Trial, at: Place, kind: str) -> Iterator[Figure]:
    """Seconds per document of each step, for all sizes in turn."""
    warnings.simplefilter("ignore", SelectionWarning)
    executor = ThreadExecutor(1)
    largest = trial.n_documents
    sizes = [10**i for i in range(5, 9) if 10**i <= largest]
    for size in sizes:
        trial.made(f"growth-{size}", partial(write_parquet, size))
    for name, step in STEPS.items():
        calls = {
            str(size): partial(repeated, step, largest // size, trial.folder, at, size, executor)
            for size in sizes
        }
        times = trial.timed(calls)
        for size in sizes[1:]:
            n_calls = {s: calls_of(largest // s) for s in (size, sizes[0])}
            per_document = times[str(size)] / (size * n_calls[size])
            first = times[str(sizes[0])] / (sizes[0] * n_calls[sizes[0]])
            what = f"{name}, {kind}: time per document, {size:,} documents"
            peer = f"{sizes[0]:,} documents"
            yield figure(what, per_document / first, "x", peer=peer, at_most=1.3)
    executor.close()


MOST_CALLS = 10


def calls_of(ratio: int) -> int:
    """How often a step is done for small data, so that every size takes a similar time."""
    return min(ratio, MOST_CALLS)


def repeated(step: Callable[..., object], ratio: int, *arguments: Any) -> None:
    """Do a step as often as `calls_of` says."""
    for _ in range(calls_of(ratio)):
        step(*arguments)


def store(lake: Path, at: Place, size: int, executor: Any) -> None:
    """Ingest the parquet of a size."""
    dr.ingest(lake / f"growth-{size}", at / f"{size}.zarr", overwrite=True, executor=executor)


def select(lake: Path, at: Place, size: int, executor: Any) -> None:
    """Select three features with all of the data in memory.

    With less memory for each size, only small data would fit beside what the search itself needs.
    """
    memory = f"{4 * size * N_GROWTH_FEATURES * 4 + 200_000_000}B"
    ranker = dr.GreedyRankRLS(n_features=3, memory_limit=memory)
    ranker.fit(dr.open_dataset(at / f"{size}.zarr"), executor=executor)


def score_all(lake: Path, at: Place, size: int, executor: Any) -> None:
    """Write the scores of all documents."""
    score(at / f"{size}.zarr", at / f"scores-{size}", executor)


STEPS: dict[str, Callable[[Path, Place, int, Any], object]] = {
    "ingest": store,
    "selection": select,
    "prediction": score_all,
}
"""In this order: the later steps read what the first has written."""


def write_parquet(n_documents: int, folder: Path) -> None:
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
