"""A directory of parquet files with scores, written part by part by tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError, UsageError, problems_in
from dranking.files.arrow_tables import read_parquet
from dranking.files.checksums import Checksum, checksum
from dranking.files.json_files import read_json, sealed_json, unsealed
from dranking.files.places import AnyPlace, Place, as_place, is_local
from dranking.files.reading import read_bytes
from dranking.files.writing.atomic_files import put_part
from dranking.files.writing.commit import DirectoryCommit
from dranking.files.writing.names import SUCCESS_NAME, TOKEN
from dranking.files.writing.output_checks import manifest_format
from dranking.metrics.prediction_files import checked_scores, trec_order

FORMAT: Final = "dranking-scores"
BLOCKS_PER_PART = 16
"""Blocks of the data set in a part: about 130,000 documents, 2 MB."""

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScorePart(BaseModel):
    """The manifest's entry of a part.

    Attributes
    ----------
    name
        Name of the file in the directory.
    n_documents, n_queries
        Rows, and queries, of the part.
    checksum
        CRC-32C of the file.
    """

    model_config = _STRICT
    name: str = Field(pattern=rf"^part-[0-9]{{6}}(-{TOKEN})?\.parquet$")
    n_documents: NonNegativeInt
    n_queries: NonNegativeInt
    checksum: Checksum


class ScoreManifest(BaseModel):
    """Content of ``_SUCCESS``: the parts in data set order."""

    model_config = _STRICT
    format: Literal["dranking-scores"] = FORMAT
    schema_version: Literal[1] = 1
    parts: tuple[ScorePart, ...]


def score_rows(block: QueryBlock, scores: ArrayLike, *, with_ranks: bool = True) -> pa.Table:
    """The rows of a block's documents: ``qid``, ``docid``, ``score``, ``rank``.

    Without ranks, queries of the block need not be whole.

    Raises
    ------
    DataError
        If a score is NaN.
    """
    values = checked_scores(block, scores)
    sizes = np.diff(block.query_ptr)
    documents = block.doc_ids
    if documents is None:
        documents = pa.nulls(block.n_documents)
    query = np.repeat(np.arange(block.n_queries), sizes)
    rows = {"qid": block.query_ids.take(pa.array(query)), "docid": documents, "score": values}
    if with_ranks:
        ranks = np.empty(block.n_documents, dtype=np.int32)
        order, _ = trec_order(block, values)
        ranks[order] = np.arange(block.n_documents) - np.repeat(block.query_ptr[:-1], sizes) + 1
        rows["rank"] = ranks
    return pa.table(rows)


def part_name(commit: DirectoryCommit, index: int) -> str:
    """Name of a part: with the writer's token where nothing is renamed in the end."""
    token = "" if is_local(commit.root) else f"-{commit.token}"
    return f"part-{index:06d}{token}.parquet"


def write_part(root: Place, name: str, tables: Iterable[pa.Table]) -> ScorePart:
    """Write rows of `score_rows` as one file; runs on any worker, and gives the same bytes again.

    Parameters
    ----------
    root
        Directory to write to: `DirectoryCommit.root`.
    name
        Name of the file.
    tables
        Rows of one block or more.
    """
    rows = _concatenated(list(tables))
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="lz4", write_page_checksum=True)
    content = bytes(sink.getvalue())
    put_part(root, name, content)
    return ScorePart(
        name=name,
        n_documents=rows.num_rows,
        n_queries=pc.count_distinct(rows["qid"]).as_py(),
        checksum=checksum(content),
    )


def check_scores_output(place: AnyPlace) -> None:
    """Raise UsageError if a directory of the project is there that holds no scores."""
    found = manifest_format(as_place(place))
    if found not in (None, FORMAT):
        raise UsageError(f"{place}: holds a {found}, which scores do not replace; name another.")


def manifest_text(parts: Sequence[ScorePart]) -> bytes:
    """Content of ``_SUCCESS``."""
    return sealed_json(ScoreManifest(parts=tuple(parts)).model_dump(mode="json"), indent=1)


def is_score_directory(place: Place) -> bool:
    """Whether a directory with scores is at a place."""
    return manifest_format(place) == FORMAT


def read_parts(place: Place) -> pa.Table:
    """All rows of a directory with scores, in data set order.

    Raises
    ------
    DataError
        If the manifest or a part is damaged.
    """
    manifest = _read_manifest(place)
    return _concatenated([_read_part(place, part) for part in manifest.parts])


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of several tables; ids are strings if they are no integers everywhere."""
    for name in ("qid", "docid"):
        found = {table.schema.field(name).type for table in tables}
        kind = pa.int64() if found - {pa.null()} == {pa.int64()} else pa.string()
        at = tables[0].schema.get_field_index(name)
        tables = [table.set_column(at, name, table[name].cast(kind)) for table in tables]
    return pa.concat_tables(tables)


def _read_manifest(place: Place) -> ScoreManifest:
    remedy = "compute the scores again"
    try:
        content: Any = unsealed(read_json(place / SUCCESS_NAME))
        return ScoreManifest.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise DataError(f"{place / SUCCESS_NAME}: {problems_in(error, 'manifest')}.") from error
    except ValueError as error:
        raise DataError(f"{place / SUCCESS_NAME}: damaged, {error}; {remedy}.") from error


def _read_part(place: Place, part: ScorePart) -> pa.Table:
    file = place / part.name
    try:
        content = read_bytes(file)
        if checksum(content) != part.checksum:
            raise DataError(f"{file}: damaged, its checksum differs; compute the scores again.")
        return read_parquet(pa.BufferReader(content))
    except FileNotFoundError as error:
        raise DataError(f"{file}: is missing; compute the scores again.") from error
    except pa.ArrowException as error:
        raise DataError(f"{file}: cannot be read as parquet ({error}).") from error
