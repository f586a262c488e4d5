"""Counts of clicks from logs: memory, two processes over one, and DuckDB as the peer.

    python -m pipelines.benchmarks.clicks --json [--quick] [--events N] [--topics peer]

The log is made: sessions of ten results each, queries and documents drawn with the skew of search
logs, texts for all ids, a row per impression, parquet in files of 2,000,000 rows. The peer is
DuckDB on one thread, which reads the same files, once with a group-by alone, and once with all that
a click store asks for: repeated events dropped, and sessions in the night in which they began. A
second peer are the group-bys of Dask's data frames, for the same counts on two workers.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dranking as dr
from dranking.clicks.counting.click_log import ClickLog
from dranking.engine.executor import ThreadExecutor
from pipelines.benchmarks.clusters.faults import started
from pipelines.benchmarks.harness import (
    Figure,
    Sample,
    add_topics,
    figure,
    interleaved,
    main,
    parser,
    processor_seconds,
    resident,
)

EVENTS = 10_000_000
QUICK_EVENTS = 500_000
FILE_EVENTS = 2_000_000
GROUP_EVENTS = 500_000
WARMING_EVENTS = 200_000
RESULTS = 10
QUERY_DOCUMENTS = 50
LIMIT = 2 * 10**9
NIGHTS = 7
TOPICS = ("peer", "workers", "dask")

GROUP_BY = """
    SELECT query, document, position, time::DATE AS night,
           count(*) AS impressions, sum(clicked::INT) AS clicks
    FROM '{files}' GROUP BY ALL
"""
SAME = """
    WITH results AS (
        SELECT session, query, document, position, bool_or(clicked) AS clicked
        FROM '{files}' GROUP BY ALL
    ), sessions AS (
        SELECT session, min(time)::DATE AS night FROM '{files}' GROUP BY ALL
    )
    SELECT query, document, position, night,
           count(*) AS impressions, sum(clicked::INT) AS clicks
    FROM results JOIN sessions USING (session) GROUP BY ALL
"""


def measure(options: argparse.Namespace) -> list[Figure]:
    """Figures of the chosen topics."""
    n_events = options.events or (QUICK_EVENTS if options.quick else EVENTS)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write_log(folder / "log", n_events)
        figures = []
        if "peer" in options.topics:
            figures += against_duckdb(folder, n_events, options.rounds)
        if "workers" in options.topics:
            figures += on_workers(folder, n_events, options.rounds)
        if "dask" in options.topics:
            figures += against_dask(folder, n_events, options.rounds)
        return figures


def write_log(folder: Path, n_events: int) -> None:
    """A log of so many impressions, of sessions that each see one page of ten results."""
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, n_events, FILE_EVENTS)):
        n_sessions = min(FILE_EVENTS, n_events - start) // RESULTS
        table = sessions(np.random.default_rng(number), n_sessions, n_events // 400)
        path = folder / f"log-{number:04d}.parquet"
        pq.write_table(table, path, row_group_size=GROUP_EVENTS)


def sessions(rng: np.random.Generator, n_sessions: int, n_queries: int) -> pa.Table:
    """Rows of sessions, in the order of time; a tenth of the results is clicked."""
    query = np.minimum(n_queries * rng.random(n_sessions) ** 4, n_queries - 1).astype(np.int64)
    shown = np.repeat(query, RESULTS)
    n_events = len(shown)
    position = np.tile(np.arange(1, RESULTS + 1, dtype=np.int32), n_sessions)
    rank = (QUERY_DOCUMENTS * rng.random(n_events) ** 3).astype(np.int64)
    rank = (rank + position * 5) % QUERY_DOCUMENTS
    second = np.sort(rng.integers(0, NIGHTS * 86_400, n_sessions))
    ids = [f"{word:016x}" for word in rng.integers(0, 2**63, n_sessions).tolist()]
    queries = pa.array([f"query number {q}" for q in range(n_queries)])
    names = pa.array([f"doc-{d:07d}" for d in range(n_queries + QUERY_DOCUMENTS)])
    time = (np.int64(1_767_225_600) + np.repeat(second, RESULTS)) * 1_000_000
    return pa.table(
        {
            "session": pa.array(ids).take(pa.array(np.repeat(np.arange(n_sessions), RESULTS))),
            "query": queries.take(pa.array(shown)),
            "document": names.take(pa.array(shown + rank)),
            "position": position,
            "clicked": rng.random(n_events) < 1 / (5 + 1.5 * position),
            "time": pa.array(time, pa.timestamp("us", "UTC")),
        }
    )


def build(folder: Path, name: str, executor: Any) -> None:
    """Build a click store of the log with the texts of queries, as the peers keep them."""
    log = ClickLog(keep_queries=True)
    dr.build_clicks(folder / "log", folder / name, log, overwrite=True, executor=executor)


def against_duckdb(folder: Path, n_events: int, rounds: int) -> list[Figure]:
    """One thread of each, in processor seconds, so that other work of the machine counts less."""
    executor = ThreadExecutor(1)
    calls = {
        "ours": partial(build, folder, "ours.store", executor),
        "group": partial(duckdb, folder, "group", GROUP_BY),
        "same": partial(duckdb, folder, "same", SAME),
    }
    times = interleaved(calls, rounds, clock=processor_seconds)
    executor.close()
    check(folder)
    name = f"counts of {n_events:,} impressions"
    return [
        figure(name, times["ours"] / times["group"], "x", peer="DuckDB, group-by", at_most=1.5),
        figure(name, times["ours"] / times["same"], "x", peer="DuckDB, the same counts"),
        figure(f"rate of {name}", n_events / 1e6 / times["ours"], "M/s"),
    ]


def duckdb(folder: Path, name: str, query: str) -> None:
    """Run a query over the log on one thread, and write its rows as parquet."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        files = (folder / "log").as_posix() + "/*.parquet"
        text = query.format(files=files)
        target = (folder / f"{name}.parquet").as_posix()
        connection.sql("SET enable_progress_bar = false")
        connection.sql("SET TimeZone = 'UTC'")
        connection.sql(f"COPY ({text}) TO '{target}' (FORMAT parquet)")


def check(folder: Path) -> None:
    """Compare the store with the peer's rows of the same counts."""
    store = dr.open_click_store(folder / "ours.store")
    rows = pq.read_table(folder / "same.parquet", columns=["impressions", "clicks"])
    totals = tuple(int(rows.column(name).to_numpy().sum()) for name in rows.column_names)
    ours = (store.n_rows, store.n_impressions, store.n_clicks)
    if ours != (rows.num_rows, *totals):
        raise SystemExit(f"other counts: ours {ours}, the peer's {(rows.num_rows, *totals)}")


def on_workers(folder: Path, n_events: int, rounds: int) -> list[Figure]:
    """Two worker processes of 2 GB over one, what the machine allows, and the peak of memory.

    What the machine allows are two builds on clusters of one worker each, side by side: nothing
    joins them but processors, memory and disk. A round has both orders. All workers compile on a
    small log first, so that a log that takes minutes is counted twice a round, and not once more.
    """
    write_log(folder / "small" / "log", WARMING_EVENTS)
    with (
        started(1, memory_limit=LIMIT) as (_, one),
        started(2, memory_limit=LIMIT) as (_, two),
        started(1, memory_limit=LIMIT) as (_, other),
        ThreadPoolExecutor(2) as threads,
    ):
        clients = {"one": one, "two": two, "other": other}
        for name, client in clients.items():
            build(folder / "small", f"{name}.store", client)

        def apart() -> None:
            list(threads.map(lambda n: build(folder, f"{n}.store", clients[n]), ("one", "other")))

        calls = {n: partial(build, folder, f"{n}.store", clients[n]) for n in ("one", "two")}
        calls |= {"apart": apart, "two, again": calls["two"], "one, again": calls["one"]}
        times = interleaved(calls, rounds, warm_up=False)
        peaks = [peak for c in (one, two) for peak in c.run(resident, "VmHWM").values()]
    alone = Sample(times["one"].values + times["one, again"].values)
    both = Sample(times["two"].values + times["two, again"].values)
    name = f"counts of {n_events:,} impressions"
    share, of_machine = max(peaks) / LIMIT, times["one"] / (times["apart"] / 2)
    return [
        figure(f"{name}, two workers", alone / both, "x", peer="one", at_least=1.7),
        figure(f"{name}, two clusters of one worker side by side", of_machine, "x", peer="one"),
        figure(f"{name}: peak of a worker of 2 GB", share, "of its limit", at_most=1),
    ]


def against_dask(folder: Path, n_events: int, rounds: int) -> list[Figure]:
    """The group-by of Dask's data frames for the same counts, on two workers of 2 GB each.

    Each has workers of its own, so that the peaks of memory do not mix.
    """
    rows: list[tuple[int, ...]] = []
    with (
        started(2, memory_limit=LIMIT) as (_, ours),
        started(2, memory_limit=LIMIT) as (_, dask),
    ):
        calls = {
            "ours": partial(build, folder, "dask-peer.store", ours),
            "dask": lambda: rows.append(counts_by_dask(folder, dask)),
        }
        times = interleaved(calls, rounds)
        peaks = [max(c.run(resident, "VmHWM").values()) for c in (ours, dask)]
    store = dr.open_click_store(folder / "dask-peer.store")
    if {(store.n_rows, store.n_impressions, store.n_clicks)} != set(rows):
        raise SystemExit(f"other counts: ours {store.n_rows}, Dask's {rows}")
    name, peer = f"counts of {n_events:,} impressions, two workers", "group-by of dask.dataframe"
    return [
        figure(name, times["ours"] / times["dask"], "x", peer=peer),
        figure(f"{name}: peak of a worker", peaks[0] / peaks[1], "x", peer=peer),
        figure(f"{name}: peak of a worker, dask.dataframe", peaks[1] / LIMIT, "of its limit"),
    ]


def counts_by_dask(folder: Path, client: Any) -> tuple[int, ...]:
    """Write the counts of `SAME` by group-bys and a join of data frames; rows, n and clicks."""
    import dask.dataframe as dd

    log = dd.read_parquet(folder / "log")
    key = ["session", "query", "document", "position"]
    out = log.npartitions
    results = log.groupby(key, sort=False).clicked.max(split_out=out)
    first = log.groupby("session", sort=False).time.min(split_out=out)
    joined = results.reset_index().merge(first.reset_index(), on="session")
    joined = joined.assign(night=joined.time.dt.floor("D"), clicks=joined.clicked.astype("int64"))
    groups = joined.groupby(["query", "document", "position", "night"], sort=False)
    counts = groups.clicks.agg(["count", "sum"], split_out=out).reset_index()
    client.compute(counts.to_parquet(folder / "dask.parquet", compute=False), sync=True)
    written = pq.read_table(folder / "dask.parquet", columns=["count", "sum"])
    sums = (int(written.column(name).to_numpy().sum()) for name in ("count", "sum"))
    return (written.num_rows, *sums)


if __name__ == "__main__":
    options = add_topics(parser("Counts of clicks from logs."), TOPICS)
    options.add_argument("--events", type=int, help="impressions (default: 10,000,000)")
    options.add_argument("--folder", type=Path, help="where files are made (default: a new one)")
    main(measure, options)
