"""Preferences of queries between documents, from classes, judgments or a table of tuples.

Only a table lists its tuples (query, preferred document, other document); classes and judgments
stand for their tuples, which `dranking.bilinear.tuples` draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.bilinear.texts.collection import Collection
from dranking.errors import DataError
from dranking.files.places import AnyPlace, as_place
from dranking.files.reading import arrow_input
from dranking.files.table_formats import check_no_table_format
from dranking.metrics.scores.read_scores import read_judgements

Ints = NDArray[np.int64]

TUPLES_AT_ONCE = 2**20
"""Number of rows of a table of tuples that are in memory with their ids."""


@dataclass(frozen=True, eq=False)
class SameClass:
    """Preferences of documents as queries, for documents of their class over all others.

    Attributes
    ----------
    classes
        (n_documents,) class of each document; -1 for a document that takes no part.
    n_excluded
        Number of documents that are empty or alone in their class.
    """

    classes: Ints
    n_excluded: int


@dataclass(frozen=True, eq=False)
class GradePreferences:
    """Preferences from graded judgments: a query prefers documents with higher grades.

    Attributes
    ----------
    query, document
        (n_judgments,) rows in the collections, sorted by query and then by document.
    grade
        (n_judgments,) float64.
    n_excluded
        Number of judgments whose query or document is empty or not in the collections.
    """

    query: Ints
    document: Ints
    grade: NDArray[np.float64]
    n_excluded: int


@dataclass(frozen=True, eq=False)
class TablePreferences:
    """Preferences from a table of tuples.

    Attributes
    ----------
    query, better, worse
        (n_tuples,) rows in the collections, sorted by query.
    n_excluded
        Number of tuples with a query or document that is empty or not in the collections, or whose
        documents are the same.
    """

    query: Ints
    better: Ints
    worse: Ints
    n_excluded: int


Preferences: TypeAlias = SameClass | GradePreferences | TablePreferences


def same_class(documents: Collection) -> SameClass:
    """Return the preferences of documents for documents of their own class.

    Raises
    ------
    DataError
        If the collection has no classes, or fewer than two classes with two documents that are not
        empty.
    """
    if documents.classes is None:
        raise DataError(
            "the collection has no classes; give labels, or judgments (qrels) or a table of tuples."
        )
    classes = np.where(documents.is_empty, -1, documents.classes)
    sizes = np.bincount(classes[classes >= 0], minlength=len(documents.class_names))
    # A document that is alone in its class is no query. The document could still be the other
    # document of a tuple, but drawing the document in that role alone would give it more weight
    # than other documents have.
    classes = np.where((classes >= 0) & (sizes[classes] < 2), -1, classes)
    if len(np.unique(classes[classes >= 0])) < 2:
        raise DataError(
            f"{int((sizes >= 2).sum())} of {len(sizes)} classes have two documents that are not "
            "empty; preferences need two such classes."
        )
    return SameClass(classes, int((classes < 0).sum()))


def preferences_from_judgments(
    queries: Collection, documents: Collection, query_ids: Any, doc_ids: Any, grades: Any
) -> GradePreferences:
    """Return the preferences that follow from graded judgments.

    Parameters
    ----------
    queries, documents
        The collections.
    query_ids, doc_ids
        (n_judgments,) ids of the judged queries and documents in these collections.
    grades
        (n_judgments,) numbers; a higher grade is better.

    Raises
    ------
    DataError
        If a grade is not finite, a document is judged twice for a query, or no query has two
        documents with different grades.
    """
    grade = np.asarray(grades, dtype=np.float64)
    if not np.isfinite(grade).all():
        raise DataError(f"judgment {int(np.flatnonzero(~np.isfinite(grade))[0])} has no grade.")
    query, document = queries.rows_of(query_ids), documents.rows_of(doc_ids)
    used = _known(queries, query) & _known(documents, document)
    n_excluded = int((~used).sum())
    order = np.lexsort((document[used], query[used]))
    query, document, grade = query[used][order], document[used][order], grade[used][order]
    twice = (np.diff(query) == 0) & (np.diff(document) == 0)
    if twice.any():
        at = int(np.flatnonzero(twice)[0])
        raise DataError(
            f"document {documents.ids[int(document[at])]} is judged twice for query "
            f"{queries.ids[int(query[at])]}; keep one judgment."
        )
    same_query = np.diff(query) == 0
    if not (same_query & (np.diff(grade) != 0)).any():
        raise DataError(
            f"no query has judged documents of different grades ({n_excluded} of "
            f"{len(used)} judgments name queries or documents that are empty or not in the "
            "collections). Do the ids of the judgments match the ids of the collections?"
        )
    return GradePreferences(query, document, grade, n_excluded)


def preferences_from_table(
    queries: Collection, documents: Collection, query_ids: Any, preferred: Any, other: Any
) -> TablePreferences:
    """Return the preferences that a table of tuples lists.

    Parameters
    ----------
    queries, documents
        The collections.
    query_ids, preferred, other
        (n_tuples,) ids of the query, the preferred and the other document of each tuple.

    Raises
    ------
    DataError
        If every tuple has a query or document that is empty or not in the collections.
    """
    return _from_parts(queries, documents, [(query_ids, preferred, other)])


def _from_parts(
    queries: Collection, documents: Collection, parts: Iterable[Sequence[Any]]
) -> TablePreferences:
    """Like `preferences_from_table`, for a table that is read in parts."""
    found, n_tuples = [np.empty((3, 0), dtype=np.int64)], 0
    for query_ids, preferred, other in parts:
        query = queries.rows_of(query_ids)
        better, worse = documents.rows_of(preferred), documents.rows_of(other)
        used = _known(queries, query) & _known(documents, better) & _known(documents, worse)
        used &= better != worse
        found.append(np.stack([query, better, worse])[:, used])
        n_tuples += len(used)
    rows = np.concatenate(found, axis=1)
    if not rows.size:
        raise DataError(
            f"none of {n_tuples} tuples has a query and two different documents that are in the "
            "collections and not empty. Do the ids of the table match the ids of the collections?"
        )
    query, better, worse = rows[:, np.argsort(rows[0], kind="stable")]
    return TablePreferences(query, better, worse, n_tuples - rows.shape[1])


def check_rows(preferences: Preferences, queries: Collection, documents: Collection) -> None:
    """Raise DataError if the preferences name rows that the collections do not have."""
    if isinstance(preferences, SameClass):
        if queries is not documents:
            raise DataError("queries need judgments (qrels) or a table of tuples.")
        if len(preferences.classes) != documents.n_documents:
            raise DataError(
                f"the preferences are of {len(preferences.classes):,} documents, but there are "
                f"{documents.n_documents:,}: they were made of another collection."
            )
        return
    named = [preferences.query]
    named += (
        [preferences.document]
        if isinstance(preferences, GradePreferences)
        else [preferences.better, preferences.worse]
    )
    sides = (("queries", queries), ("documents", documents), ("documents", documents))
    for rows, (side, there) in zip(named, sides, strict=False):
        wrong = rows[(rows < 0) | (rows >= there.n_documents)]
        if len(wrong):
            raise DataError(
                f"the preferences name row {wrong[0]} of the {side}, but there are "
                f"{there.n_documents:,}: they were made of other collections."
            )


def read_qrels(path: AnyPlace, queries: Collection, documents: Collection) -> GradePreferences:
    """Preferences from a file of judgements, as `dranking.read_judgements` reads it.

    Raises
    ------
    DataError
        As `dranking.read_judgements` and `preferences_from_judgments`.
    """
    rows = read_judgements(path)
    query_ids, doc_ids = rows.query.to_pylist(), rows.document.to_pylist()
    return preferences_from_judgments(queries, documents, query_ids, doc_ids, rows.number)


def read_tuples(path: AnyPlace, queries: Collection, documents: Collection) -> TablePreferences:
    """Read preferences from a parquet table with ids in the columns query, preferred and other.

    Raises
    ------
    DataError
        If the file or a column is missing; and as `preferences_from_table` does.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["query", "preferred", "other"]
    place = as_place(path)
    check_no_table_format([place])
    try:
        with arrow_input(place) as opened:
            file = pq.ParquetFile(opened)
            missing = [name for name in names if name not in file.schema_arrow.names]
            if missing:
                raise DataError(
                    f"{path}: has no column {', '.join(missing)}; it needs {', '.join(names)}."
                )
            batches = file.iter_batches(TUPLES_AT_ONCE, columns=names, use_threads=False)
            parts = ([batch[name] for name in names] for batch in batches)
            return _from_parts(queries, documents, parts)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: no parquet table that can be read ({error}).") from error


def _known(collection: Collection, rows: Ints) -> NDArray[np.bool_]:
    return np.asarray((rows >= 0) & ~collection.is_empty[rows])
