"""The table of the queries of a block of a statistics store: its columns, and its bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from dranking.rankrls.statistics.manifest import StatisticsEntry, StatisticsManifest
from dranking.rankrls.statistics.per_query import LABEL_DIGEST, QueryStatistics
from dranking.rankrls.statistics.query_times import TIME_TYPES


def read_arrow(source: pa.BufferReader) -> pa.Table:
    """The table in an Arrow file."""
    table = pa.ipc.open_file(source).read_all()
    table.validate(full=True)  # the table is used in place, and its offsets might point outside
    return table


def query_table(block: QueryStatistics) -> pa.Table:
    """The table of the queries of a block, without nulls."""
    columns = {
        "query_id": block.query_ids,
        "n_documents": block.sizes,
        "n_labelled": block.labelled_sizes,
        "n_values": block.value_counts,
        "label_norm": block.label_norms,
        "label_mean": block.label_means,
        "labels": block.label_digests,
        "weight": block.query_weights,
        "time": block.times,
    }
    return pa.table({name: values for name, values in columns.items() if values is not None})


def is_as_written(queries: pa.Table, manifest: StatisticsManifest, entry: StatisticsEntry) -> bool:
    """Whether a table has the columns of `query_table`, without nulls."""
    numbers = ("n_documents", "n_labelled", "n_values")
    types = {
        "query_id": pa.string(),
        **dict.fromkeys(numbers, pa.int64()),
        "label_norm": pa.float64(),
        "label_mean": pa.float64(),
        "labels": LABEL_DIGEST,
    }
    if "weight" in queries.schema.names:
        types["weight"] = pa.float64()
    if manifest.time_type is not None:
        types["time"] = TIME_TYPES[manifest.time_type]
    found = {field.name: field.type for field in queries.schema}
    n_nulls = sum(column.null_count for column in queries.columns)
    return found == types and len(queries) == entry.n_queries and not n_nulls


def arrow_bytes(table: pa.Table) -> bytes:
    """Content of an Arrow file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return bytes(sink.getvalue())


def numbers_in(table: pa.Table, name: str) -> NDArray[Any]:
    """A column of numbers, read-only."""
    values: NDArray[Any] = table[name].to_numpy()
    values.flags.writeable = False
    return values
