"""The files of a statistics store: its manifest, and a folder for every block."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from dranking.data.blocks import BlockInfo
from dranking.data.statistics.per_query import WORDS_PER_NUMBER, QueryStatistics
from dranking.data.statistics.query_times import TIME_TYPES, TimeType
from dranking.data.store.manifest import Checksum, block_path
from dranking.data.tables.feature_names import check_feature_names
from dranking.data.transforms import Transform
from dranking.files.row_files import write_rows
from dranking.files.verified import Kind, VerifiedFolder
from dranking.files.zarr_chunks import checksum
from dranking.kernels.machine.compile import frozen

KIND: Final = Kind("statistics store", "dranking-statistics", 2, "build the statistics anew")

QUERY_TABLE = "queries.arrow"
"""An Arrow file, a row for each query: to open parquet takes as long as to read some Gram rows."""

STATISTICS_FILE = "statistics.rows"
"""Of (n_queries, n_features) each: the rows of A_q, feature by feature, then its diagonal and b_q.
All of A_q, though it is symmetric: so that a selection reads the rows that it needs alone."""

NUMBER_BYTES = 8
VALUE_BYTES = {"dense": 4, "sparse": 8}  # a sparse value has its column's number beside it

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)


class StatisticsEntry(BaseModel):
    """What the manifest says of one block.

    Attributes
    ----------
    path
        Its folder inside the store.
    n_documents, n_queries, n_unlabelled, n_values
        Of the data: documents, queries, documents without relevance, feature values.
    digest
        `QueryBlock.digest()` of the block it was made of, or, where only some of its queries are
        left, `QueryStatistics.digest()`.
    is_whole
        Which of these.
    checksums
        By the names of the folder's files: CRC-32C, of `STATISTICS_FILE` that of its index.
    """

    model_config = _STRICT
    path: str = Field(pattern=r"^blocks/[0-9]{6,}$")
    n_documents: PositiveInt
    n_queries: PositiveInt
    n_unlabelled: NonNegativeInt
    n_values: NonNegativeInt
    digest: str = Field(pattern=r"^[0-9a-f]{32}$")
    is_whole: bool
    checksums: dict[str, Checksum]


class StatisticsManifest(BaseModel):
    """Content of ``manifest.json``.

    Attributes
    ----------
    format, schema_version
        What this is; a reader refuses another version.
    feature_names
        One unique name per feature.
    sparse
        Whether the data is.
    transforms
        Scalings that were in the values of the data.
    time_type
        Of the queries' times; None if they have none.
    blocks
        In order.
    """

    model_config = _STRICT
    format: Literal["dranking-statistics"] = "dranking-statistics"
    schema_version: Literal[2] = 2
    feature_names: tuple[str, ...] = Field(min_length=1)
    sparse: bool
    transforms: tuple[Transform, ...] = ()
    time_type: TimeType | None = None
    blocks: tuple[StatisticsEntry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> StatisticsManifest:
        check_feature_names(self.feature_names)
        if len({entry.path for entry in self.blocks}) < len(self.blocks):
            raise ValueError("blocks: two of them are the same folder")
        for index, entry in enumerate(self.blocks):
            if set(entry.checksums) != {QUERY_TABLE, STATISTICS_FILE}:
                raise ValueError(f"blocks.{index}.checksums: not those of the files it needs")
        return self

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    def info(self, entry: StatisticsEntry) -> BlockInfo:
        """Sizes of a block, as `QueryStatistics.info`."""
        return BlockInfo(
            n_documents=entry.n_documents,
            n_queries=entry.n_queries,
            n_values=WORDS_PER_NUMBER * entry.n_queries * 2 * self.n_features,
            n_unlabelled=entry.n_unlabelled,
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of the statistics, uncompressed."""
        n_queries = sum(entry.n_queries for entry in self.blocks)
        return NUMBER_BYTES * n_queries * (self.n_features + 2) * self.n_features

    @property
    def n_data_bytes(self) -> int:
        """Bytes of the features that they were made of, uncompressed: float32, or CSR."""
        size = VALUE_BYTES["sparse" if self.sparse else "dense"]
        return size * sum(entry.n_values for entry in self.blocks)


def write_folder(root: Path, index: int, block: QueryStatistics) -> StatisticsEntry:
    """Write a block into the directory of a store, under a number that is free."""
    folder = root / block_path(index)
    folder.mkdir(parents=True)
    content = _arrow(_queries(block))
    (folder / QUERY_TABLE).write_bytes(content)
    arrays = chain(block.rows(range(block.n_features)), (block.diagonal, block.products))
    return StatisticsEntry(
        path=block_path(index),
        n_documents=block.info.n_documents,
        n_queries=block.n_queries,
        n_unlabelled=block.info.n_unlabelled,
        n_values=int(block.value_counts.sum()),
        digest=block.digest(),
        is_whole=block.source is not None,
        checksums={
            QUERY_TABLE: checksum(content),
            STATISTICS_FILE: write_rows(folder / STATISTICS_FILE, arrays),
        },
    )


def read_folder(
    root: Path, manifest: StatisticsManifest, index: int, *, queries_only: bool = False
) -> QueryStatistics:
    """Read a block; its arrays are read-only, and its rows are read when they are asked for.

    Parameters
    ----------
    root, manifest, index
        The store and which of its blocks.
    queries_only
        Leave out the features: there are none then.

    Raises
    ------
    DataError
        If a file is missing or damaged, naming the block, the file and what to do.
    """
    entry = manifest.blocks[index]
    folder = VerifiedFolder(root, index, entry.path, entry.checksums, KIND.remedy)
    queries = folder.arrow_table(QUERY_TABLE)
    if not _is_as_written(queries, manifest, entry):
        raise folder.damaged(QUERY_TABLE, "has other columns or rows than the manifest says")
    n = manifest.n_features
    file = folder.row_file(STATISTICS_FILE, n + 2, (entry.n_queries, n))
    read = partial(folder.rows, STATISTICS_FILE, file)
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
    """Whether a table has the columns that `_queries` gives it, a value in every row."""
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
