"""Statistics stores for RankRLS and greedy RankRLS: building stores, and computing from them.

A block of statistics gives all that these rankers compute from a block of documents: moments, Gram
rows, whole Gram matrices and leave-query-out errors. Moments and Gram rows from a store equal
moments and Gram rows from documents in every bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.block_source import check_features_there
from dranking.data.block_subset import BlockSubset
from dranking.data.blocks import QueryBlock
from dranking.data.column_constants import NullPolicy, ValueRule, check_permitted
from dranking.data.column_forms import forms_of, source_names
from dranking.data.dataset import Dataset
from dranking.data.filling import filled_as
from dranking.data.forms_dataset import FormsDataset
from dranking.data.named_columns import by_name
from dranking.data.roles import KnownFeatures
from dranking.data.steps import filled_of
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.engine.progress import report
from dranking.errors import DataError, DataWarning, UsageError, warn_user
from dranking.files.places import AnyPlace, as_place
from dranking.files.sizes import format_bytes
from dranking.files.writing.output_checks import check_output_directory
from dranking.ingestion.rows.finish_blocks import gaps_of
from dranking.kernels.machine.compile import frozen
from dranking.models.linear.checks import check_training_data
from dranking.rankrls.kernels.gram.dense import Moments
from dranking.rankrls.kernels.gram.per_query import add_up
from dranking.rankrls.kernels.gram.whole_blocks import add_weighted
from dranking.rankrls.statistics.block_folder import BlockFolders, WrittenBlock
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.manifest import StatisticsEntry
from dranking.rankrls.statistics.per_query import QueryStatistics
from dranking.rankrls.statistics.query_times import as_times
from dranking.rankrls.statistics.write_append_expire import (
    NewBlocks,
    append_statistics,
    change_statistics,
    write_statistics,
)

Array = NDArray[np.float64]

COPIES = 2
"""Statistics of a block are in memory so many times while a task computes and writes them."""


def build_statistics(
    data: Dataset,
    path: AnyPlace,
    *,
    times: Any = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    executor: Any = None,
) -> StatisticsDataset:
    """Build the statistics store of a data set, in one pass over it.

    The tasks that compute the statistics of a block write them, too.

    Parameters
    ----------
    data
        Queries; documents without label are left out.
    path
        Directory to write, which all workers see.
    times
        (n_queries,) time of each query, by which queries expire: whole numbers, dates or
        timestamps; or one time for all queries. None means that queries have no time.
    overwrite
        Replace a store that exists.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If the path exists and `overwrite` is false, or the statistics of the blocks in memory at
        the same time exceed the memory.
    DataError
        If the data is wrong.
    """
    place = as_place(path, storage_options)
    check_output_directory(place, overwrite)
    check_training_data(data)
    return write_statistics(
        lambda folders: _written(data, times, executor, folders),
        place,
        feature_names=data.feature_names,
        sparse=data.is_sparse,
        constants=data.constants,
        transforms=data.transforms,
        overwrite=overwrite,
        executor=get_executor(executor),
    )


def append_queries(
    path: AnyPlace,
    data: Dataset,
    *,
    null: NullPolicy = "error",
    times: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    executor: Any = None,
) -> StatisticsDataset:
    """Add the queries of a data set to a statistics store, after the queries of the store.

    The data of the queries in the store is not needed. A query that the store has already gets the
    new documents beside those that are there: it stays one query
    (`dranking.rankrls.statistics.merged_queries`). A store holds no documents, so that a document
    that comes again counts twice.

    Parameters
    ----------
    path
        The store.
    data
        Queries with the features, in any order, and the scalings of the store. Missing values
        take the values of the store.
    null
        The policy of the store ("zero", "minimum" or "mean") permits missing values also of
        features that lack none in the store so far; "error" permits none of these.
    times, storage_options, executor
        As in `build_statistics`.

    Raises
    ------
    DataError
        If the data does not fit the store or is in the store already, a query that comes again has
        another weight, or a scaling depends on all documents of such a query.
    TryAgainError
        If another process is changing the store.

    Warns
    -----
    DataWarning
        If queries come again.
    """
    place = as_place(path, storage_options)
    store = StatisticsDataset(place)
    rule = ValueRule.of(null, null_indicator=False)
    check_permitted(rule, store.constants, str(store.path))
    new = in_forms_of(store, data, permits=rule.permits)

    def new_blocks(store: StatisticsDataset, folders: BlockFolders) -> NewBlocks:
        _check_fits(store, new)
        check_training_data(new)
        known = {*store.block_digests()}
        for block in _written(new, times, executor, folders, store.n_blocks):
            if block is not None and block.entry.digest in known:
                raise _appended_before(store)
            yield block
        _say_what_comes_again(store, new)

    return append_statistics(place, new_blocks, new.constants, get_executor(executor))


def update_statistics(path: AnyPlace, data: Dataset, *, executor: Any = None) -> StatisticsDataset:
    """Make a store, without times, hold exactly the blocks of a data set, in their order.

    Blocks that the store has are not read.

    Parameters
    ----------
    path
        The store.
    data
        Data with the features and scalings of the store.
    executor
        As in `build_statistics`.

    Raises
    ------
    DataError
        As `append_queries`.
    TryAgainError
        If another process is changing the store.
    """
    digests = list(data.block_digests())
    if list(StatisticsDataset(path).block_digests()) == digests:
        return StatisticsDataset(path)

    def blocks(
        store: StatisticsDataset, folders: BlockFolders
    ) -> Iterator[WrittenBlock | StatisticsEntry | None]:
        _check_fits(store, data)
        check_training_data(data)
        known: dict[str, list[StatisticsEntry]] = {}  # two blocks may be equal
        for entry in reversed(store.manifest.blocks):
            known.setdefault(entry.digest, []).append(entry)
        kept = [known[digest].pop() if known.get(digest) else None for digest in digests]
        new = [number for number, entry in enumerate(kept) if entry is None]
        made = iter(_written(BlockSubset(data, new), None, executor, folders) if new else ())
        for old in kept:
            yield next(made) if old is None else old

    return change_statistics(path, blocks, get_executor(executor), constants=data.constants)


def _written(
    data: Dataset, times: Any, executor: Any, folders: BlockFolders, first: int = 0
) -> NewBlocks:
    """Compute and write the statistics of every block, which are numbered from `first` on."""
    run = get_executor(executor)
    _check_memory(data, run)
    each = list(enumerate(_times_of_blocks(data, times), start=first))
    blocks = map_blocks(_write, data, run, folders, each=each, name="statistics")
    for done, block in enumerate(blocks, start=1):
        report("statistics", done, data.n_blocks)
        yield block


def _write(
    block: QueryBlock, own: tuple[int, pa.Array | None], folders: BlockFolders
) -> WrittenBlock | None:
    """Write the statistics of a block that has a number and the times of its queries."""
    number, times = own
    return folders.write(number, replace(QueryStatistics.of(block), times=times))


def _times_of_blocks(data: Dataset, times: Any) -> list[pa.Array | None]:
    """For each block the times of its queries, or None."""
    sizes = [block.n_queries for block in data.blocks]
    if times is None:
        return [None] * len(sizes)
    all_times = as_times(times, data.n_queries)
    starts = accumulate(sizes, initial=0)
    return [all_times.slice(start, size) for start, size in zip(starts, sizes, strict=False)]


def _check_memory(data: Dataset, executor: Executor) -> None:
    n_queries = max(block.n_queries for block in data.blocks)
    one = 8 * n_queries * data.n_features**2
    needed = COPIES * executor.n_slots * one
    if needed > executor.memory_bytes:
        raise UsageError(
            f"statistics of {data.n_features} features take {format_bytes(one)} for a block of "
            f"{n_queries:,} queries, and {format_bytes(needed)} are in memory at a time, but there "
            f"is {format_bytes(executor.memory_bytes)}. Use fewer features, or the data itself."
        )


def added_to(store: StatisticsDataset, may_lack: bool = False) -> KnownFeatures:
    """The raw columns of a store, by which data that is added to it is read.

    `may_lack` says whether the data may lack some, which are missing values then.
    """
    names = tuple(dict.fromkeys(source_names(store.feature_names, store.preparation)))
    return KnownFeatures(names, str(store.path), may_lack)


def in_forms_of(store: StatisticsDataset, data: Dataset, *, permits: bool = False) -> Dataset:
    """The data in the forms of the features of a store; DataError if it does not fit the store.

    Missing values take the values of the store; `permits` says whether features may have gaps that
    have none in the store.
    """
    forms = forms_of(store.transforms)
    known = added_to(store, permits)
    names = tuple(dict.fromkeys(source_names(store.feature_names, store.transforms)))
    if data.transforms:
        known = known._replace(names=store.feature_names)
    elif filled_of(data.preparation) is not None:
        known = known._replace(names=names)
    data = by_name(data, known, "the data")
    is_filled = filled_of(data.preparation) is not None
    if data.has_nulls or (not is_filled and data.feature_names != names):
        data = _filled_as(store, data, names, permits)
    new = data if forms is None or data.transforms else FormsDataset(data, forms)
    _check_fits(store, new)
    return new


def _filled_as(
    store: StatisticsDataset, data: Dataset, names: tuple[str, ...], permits: bool
) -> Dataset:
    """The raw features `names` of data with the values of a store for missing ones."""
    is_filled = filled_of(data.preparation) is not None
    constants, of_store = store.constants, source_names(store.feature_names, store.transforms)
    names = data.feature_names if constants is None or is_filled else names
    if constants is not None:
        position = {name: i for i, name in enumerate(of_store)}
        check_features_there(names, position)
        constants = constants.restricted(np.array([position[name] for name in names], np.intp))
        columns = data.columns_of(source_names(names, (constants,)) if not is_filled else names)
        if permits:
            gaps = np.logical_or.reduce([gaps_of(block) for block in data.read_blocks()])
            constants = constants.with_gaps(gaps[columns])
    return filled_as(data, names, constants, store.transforms)


def _check_fits(store: StatisticsDataset, data: Dataset) -> None:
    """Raise DataError unless the queries of the data can be added to a store."""
    if data.feature_names != store.feature_names:
        raise DataError(
            f"{store.path} has statistics of {store.n_features} features, and the data has "
            f"{data.n_features} features; names and order must be the same."
        )
    if data.is_sparse != store.manifest.sparse:
        kinds = ("dense", "sparse")
        raise DataError(
            f"{store.path} is of {kinds[store.manifest.sparse]} data, and the new data is "
            f"{kinds[data.is_sparse]}; read the new data as the data of the store was read."
        )
    if data.transforms != store.transforms:
        raise DataError(f"{store.path} is of data whose scaling differs from that of the new data.")


def _appended_before(store: StatisticsDataset) -> DataError:
    """The error for a block that is in a store already."""
    return DataError(
        f"rows of the new data are in {store.path} already: they were appended before. Append each "
        "part once; to replace it, build the statistics anew with dranking stats build."
    )


def _say_what_comes_again(store: StatisticsDataset, data: Dataset) -> None:
    """Say how many queries of the data are in a store already."""
    n_again = pc.sum(pc.is_in(data.query_ids().cast(pa.string()), store.query_ids())).as_py()
    if n_again:
        warn_user(
            f"{n_again:,} of {data.n_queries:,} queries are in {store.path} already: each stays "
            "one query, with the documents of both. A document that comes again counts twice, "
            "since a store holds no documents.",
            DataWarning,
        )


def statistics_moments(block: QueryStatistics) -> Moments:
    """Moments, equal to `dranking.rankrls.kernels.gram.per_query.moments` of the documents."""
    n, weights = block.n_features, block.query_weights
    diagonal, products, norms = block.diagonal, block.products, block.label_norms
    if weights is not None:
        diagonal, products = diagonal * weights[:, None], products * weights[:, None]
        norms = norms * weights
    moments = Moments(diagonal, products, norms, np.empty((0, n)), np.empty((2, n)))
    add_up(frozen(diagonal), frozen(products), moments.totals)
    return moments


def statistics_rows(
    block: QueryStatistics, features: NDArray[np.int64], slots: NDArray[np.int64], rows: Array
) -> Array:
    """Gram rows, equal to `dranking.rankrls.kernels.gram.dense.gram_rows` of the documents."""
    totals = np.zeros((len(features), block.n_features))
    weights = frozen(block.weights)
    for slot, kept, total in zip(slots, block.rows(features.tolist()), totals, strict=True):
        add_weighted(frozen(kept), weights, rows[slot], total)
    return totals


def statistics_equations(block: QueryStatistics) -> tuple[Array, Array, float]:
    """A, b and y.y of one block."""
    moments = statistics_moments(block)
    n = block.n_features
    row, total, weights = np.empty((block.n_queries, n)), np.zeros((n, n)), frozen(block.weights)
    for i, kept in enumerate(block.rows(range(n))):
        add_weighted(frozen(kept), weights, row, total[i])
    return _symmetric(total), moments.products.sum(axis=0), float(moments.label_norms.sum())


def _symmetric(matrix: Array) -> Array:
    """The symmetric part: of sparse features one side is centred, so rounding differs."""
    return (matrix + matrix.T) / 2
