"""Writing a statistics store, appending queries and expiring queries, whole or not at all.

A change leaves the folders of unchanged blocks alone. New folders are written beside them, and the
manifest is replaced (`dranking.files.writing.commit`). Whatever interrupts a change therefore
leaves the old or the new manifest with all of its folders. Folders without an entry in the manifest
do not count; a later change deletes them after a week, since a reader may have opened the old
manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.column_constants import ColumnConstants, joined_constants
from dranking.data.column_forms import Scaling
from dranking.engine.choose_executor import get_executor
from dranking.errors import DataError, UsageError
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.writing.commit import DirectoryCommit, begin_directory
from dranking.rankrls.statistics.block_folder import BlockFolders, WrittenBlock
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.manifest import (
    StatisticsEntry,
    StatisticsManifest,
    manifest_json,
)
from dranking.rankrls.statistics.merged_queries import with_merged_queries
from dranking.rankrls.statistics.per_query import QueryStatistics
from dranking.rankrls.statistics.query_times import TIME_TYPES, parse_time, time_in_words

NewBlocks = Iterable[WrittenBlock | None]
"""Blocks that were written into new folders, in order; None stands for a block without queries."""


def write_statistics(
    blocks: Callable[[BlockFolders], NewBlocks],
    path: AnyPlace,
    *,
    feature_names: Sequence[str],
    sparse: bool = False,
    constants: ColumnConstants | None = None,
    transforms: Sequence[Scaling] = (),
    overwrite: bool = False,
    executor: Any = "threads",
) -> StatisticsDataset:
    """Write a statistics store, whole or not at all.

    Parameters
    ----------
    blocks
        Writes blocks into the folders that it is called with, and returns them in order.
    path
        Directory to write; missing parent directories are made.
    feature_names
        One unique name per feature.
    sparse
        Whether the data is sparse.
    constants
        The values that stand for missing ones in the data.
    transforms
        Scalings that had already been applied to the values of the data.
    overwrite
        Replace a store that exists.
    executor
        Runs the tasks that merge queries of several blocks; as `get_executor` takes it.

    Raises
    ------
    UsageError
        If the path exists and `overwrite` is false, it is not a directory of the project, or the
        disk is full.
    DataError
        If there are no queries, or if blocks differ in their features or in the type of times.
    TryAgainError
        If the store exists and another process is changing it.
    """
    facts = {
        "feature_names": tuple(feature_names),
        "sparse": sparse,
        "constants": constants,
        "transforms": tuple(transforms),
    }
    with begin_directory(path, overwrite=overwrite) as commit:
        commit.remove_replaced()
        _finish(commit, _manifest(blocks(_folders(commit)), facts), executor)
    return StatisticsDataset(commit.place)


def append_statistics(
    path: AnyPlace,
    blocks: Callable[[StatisticsDataset, BlockFolders], NewBlocks],
    constants: ColumnConstants | None = None,
    executor: Any = "threads",
) -> StatisticsDataset:
    """Append blocks to a statistics store, whole or not at all.

    Of other blocks, those with queries of the new blocks are read.

    Parameters
    ----------
    path
        The store.
    blocks
        Writes the blocks to append, and returns them in order; called as in `change_statistics`,
        whose errors are raised here too.
    constants
        The values that stand for missing ones in the new blocks, which must be those of the store.
    executor
        As in `write_statistics`.
    """
    with _locked(as_place(path)) as (commit, store):
        both = _constants_of_both(store, constants)
        everything = chain(store.manifest.blocks, blocks(store, _folders(commit)))
        return _changed(commit, store, everything, executor, constants=both)


def change_statistics(
    path: AnyPlace,
    blocks: Callable[
        [StatisticsDataset, BlockFolders], Iterable[WrittenBlock | StatisticsEntry | None]
    ],
    executor: Any = "threads",
    constants: ColumnConstants | None = None,
) -> StatisticsDataset:
    """Replace the blocks of a statistics store, whole or not at all.

    Parameters
    ----------
    path
        The store.
    blocks
        Returns all blocks in order: entries of the manifest for blocks that stay, which are not
        read, and new ones, which it writes; called with the store, and the folders to write, once
        the store is locked.
    executor
        As in `write_statistics`.
    constants
        The values that stand for missing ones in new blocks, which must be those of the store.

    Raises
    ------
    DataError
        If the store cannot be read, or if the blocks differ from the store's blocks in their
        features or in the type of times.
    TryAgainError
        If another process is changing the store.
    """
    with _locked(as_place(path)) as (commit, store):
        both = _constants_of_both(store, constants)
        return _changed(commit, store, blocks(store, _folders(commit)), executor, constants=both)


def expire_statistics(
    path: AnyPlace,
    *,
    blocks: Collection[int] = (),
    before: str | int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> StatisticsDataset:
    """Remove queries from a statistics store, whole or not at all.

    Parameters
    ----------
    path
        The store.
    blocks
        Numbers of blocks to remove; the blocks that follow are renumbered.
    before
        Remove the queries with an earlier time than this whole number, date or timestamp, which
        must be of the store's type of times. Blocks that become empty are removed.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.

    Raises
    ------
    UsageError
        If a block does not exist, if the store has no times or times of another type, or if no
        query would be left.
    DataError
        If the store is damaged.
    TryAgainError
        If another process is changing the store.
    """
    with _locked(as_place(path, storage_options)) as (commit, store):
        wrong = [index for index in blocks if not 0 <= index < store.n_blocks]
        if wrong:
            raise UsageError(
                f"{store.path}: there is no block {wrong[0]}; there are 0 to {store.n_blocks - 1}."
            )
        limit = None if before is None else _limit(store, before)
        masks = [
            np.zeros(queries.n_queries, bool) if index in blocks else _kept(queries, limit)
            for index, queries in enumerate(store.queries())
        ]
        if not any(mask.any() for mask in masks):
            raise UsageError(
                f"{store.path}: no query would be left; to remove all, delete the directory."
            )
        if all(mask.all() for mask in masks):
            return store
        left = _remaining(store, masks, _folders(commit))
        return _changed(commit, store, left, "threads")


@contextmanager
def _locked(place: Place) -> Iterator[tuple[DirectoryCommit, StatisticsDataset]]:
    """A change of a store, and the store as it is once no other process can change it."""
    StatisticsDataset(place)  # says what is wrong with the place
    with begin_directory(place, append=True) as commit:
        yield commit, StatisticsDataset(commit.place)


def _constants_of_both(
    store: StatisticsDataset, constants: ColumnConstants | None
) -> ColumnConstants | None:
    """The values for missing ones of a store and of new data; DataError if they differ."""
    return joined_constants(
        (store.constants, constants), store.feature_names, f"{store.path} and the new data"
    )


def _folders(commit: DirectoryCommit) -> BlockFolders:
    return BlockFolders(commit.root, commit.name("blocks/"))


def _changed(
    commit: DirectoryCommit,
    store: StatisticsDataset,
    blocks: Iterable[WrittenBlock | StatisticsEntry | None],
    executor: Any,
    **changed: Any,
) -> StatisticsDataset:
    """Replace the blocks of a store by `blocks`: entries of blocks that stay, and new blocks.

    `changed` are the other entries of the manifest that change.
    """
    _finish(commit, _manifest(blocks, _facts(store) | changed), executor)
    return StatisticsDataset(store.path)


def _finish(commit: DirectoryCommit, manifest: StatisticsManifest, executor: Any) -> None:
    """Merge queries of several blocks, and replace the manifest."""
    commit.check_parts(path for block in manifest.blocks for path in block.paths)
    prefix = commit.name("blocks/")
    manifest = with_merged_queries(commit.root, manifest, prefix, get_executor(executor))
    commit.check_parts(path for block in manifest.blocks for path in block.paths)
    commit.finish(manifest_json(manifest))


def _manifest(
    blocks: Iterable[WrittenBlock | StatisticsEntry | None], facts: dict[str, Any]
) -> StatisticsManifest:
    """The manifest of blocks that stay and of new blocks.

    `facts` are the other entries of the manifest; the first new block determines the facts that
    are absent.
    """
    facts = dict(facts)
    entries: list[StatisticsEntry] = []
    for block in blocks:
        if isinstance(block, StatisticsEntry):
            entries.append(block)
        elif block is not None:
            _check_alike(block, facts)
            entries.append(block.entry)
    if not entries:
        raise DataError("there are no queries to keep statistics of: the input is empty.")
    return StatisticsManifest(**facts, blocks=tuple(entries))


def _check_alike(block: WrittenBlock, facts: dict[str, Any]) -> None:
    """Raise DataError unless a block fits the facts; the first block decides the type of times."""
    names = facts["feature_names"]
    if block.n_features != len(names):
        raise DataError(
            f"query {block.first_query} and the queries after it have {block.n_features} "
            f"features, but {len(names)} feature names are given."
        )
    if facts.setdefault("time_type", block.time_type) != block.time_type:
        raise DataError(
            f"the queries have {time_in_words(facts['time_type'])}, but the new ones "
            f"{time_in_words(block.time_type)}."
        )


def _facts(store: StatisticsDataset) -> dict[str, Any]:
    kept = ("feature_names", "constants", "transforms", "sparse", "time_type")
    return {name: getattr(store.manifest, name) for name in kept}


def _remaining(
    store: StatisticsDataset, masks: Sequence[NDArray[np.bool_]], folders: BlockFolders
) -> Iterator[WrittenBlock | StatisticsEntry | None]:
    for index, (entry, mask) in enumerate(zip(store.manifest.blocks, masks, strict=True)):
        if mask.all():
            yield entry
        elif mask.any():
            yield folders.write(index, store.pieces(index).take_queries(mask))


def _kept(queries: QueryStatistics, limit: pa.Scalar | None) -> NDArray[np.bool_]:
    if limit is None:
        return np.ones(queries.n_queries, bool)
    kept: NDArray[np.bool_] = np.asarray(pc.greater_equal(queries.times, limit))
    return kept


def _limit(store: StatisticsDataset, before: str | int) -> pa.Scalar:
    kind = store.manifest.time_type
    if kind is None:
        raise UsageError(
            f"{store.path}: its queries have no times to expire by; name blocks, or build the "
            "statistics with times."
        )
    limit = parse_time(str(before))
    if limit.type != TIME_TYPES[kind]:
        raise UsageError(
            f"{before!r} is of another type than the times of {store.path}, which has "
            f"{time_in_words(kind)}."
        )
    return limit
