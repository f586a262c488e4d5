"""The files of a statistics store: its manifest, and a folder for every block."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from dranking.data.blocks import BlockInfo
from dranking.data.chunks import checksum, chunk_name, n_chunks, write_array
from dranking.data.manifest import QUERIES_FILE, Checksum, block_path
from dranking.data.names import check_feature_names
from dranking.data.query_statistics import WORDS_PER_NUMBER, QueryStatistics
from dranking.data.times import TimeType
from dranking.data.transforms import Transform
from dranking.data.verified import Kind, VerifiedFolder
from dranking.kernels.statistics import n_entries

KIND: Final = Kind("statistics store", "dranking-statistics", 1, "build the statistics anew")

NUMBERS_PER_CHUNK = 262_144
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
        CRC-32C of every file by its name inside the folder.
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
        What this is; a reader refuses what is newer than itself.
    feature_names
        One unique name per feature.
    sparse
        Whether the data is; then all of A_q is kept, else its lower triangle.
    transforms
        Scalings that were in the values of the data.
    time_type
        Of the queries' times; None if they have none.
    blocks
        In order.
    """

    model_config = _STRICT
    format: Literal["dranking-statistics"] = "dranking-statistics"
    schema_version: Literal[1] = 1
    feature_names: tuple[str, ...] = Field(min_length=1)
    sparse: bool
    transforms: tuple[Transform, ...] = ()
    time_type: TimeType | None = None
    blocks: tuple[StatisticsEntry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> StatisticsManifest:
        check_feature_names(self.feature_names)
        for index, entry in enumerate(self.blocks):
            if set(entry.checksums) != set(self._files(entry)):
                raise ValueError(f"blocks.{index}.checksums: not those of the files it needs")
        return self

    @cached_property
    def arrays(self) -> dict[str, int]:
        """Names of the stored arrays, and how many numbers each has for a query."""
        n = len(self.feature_names)
        return {"gram": n_entries(n, not self.sparse), "diagonal": n, "products": n}

    def info(self, entry: StatisticsEntry) -> BlockInfo:
        """Sizes of a block, as `QueryStatistics.info`."""
        return BlockInfo(
            n_documents=entry.n_documents,
            n_queries=entry.n_queries,
            n_values=WORDS_PER_NUMBER * entry.n_queries * sum(self.arrays.values()),
            n_unlabelled=entry.n_unlabelled,
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of the statistics, uncompressed."""
        n_queries = sum(entry.n_queries for entry in self.blocks)
        return NUMBER_BYTES * n_queries * sum(self.arrays.values())

    @property
    def n_data_bytes(self) -> int:
        """Bytes of the features that they were made of, uncompressed: float32, or CSR."""
        size = VALUE_BYTES["sparse" if self.sparse else "dense"]
        return size * sum(entry.n_values for entry in self.blocks)

    def _files(self, entry: StatisticsEntry) -> Iterator[str]:
        yield QUERIES_FILE
        for array, width in self.arrays.items():
            for index in range(n_chunks(entry.n_queries, _queries_per_chunk(width))):
                yield f"{array}/{chunk_name(index, 2)}"


class StoredBlock(NamedTuple):
    """A block that is on disk already, in the directory `root`."""

    root: Path
    entry: StatisticsEntry


def write_folder(root: Path, index: int, block: QueryStatistics | StoredBlock) -> StatisticsEntry:
    """Put a block into the directory of a store: write it, or link to where it is."""
    folder = root / block_path(index)
    if isinstance(block, StoredBlock):
        shutil.copytree(block.root / block.entry.path, folder, copy_function=_link_or_copy)
        return block.entry.model_copy(update={"path": block_path(index)})
    folder.mkdir(parents=True)
    content = _parquet(_queries(block))
    (folder / QUERIES_FILE).write_bytes(content)
    checksums = {QUERIES_FILE: checksum(content)}
    for name in ("gram", "diagonal", "products"):
        values = np.ascontiguousarray(getattr(block, name))
        for chunk, crc in write_array(
            folder / name, values, _queries_per_chunk(values.shape[1])
        ).items():
            checksums[f"{name}/{chunk}"] = crc
    return StatisticsEntry(
        path=block_path(index),
        n_documents=block.info.n_documents,
        n_queries=block.n_queries,
        n_unlabelled=block.info.n_unlabelled,
        n_values=int(block.value_counts.sum()),
        digest=block.digest(),
        is_whole=block.source is not None,
        checksums=checksums,
    )


def read_folder(
    root: Path, manifest: StatisticsManifest, index: int, *, queries_only: bool = False
) -> QueryStatistics:
    """Read a block; its arrays are read-only.

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
    queries = folder.table(QUERIES_FILE)
    if len(queries) != entry.n_queries:
        raise folder.damaged(QUERIES_FILE, f"has {len(queries)} rows, unlike the manifest says")
    arrays: dict[str, Any] = {}
    for name, width in manifest.arrays.items():
        shape = (entry.n_queries, 0 if queries_only else width)
        if queries_only:
            arrays[name] = np.empty(shape)
        else:
            arrays[name] = folder.array(name, shape, np.float64, _queries_per_chunk(width))
        arrays[name].flags.writeable = False
    columns = set(queries.schema.names)
    return QueryStatistics(
        **arrays,
        triangular=not manifest.sparse,
        label_norms=_numbers(queries, "label_norm"),
        sizes=_numbers(queries, "n_documents"),
        labelled_sizes=_numbers(queries, "n_labelled"),
        value_counts=_numbers(queries, "n_values"),
        query_ids=queries["query_id"].combine_chunks(),
        query_weights=_numbers(queries, "weight") if "weight" in columns else None,
        times=queries["time"].combine_chunks() if "time" in columns else None,
        source=entry.digest if entry.is_whole and not queries_only else None,
    )


def _queries_per_chunk(width: int) -> int:
    return max(1, NUMBERS_PER_CHUNK // width)


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


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="lz4",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    return bytes(sink.getvalue())


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    values.flags.writeable = False
    return values


def _link_or_copy(source: str, target: str) -> str:
    """A second name for a file, which is never changed; a copy where links cannot be made."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
