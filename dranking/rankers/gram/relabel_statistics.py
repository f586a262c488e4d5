"""Statistics stores of data whose labels changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dranking.data.dataset import Dataset
from dranking.data.statistics.block_folder import BlockFolders, WrittenBlock
from dranking.data.statistics.dataset import StatisticsDataset
from dranking.data.statistics.manifest import StatisticsEntry
from dranking.data.statistics.per_query import QueryStatistics
from dranking.data.statistics.write_append_expire import change_statistics
from dranking.engine.executor import Executor, get_executor
from dranking.engine.map_blocks import gather_oldest
from dranking.errors import DataError
from dranking.files.places import AnyPlace
from dranking.rankers.gram.statistics_store import in_forms_of


class Relabelled(NamedTuple):
    """A statistics store after `relabel_statistics`, and how many of its blocks were built anew."""

    store: StatisticsDataset
    n_blocks_built: int


def relabel_statistics(path: AnyPlace, data: Dataset, *, executor: Any = None) -> Relabelled:
    """Bring a statistics store up to date with the labels and query weights of its data.

    New labels change b_q and y_q' y_q of a query; a document that got a label, or lost its label,
    changes the means, A_q and sizes too. A block in which any of this happened is built anew from
    its features; of other blocks nothing is read or written. The result equals, in every bit, the
    store that `build_statistics` makes of the data.

    Parameters
    ----------
    path
        The store.
    data
        The data set of which the store was made, with other labels or query weights. Queries that
        expired from the store stay away.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    DataError
        If the data does not fit the store, or lacks queries of the store.
    TryAgainError
        If another process is changing the store.
    """
    run = get_executor(executor)
    n_built = 0

    def blocks(
        store: StatisticsDataset, folders: BlockFolders
    ) -> Iterator[WrittenBlock | StatisticsEntry | None]:
        nonlocal n_built
        new = in_forms_of(store, data)
        stale = _stale_blocks(store, new)
        n_built = len(stale)
        built = _built(store, new, stale, folders, run)
        for index, entry in enumerate(store.manifest.blocks):
            yield next(built) if index in stale else entry

    store = change_statistics(path, blocks)
    return Relabelled(store, n_built)


def _stale_blocks(store: StatisticsDataset, data: Dataset) -> dict[int, int]:
    """The blocks of the store that are not of the data's content, and their blocks in the data."""
    digests = list(data.block_digests())
    if [entry.digest for entry in store.manifest.blocks] == digests:
        return {}
    ids = data.query_ids().cast(pa.string())
    borders = np.cumsum([block.n_queries for block in data.blocks])
    stale = {}
    for index, (entry, queries) in enumerate(
        zip(store.manifest.blocks, store.queries(), strict=True)
    ):
        rows = pc.index_in(queries.query_ids, ids)
        if rows.null_count:
            raise DataError(
                f"{store.path} has query {queries.query_ids.filter(pc.is_null(rows))[0]}, which "
                "the data lacks. Give the data of which the store was built."
            )
        of_data = np.unique(np.searchsorted(borders, rows.to_numpy(), side="right"))
        if len(of_data) > 1:
            raise DataError(
                f"{store.path}: the queries of block {index} are in several blocks of the data. "
                "Give the data of which the store was built, or build the statistics anew."
            )
        if entry.digest != digests[int(of_data[0])]:
            stale[index] = int(of_data[0])
    return stale


def _built(
    store: StatisticsDataset,
    data: Dataset,
    stale: dict[int, int],
    folders: BlockFolders,
    run: Executor,
) -> Iterator[WrittenBlock | None]:
    """Build and write stale blocks anew, in order, with the queries and times of the store."""
    running: deque[Any] = deque()
    try:
        for index, of_data in stale.items():
            if len(running) >= 2 * run.n_slots:
                yield from gather_oldest(run, running)
            queries = store.block(index, np.empty(0, np.intp))
            kept = (queries.query_ids, queries.times)
            args = (folders, index, data, of_data, kept)
            running.append(run.submit(_build, *args, name="relabel"))
        while running:
            yield from gather_oldest(run, running)
    finally:  # also after an error, and when the caller closes the iterator
        run.cancel(running)


def _build(
    folders: BlockFolders,
    index: int,
    data: Dataset,
    of_data: int,
    kept: tuple[pa.Array, pa.Array | None],
) -> WrittenBlock | None:
    """Write a block of the store: the statistics of the kept queries of a block of the data."""
    query_ids, times = kept
    statistics = QueryStatistics.of(data.block(of_data))
    statistics = statistics.take_queries(np.asarray(pc.is_in(statistics.query_ids, query_ids)))
    return folders.write(index, replace(statistics, times=times))
