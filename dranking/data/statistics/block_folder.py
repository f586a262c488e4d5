"""Reading and writing the folder of one block of a statistics store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.statistics.manifest import (
    KIND,
    QUERY_TABLE,
    STATISTICS_FILE,
    StatisticsEntry,
    StatisticsManifest,
)
from dranking.data.statistics.per_query import QueryStatistics
from dranking.data.statistics.query_times import TIME_TYPES, TimeType, time_type
from dranking.data.statistics.row_files import RowFile, write_rows
from dranking.errors import DataError
from dranking.files.checksums import DamagedFileError, checksum
from dranking.files.folders.verified_folder import VerifiedFolder
from dranking.files.places import Place
from dranking.files.writing.atomic_files import new_folder
from dranking.kernels.machine.compile import frozen


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
    """Where the new blocks of one change of a store are written, by tasks on any host.

    Attributes
    ----------
    root
        Directory of the store, which all tasks see.
    prefix
        What the names of the new folders begin with.
    """

    root: Place
    prefix: str

    def write(self, index: int, block: QueryStatistics) -> WrittenBlock | None:
        """Write the block with a number of its own; a block without queries is left out: None."""
        if not block.n_queries:
            return None
        entry = write_block(self.root, f"{self.prefix}{index:06d}", block)
        first_query = str(block.query_ids[0])
        return WrittenBlock(entry, first_query, block.n_features, time_type(block.times))


def write_block(root: Place, path: str, block: QueryStatistics) -> StatisticsEntry:
    """Write a block into the directory of a store, in the new folder `path`.

    A block may be written twice, because the worker that wrote it seemed to be lost.
    """
    content = _arrow(_queries(block))
    arrays = chain(block.rows(range(block.n_features)), (block.diagonal, block.products))
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
    )


def read_block(
    root: Place, manifest: StatisticsManifest, index: int, *, queries_only: bool = False
) -> QueryStatistics:
    """Read a block. Its arrays are read-only; rows of A_q are read from disk at every use.

    Parameters
    ----------
    root, manifest, index
        The store, its manifest, and the number of the block.
    queries_only
        Return statistics with no features, without opening `STATISTICS_FILE`.

    Raises
    ------
    DataError
        If a file is missing or damaged; the message names the block, the file and the remedy.
    """
    entry = manifest.blocks[index]
    folder = _StatisticsFolder(root, index, entry.path, entry.checksums, KIND.remedy)
    queries = folder.parsed(QUERY_TABLE, "an Arrow file", _read_arrow)
    if not _is_as_written(queries, manifest, entry):
        raise folder.damaged(QUERY_TABLE, "has other columns or rows than the manifest says")
    n = manifest.n_features
    file = RowFile(
        folder.path / STATISTICS_FILE,
        n + 2,
        (entry.n_queries, n),
        entry.checksums[STATISTICS_FILE],
    )
    read = partial(folder.rows, file)
    none = np.empty((entry.n_queries, 0))
    diagonal, products = (none, none) if queries_only else map(frozen, read((n, n + 1)))
    return QueryStatistics(
        rows=read,
        diagonal=diagonal,
        products=products,
        label_norms=_numbers(queries, "label_norm"),
        sizes=_numbers(queries, "n_documents"),
        labelled_sizes=_numbers(queries, "n_labelled"),
        value_counts=_numbers(queries, "n_values"),
        query_ids=queries["query_id"].combine_chunks(),
        query_weights=_numbers(queries, "weight") if "weight" in queries.schema.names else None,
        times=queries["time"].combine_chunks() if manifest.time_type else None,
        source=entry.digest if entry.is_whole and not queries_only else None,
    )


class _StatisticsFolder(VerifiedFolder):
    def rows(self, file: RowFile, wanted: Iterable[int]) -> Iterator[NDArray[np.float64]]:
        """Some rows of the statistics file, in the order of `wanted`."""
        try:
            yield from file.read(wanted)
        except DamagedFileError as error:
            raise self.damaged(STATISTICS_FILE, f"is not what was written, {error}") from error
        except (OSError, DataError) as error:
            raise self.unreadable(STATISTICS_FILE, error) from error


def _read_arrow(source: pa.BufferReader) -> pa.Table:
    table = pa.ipc.open_file(source).read_all()
    table.validate(full=True)  # the table is used in place, and its offsets might point outside
    return table


def _queries(block: QueryStatistics) -> pa.Table:
    columns = {
        "query_id": block.query_ids,
        "n_documents": block.sizes,
        "n_labelled": block.labelled_sizes,
        "n_values": block.value_counts,
        "label_norm": block.label_norms,
        "weight": block.query_weights,
        "time": block.times,
    }
    return pa.table({name: values for name, values in columns.items() if values is not None})


def _is_as_written(queries: pa.Table, manifest: StatisticsManifest, entry: StatisticsEntry) -> bool:
    """Whether a table has the columns of `_queries`, without nulls."""
    numbers = ("n_documents", "n_labelled", "n_values")
    types = {
        "query_id": pa.string(),
        **dict.fromkeys(numbers, pa.int64()),
        "label_norm": pa.float64(),
    }
    if "weight" in queries.schema.names:
        types["weight"] = pa.float64()
    if manifest.time_type is not None:
        types["time"] = TIME_TYPES[manifest.time_type]
    found = {field.name: field.type for field in queries.schema}
    n_nulls = sum(column.null_count for column in queries.columns)
    return found == types and len(queries) == entry.n_queries and not n_nulls


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return bytes(sink.getvalue())


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    values.flags.writeable = False
    return values
