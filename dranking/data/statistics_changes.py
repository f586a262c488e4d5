"""Statistics stores are written, appended to and thinned out, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.atomic import MANIFEST_NAME, AnyPath, new_directory
from dranking.data.manifest import manifest_json
from dranking.data.query_statistics import QueryStatistics
from dranking.data.statistics import StatisticsDataset
from dranking.data.statistics_files import (
    StatisticsEntry,
    StatisticsManifest,
    StoredBlock,
    write_folder,
)
from dranking.data.times import TIME_TYPES, parse_time, time_in_words, time_type
from dranking.data.transforms import QueryMinMax, Standard
from dranking.errors import DataError, TryAgainError, UsageError


def write_statistics(
    blocks: Iterable[QueryStatistics],
    path: AnyPath,
    *,
    feature_names: Sequence[str],
    transforms: Sequence[QueryMinMax | Standard] = (),
    overwrite: bool = False,
) -> StatisticsDataset:
    """Write a statistics store, whole or not at all.

    Parameters
    ----------
    blocks
        Taken one at a time; those without queries are left out.
    path
        Directory to write; missing parent directories are made.
    feature_names
        One unique name per feature.
    transforms
        Scalings in the values that the statistics are of.
    overwrite
        Replace a store that exists.

    Raises
    ------
    UsageError
        If the path exists and `overwrite` is false, it is not a directory of the project, or the
        disk is full.
    DataError
        If there are no queries, or blocks differ in kind.
    """
    facts = {"feature_names": tuple(feature_names), "transforms": tuple(transforms)}
    return _write(blocks, path, facts, overwrite)


def append_statistics(
    path: AnyPath, blocks: Callable[[StatisticsDataset], Iterable[QueryStatistics]]
) -> StatisticsDataset:
    """Add blocks to a statistics store, whole or not at all; those it has are not read.

    Parameters
    ----------
    path
        The store.
    blocks
        Called with the store, once it is locked, for the blocks to add.

    Raises
    ------
    DataError
        If the store cannot be read, or the blocks are of another kind than its own.
    TryAgainError
        If another process is changing it.
    """
    with _locked(path):
        store = StatisticsDataset(path)
        return _write(chain(_stored_blocks(store), blocks(store)), path, _facts(store), True)


def expire_statistics(
    path: AnyPath, *, blocks: Collection[int] = (), before: str | int | None = None
) -> StatisticsDataset:
    """Drop queries from a statistics store, whole or not at all.

    Parameters
    ----------
    path
        The store.
    blocks
        Blocks to drop, by number. Those behind move up.
    before
        Drop the queries whose time is before this: a whole number, a date or a timestamp, as the
        store's times are. A block whose queries all go, goes.

    Raises
    ------
    UsageError
        If a block is not there, the store has no times or others, or nothing would be left.
    DataError
        If the store is damaged.
    TryAgainError
        If another process is changing it.
    """
    with _locked(path):
        store = StatisticsDataset(path)
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
                f"{store.path}: no query would be left; delete the directory if that is meant."
            )
        if all(mask.all() for mask in masks):
            return store
        return _write(_remaining(store, masks), path, _facts(store), True)


def _write(
    blocks: Iterable[QueryStatistics | StoredBlock],
    path: AnyPath,
    facts: dict[str, Any],
    overwrite: bool,
) -> StatisticsDataset:
    """Write a store; `facts` are entries of its manifest, the rest is as the first block has it."""
    facts = dict(facts)
    entries: list[StatisticsEntry] = []
    with new_directory(path, overwrite=overwrite) as temporary:
        for block in blocks:
            if isinstance(block, QueryStatistics):
                if not block.n_queries:
                    continue
                _check_alike(block, facts)
            entries.append(write_folder(temporary, len(entries), block))
        if not entries:
            raise DataError("there are no queries to keep statistics of: the input is empty.")
        manifest = StatisticsManifest(**facts, blocks=tuple(entries))
        (temporary / MANIFEST_NAME).write_text(manifest_json(manifest), encoding="utf-8")
    return StatisticsDataset(path)


def _check_alike(block: QueryStatistics, facts: dict[str, Any]) -> None:
    """Raise DataError unless a block is like those before; the first one says how they are."""
    names = facts["feature_names"]
    if block.n_features != len(names):
        raise DataError(
            f"query {block.query_ids[0]} and those behind it have {block.n_features} features, "
            f"but {len(names)} feature names are given."
        )
    if facts.setdefault("sparse", not block.triangular) == block.triangular:
        raise DataError("some blocks are sparse and some dense; statistics are of one kind.")
    kind = time_type(block.times)
    if facts.setdefault("time_type", kind) != kind:
        raise DataError(
            f"the queries have {time_in_words(facts['time_type'])}, but the new ones "
            f"{time_in_words(kind)}."
        )


def _facts(store: StatisticsDataset) -> dict[str, Any]:
    kept = ("feature_names", "transforms", "sparse", "time_type")
    return {name: getattr(store.manifest, name) for name in kept}


def _stored_blocks(store: StatisticsDataset) -> Iterator[StoredBlock]:
    return (StoredBlock(store.path, entry) for entry in store.manifest.blocks)


def _remaining(
    store: StatisticsDataset, masks: Sequence[NDArray[np.bool_]]
) -> Iterator[QueryStatistics | StoredBlock]:
    for index, (stored, mask) in enumerate(zip(_stored_blocks(store), masks, strict=True)):
        if mask.all():
            yield stored
        elif mask.any():
            yield store.block(index).take_queries(mask)


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
            f"{before!r} is no time such as the queries of {store.path} have: "
            f"{time_in_words(kind)}."
        )
    return limit


@contextmanager
def _locked(path: AnyPath) -> Iterator[None]:
    """Keep other processes from changing a store; readers need no lock."""
    from filelock import FileLock, Timeout

    target = Path(path).resolve()
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise TryAgainError(
            f"{target}: another process is changing it; run again when that is done."
        ) from error
    except OSError as error:
        raise UsageError(f"{target}: cannot be locked, {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()
