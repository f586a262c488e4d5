"""The queries that a model was trained on, as hashes, and their file beside the model.

The file ``model.queries`` beside ``model.json`` (or beside the folder ``model``) holds two hashes
of every query: of its id, and of the features of its documents. Its first line is JSON: format,
key, number of queries, and the features that were hashed; sorted little-endian uint64 follow. The
model itself has the file's checksum.

The key of the hashes of ids is the fingerprint of the training data, so that the same training
gives the same file, and a file of one data set tells nothing of the ids of another: their hashes
cannot be joined, and no table of hashes that was computed ahead serves for both. The key is no
secret. Whoever has the file can test whether an id that he guesses is in it, as every evaluation
does; equal data sets have equal files, as their models have equal fingerprints anyway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, NonNegativeInt, StrictStr, ValidationError
from pydantic.fields import Field

from dranking.data.query_hashes import Words, id_hashes, mixed
from dranking.errors import DataError, UsageError, problems_in
from dranking.files.places import Place, is_local
from dranking.files.reading import file_size, read_bytes
from dranking.files.writing import object_store
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import kind_of
from dranking.metrics.overlap import Overlap

FORMAT = "dranking-queries"
FIRST_BYTES = b'{"format": "dranking-queries"'
UNKNOWN = np.uint64(0)
"""Stands for the documents of a query where they were not read, as those of statistics stores."""


class QueriesFile(BaseModel):
    """What a model says of the file with the hashes of its training queries.

    Attributes
    ----------
    n_queries
        Number of different query ids.
    checksum
        BLAKE2b of the file, 32 hex digits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    n_queries: NonNegativeInt
    checksum: str = Field(pattern="^[0-9a-f]{32}$")


class _Header(BaseModel):
    """First line of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    format: StrictStr
    key: StrictStr
    n_rows: NonNegativeInt
    features: list[StrictStr]


@dataclass(frozen=True, eq=False)
class TrainedQueries:
    """Hashes of the queries that a model was trained on.

    Attributes
    ----------
    key
        Key of the hashes of ids.
    features
        Names of the features of the model whose values were hashed, in order.
    ids, documents
        (n_rows,) uint64 hashes of ids, ascending, and digests of documents, `UNKNOWN` where they
        were not read; no pair is there twice.
    """

    key: str
    features: tuple[str, ...]
    ids: Words
    documents: Words

    @classmethod
    def of(cls, key: str, features: Sequence[str], ids: Words, documents: Words) -> TrainedQueries:
        """Sort the pairs of hashes, and leave out those that are there again."""
        order = np.lexsort((documents, ids))
        ids, documents = ids[order], documents[order]
        is_new = np.ones(len(ids), dtype=bool)
        is_new[1:] = (ids[1:] != ids[:-1]) | (documents[1:] != documents[:-1])
        return cls(key, tuple(features), ids[is_new], documents[is_new])

    @cached_property
    def n_queries(self) -> int:
        """Number of different ids."""
        return int((np.diff(self.ids) != 0).sum()) + 1 if len(self.ids) else 0

    def with_ids_of(self, earlier: TrainedQueries) -> TrainedQueries:
        """These queries and those of an earlier part of the training, under the same key."""
        documents = earlier.documents
        if earlier.features != self.features:
            documents = np.zeros_like(documents)
        pairs = zip((self.ids, self.documents), (earlier.ids, documents), strict=True)
        ids, documents = map(np.concatenate, pairs)
        return TrainedQueries.of(self.key, self.features, ids, documents)

    def without_documents(self) -> TrainedQueries:
        """The same ids, of documents that are not known."""
        return TrainedQueries.of(self.key, (), self.ids, np.zeros_like(self.documents))

    def holds(self, ids: pa.Array) -> np.typing.NDArray[np.bool_]:
        """(n,) whether queries with these ids were trained on, with whatever documents."""
        found: np.typing.NDArray[np.bool_] = np.isin(id_hashes(ids, self.key), self.ids)
        return found

    def overlap(self, n_judged: int, ids: Words, documents: Words) -> Overlap:
        """Count judged queries by the hashes of ids and documents of those that `holds` found."""
        unknown = np.isin(ids, self.ids[self.documents == UNKNOWN]) | (documents == UNKNOWN)
        same = unknown | np.isin(_pairs(ids, documents), _pairs(self.ids, self.documents))
        n_same = int(same.sum())
        return Overlap(n_judged, n_same, len(ids) - n_same)

    @cached_property
    def content(self) -> bytes:
        """The content of the file."""
        header = {
            "format": FORMAT,
            "key": self.key,
            "n_rows": len(self.ids),
            "features": list(self.features),
        }
        arrays = (array.astype("<u8").tobytes() for array in (self.ids, self.documents))
        return b"".join((json.dumps(header).encode(), b"\n", *arrays))

    @property
    def file(self) -> QueriesFile:
        """Number of queries, and checksum of the file."""
        return QueriesFile(n_queries=self.n_queries, checksum=_checksum(self.content))


def _pairs(ids: Words, documents: Words) -> Words:
    """(n,) one word for each pair."""
    return mixed(ids ^ mixed(documents))


def _checksum(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def queries_place(model: Place) -> Place:
    """The file beside a model: ``model.queries`` beside ``model.json`` and beside ``model``."""
    return model.parent / f"{model.name.removesuffix('.json')}.queries"


def read_queries(model: Place, expected: QueriesFile) -> TrainedQueries | None:
    """The hashes in the file beside a model; None if there is no such file.

    Raises
    ------
    DataError
        If the file is not the one that was written with the model.
    """
    file = queries_place(model)
    try:
        content = read_bytes(file)
    except FileNotFoundError:
        return None
    try:
        if _checksum(content) != expected.checksum:
            raise ValueError("its checksum is not the one in the model")
        line, _, rest = content.partition(b"\n")
        header = _Header.model_validate_json(line)
        words = np.frombuffer(rest, dtype="<u8").astype(np.uint64)
        if header.format != FORMAT or len(words) != 2 * header.n_rows:
            raise ValueError("it has another format")
    except ValueError as error:
        why = problems_in(error, "file") if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"{file}: is damaged, or belongs to another model: {why}. Copy it anew from where the "
            f"model comes from, or train anew; or delete it, and then it is not known on which "
            f"queries {model} was trained."
        ) from error
    return TrainedQueries(
        header.key, tuple(header.features), words[: header.n_rows], words[header.n_rows :]
    )


def check_queries_place(model: Place) -> None:
    """Raise UsageError, before a training, if the file beside its model is not of dranking."""
    if _holds_queries(queries_place(model)) is False:
        raise _other_file(model)


def _holds_queries(file: Place) -> bool | None:
    """Whether a file beside a model holds hashes of queries; None if nothing is there."""
    kind = kind_of(file)
    if kind != "file":
        return None if kind is None else False
    return read_bytes(file, 0, min(len(FIRST_BYTES), file_size(file))) == FIRST_BYTES


def _other_file(model: Place) -> UsageError:
    return UsageError(
        f"{queries_place(model)}: was not written by dranking, and the hashes of the training "
        f"queries of {model.name} belong there. Move it, or give the model another name."
    )


def save_with_queries(
    model: Place, queries: TrainedQueries | None, save: Callable[[], None]
) -> None:
    """Save a model and the file beside it, if the queries are known.

    The file of an earlier model goes first: whenever the process ends, the file that is there
    belongs to the model that is there.

    Parameters
    ----------
    model
        Place of the model.
    queries
        The queries that the model was trained on.
    save
        Saves the model, whole or not at all.

    Raises
    ------
    UsageError
        If a file of another kind is in the place of the file beside the model.
    """
    file = queries_place(model)
    if is_ours := _holds_queries(file):
        _delete(file)
    elif is_ours is not None and queries is not None:
        raise _other_file(model)
    save()
    if queries is not None:
        atomic_write(file, queries.content, overwrite=True)


def _delete(file: Place) -> None:
    """Delete a file; where that is not allowed, writing the model fails as well, and says so."""
    if not is_local(file):
        object_store.remove(file.parent, [file.name])
        return
    with suppress(PermissionError):
        file.unlink(missing_ok=True)
