"""An S3 server (moto) behind networks: two topics of `pipelines.benchmarks.lake`."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dranking as dr
from dranking.data.parquet.part import _read_footer
from dranking.data.roles import DEFAULT_COLUMNS
from dranking.engine.executor import ThreadExecutor
from dranking.files.places import as_place
from dranking.ingestion.open_rows import open_parquet
from dranking.ingestion.rows.plan_parquet import ColumnRules
from pipelines.benchmarks.harness import Figure, figure
from pipelines.benchmarks.lake.ingest import N_FEATURES, adjacent
from pipelines.benchmarks.lake.trial import Trial
from pipelines.benchmarks.s3_proxy import Faults, Proxy

NETWORKS = {
    "as it is": Faults(),
    "slow": Faults(delay=0.03),
    "slow and bad": Faults(delay=0.03, drop=50, busy=30),
}
"""Every request of a slow network waits 30 ms; of a bad one, each 50th connection is dropped, and
each 30th request is answered with 503."""

N_FILES = 64
BUCKET = "s3://lake"


def small_files(trial: Trial) -> Iterator[Figure]:
    """The plan of an ingest of 64 small parquet files, and opening them as a data set."""
    with served() as options:
        rng = np.random.default_rng(0)
        for number in range(N_FILES):
            qid = np.repeat(np.arange(50), 20) + 50 * number
            columns = {f"f{j}": rng.random(len(qid)) for j in range(8)}
            rows = pa.table({"qid": qid, "relevance": rng.integers(0, 3, len(qid)), **columns})
            with as_place(f"{BUCKET}/small/{number}.parquet", options["as it is"]).open("wb") as f:
                pq.write_table(rows, f)
        place, executor = as_place(f"{BUCKET}/small", options["slow"]), ThreadExecutor(1)
        rules = ColumnRules(DEFAULT_COLUMNS, "error")
        calls: dict[str, Callable[[], object]] = {
            "plan": partial(open_parquet, executor, [place], rules),
            "open_dataset": partial(dr.open_dataset, place),
        }
        for name, seconds in trial.timed({n: partial(fresh, c) for n, c in calls.items()}).items():
            yield figure(f"{name} of {N_FILES} small files behind 30 ms", seconds, "s")
        executor.close()


def fresh(work: Callable[[], object]) -> object:
    """The value of some work that knows no footer of a file."""
    _read_footer.cache_clear()
    return work()


def network(trial: Trial) -> Iterator[Figure]:
    """Ingest from and to a store, and reading of all blocks, behind three networks."""
    source, executor = adjacent(trial), ThreadExecutor(2)
    with served() as options:
        for file in source.iterdir():
            as_place(f"{BUCKET}/rows/{file.name}", options["as it is"]).write_bytes(
                file.read_bytes()
            )

        def ingested(given: Mapping[str, Any]) -> None:
            output = as_place(f"{BUCKET}/data.zarr", given)
            rows = as_place(f"{BUCKET}/rows", given)
            found, _ = dr.ingest(rows, output, overwrite=True, executor=executor)
            fingerprints.add(found.fingerprint)

        def read(given: Mapping[str, Any]) -> int:
            data = dr.open_dataset(as_place(f"{BUCKET}/data.zarr", given))
            return sum(block.n_documents for block in data.read_blocks())

        fingerprints: set[str] = set()
        for what, work in (("ingest", ingested), ("reading", read)):
            times = trial.timed({name: partial(work, given) for name, given in options.items()})
            for name in ("slow", "slow and bad"):
                size = f"{trial.n_documents:,} x {N_FEATURES}"
                ratio = times[name] / times["as it is"]
                yield figure(f"{what} of {size} behind a network that is {name}", ratio, "x")
    executor.close()
    yield figure("different data sets behind the three networks", len(fingerprints) - 1, "")


@contextmanager
def served() -> Iterator[dict[str, dict[str, Any]]]:
    """Storage options of a server with a bucket, in another process, behind each network."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    try:
        yield {
            name: {"endpoint_url": url, "key": "test", "secret": "test-secret"}
            for name, url in ours.recv().items()
        }
    finally:
        ours.send("end")
        process.join()


def serve(connection: Connection) -> None:
    """Run the server until something is received; send the URL of each network."""
    import logging

    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    s3fs.S3FileSystem(endpoint_url=url, key="test", secret="test-secret").mkdir(BUCKET)
    with ExitStack() as stack:
        proxies = {n: stack.enter_context(Proxy(url, faults)) for n, faults in NETWORKS.items()}
        connection.send({name: proxy.url for name, proxy in proxies.items()})
        connection.recv()
    server.stop()
