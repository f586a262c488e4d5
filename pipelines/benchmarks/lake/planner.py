"""The planner of ingest on made queries: the topic "planner" of `pipelines.benchmarks.lake`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dranking.data.regrouping.layout import plan_segments
from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.tile_tasks import given
from dranking.files.writing.names import job_folder, new_token
from dranking.ingestion.order_rows import queries_in_order, scan_queries
from dranking.ingestion.rows.row_source import IdBatch
from dranking.ingestion.rows.scratch import Scratch
from pipelines.benchmarks.clusters.faults import started
from pipelines.benchmarks.harness import Figure, figure, peak_memory

N_QUERIES = 10**7
ROWS_OF_QUERY = {"adjacent": 100, "unordered": 5}
"""Rows of a query; unordered, each row is a line of its own in the scratch files: 40 bytes."""

ROW_GROUP = 1 << 20


class MadeIds:
    """Query ids of made rows, each made when it is scanned; see `RowSource`.

    Parameters
    ----------
    n_queries, rows_of_query
        Queries, and rows of each.
    is_adjacent
        Whether the rows of a query lie together; otherwise they are `n_queries` rows apart.
    """

    row_bytes = 4_000

    def __init__(self, n_queries: int, rows_of_query: int, is_adjacent: bool) -> None:
        self.n_queries, self.rows_of_query = n_queries, rows_of_query
        self.is_adjacent = is_adjacent
        self.n_rows = n_queries * rows_of_query
        self.borders = (*range(0, self.n_rows, ROW_GROUP), self.n_rows)

    def query_ids(self, start: int, stop: int) -> Iterator[IdBatch]:
        """Ids of a range of rows, as a scan of parquet yields them, a row group at a time."""
        for first in range(start, stop, ROW_GROUP):
            rows = np.arange(first, min(first + ROW_GROUP, stop))
            ids = rows // self.rows_of_query if self.is_adjacent else rows % self.n_queries
            yield IdBatch(first, pa.array(ids))


def planner(n_queries: int) -> Iterator[Figure]:
    """Time and driver's memory of the plan of so many queries, on two worker processes."""
    for order, rows in ROWS_OF_QUERY.items():
        source = MadeIds(n_queries, rows, order == "adjacent")
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder, "seconds")
            peak = peak_memory(
                partial(cluster_that_planned, Path(folder)),
                partial(plan_on, source, Path(folder), told),
            )
            seconds = float(told.read_text())
        what = f"plan of {n_queries:,} {order} queries, {source.n_rows:,} rows, two processes"
        yield figure(what, seconds, "s")
        yield figure(f"{what}: driver's peak", peak / 1e6, "MB")


def cluster_that_planned(folder: Path) -> Any:
    """Two worker processes that have planned a few queries, and their client."""
    context = started(2)
    _, client = context.__enter__()
    for is_adjacent in (True, False):
        plan(MadeIds(1_000, 5, is_adjacent), folder, client)
    return context, client


def plan_on(source: MadeIds, folder: Path, told: Path, cluster: Any) -> None:
    """Plan on a cluster, write the seconds that the plan took to a file, and end the cluster."""
    context, client = cluster
    start = time.perf_counter()
    plan(source, folder, client)
    told.write_text(str(time.perf_counter() - start))
    context.__exit__(None, None, None)


def plan(source: Any, folder: Path, client: Any) -> None:
    """Find the queries of a source, and cut them into blocks and segments."""
    executor = DaskExecutor(client)
    token = new_token()
    scratch = Scratch(job_folder(folder, token), token)
    shared = executor.submit(given, source, name="source")
    scan = scan_queries(executor, shared, source, scratch, 0)
    segments = plan_segments(queries_in_order(executor, scratch, scan))
    scratch.clear()
    n_queries = sum(sum(segment.n_queries) for segment in segments)
    found = (n_queries, not scan.n_scattered_queries, segments[-1].row_ptr[-1])
    if found != (source.n_queries, source.is_adjacent, source.n_rows):
        raise RuntimeError(f"the plan of {source.n_rows} rows is wrong: {found}")
