"""The manifest of a data set directory: content, and the files that every block needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from dranking.data.blocks import BlockInfo
from dranking.data.roles import DEFAULT_ROLES, Roles
from dranking.data.store.zarr_arrays import chunk_name, n_chunks
from dranking.data.tables.feature_names import check_feature_names
from dranking.data.transforms import Transform
from dranking.files.checksums import Checksum
from dranking.files.manifests import DirectoryKind

FORMAT: Final = "dranking-dataset"
SCHEMA_VERSION: Final = 1
KIND: Final = DirectoryKind("data set", FORMAT, SCHEMA_VERSION, "ingest the data anew")

FEATURES = "features"
SPARSE_ARRAYS = ("indptr", "indices", "data")
DOCUMENTS_FILE = "documents.parquet"
QUERIES_FILE = "queries.parquet"

FEATURES_PER_CHUNK = 32
VALUES_PER_CHUNK = 262_144

MAX_CHUNK_BYTES = 2**31 - 1
"""Largest chunk that the compressor takes; a manifest with larger chunks is refused."""

IdType: TypeAlias = Literal["int64", "string"]

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)


class BlockEntry(BaseModel):
    """The manifest's entry of one block.

    Attributes
    ----------
    path
        The block's folder inside the data set.
    n_documents, n_queries, n_unlabelled
        Documents, queries, documents without relevance.
    n_features
        Number of stored features. Further features of the data set are read as zeros. (Blocks of
        text are stored while later text may still have larger feature indices.)
    n_values
        Number of stored feature values.
    n_null
        Number of stored values that are NaN and read as the data set's `null_fill`.
    digest
        `QueryBlock.digest()` of the block as it is read.
    checksums
        CRC-32C of every file that reading the block needs, by the file's name in the folder.
    """

    model_config = _STRICT
    path: str = Field(pattern=r"^blocks/[0-9]{6,}$")
    n_documents: PositiveInt
    n_queries: PositiveInt
    n_features: NonNegativeInt
    n_values: NonNegativeInt
    n_unlabelled: NonNegativeInt
    n_null: NonNegativeInt
    digest: str = Field(pattern=r"^[0-9a-f]{32}$")
    checksums: dict[str, Checksum]


class DatasetManifest(BaseModel):
    """Content of ``manifest.json``.

    Attributes
    ----------
    format, schema_version
        Kind and version of the directory; a reader refuses any other version.
    feature_names
        One unique name per feature.
    sparse
        Whether blocks hold CSR arrays.
    transforms
        Scalings already applied to the values.
    roles
        Names of the columns of ids, grades and weights in the table that the data comes from.
    null_fill
        Values, one per feature, that replace missing (NULL) values when blocks are read; None if
        no value is missing.
    query_id_type, doc_id_type
        Type of the ids when they are read; integers of one block read as strings if another block
        has strings. None if no document has an id.
    features_per_chunk, values_per_chunk
        Features per chunk of a dense block; entries per chunk of a sparse block's arrays.
    blocks
        One entry per block, in order.
    """

    model_config = _STRICT
    format: Literal["dranking-dataset"] = FORMAT
    schema_version: Literal[1] = SCHEMA_VERSION
    feature_names: tuple[str, ...]
    sparse: bool
    transforms: tuple[Transform, ...] = ()
    roles: Roles = DEFAULT_ROLES
    null_fill: tuple[FiniteFloat, ...] | None = None
    query_id_type: IdType
    doc_id_type: IdType | None
    features_per_chunk: PositiveInt = FEATURES_PER_CHUNK
    values_per_chunk: PositiveInt = VALUES_PER_CHUNK
    blocks: tuple[BlockEntry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> DatasetManifest:
        check_feature_names(self.feature_names)
        n_features = len(self.feature_names)
        if self.null_fill is not None and len(self.null_fill) != n_features:
            raise ValueError(f"null_fill has {len(self.null_fill)} values, not {n_features}")
        for transform in self.transforms:
            if transform.n_features not in (None, n_features):
                raise ValueError(
                    f"transforms: {transform.kind} is for {transform.n_features} features, "
                    f"not {n_features}"
                )
        for index, entry in enumerate(self.blocks):
            if entry.n_features > n_features:
                raise ValueError(f"blocks.{index}.n_features: {entry.n_features} > {n_features}")
            if not self.sparse and entry.n_values != entry.n_documents * entry.n_features:
                raise ValueError(f"blocks.{index}.n_values: not documents times features")
            if entry.n_null and self.null_fill is None:
                raise ValueError(f"blocks.{index}.n_null: missing values, but no null_fill")
            if self._chunk_bytes(entry) > MAX_CHUNK_BYTES:
                raise ValueError(f"blocks.{index}: chunks of more than {MAX_CHUNK_BYTES:,} bytes")
            # Names are counted before they are listed: a manifest of a few bytes could ask for more
            # names than memory holds.
            n_files = len(entry.checksums)
            if n_files != self._n_files(entry) or set(entry.checksums) != set(self.files(entry)):
                raise ValueError(f"blocks.{index}.checksums: other files than the block needs")
        return self

    def info(self, entry: BlockEntry) -> BlockInfo:
        """Sizes of a block as it is read."""
        dense = entry.n_documents * len(self.feature_names)
        return BlockInfo(
            n_documents=entry.n_documents,
            n_queries=entry.n_queries,
            n_values=entry.n_values if self.sparse else dense,
            n_unlabelled=entry.n_unlabelled,
        )

    def _n_files(self, entry: BlockEntry) -> int:
        """Number of names that `files` yields."""
        if self.sparse:
            pointers = n_chunks(entry.n_documents + 1, self.values_per_chunk)
            return 2 + pointers + 2 * n_chunks(entry.n_values, self.values_per_chunk)
        return 2 + n_chunks(entry.n_features, self.features_per_chunk)

    def _chunk_bytes(self, entry: BlockEntry) -> int:
        """Bytes of the largest chunk of a block, uncompressed."""
        if self.sparse:
            return 8 * min(self.values_per_chunk, max(entry.n_documents + 1, entry.n_values))
        return 4 * min(self.features_per_chunk, entry.n_features) * entry.n_documents

    def files(self, entry: BlockEntry) -> Iterator[str]:
        """Names of the files that reading a block needs, inside the block's folder."""
        yield from (DOCUMENTS_FILE, QUERIES_FILE)
        if self.sparse:
            lengths = (entry.n_documents + 1, entry.n_values, entry.n_values)
            for array, length in zip(SPARSE_ARRAYS, lengths, strict=True):
                for index in range(n_chunks(length, self.values_per_chunk)):
                    yield f"{array}/{chunk_name(index, 1)}"
        else:
            for index in range(n_chunks(entry.n_features, self.features_per_chunk)):
                yield f"{FEATURES}/{chunk_name(index, 2)}"


def block_path(index: int) -> str:
    """Folder of a block inside the data set."""
    return f"blocks/{index:06d}"


def manifest_json(manifest: BaseModel) -> str:
    """Text of ``manifest.json`` with one line per entry and one line per block."""
    content = manifest.model_dump(mode="json")
    blocks = ",\n".join(f"  {json.dumps(entry)}" for entry in content.pop("blocks"))
    entries = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()]
    return "{\n" + ",\n".join([*entries, f' "blocks": [\n{blocks}\n ]']) + "\n}\n"
