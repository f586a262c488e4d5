"""Statistics stores of data whose labels changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import gather_oldest
from dranking.errors import DataError
from dranking.files.places import AnyPlace
from dranking.rankrls.gram.statistics_store import in_forms_of
from dranking.rankrls.statistics.block_folder import BlockFolders, WrittenBlock
from dranking.rankrls.statistics.changed_queries import (
    MOST_CHANGED,
    changed_rows,
    with_changed,
    write_changed,
)
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.manifest import StatisticsEntry
from dranking.rankrls.statistics.per_query import QueryStatistics, label_digests
from dranking.rankrls.statistics.write_append_expire import change_statistics

NO_COLUMNS = np.empty(0, np.intp)

OF_LABELS = ("label_norms", "label_means", "labelled_sizes")
"""Facts of a query in its row of the table of queries that its labels change."""


class Relabelled(NamedTuple):
    """A statistics store after `relabel_statistics`, and what that took.

    Attributes
    ----------
    store
        The store.
    n_blocks_changed
        Blocks that were written, or beside which changed queries were written.
    n_queries_built
        Queries whose statistics were computed from their features.
    """

    store: StatisticsDataset
    n_blocks_changed: int
    n_queries_built: int


class _Change(NamedTuple):
    """A block of the store whose content differs from its block of the data.

    Attributes
    ----------
    block, of_data
        Number of the block in the store, and in the data.
    digest, features_digest
        Digest of the block of the data, and of its features; the latter is None if it is not known.
    """

    block: int
    of_data: int
    digest: str
    features_digest: str | None


def relabel_statistics(path: AnyPlace, data: Dataset, *, executor: Any = None) -> Relabelled:
    """Bring a statistics store up to date with the labels and query weights of its data.

    New labels change b_q and y_q' y_q of a query; a document that got a label, or lost its label,
    changes the means, A_q and sizes too. The statistics of a query with such a document are
    computed anew from its features and written beside the block
    (`dranking.rankrls.statistics.changed_queries`); of other queries nothing is computed. Of a data
    set directory with dense features, only chunks of features with documents of such queries are
    read. New query weights need no features. The numbers of the store equal, in every bit, those
    of the store that `build_statistics` makes of the data.

    Blocks of views, and blocks of which queries expired, are built anew whole.

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
    n_blocks = n_queries = 0

    def blocks(
        store: StatisticsDataset, folders: BlockFolders
    ) -> Iterator[WrittenBlock | StatisticsEntry | None]:
        nonlocal n_blocks, n_queries
        new = in_forms_of(store, data)
        changes = {change.block: change for change in _changes(store, new)}
        n_blocks = len(changes)
        done = _changed_blocks(store, new, changes.values(), folders, run)
        for index, entry in enumerate(store.manifest.blocks):
            if index not in changes:
                yield entry
                continue
            block, n_built = next(done)
            n_queries += n_built
            yield block

    store = change_statistics(path, blocks, run)
    return Relabelled(store, n_blocks, n_queries)


def _changes(store: StatisticsDataset, data: Dataset) -> Iterator[_Change]:
    """The blocks of the store whose content differs from the data."""
    digests = list(data.block_digests())
    if [entry.digest for entry in store.manifest.blocks] == digests:
        return
    of_features = list(data.features_digests())
    same_features: dict[str | None, list[int]] = {}
    for block, found in reversed([*enumerate(of_features)]):
        same_features.setdefault(found, []).append(block)
    by_ids: list[int] | None = None
    for index, entry in enumerate(store.manifest.blocks):
        same = same_features.get(entry.features_digest) if entry.features_digest else None
        if same and entry.is_whole:
            block = same.pop() if len(same) > 1 else same[0]  # blocks of equal features, in order
        else:
            by_ids = _blocks_by_ids(store, data) if by_ids is None else by_ids
            block = by_ids[index]
        if entry.digest != digests[block]:
            yield _Change(index, block, digests[block], of_features[block])


def _blocks_by_ids(store: StatisticsDataset, data: Dataset) -> list[int]:
    """For each block of the store, the block of the data that has its queries."""
    of_store = [queries.query_ids for queries in store.queries()]
    ids, known = pa.concat_arrays(of_store), data.query_ids().cast(pa.string())
    borders = np.cumsum([0, *(block.n_queries for block in data.blocks)]).tolist()
    if of_store == [known[first:last] for first, last in pairwise(borders)]:
        return list(range(len(of_store)))
    if len(known.unique()) < len(known):
        raise DataError(
            f"{store.path}: queries come again in several blocks of the data, and the blocks are "
            "not those of the store. Build the statistics anew."
        )
    rows = pc.index_in(ids, known)
    if rows.null_count:
        raise DataError(
            f"{store.path} has query {ids.filter(pc.is_null(rows))[0]}, which the data lacks. Give "
            "the data of which the store was built."
        )
    ends = np.cumsum([entry.n_queries for entry in store.manifest.blocks])[:-1]
    places = np.split(np.searchsorted(borders[1:], rows.to_numpy(), side="right"), ends)
    found = []
    for index, of_data in enumerate(map(np.unique, places)):
        if len(of_data) > 1:
            raise DataError(
                f"{store.path}: the queries of block {index} are in several blocks of the data. "
                "Give the data of which the store was built, or build the statistics anew."
            )
        found.append(int(of_data[0]))
    return found


def _changed_blocks(
    store: StatisticsDataset,
    data: Dataset,
    changes: Iterable[_Change],
    folders: BlockFolders,
    run: Executor,
) -> Iterator[tuple[WrittenBlock | None, int]]:
    """Write changed blocks, in order; each comes with the number of queries that were computed."""
    running: deque[Any] = deque()
    try:
        for change in changes:
            if len(running) >= 2 * run.n_slots:
                yield from gather_oldest(run, running)
            running.append(run.submit(_change, folders, store, data, change, name="relabel"))
        while running:
            yield from gather_oldest(run, running)
    finally:  # also after an error, and when the caller closes the iterator
        run.cancel(running)


def _change(
    folders: BlockFolders, store: StatisticsDataset, data: Dataset, change: _Change
) -> tuple[WrittenBlock | None, int]:
    """Write the changed queries of a block beside it, or the block anew."""
    index, entry = change.block, store.manifest.blocks[change.block]
    before, labels = store.queries_of(index), data.block(change.of_data, NO_COLUMNS)
    if not _has_same_documents(entry, change, before, labels):
        return _build(folders, data, change, before)
    digests = label_digests(labels)
    is_changed = np.asarray(pc.not_equal(digests, before.label_digests))
    n_built = int(is_changed.sum())
    if n_built == before.n_queries:
        return _build(folders, data, change, before)
    part = None
    facts = {name: getattr(before, name).copy() for name in OF_LABELS}
    if n_built:
        documents = np.repeat(is_changed, before.sizes)
        features = data.features_of(change.of_data, documents)
        part = QueryStatistics.of(labels.take_queries(is_changed).with_features(features))
        for name, values in facts.items():
            values[is_changed] = getattr(part, name)
    after = replace(
        before,
        **facts,
        query_weights=labels.query_weights,
        label_digests=digests,
        source=change.digest,
        features_source=change.features_digest,
    )
    changed = changed_rows(store, index, is_changed, part)
    if changed.share <= MOST_CHANGED:
        return write_changed(folders, index, entry, after, changed), n_built
    return folders.write(index, with_changed(store.pieces(index), after, changed)), n_built


def _has_same_documents(
    entry: StatisticsEntry, change: _Change, before: QueryStatistics, labels: QueryBlock
) -> bool:
    """Whether a block differs from its block of the data in labels and query weights at most."""
    return (
        entry.is_whole
        and entry.features_digest is not None
        and entry.features_digest == change.features_digest
        and before.query_ids.equals(labels.query_ids.cast(pa.string()))
        and np.array_equal(before.sizes, np.diff(labels.query_ptr))
    )


def _build(
    folders: BlockFolders, data: Dataset, change: _Change, before: QueryStatistics
) -> tuple[WrittenBlock | None, int]:
    """Write a block: the statistics of those queries of a block of the data that are kept."""
    statistics = QueryStatistics.of(data.block(change.of_data))
    kept = np.asarray(pc.is_in(statistics.query_ids, before.query_ids))
    statistics = replace(statistics.take_queries(kept), times=before.times)
    return folders.write(change.block, statistics), statistics.n_queries
