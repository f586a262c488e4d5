"""Changed queries of a block of a statistics store, written beside the block.

The statistics of a query depend on the documents of this query alone. When labels of some queries
change, the statistics of these queries are written into a folder of their own, with the table of
all queries of the block, and the block that was written before is left alone. Reading the block
replaces the rows of the changed queries, so that the numbers are, in every bit, those of a block
that is written anew. The next change writes the changed queries of both into one folder.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.files.checksums import checksum
from dranking.files.writing.atomic_files import new_folder
from dranking.rankrls.statistics.block_folder import (
    BlockFolders,
    WrittenBlock,
    means_of,
    read_changed_rows,
    read_is_changed,
    replaced_rows,
)
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.manifest import (
    CHANGED,
    N_MOMENTS,
    QUERY_TABLE,
    STATISTICS_FILE,
    ChangedEntry,
    StatisticsEntry,
)
from dranking.rankrls.statistics.per_query import QueryStatistics
from dranking.rankrls.statistics.query_tables import arrow_bytes, query_table
from dranking.rankrls.statistics.query_times import time_type
from dranking.rankrls.statistics.row_files import write_rows

MOST_CHANGED = 0.125
"""Largest share of changed queries beside a block; with more, the block is written anew.

With a share c of new changed queries a night, k nights write k (k + 1) / 2 c blocks beside the
block, and then one block. That is least per night for k near sqrt(2 / c): for c = 0.01, the block
is written anew when a share of 0.14 has changed.
"""


class ChangedRows(NamedTuple):
    """Statistics of some queries of a block.

    Attributes
    ----------
    is_changed
        (n_queries,) which queries of the block `rows` belongs to.
    rows
        (n_features + 3, n_changed, n_features) float64: rows of A_q, diagonals, b_q and means.
    """

    is_changed: NDArray[np.bool_]
    rows: NDArray[np.float64]

    @property
    def share(self) -> float:
        """Number of changed queries as a share of the queries of the block."""
        return float(self.is_changed.mean())


def changed_rows(
    store: StatisticsDataset,
    index: int,
    is_changed: NDArray[np.bool_],
    changed: QueryStatistics | None,
) -> ChangedRows:
    """The queries of a block that changed before, and those that change now.

    Parameters
    ----------
    store, index
        The store and the number of the block; the block itself is not read.
    is_changed
        (n_queries,) which queries change now.
    changed
        The new statistics of these queries; None if there are none.
    """
    n, before = store.n_features, read_is_changed(store.path, store.manifest, index)
    either = before | is_changed
    rows = np.empty((n + N_MOMENTS, int(either.sum()), n))
    if before.any():
        places = np.cumsum(either)[before] - 1
        old = read_changed_rows(store.path, store.manifest, index, range(n + N_MOMENTS))
        for row, values in zip(rows, old, strict=True):
            row[places] = values
    if changed is not None:
        places = np.cumsum(either)[is_changed] - 1
        for row, values in zip(rows, changed.rows(range(n)), strict=False):
            row[places] = values
        rows[n, places], rows[n + 1, places] = changed.diagonal, changed.products
        rows[n + 2, places] = means_of(changed)
    return ChangedRows(either, rows)


def write_changed(
    folders: BlockFolders,
    index: int,
    entry: StatisticsEntry,
    queries: QueryStatistics,
    changed: ChangedRows,
) -> WrittenBlock:
    """Write changed queries beside their block.

    Parameters
    ----------
    folders, index
        The folder to write to, and the number of the block.
    entry
        The block as it was written.
    queries
        All queries of the block after the change; its numbers of features are not used.
    changed
        The statistics of all queries that changed since the block was written.
    """
    content = arrow_bytes(query_table(queries).append_column(CHANGED, pa.array(changed.is_changed)))
    path, n_changed = folders.path(index), int(changed.is_changed.sum())
    checksums = {QUERY_TABLE: checksum(content)}
    with new_folder(folders.root, path) as folder:
        (folder / QUERY_TABLE).write_bytes(content)
        if n_changed:
            checksums[STATISTICS_FILE] = write_rows(folder / STATISTICS_FILE, changed.rows)
    update = {
        "n_unlabelled": queries.info.n_unlabelled,
        "digest": queries.source,
        "changed": ChangedEntry(path=path, n_queries=n_changed, checksums=checksums),
    }
    return WrittenBlock(
        entry.model_copy(update=update),
        str(queries.query_ids[0]),
        changed.rows.shape[2],
        time_type(queries.times),
    )


def with_changed(
    block: QueryStatistics, queries: QueryStatistics, changed: ChangedRows
) -> QueryStatistics:
    """A block as it was written, with its changed queries in place of the same queries before."""
    n, places = block.n_features, np.flatnonzero(changed.is_changed)
    moments = block.diagonal.copy(), block.products.copy(), means_of(block).copy()
    for of_block, of_changed in zip(moments, changed.rows[n:], strict=True):
        of_block[places] = of_changed
    diagonal, products, means = moments
    rows = partial(replaced_rows, block.rows, places, partial(map, changed.rows.__getitem__))
    return replace(queries, rows=rows, diagonal=diagonal, products=products, means=means)
