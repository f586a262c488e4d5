"""Preferences over a collection: which document a query prefers to which; never spelled out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.texts.collection import Collection
from dranking.errors import DataError
from dranking.files.commit import AnyPath

Ints = NDArray[np.int64]

TUPLES_AT_ONCE = 2**20
"""Rows of a table of tuples that are in memory with their ids."""


@dataclass(frozen=True, eq=False)
class SameClass:
    """A document as query prefers another one of its class to one of any other class.

    Attributes
    ----------
    classes
        (n_documents,) class of each document; -1 for one that takes no part.
    n_left_out
        Documents that are empty, or alone in their class.
    """

    classes: Ints
    n_left_out: int


@dataclass(frozen=True, eq=False)
class Judged:
    """Graded judgments: a query prefers a document to one with a lower grade.

    Attributes
    ----------
    query, document
        (n_judgments,) rows, by query ascending.
    grade
        (n_judgments,) float64.
    n_left_out
        Judgments of queries or documents that are empty or not there.
    """

    query: Ints
    document: Ints
    grade: NDArray[np.float64]
    n_left_out: int


@dataclass(frozen=True, eq=False)
class Tabled:
    """A table of tuples.

    Attributes
    ----------
    query, better, worse
        (n_tuples,) rows, by query ascending.
    n_left_out
        Tuples of queries or documents that are empty or not there.
    """

    query: Ints
    better: Ints
    worse: Ints
    n_left_out: int


Preferences: TypeAlias = SameClass | Judged | Tabled


def same_class(documents: Collection) -> SameClass:
    """Preferences from the classes of a collection.

    Raises
    ------
    DataError
        If the collection has no classes, or fewer than two with documents to compare.
    """
    if documents.classes is None:
        raise DataError(
            "the collection has no classes; give labels, or judgments (qrels) or a table of tuples."
        )
    classes = np.where(documents.is_empty, -1, documents.classes)
    sizes = np.bincount(classes[classes >= 0], minlength=len(documents.class_names))
    # One that is alone in its class has no document to prefer; it stays one not to prefer, but
    # to draw it only as such would weigh it more than others.
    classes = np.where((classes >= 0) & (sizes[classes] < 2), -1, classes)
    if len(np.unique(classes[classes >= 0])) < 2:
        raise DataError(
            f"{int((sizes >= 2).sum())} of {len(sizes)} classes have two documents that are not "
            "empty; preferences need two such classes."
        )
    return SameClass(classes, int((classes < 0).sum()))


def judged(
    queries: Collection, documents: Collection, query_ids: Any, doc_ids: Any, grades: Any
) -> Judged:
    """Preferences from judgments.

    Parameters
    ----------
    queries, documents
        What is judged.
    query_ids, doc_ids
        (n_judgments,) ids in them.
    grades
        (n_judgments,) numbers, higher is better.

    Raises
    ------
    DataError
        If a grade is no finite number, a document is judged twice for a query, or no query has
        two documents of different grades.
    """
    grade = np.asarray(grades, dtype=np.float64)
    if not np.isfinite(grade).all():
        raise DataError(f"judgment {int(np.flatnonzero(~np.isfinite(grade))[0])} has no grade.")
    query, document = queries.rows_of(query_ids), documents.rows_of(doc_ids)
    used = _known(queries, query) & _known(documents, document)
    left_out = int((~used).sum())
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
            f"no query has judged documents of different grades ({left_out} of "
            f"{len(used)} judgments are of documents or queries that are empty or not there). "
            "Do the ids of the judgments match those of the collections?"
        )
    return Judged(query, document, grade, left_out)


def tabled(
    queries: Collection, documents: Collection, query_ids: Any, preferred: Any, other: Any
) -> Tabled:
    """Preferences from a table of tuples.

    Parameters
    ----------
    queries, documents
        What they are of.
    query_ids, preferred, other
        (n_tuples,) ids in them.

    Raises
    ------
    DataError
        If no tuple is of queries and documents that are there and not empty.
    """
    return _tabled(queries, documents, [(query_ids, preferred, other)])


def _tabled(queries: Collection, documents: Collection, parts: Iterable[Sequence[Any]]) -> Tabled:
    """The same of a table in parts."""
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
            f"none of {n_tuples} tuples is of queries and documents that are there. Do the ids "
            "of the table match those of the collections?"
        )
    query, better, worse = rows[:, np.argsort(rows[0], kind="stable")]
    return Tabled(query, better, worse, n_tuples - rows.shape[1])


def check_rows(preferences: Preferences, queries: Collection, documents: Collection) -> None:
    """Raise DataError unless preferences are of rows that these collections have."""
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
        if isinstance(preferences, Judged)
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


def read_qrels(path: AnyPath, queries: Collection, documents: Collection) -> Judged:
    """Preferences from a TREC qrels file: query, iteration, document and grade in each line.

    Raises
    ------
    DataError
        If a line is not of this form, with its number; and as `judged` does.
    """
    judgments: list[tuple[str, str, float]] = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    judgments.append(_judgment(line, f"{path}:{number}"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    if not judgments:
        raise DataError(f"{path}: holds no judgment.")
    query_ids, doc_ids, grades = zip(*judgments, strict=True)
    return judged(queries, documents, query_ids, doc_ids, grades)


def read_tuples(path: AnyPath, queries: Collection, documents: Collection) -> Tabled:
    """Preferences from a parquet table with the columns query, preferred and other: ids.

    Raises
    ------
    DataError
        If the file or a column is not there; and as `tabled` does.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["query", "preferred", "other"]
    try:
        file = pq.ParquetFile(path)
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            raise DataError(
                f"{path}: has no column {', '.join(missing)}; wanted: {', '.join(names)}."
            )
        batches = file.iter_batches(TUPLES_AT_ONCE, columns=names)
        return _tabled(queries, documents, ([batch[name] for name in names] for batch in batches))
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: no parquet table that can be read ({error}).") from error


def _judgment(line: str, place: str) -> tuple[str, str, float]:
    try:
        query, _, document, grade = line.split()
        return query, document, float(grade)
    except ValueError as error:
        text = line.strip()[:80]
        raise DataError(f"{place}: {text!r} is not 'query 0 document grade'.") from error


def _known(collection: Collection, rows: Ints) -> NDArray[np.bool_]:
    return np.asarray((rows >= 0) & ~collection.is_empty[rows])
