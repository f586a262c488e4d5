"""Reading and writing the folder of one block of a statistics store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.errors import DataError, StoreRefusesError
from dranking.files.checksums import DamagedFileError, checksum
from dranking.files.folders.verified_folder import VerifiedFolder
from dranking.files.places import Place
from dranking.files.writing.atomic_files import new_folder
from dranking.kernels.machine.compile import frozen
from dranking.rankrls.statistics.manifest import (
    CARRIED,
    CHANGED,
    KIND,
    N_MOMENTS,
    QUERY_TABLE,
    STATISTICS_FILE,
    ChangedEntry,
    StatisticsEntry,
    StatisticsManifest,
)
from dranking.rankrls.statistics.per_query import QueryStatistics, ReadRows
from dranking.rankrls.statistics.query_tables import (
    arrow_bytes,
    is_as_written,
    numbers_in,
    query_table,
    read_arrow,
)
from dranking.rankrls.statistics.query_times import TimeType, time_type
from dranking.rankrls.statistics.row_files import RowFile, write_rows


class WrittenBlock(NamedTuple):
    """A block whose folder is written, and what the blocks of a store have in common.

    Attributes
    ----------
    entry
        The entry of the block in the manifest.
    first_query
        Id of the first query, for messages.
    n_features, time_type
        Number of features, and type of the times of the queries.
    """

    entry: StatisticsEntry
    first_query: str
    n_features: int
    time_type: TimeType | None


class BlockFolders(NamedTuple):
    """The folder that tasks on any host write the new blocks of one change of a store to.

    Attributes
    ----------
    root
        Directory of the store, which all tasks see.
    prefix
        The beginning of the names of the new folders.
    """

    root: Place
    prefix: str

    def path(self, index: int) -> str:
        """The new folder of a block."""
        return f"{self.prefix}{index:06d}"

    def write(self, index: int, block: QueryStatistics) -> WrittenBlock | None:
        """Write the block with a number of its own; a block without queries is left out: None."""
        if not block.n_queries:
            return None
        entry = write_block(self.root, self.path(index), block)
        first_query = str(block.query_ids[0])
        return WrittenBlock(entry, first_query, block.n_features, time_type(block.times))


def write_block(root: Place, path: str, block: QueryStatistics) -> StatisticsEntry:
    """Write a block into the directory of a store, in the new folder `path`.

    A block may be written twice, because the worker that wrote it seemed to be lost.
    """
    content = arrow_bytes(query_table(block))
    moments = (block.diagonal, block.products, means_of(block))
    arrays = chain(block.rows(range(block.n_features)), moments)
    with new_folder(root, path) as folder:
        (folder / QUERY_TABLE).write_bytes(content)
        index_checksum = write_rows(folder / STATISTICS_FILE, arrays)
    return StatisticsEntry(
        path=path,
        n_documents=block.info.n_documents,
        n_queries=block.n_queries,
        n_unlabelled=block.info.n_unlabelled,
        n_values=int(block.value_counts.sum()),
        digest=block.digest(),
        is_whole=block.source is not None,
        checksums={
            QUERY_TABLE: checksum(content),
            STATISTICS_FILE: index_checksum,
        },
        features_digest=block.features_source,
    )


def means_of(block: QueryStatistics) -> NDArray[np.float64]:
    """(n_queries, n_features) means of the features of a block that was read with them."""
    if block.means is None:
        raise ValueError("the statistics have no means: they were read to train on.")
    return block.means


def read_block(
    root: Place, manifest: StatisticsManifest, index: int, *, queries_only: bool = False
) -> QueryStatistics:
    """Read a block as rankers take it: with the merged queries that it carries.

    Its arrays are read-only; rows of A_q are read from disk at every use. Parameters and errors are
    those of `read_pieces`.
    """
    entry = manifest.blocks[index]
    if entry.merged is None:
        return read_pieces(root, manifest, index, queries_only=queries_only)
    masks = (CHANGED, CARRIED)
    queries, [is_merged, is_carried] = _read_table(root, manifest, index, entry.merged, masks)
    read = _replaced(
        _pieces_reader(root, manifest, index), is_merged, root, manifest, index, entry.merged
    )
    block = _statistics(queries, read, manifest, queries_only=queries_only)
    return block.take_queries(is_carried)


def read_pieces(
    root: Place,
    manifest: StatisticsManifest,
    index: int,
    *,
    queries_only: bool = False,
    with_means: bool = False,
) -> QueryStatistics:
    """Read the statistics of the documents of one block, whatever other blocks have its queries.

    Parameters
    ----------
    root, manifest, index
        The store, its manifest, and the number of the block.
    queries_only
        Return statistics with no features, without opening `STATISTICS_FILE`.
    with_means
        Read the means of the features, too.

    Raises
    ------
    DataError
        If a file is missing or damaged; the message names the block, the file and the remedy.
    """
    entry = manifest.blocks[index]
    queries, _ = _read_queries(root, manifest, index)
    read = _pieces_reader(root, manifest, index)
    block = _statistics(queries, read, manifest, queries_only=queries_only)
    if with_means:
        [means] = read((manifest.n_features + 2,))
        block = replace(block, means=frozen(means))
    if not entry.is_whole or queries_only:
        return block
    return replace(block, source=entry.digest, features_source=entry.features_digest)


def _pieces_reader(root: Place, manifest: StatisticsManifest, index: int) -> ReadRows:
    """Reads rows of a block with its changed queries."""
    entry = manifest.blocks[index]
    read = _row_reader(root, manifest, index, entry)
    if entry.changed is None or not entry.changed.n_queries:
        return read
    is_changed = read_is_changed(root, manifest, index)
    return _replaced(read, is_changed, root, manifest, index, entry.changed)


def _replaced(
    read: ReadRows,
    is_replaced: NDArray[np.bool_],
    root: Place,
    manifest: StatisticsManifest,
    index: int,
    by: ChangedEntry,
) -> ReadRows:
    """Reads rows in which those of some queries are replaced by those of another folder."""
    if not by.n_queries:
        return read
    places = np.flatnonzero(is_replaced)
    return partial(replaced_rows, read, places, _row_reader(root, manifest, index, by))


def _statistics(
    queries: pa.Table, read: ReadRows, manifest: StatisticsManifest, *, queries_only: bool
) -> QueryStatistics:
    """The statistics of a table of queries and of the rows that belong to it."""
    n = manifest.n_features
    none = np.empty((len(queries), 0))
    diagonal, products = (none, none) if queries_only else map(frozen, read((n, n + 1)))
    return QueryStatistics(
        rows=read,
        diagonal=diagonal,
        products=products,
        label_norms=numbers_in(queries, "label_norm"),
        label_means=numbers_in(queries, "label_mean"),
        sizes=numbers_in(queries, "n_documents"),
        labelled_sizes=numbers_in(queries, "n_labelled"),
        value_counts=numbers_in(queries, "n_values"),
        query_ids=queries["query_id"].combine_chunks(),
        query_weights=numbers_in(queries, "weight") if "weight" in queries.schema.names else None,
        times=queries["time"].combine_chunks() if manifest.time_type else None,
        label_digests=queries["labels"].combine_chunks(),
    )


def read_is_changed(root: Place, manifest: StatisticsManifest, index: int) -> NDArray[np.bool_]:
    """(n_queries,) which queries of a block changed since the block was written."""
    return _read_queries(root, manifest, index)[1]


def read_changed_rows(
    root: Place, manifest: StatisticsManifest, index: int, wanted: Iterable[int]
) -> Iterator[NDArray[np.float64]]:
    """Some rows, each (n_changed, n_features), of the changed queries of a block that has some."""
    entry = manifest.blocks[index]
    changed = entry if entry.changed is None else entry.changed
    return _row_reader(root, manifest, index, changed)(wanted)


def _read_queries(
    root: Place, manifest: StatisticsManifest, index: int
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """The newest table of the pieces of a block, and which of them changed."""
    entry = manifest.blocks[index]
    if entry.changed is None:
        queries, _ = _read_table(root, manifest, index, entry, ())
        return queries, np.zeros(len(queries), bool)
    queries, [is_changed] = _read_table(root, manifest, index, entry.changed, (CHANGED,))
    return queries, is_changed


def _read_table(
    root: Place,
    manifest: StatisticsManifest,
    index: int,
    part: StatisticsEntry | ChangedEntry,
    masks: Sequence[str],
) -> tuple[pa.Table, list[NDArray[np.bool_]]]:
    """The table of the queries of a block in one of its folders, and its columns of truth values.

    The first of these columns says of which queries the folder has statistics.
    """
    folder = _StatisticsFolder(root, index, part.path, part.checksums, KIND.remedy)
    queries = folder.parsed(QUERY_TABLE, "an Arrow file", read_arrow)
    found = [queries[name].to_numpy() for name in masks if name in queries.schema.names]
    fits = len(found) == len(masks) and all(mask.dtype == bool for mask in found)
    if fits and masks:
        fits = found[0].sum() == part.n_queries
        queries = queries.drop_columns(list(masks))
    if not fits or not is_as_written(queries, manifest, manifest.blocks[index]):
        raise folder.damaged(QUERY_TABLE, "has other columns or rows than the manifest says")
    return queries, found


def _row_reader(
    root: Place, manifest: StatisticsManifest, index: int, part: StatisticsEntry | ChangedEntry
) -> ReadRows:
    """Reads rows of one of the folders of a block."""
    folder = _StatisticsFolder(root, index, part.path, part.checksums, KIND.remedy)
    shape = (part.n_queries, manifest.n_features)
    place = folder.path / STATISTICS_FILE
    n_rows = manifest.n_features + N_MOMENTS
    return partial(folder.rows, RowFile(place, n_rows, shape, part.checksums[STATISTICS_FILE]))


def replaced_rows(
    rows: ReadRows, places: NDArray[np.intp], changed: ReadRows, wanted: Iterable[int]
) -> Iterator[NDArray[np.float64]]:
    """Rows of a block, in which `changed` replaces the rows of the queries at `places`."""
    numbers = list(wanted)
    for row, values in zip(rows(numbers), changed(numbers), strict=True):
        replaced = row.copy()
        replaced[places] = values
        yield replaced


class _StatisticsFolder(VerifiedFolder):
    def rows(self, file: RowFile, wanted: Iterable[int]) -> Iterator[NDArray[np.float64]]:
        """Some rows of the statistics file, in the order of `wanted`."""
        try:
            yield from file.read(wanted)
        except DamagedFileError as error:
            raise self.damaged(STATISTICS_FILE, f"is not what was written, {error}") from error
        except StoreRefusesError:
            raise
        except (OSError, DataError) as error:
            raise self.unreadable(STATISTICS_FILE, error) from error
