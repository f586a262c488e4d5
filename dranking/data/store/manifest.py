"""The manifest of a data set directory, and the entries of its index.

``manifest.json`` says what all segments have in common and how much there is. JSON with an entry
for each of many segments would take long to parse; the entries are therefore a parquet file beside
the manifest, which names the file and its digest: columns of numbers, checked at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import Transform
from dranking.data.roles import DEFAULT_ROLES, Roles
from dranking.data.tables.feature_names import check_feature_names
from dranking.files.folders.manifests import DirectoryKind
from dranking.files.json_files import sealed_json
from dranking.files.writing.names import TOKEN

FORMAT: Final = "dranking-dataset"
SCHEMA_VERSION: Final = 4
KIND: Final = DirectoryKind("data set", FORMAT, SCHEMA_VERSION, "ingest the data anew", sealed=True)

MAX_FILE_BYTES = 2**31 - 1
"""Size of the largest parquet file of a data set; a larger one is refused before it is read."""

IdType: TypeAlias = Literal["int64", "string"]

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)
SEGMENT_NAME = rf"\Asegments/{TOKEN}-[0-9]{{6,}}\z"
_INDEX_NAME = rf"^{TOKEN}-index\.parquet$"


@dataclass(frozen=True)
class BlockEntry:
    """The entry of one block in the index.

    Attributes
    ----------
    n_documents, n_queries, n_unlabelled
        Documents, queries, documents without relevance.
    n_values
        Number of stored feature values.
    digest, features_digest
        `QueryBlock.digest()` and `features_digest()` of the block as it is read.
    """

    n_documents: int
    n_queries: int
    n_unlabelled: int
    n_values: int
    digest: str
    features_digest: str


@dataclass(frozen=True)
class SegmentEntry:
    """The entry of one segment in the index.

    Attributes
    ----------
    name
        The segment's folder inside the data set.
    n_features
        Number of stored features. Further features of the data set are read as zeros. (Blocks of
        text are stored while later text may still have larger feature indices.)
    chunks_bytes, chunks_digest
        Size and BLAKE2b digest, 32 hex digits, of the segment's table of chunks.
    blocks
        The blocks, in order.
    """

    name: str
    n_features: int
    chunks_bytes: int
    chunks_digest: str
    blocks: tuple[BlockEntry, ...]


class WrittenSegment(NamedTuple):
    """A segment that is written; `doc_id_type` is None without document ids."""

    entry: SegmentEntry
    sparse: bool
    query_id_type: IdType
    doc_id_type: IdType | None


class IndexFile(BaseModel):
    """The file of the index, and the BLAKE2b digest of its content, 32 hex digits."""

    model_config = _STRICT
    name: str = Field(pattern=_INDEX_NAME)
    n_bytes: int = Field(ge=1, le=MAX_FILE_BYTES)
    digest: str = Field(pattern=r"^[0-9a-f]{32}$")


class LabelOrigin(BaseModel):
    """The origin of labels that are no judgements.

    Attributes
    ----------
    estimator, query_weights
        The rules by which labels and query weights were made of clicks.
    propensities
        Version of the propensities: labels of two versions do not compare.
    nights
        First and last night of the clicks.
    """

    model_config = _STRICT
    estimator: str
    query_weights: str
    propensities: str
    nights: tuple[str, str]


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
    constants
        The values that are stored for missing ones; data that is appended gets the same values.
        None if no value was permitted to be missing.
    query_id_type, doc_id_type
        Type of the ids when they are read; integers of one segment read as strings if another
        segment has strings. None if no document has an id.
    labels
        The origin of the labels; None for labels that came with the data.
    n_documents, n_queries, n_unlabelled, n_blocks, n_segments
        Totals.
    writers
        The tokens in the names of segments: one for the first write, and one for every append.
    index
        The index of the segments.
    """

    model_config = _STRICT
    format: Literal["dranking-dataset"] = FORMAT
    schema_version: Literal[4] = SCHEMA_VERSION
    feature_names: tuple[str, ...]
    sparse: bool
    transforms: tuple[Transform, ...] = ()
    roles: Roles = DEFAULT_ROLES
    constants: ColumnConstants | None = None
    query_id_type: IdType
    doc_id_type: IdType | None
    labels: LabelOrigin | None = None
    n_documents: PositiveInt
    n_queries: PositiveInt
    n_unlabelled: NonNegativeInt
    n_blocks: PositiveInt
    n_segments: PositiveInt
    writers: tuple[str, ...] = Field(min_length=1)
    index: IndexFile

    @model_validator(mode="after")
    def _check(self) -> DatasetManifest:
        check_feature_names(self.feature_names)
        n_features = len(self.feature_names)
        if self.constants is not None and self.constants.n_features != n_features:
            raise ValueError(f"constants has {self.constants.n_features} values, not {n_features}")
        for transform in self.transforms:
            if transform.n_features not in (None, n_features):
                raise ValueError(
                    f"transforms: {transform.kind} is for {transform.n_features} features, "
                    f"not {n_features}"
                )
        return self


def manifest_json(manifest: DatasetManifest) -> bytes:
    """Text of ``manifest.json``, with its seal."""
    return sealed_json(manifest.model_dump(mode="json"), indent=1)
