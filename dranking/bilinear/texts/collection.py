"""Collections: documents (or queries) as sparse vectors, with ids, classes and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    StrictBool,
    StrictStr,
    ValidationError,
)

from dranking.bilinear.texts.tfidf import TextVectorizer
from dranking.data.tables.ids import as_ids
from dranking.errors import DataError, problems_in
from dranking.files.checksums import checksum
from dranking.files.folders.array_folder import csr_of, read_arrays, write_arrays
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.reading import read_bytes
from dranking.files.writing.names import MANIFEST_NAME
from dranking.files.writing.output_checks import restore_interrupted

KIND = "collection"


class Stored(NamedTuple):
    """The directory of a stored collection, and the checksum of its manifest."""

    path: Place
    checksum: str


@dataclass(frozen=True, eq=False)
class Collection:
    """Vectors of documents, with ids, classes and the names of the columns.

    Attributes
    ----------
    vectors
        (n_documents, n_words) float32 `csr_array`, finite, with sorted indices and no stored zeros.
    ids
        (n_documents,) pyarrow int64 or string, all distinct.
    classes
        (n_documents,) int64 number of each document's class in `class_names`, or None.
    class_names
        Names of the classes, ascending.
    words
        Names of the columns, or None.
    vectorizer
        Vectorizer that made the vectors of texts, or None.
    stored
        Directory from which the collection was loaded, or None. A loaded collection is sent to
        workers as this path, and the workers load the directory.
    is_numbered
        Whether the ids are numbers of rows, since no ids were given.
    """

    vectors: Any
    ids: pa.Array
    classes: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] = ()
    words: tuple[str, ...] | None = None
    vectorizer: TextVectorizer | None = None
    stored: Stored | None = None
    is_numbered: bool = False

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.stored is None:
            return super().__reduce_ex__(protocol)
        return load_again, (self.stored,)

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return int(self.vectors.shape[0])

    @property
    def n_words(self) -> int:
        """Length of the vectors."""
        return int(self.vectors.shape[1])

    @cached_property
    def is_empty(self) -> NDArray[np.bool_]:
        """(n_documents,) whether the vector is zero; such a document is never drawn."""
        return np.asarray(np.diff(self.vectors.indptr) == 0)

    def rows_of(self, ids: Any) -> NDArray[np.int64]:
        """Return the rows (n,) of the documents with these ids; -1 for an unknown id."""
        import pyarrow.compute as pc

        wanted = as_ids(ids, "ids", as_string=pa.types.is_string(self.ids.type))
        own = self.ids if wanted.type == self.ids.type else self.ids.cast(pa.string())
        return np.asarray(pc.index_in(wanted, value_set=own).fill_null(-1), dtype=np.int64)

    def has_words_of(self, other: Collection) -> bool:
        """Return whether both collections have the same columns, as far as columns have names."""
        named = self.words is not None and other.words is not None
        return self.n_words == other.n_words and (not named or self.words == other.words)

    def take(self, rows: NDArray[np.int64]) -> Collection:
        """Return the collection of the documents in these rows (n,), in this order."""
        return replace(
            self,
            stored=None,
            vectors=self.vectors[rows],
            ids=self.ids.take(pa.array(rows)),
            classes=None if self.classes is None else self.classes[rows],
        )

    def save(self, path: AnyPlace, *, overwrite: bool = False) -> None:
        """Write the collection as a directory: a manifest, and arrays as .npy files.

        The vectors are whole arrays, not blocks of rows: the documents of a tuple may lie anywhere,
        and arrays that are mapped into memory give any row without reading or decompressing the
        rows around it. The system takes mapped pages back when it needs memory.

        Raises
        ------
        UsageError
            If the path exists and `overwrite` is false, or if the path holds other files than a
            collection's.
        """
        arrays = {name: getattr(self.vectors, name) for name in ("indptr", "indices", "data")}
        arrays |= _id_arrays(self.ids)
        if self.classes is not None:
            arrays["classes"] = self.classes
        if self.vectorizer is not None:
            arrays["idf"] = self.vectorizer.idf
        facts = {
            "n_words": self.n_words,
            "is_numbered": self.is_numbered,
            "class_names": self.class_names,
            "words": self.words,
            "vectorizer": None if self.vectorizer is None else dict(self.vectorizer.options),
        }
        write_arrays(path, KIND, facts, arrays, overwrite=overwrite)


class _Facts(BaseModel):
    """The facts in the manifest of a collection, beside its arrays."""

    model_config = ConfigDict(extra="forbid")
    n_words: NonNegativeInt
    is_numbered: StrictBool
    class_names: tuple[StrictStr, ...]
    words: tuple[StrictStr, ...] | None
    vectorizer: dict[str, Any] | None


def load_collection(path: AnyPlace) -> Collection:
    """Load a stored collection; its arrays are mapped into memory.

    Raises
    ------
    DataError
        If the path does not exist, or holds no collection or a damaged collection.
    """
    stored = _stored(path)
    found, arrays = read_arrays(path, KIND)
    try:
        facts = _Facts.model_validate(found)
        n_documents, words = len(arrays["indptr"]) - 1, facts.words
        vectors = csr_of(arrays, (n_documents, facts.n_words))
        ids = _ids_from(arrays)
        if len(ids) != n_documents or (words is not None and len(words) != facts.n_words):
            raise ValueError("the numbers of ids or words do not fit the vectors")
        vectorizer = None
        if facts.vectorizer is not None and words is not None:
            vectorizer = TextVectorizer.stored(words, arrays["idf"], facts.vectorizer)
        classes = np.array(arrays["classes"]) if "classes" in arrays else None
        if classes is not None:
            _check_classes(classes, n_documents, len(facts.class_names))
        names = facts.class_names
        return Collection(
            vectors, ids, classes, names, words, vectorizer, stored, facts.is_numbered
        )
    except ValidationError as error:
        raise DataError(f"{path} is damaged ({problems_in(error, 'manifest')}).") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path} is damaged ({error}); make it anew.") from error


def load_again(stored: Stored) -> Collection:
    """Load a collection from its directory on a worker; DataError if the directory was replaced."""
    if _stored(stored.path) != stored:
        raise DataError(
            f"{stored.path}: was replaced since it was opened. Start the computation again."
        )
    return load_collection(stored.path)


def _check_classes(classes: NDArray[Any], n_documents: int, n_classes: int) -> None:
    inside = classes.shape == (n_documents,) and classes.dtype == np.int64
    if not inside or (n_documents and not 0 <= classes.min() <= classes.max() < n_classes):
        raise ValueError("classes do not fit the documents")


def check_same_words(queries: Collection, documents: Collection) -> None:
    """Raise DataError unless both collections have the same columns, as an identity start needs."""
    if queries.n_words != documents.n_words:
        raise DataError(
            f"the queries have {queries.n_words:,} words and the documents "
            f"{documents.n_words:,}: their dictionaries are not the same. Vectorise both with one "
            "vectorizer, or start from zero."
        )
    if queries.words is not None and documents.words is not None:
        pairs = enumerate(zip(queries.words, documents.words, strict=True))
        for column, (ours, theirs) in pairs:
            if ours != theirs:
                raise DataError(
                    f"column {column} is {ours!r} of the queries and {theirs!r} of the documents: "
                    "their dictionaries are not the same. Vectorise both with one vectorizer, or "
                    "start from zero."
                )


def _id_arrays(ids: pa.Array) -> dict[str, NDArray[Any]]:
    """Return ids as arrays, since a manifest with millions of ids would be large."""
    if pa.types.is_int64(ids.type):
        return {"ids": ids.to_numpy()}
    texts = [text.encode() for text in ids.to_pylist()]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return {"id_text": np.frombuffer(b"".join(texts), dtype=np.uint8), "id_ends": ends}


def _ids_from(arrays: Mapping[str, NDArray[Any]]) -> pa.Array:
    if "ids" in arrays:
        if arrays["ids"].dtype != np.int64 or arrays["ids"].ndim != 1:
            raise ValueError("ids are no whole numbers")
        return pa.array(arrays["ids"])
    ends, text = (np.array(arrays[name]) for name in ("id_ends", "id_text"))
    inside = ends.dtype == np.int64 and text.dtype == np.uint8 and len(ends) and ends[0] == 0
    if not inside or (np.diff(ends) < 0).any() or ends[-1] != len(text):
        raise ValueError("id_ends and id_text are no texts")
    buffers = pa.py_buffer(ends), pa.py_buffer(text)
    texts = pa.LargeStringArray.from_buffers(len(ends) - 1, *buffers).cast(pa.string())
    texts.validate(full=True)
    return texts


def _stored(path: AnyPlace) -> Stored:
    root = as_place(path)
    restore_interrupted(root)
    try:
        return Stored(root, checksum(read_bytes(root / MANIFEST_NAME)))
    except FileNotFoundError:
        return Stored(root, "")
