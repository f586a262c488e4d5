"""Nights of new clicks through the command line: labels, and statistics brought up to date.

    python -m pipelines.benchmarks.click_night --json [--quick] [--documents N] [--folder DIR]

Queries have fifty made documents of 46 features, ten of which were shown. In a night the clicks on
one query in a hundred changed: once these queries lie together, as where queries are sorted by how
often they are asked; then they lie scattered, in three nights of other queries each. A night is
`dranking clicks label` and `dranking stats relabel`. Its statistics are compared with
`dranking stats build` of all queries, in processor seconds, and with the bytes that this reads.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dranking as dr
from dranking.cli.app import run
from dranking.clicks.counts import ClickCounts
from dranking.clicks.store.write_store import write_click_store
from dranking.data.blocks import QueryBlock
from dranking.data.store.write_dataset import write_dataset
from pipelines.benchmarks.harness import Figure, figure, main, parser, processor_seconds

DOCUMENTS, QUICK_DOCUMENTS, FEATURES = 10_000_000, 50_000, 46
PER_QUERY, SHOWN = 50, 10
ONE_IN = 100
N_SCATTERED = 3


class Cost(NamedTuple):
    """What a command took: processor seconds, seconds, and bytes read; and its JSON object."""

    processor: float
    seconds: float
    n_bytes: int
    facts: dict[str, Any]


def measure(options: argparse.Namespace) -> list[Figure]:
    """Figures of four nights."""
    n_documents = options.documents or (QUICK_DOCUMENTS if options.quick else DOCUMENTS)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        return nights(Path(name), n_documents)


def nights(folder: Path, n_documents: int) -> list[Figure]:
    """Figures of a night of changes that lie together, and of nights of scattered ones."""
    n_queries = n_documents // PER_QUERY
    write_dataset(made_documents(n_queries), folder / "data")
    dr.power_propensities(1.0, SHOWN).save(folder / "propensities.json")
    clicks = made_counts(n_queries)
    label(folder, clicks, "before")
    whole = command("stats", "build", folder / "before", "--output", folder / "night.stats")
    n_changed = n_queries // ONE_IN
    figures = figures_of(folder, clicks, np.arange(n_changed), "together", whole)
    for number, scattered in enumerate(scattered_queries(n_queries), start=1):
        figures += figures_of(folder, clicks, scattered, f"scattered, night {number}", whole)
    return figures


def scattered_queries(n_queries: int) -> list[NDArray[np.int64]]:
    """Queries that change in each night, drawn at random."""
    drawn = np.random.default_rng(0).permutation(n_queries)
    return np.split(drawn, np.arange(1, N_SCATTERED + 1) * (n_queries // ONE_IN))[:-1]


def figures_of(
    folder: Path, clicks: ClickCounts, changed: NDArray[np.int64], how: str, whole: Cost
) -> list[Figure]:
    """Figures of a night in which some queries got one click more on each document shown."""
    clicks.clicks[np.isin(clicks.query, changed)] += 1
    labels = label(folder, clicks, "night")
    cost = command("stats", "relabel", folder / "night.stats", folder / "night")
    if cost.facts["n_queries_built"] != len(changed):
        raise SystemExit(f"{cost.facts['n_queries_built']} queries were computed anew.")
    name = f"night of 1 % of {len(clicks.query) // SHOWN:,} queries, {how}"
    share = cost.facts["n_blocks_changed"] / cost.facts["n_blocks"]
    return [
        figure(f"{name}: statistics", cost.processor / whole.processor, "x", peer="of all queries"),
        figure(f"{name}: seconds", cost.seconds / whole.seconds, "x", peer="of all queries"),
        figure(f"{name}: bytes read", cost.n_bytes / whole.n_bytes, "x", peer="of all queries"),
        figure(f"{name}: blocks with a changed query", share, "of all blocks"),
        figure(f"{name}: labels", labels.processor / whole.processor, "x", peer="all statistics"),
    ]


def label(folder: Path, clicks: ClickCounts, name: str) -> Cost:
    """Label the data by some clicks."""
    write_click_store(clicks, folder / "clicks", overwrite=True)
    how = ("--propensities", folder / "propensities.json", "--estimator", "ips", "--overwrite")
    places = (folder / "clicks", folder / "data", "--output", folder / name)
    return command("clicks", "label", *places, *how)


def command(*arguments: Any) -> Cost:
    """Run a command in this process."""
    out = io.StringIO()
    before, start, n_bytes = processor_seconds(), perf_counter(), bytes_read()
    with contextlib.redirect_stdout(out):
        code = run([*map(str, arguments), "--json"])
    if code:
        raise SystemExit(code)
    used = processor_seconds() - before, perf_counter() - start, bytes_read() - n_bytes
    return Cost(*used, json.loads(out.getvalue()))


def bytes_read() -> int:
    """Bytes that this process has read from files, whether from disk or from the page cache."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def made_documents(n_queries: int) -> Iterator[QueryBlock]:
    """Blocks of made documents without labels."""
    per_block = 8_192 // PER_QUERY
    for start in range(0, n_queries, per_block):
        n = min(per_block, n_queries - start)
        rng = np.random.default_rng(start)
        queries = [f"q{q:07d}" for q in range(start, start + n)]
        yield QueryBlock(
            features=rng.random((n * PER_QUERY, FEATURES), dtype=np.float32),
            relevance=np.full(n * PER_QUERY, np.nan),
            query_ptr=np.arange(n + 1) * PER_QUERY,
            query_ids=pa.array(queries),
            doc_ids=pa.array([f"d{d}" for _ in range(n) for d in range(PER_QUERY)]),
        )


def made_counts(n_queries: int) -> ClickCounts:
    """Clicks on ten documents of each query."""
    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(n_queries), SHOWN)
    zeros = np.zeros(len(query), np.int64)
    return ClickCounts(
        query_ids=np.array([f"q{q:07d}" for q in range(n_queries)]),
        document_ids=np.array([f"d{d}" for d in range(SHOWN)]),
        contexts=("",),
        arms=("",),
        nights=np.array(["2026-11-01"], "datetime64[D]"),
        query=query,
        document=np.tile(np.arange(SHOWN), n_queries),
        context=zeros,
        night=zeros,
        arm=zeros,
        position=np.tile(np.arange(1, SHOWN + 1), n_queries),
        impressions=zeros + 100,
        clicks=rng.integers(0, 20, len(query)),
    )


if __name__ == "__main__":
    options = parser("Nights of new clicks.")
    options.add_argument("--documents", type=int, help="documents (default: 10,000,000)")
    options.add_argument("--folder", type=Path, help="where files are made (default: a new one)")
    main(measure, options)
