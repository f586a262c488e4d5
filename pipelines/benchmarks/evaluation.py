"""Memory of an evaluation of parquet on two worker processes, as the number of rows grows tenfold.

    python -m pipelines.benchmarks.evaluation --json [--quick]

The rows are queries of 100 documents with ten features, a text column of segments, and a column of
scores, in files of a tenth of the smaller size. The evaluation is by the column of scores and by
segment, after a small one that compiles the kernels and fills the imports of the workers.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dranking as dr
from dranking.engine.cluster.starting.deploy import local_cluster
from pipelines.benchmarks.harness import Figure, figure, main, parser, resident

N_ROWS, GROWTH, N_FILES = 1_000_000, 10, 10
QUERY_SIZE, N_FEATURES, N_WORKERS = 100, 10, 2
METRICS = ["map", "mrr", "p@10", "recall@100", "ndcg@10", "ndcg"]


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Peak memory of the driver and of a worker for the smaller and the larger number of rows."""
    from distributed import Client

    n_rows = N_ROWS // 100 if options.quick else N_ROWS
    sizes = (n_rows, GROWTH * n_rows)
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        local_cluster({"n_workers": N_WORKERS, "memory_limit": 0}) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        write_rows(Path(folder) / "small", n_rows // 10)
        evaluate(Path(folder) / "small", client)
        for size in sizes:
            write_rows(Path(folder) / str(size), size)
            evaluate(Path(folder) / str(size), client)
            found.append((resident("VmHWM"), max(client.run(resident, "VmHWM").values())))
    (driver, worker), (large_driver, large_worker) = found
    at = f"{sizes[1]:,} rows"
    return [
        figure(f"peak memory of the driver, {at}", large_driver, "B"),
        figure(f"peak memory of a worker, {at}", large_worker, "B"),
        figure(f"the driver's over that of a tenth of the rows, {at}", large_driver / driver, "x"),
        figure(f"a worker's over that of a tenth, {at}", large_worker / worker, "x", at_most=1.25),
    ]


def evaluate(folder: Path, client: object) -> None:
    """Measure the scores of all rows, and of each segment."""
    dr.evaluate("score", folder, METRICS, "trec", by="segment", executor=client)


def write_rows(folder: Path, n_rows: int) -> None:
    """Write rows whose scores follow their grades, as parquet files of whole queries."""
    folder.mkdir()
    per_file = max(n_rows // N_FILES, QUERY_SIZE) // QUERY_SIZE * QUERY_SIZE
    n_per_write = min(per_file, N_ROWS // N_FILES)
    for file, start in enumerate(range(0, n_rows, n_per_write)):
        rng = np.random.default_rng(file)
        rows = np.arange(start, start + n_per_write)
        grades = rng.integers(0, 5, len(rows))
        features = {f"f{i}": rng.random(len(rows), dtype=np.float32) for i in range(N_FEATURES)}
        segments = pa.array(["head", "torso", "tail"]).take(pa.array(rows // QUERY_SIZE % 3))
        columns = {
            "qid": rows // QUERY_SIZE,
            "docid": rows,
            "relevance": grades,
            "score": (grades + rng.normal(0, 2, len(rows))).astype(np.float32),
            "segment": segments,
        }
        pq.write_table(pa.table({**columns, **features}), folder / f"{file:04}.parquet")


if __name__ == "__main__":
    main(measure, parser("Memory of an evaluation of parquet on a cluster."))
