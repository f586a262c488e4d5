"""Statistics stores: the cost of new data, and selections without the documents."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import dranking as dr
from dranking.rankrls.gram.statistics_store import append_queries, build_statistics
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.write_append_expire import expire_statistics
from pipelines.benchmarks.greedy import Arrays, Size, make_arrays, select
from pipelines.benchmarks.harness import SHORT, Figure, figure, interleaved
from pipelines.benchmarks.pairwise import write_text

SIZE, SELECTED = Size(200_000, 136, 50, {}, {}), (10, 46)
QUICK, QUICK_SELECTED = Size(3_000, 20, 50, {}, {}), (3,)
SHARE = 0.01
"""Share of the documents that are new."""


def figures(quick: bool, rounds: int) -> dict[str, Figure]:
    """Figures of selections from a store against from memory, then of new data."""
    size = QUICK if quick else SIZE
    with tempfile.TemporaryDirectory() as folder:
        found = selections(Path(folder), size, QUICK_SELECTED if quick else SELECTED, rounds)
        found += new_data(Path(folder), size, rounds)
    return {item.name: item for item in found}


def selections(folder: Path, size: Size, selected: tuple[int, ...], rounds: int) -> list[Figure]:
    """Time from a store, opened each time, over the time from X in memory; the store's size."""
    dataset = make_arrays(size).dataset()
    store = build_statistics(dataset, folder / "store")
    rows = []
    for k in selected:
        times = interleaved(
            {
                "memory": lambda k=k: select(k, dataset),
                "store": lambda k=k: select(k, StatisticsDataset(store.path)),
            },
            SHORT * rounds,
        )
        [path], [expected] = select(k, store).paths, select(k, dataset).paths
        is_same = path.selected == expected.selected and path.lqo_error == expected.lqo_error
        at = f"{size}, k = {k}"
        rows += [
            figure(
                f"time from statistics over that from memory, {at}",
                times["store"] / times["memory"],
                "x",
                at_most=1.1,
            ),
            figure(f"time from statistics, {at}", times["store"], "s"),
            figure(f"time from memory, {at}", times["memory"], "s"),
            figure(f"same selection and errors in every bit, {at}", float(is_same), "", at_least=1),
        ]
    larger = store.manifest.n_bytes / store.manifest.n_data_bytes
    return [*rows, figure(f"size of the statistics over X, {size}", larger, "x")]


def new_data(folder: Path, size: Size, rounds: int) -> list[Figure]:
    """Time from text to statistics: new data over all data."""
    old, new = split(make_arrays(size))
    n_old = len(old.query_ptr) - 1
    texts = [
        write_text(old, folder / "old.txt"),
        write_text(new, folder / "new.txt", first_query=100_000 + n_old),
    ]
    store = build(texts[:1], folder / "old")

    def append() -> None:
        stored, _ = dr.ingest(texts[1], folder / "new", overwrite=True)
        append_queries(store.path, stored)

    def expire() -> None:
        old_blocks = range(store.n_blocks)
        n_blocks = StatisticsDataset(store.path).n_blocks
        expire_statistics(store.path, blocks=[b for b in range(n_blocks) if b not in old_blocks])

    calls = {"new": append, "expire": expire, "all": lambda: build(texts, folder / "all")}
    times = interleaved(calls, rounds)
    at = f"{SHARE:.0%} of {size}"
    return [
        figure(
            f"time to ingest and append over building all, {at}",
            times["new"] / times["all"],
            "x",
            at_most=0.03,
        ),
        figure(f"time to ingest and append, {at}", times["new"], "s"),
        figure(f"time to ingest and build all, {size}", times["all"], "s"),
    ]


def split(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """The old queries, and the last few queries, which are new."""
    ptr = arrays.query_ptr
    first = min(int(np.searchsorted(ptr, (1.0 - SHARE) * ptr[-1])), len(ptr) - 2)
    cut = ptr[first]
    return (
        Arrays(arrays.X[:cut], arrays.y[:cut], ptr[: first + 1]),
        Arrays(arrays.X[cut:], arrays.y[cut:], ptr[first:] - cut),
    )


def build(texts: list[Path], folder: Path) -> StatisticsDataset:
    """Make a dataset directory of text files, and a statistics store of the directory."""
    stored, _ = dr.ingest(texts, folder / "data", overwrite=True)
    return build_statistics(stored, folder / "statistics", overwrite=True)
