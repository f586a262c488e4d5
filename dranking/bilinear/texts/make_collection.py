"""Collections made from vectors or from texts, and what must hold of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.texts.tfidf import TextVectorizer
from dranking.data.tables.alignment import aligned
from dranking.data.tables.ids import as_ids
from dranking.errors import DataError


def collection(
    vectors: Any,
    *,
    ids: Any = None,
    labels: Any = None,
    words: Sequence[str] | None = None,
) -> Collection:
    """Make a collection from vectors.

    Parameters
    ----------
    vectors
        (n_documents, n_words) SciPy sparse matrix or array of any format, or a dense array.
    ids
        (n_documents,) whole numbers or strings; 0, 1, ... if None.
    labels
        (n_documents,) class of each document, whole numbers or strings; None if there are none.
    words
        (n_words,) names of the columns, or None.

    Raises
    ------
    DataError
        If a value is NaN or infinite, an id is missing or occurs twice, or lengths differ.
    """
    ids, labels = aligned(vectors, of="vectors", ids=ids, labels=labels).values()
    matrix = _checked(vectors)
    n, n_words = matrix.shape
    own_ids = as_ids(np.arange(n) if ids is None else ids, "ids")
    _check_length("ids", len(own_ids), n)
    if own_ids.null_count:
        raise DataError(f"{own_ids.null_count} documents have no id; give every document one.")
    if len(own_ids.unique()) != n:
        raise DataError(f"{n - len(own_ids.unique())} ids occur twice; ids must be different.")
    if words is not None:
        _check_length("words", len(words), n_words, "columns")
    classes: NDArray[np.int64] | None = None
    names: tuple[str, ...] = ()
    if labels is not None:
        _check_length("labels", len(labels), n)
        classes, names = _as_classes(labels)
    return Collection(
        matrix,
        own_ids,
        classes,
        names,
        None if words is None else tuple(map(str, words)),
        is_numbered=ids is None,
    )


def text_collection(
    texts: Iterable[str],
    vectorizer: TextVectorizer | None = None,
    *,
    ids: Any = None,
    labels: Any = None,
    **options: Any,
) -> Collection:
    """Make a collection from texts.

    Parameters
    ----------
    texts
        (n_documents,) strings.
    vectorizer
        Vectorizer of another collection, such as the training collection of a model, so that the
        vectors have the same columns; None fits a new vectorizer.
    ids, labels
        As in `collection`.
    options
        Options of `TextVectorizer.fit`.

    Raises
    ------
    DataError
        If a text is missing, or no text has a word; and as `collection` does.
    """
    ids, labels = aligned(texts, of="texts", ids=ids, labels=labels).values()
    documents = list(texts)
    wrong = next((i for i, text in enumerate(documents) if not isinstance(text, str)), None)
    if wrong is not None:
        raise DataError(f"text {wrong} (counted from 0) is {documents[wrong]!r}, not a string.")
    if vectorizer is None:
        vectorizer = TextVectorizer.fit(documents, **options)
    made = collection(
        vectorizer.transform(documents), ids=ids, labels=labels, words=vectorizer.vocabulary
    )
    return replace(made, vectorizer=vectorizer)


def _checked(vectors: Any) -> Any:
    try:
        matrix = sparse.csr_array(vectors, dtype=np.float32, copy=True)
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"the vectors are not a matrix of numbers ({error}).") from error
    wrong = np.flatnonzero(~np.isfinite(matrix.data))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        raise DataError(
            f"row {row} of the vectors has {matrix.data[wrong[0]]} in column "
            f"{matrix.indices[wrong[0]]}; {len(wrong)} values in all are NaN or infinite."
        )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _as_classes(labels: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    values = as_ids(labels, "labels")
    if values.null_count:
        raise DataError(f"{values.null_count} documents have no label; remove these documents.")
    names, classes = np.unique(values.to_numpy(zero_copy_only=False), return_inverse=True)
    return classes.astype(np.int64), tuple(map(str, names))


def _check_length(name: str, found: int, wanted: int, of: str = "rows") -> None:
    if found != wanted:
        raise DataError(f"{name} has {found} entries but vectors has {wanted} {of}.")
