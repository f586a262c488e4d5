"""A number for each of some pairs of a query and a document: scores of a run, or judgements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.roles import DOCUMENT_NAMES, GRADE_NAMES, QUERY_NAMES
from dranking.data.tables.any_table import as_table
from dranking.data.tables.ids import as_ids, check_no_null
from dranking.data.tables.numeric_values import as_numbers
from dranking.errors import DataError, quoted

SCORE_NAMES: Final = ("score",)
"""Columns of scores."""

NO_IDS: Final = pa.array([], pa.string())


@dataclass(frozen=True, eq=False)
class Rows:
    """A number for each of some pairs of a query and a document.

    Attributes
    ----------
    query, document
        (n,) pyarrow string arrays of ids, without nulls.
    number
        (n,) float64 scores or grades, none of which is NaN.
    where
        Name of the rows in errors.
    place
        Describes the place of a row, for errors.
    empty
        Ids of the queries that are there without any document.
    """

    query: pa.Array
    document: pa.Array
    number: NDArray[np.float64]
    where: str
    place: Callable[[int], str]
    empty: pa.Array = field(default_factory=lambda: NO_IDS)

    def __post_init__(self) -> None:
        if not len(self.number) + len(self.empty):
            raise DataError(f"{self.where}: there are no rows.")
        for name, ids in (("query id", self.query), ("document id", self.document)):
            # An empty field of CSV is an empty text.
            check_no_null(pc.if_else(pc.equal(ids, ""), None, ids), name, self.place)
        wrong = np.flatnonzero(np.isnan(self.number))
        if len(wrong):
            at = int(wrong[0])
            raise DataError(
                f"{self.place(at)}: document {self.document[at]} of query {self.query[at]} has no "
                "number (NaN); give it one, or leave it out."
            )

    @cached_property
    def coded(self) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
        """Query ids and document ids as dictionaries; the former has the empty queries, too.

        Raises
        ------
        DataError
            If a document stands twice for a query; the message names both places.
        """
        queries = pa.concat_arrays([self.query, self.empty]).dictionary_encode()
        query, document = queries[: len(self.query)], self.document.dictionary_encode()
        keys = query.indices.to_numpy().astype(np.int64) * len(document.dictionary)
        keys += document.indices.to_numpy()
        ordered = np.sort(keys)
        if (ordered[1:] == ordered[:-1]).any():
            order = np.argsort(keys, kind="stable")
            second = int(order[1:][ordered[1:] == ordered[:-1]].min())
            first = int(np.argmax(keys == keys[second]))
            raise DataError(
                f"{self.place(second)}: document {self.document[second]} of query "
                f"{self.query[second]} occurs again (first at {self.place(first)}); keep one of "
                "the two."
            )
        return query, document

    def check_finite(self, number: str) -> None:
        """Raise DataError for the first number, such as a grade, that is not finite."""
        wrong = np.flatnonzero(~np.isfinite(self.number))
        if len(wrong):
            at = int(wrong[0])
            raise DataError(
                f"{self.place(at)}: document {self.document[at]} of query {self.query[at]} has the "
                f"{number} {self.number[at]:g}; a {number} is a finite number here."
            )

    def __repr__(self) -> str:
        return f"Rows({len(self.number):,} documents of {self.where})"


def rows_of_table(table: Any, names: Sequence[Sequence[str]], where: str) -> Rows:
    """Rows of a table of any library.

    Parameters
    ----------
    table
        The table.
    names
        Names that the columns of query ids, document ids and numbers may have, the first first.
    where
        Name of the table in errors.

    Raises
    ------
    DataError
        If a column is missing or of a wrong type, or a value is missing.
    """
    rows = as_table(table)

    def column(known: Sequence[str], what: str) -> Any:
        found = first_of(known, rows.column_names)
        if found is None:
            raise DataError(
                f"{where}: there is no column of {what} ({quoted(known)}); the columns are "
                f"{quoted(rows.column_names)}. Rename one."
            )
        return rows[found]

    def place(row: int) -> str:
        return f"{where}, row {row}"

    query, document = (
        as_ids(column(known, what), what, as_string=True, place=place)
        for known, what in zip(names, ("query ids", "document ids"), strict=False)
    )
    numbers = as_numbers(column(names[2], "numbers"), "the column of numbers")
    return Rows(query, document, numbers, where, place)


def rows_of_dictionaries(by_query: Mapping[Any, Mapping[Any, Any]], where: str) -> Rows:
    """Rows of a dictionary from query to document to number, as pytrec_eval and ranx take it.

    Raises
    ------
    DataError
        If a value is no dictionary of numbers.
    """
    for query, documents in by_query.items():
        if not isinstance(documents, Mapping):
            raise DataError(
                f"{where}: query {query!r} has a {type(documents).__name__}; give each query a "
                "dictionary from document to number. (A model is measured on data with features.)"
            )
    sizes = [len(documents) for documents in by_query.values()]
    queries = _ids(list(by_query), "query ids")
    try:
        numbers = np.fromiter(chain.from_iterable(d.values() for d in by_query.values()), float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: a document has no number ({error}).") from error
    query = queries.take(pa.array(np.repeat(np.arange(len(sizes)), sizes)))
    empty = queries.filter(pa.array(np.array(sizes, dtype=np.int64) == 0))
    documents = _ids(list(chain.from_iterable(by_query.values())), "document ids")
    return Rows(query, documents, numbers, where, lambda row: f"{where}, entry {row}", empty)


def _ids(values: list[Any], what: str) -> pa.Array:
    """Ids of a list as strings; an array of Arrow takes less time than one of NumPy."""
    try:
        return as_ids(pa.array(values), what, as_string=True)
    except pa.ArrowException:
        return as_ids(values, what, as_string=True)


def are_judgement_columns(
    columns: Iterable[Any],
    names: Sequence[str] = (),
    further: Collection[str] = (),
    *,
    can_be_rows: bool = True,
) -> bool:
    """Whether columns are a query id, a document id and a grade, and perhaps the iteration.

    `names` are other names of the three, in this order, `further` names of columns beside them.
    Columns that can be rows with features, and have the query id of such rows, are rows with or
    without groups: there no further column makes them judgements.
    """
    names_of_columns = [str(name) for name in columns]
    if can_be_rows and [*names, *QUERY_NAMES][0] in names_of_columns:
        further = ()
    surplus = surplus_columns(names_of_columns, names)
    return surplus is not None and not {*surplus} - {*further}


def surplus_columns(columns: Iterable[Any], names: Sequence[str] = ()) -> list[str] | None:
    """Columns beside those of judgements, also under `names`; None if one of these is missing."""
    left = [str(name) for name in columns]
    for at, known in enumerate((QUERY_NAMES, DOCUMENT_NAMES, GRADE_NAMES)):
        name = first_of([*names[at : at + 1], *known], left)
        if name is None:
            return None
        left.remove(name)
    return [name for name in left if name not in ("iteration", "iter")]


def first_of(names: Sequence[str], present: Collection[str]) -> str | None:
    """The first of some names that is present."""
    return next((name for name in names if name in present), None)
