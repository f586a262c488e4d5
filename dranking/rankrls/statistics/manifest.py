"""The manifest of a statistics store, and the names of the files that it lists."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from dranking.data.blocks import BlockInfo
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import Transform
from dranking.data.tables.feature_names import check_feature_names
from dranking.files.checksums import Checksum
from dranking.files.folders.manifests import DirectoryKind
from dranking.files.json_files import sealed_json
from dranking.files.writing.names import TOKEN
from dranking.rankrls.statistics.per_query import WORDS_PER_NUMBER
from dranking.rankrls.statistics.query_times import TimeType

KIND: Final = DirectoryKind(
    "statistics store", "dranking-statistics", 6, "build the statistics anew", sealed=True
)

QUERY_TABLE = "queries.arrow"
"""File with one row per query. The format is Arrow, because opening a parquet file takes as long as
reading some Gram rows."""

CHANGED = "changed"
"""Column of the query table of changed or merged queries: whether the folder has statistics of the
query."""

CARRIED = "carried"
"""Column of the query table of merged queries: whether the block carries the query; if not, a later
block carries it."""

N_MOMENTS = 3
"""Arrays of `STATISTICS_FILE` behind the rows of A_q."""

STATISTICS_FILE = "statistics.rows"
"""Row file of (n_queries, n_features) arrays: the row of A_q for each feature, then the
diagonals of A_q, b_q, and the means of the features. A_q is symmetric but stored whole, so that a
selection reads just the rows that it needs."""

NUMBER_BYTES = 8
VALUE_BYTES = {"dense": 4, "sparse": 8}  # float32; a sparse value also has an int32 column index

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)

BlockPath: TypeAlias = Annotated[str, Field(pattern=rf"^blocks/{TOKEN}-[0-9]{{6,}}$")]
Digest: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class ChangedEntry(BaseModel):
    """Queries of a block that changed since the block was written, in a folder of their own.

    Attributes
    ----------
    path
        The folder inside the store. Its `QUERY_TABLE` has all queries of the block and replaces
        that of the block; the column `CHANGED` says which queries changed. Its `STATISTICS_FILE`
        has the statistics of these queries alone; there is none if only weights changed.
    n_queries
        Number of these queries.
    checksums
        As in `StatisticsEntry`.
    """

    model_config = _STRICT
    path: BlockPath
    n_queries: NonNegativeInt
    checksums: dict[str, Checksum]

    @model_validator(mode="after")
    def _check(self) -> ChangedEntry:
        if set(self.checksums) != {QUERY_TABLE, *[STATISTICS_FILE][: self.n_queries]}:
            raise ValueError("checksums: other files than the changed queries need")
        return self


class MergedEntry(ChangedEntry):
    """Queries of a block that other blocks have as well, in a folder of their own.

    Attributes
    ----------
    path, checksums
        As in `ChangedEntry`. The table has all queries of the block with their merged sizes and
        labels; the column `CARRIED` says which of them the block carries, and `CHANGED` which of
        these have merged statistics in the folder.
    n_queries
        Number of queries with merged statistics.
    n_carried, n_documents, n_unlabelled
        Number of the queries that the block carries, and of their documents in all blocks.
    pieces
        Digest of what was merged: query ids, and the folders of the pieces.
    """

    n_carried: NonNegativeInt
    n_documents: NonNegativeInt
    n_unlabelled: NonNegativeInt
    pieces: Digest


class StatisticsEntry(BaseModel):
    """The manifest's entry of one block.

    Attributes
    ----------
    path
        The block's folder inside the store.
    n_documents, n_queries, n_unlabelled, n_values
        Sizes of the data block: documents, queries, documents without relevance, feature values.
    digest
        `QueryBlock.digest()` of the data block if all queries of the data block are here
        (`is_whole`); otherwise `QueryStatistics.digest()`.
    is_whole
        Whether all queries of the data block are here; false once some of them expired.
    checksums
        CRC-32C of `QUERY_TABLE`, and CRC-32C of the index of `STATISTICS_FILE`.
    features_digest
        `QueryBlock.features_digest()` of the data block, if all its queries are here.
    changed
        The queries that changed since the block was written; None if none did. All other facts of
        the entry but the path and the checksums are those after the change.
    merged
        The queries of the block that other blocks have as well; None if there are none.
    """

    model_config = _STRICT
    path: BlockPath
    n_documents: PositiveInt
    n_queries: PositiveInt
    n_unlabelled: NonNegativeInt
    n_values: NonNegativeInt
    digest: Digest
    is_whole: bool
    checksums: dict[str, Checksum]
    features_digest: Digest | None = None
    changed: ChangedEntry | None = None
    merged: MergedEntry | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The folders of the block inside the store."""
        beside = (self.changed, self.merged)
        return (self.path, *(folder.path for folder in beside if folder is not None))

    @property
    def n_carried(self) -> int:
        """Number of the queries that the block carries."""
        return self.n_queries if self.merged is None else self.merged.n_carried


class StatisticsManifest(BaseModel):
    """Content of ``manifest.json``.

    Attributes
    ----------
    format, schema_version
        Kind and version of the directory; a reader refuses any other version.
    feature_names
        One unique name per feature.
    sparse
        Whether the data was sparse.
    constants
        The values that stand for missing ones in the data; None if no value was permitted to be
        missing.
    transforms
        Scalings that had already been applied to the values of the data.
    time_type
        Type of the queries' times; None if the queries have no times.
    blocks
        One entry per block, in order.
    """

    model_config = _STRICT
    format: Literal["dranking-statistics"] = "dranking-statistics"
    schema_version: Literal[6] = 6
    feature_names: tuple[str, ...] = Field(min_length=1)
    sparse: bool
    constants: ColumnConstants | None = None
    transforms: tuple[Transform, ...] = ()
    time_type: TimeType | None = None
    blocks: tuple[StatisticsEntry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> StatisticsManifest:
        check_feature_names(self.feature_names)
        if self.constants is not None and self.constants.n_features != len(self.feature_names):
            raise ValueError(f"constants has {self.constants.n_features} values for other features")
        paths = [path for entry in self.blocks for path in entry.paths]
        if len(set(paths)) < len(paths):
            raise ValueError("blocks: two entries name the same folder")
        for index, entry in enumerate(self.blocks):
            if set(entry.checksums) != {QUERY_TABLE, STATISTICS_FILE}:
                raise ValueError(f"blocks.{index}.checksums: other files than the block needs")
        return self

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    def info(self, entry: StatisticsEntry) -> BlockInfo:
        """Sizes of a block, as `QueryStatistics.info` gives them."""
        sizes = entry if entry.merged is None else entry.merged
        return BlockInfo(
            n_documents=sizes.n_documents,
            n_queries=entry.n_carried,
            n_values=WORDS_PER_NUMBER * entry.n_carried * 2 * self.n_features,
            n_unlabelled=sizes.n_unlabelled,
        )

    @property
    def n_merged(self) -> int:
        """Number of queries that several blocks have."""
        return sum(entry.merged.n_queries for entry in self.blocks if entry.merged is not None)

    @property
    def n_bytes(self) -> int:
        """Bytes of the uncompressed statistics."""
        n_queries = sum(entry.n_queries for entry in self.blocks) + self.n_merged
        return NUMBER_BYTES * n_queries * (self.n_features + N_MOMENTS) * self.n_features

    @property
    def n_data_bytes(self) -> int:
        """Bytes of the uncompressed features that the statistics were made of: float32, or CSR."""
        size = VALUE_BYTES["sparse" if self.sparse else "dense"]
        return size * sum(entry.n_values for entry in self.blocks)


def manifest_json(manifest: StatisticsManifest) -> bytes:
    """Text of ``manifest.json``, with a seal."""
    return sealed_json(manifest.model_dump(mode="json"), indent=1)
