"""Groups of queries, such as segments or categories, for which measures are averaged apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.roles import QUERY_NAMES
from dranking.data.tables.ids import as_ids
from dranking.errors import DataError
from dranking.files.places import AnyPlace
from dranking.metrics.scores.read_scores import read_query_table

NO_VALUE = "(no value)"
"""Name of the group of the queries without a value."""

ALL = "all"
"""Name of all queries beside groups."""


Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class QueryGroups:
    """A value for each of some queries.

    Attributes
    ----------
    name
        Name of the values, such as that of their column.
    query, value
        (n,) pyarrow string arrays: distinct query ids, and their values, which may be null.
    """

    name: str
    query: pa.Array
    value: pa.Array

    def __repr__(self) -> str:
        return f"QueryGroups({self.name}: {len(self.query):,} queries)"

    @classmethod
    def of_rows(cls, name: str, rows: Iterable[tuple[Any, Any]], where: str) -> QueryGroups:
        """Values of queries from rows, in which the value of a query is constant.

        Parameters
        ----------
        name
            Name of the values.
        rows
            Pieces of the rows: query ids, and values of any type that can be a text.
        where
            Name of the rows in errors.

        Raises
        ------
        DataError
            If a query has two values.
        """
        pieces = []
        for ids, values in rows:
            query = as_ids(ids, "query ids", as_string=True)
            pieces.append(_distinct(pa.table({"query": query, "value": _as_texts(values, name)})))
        found = _distinct(pa.concat_tables(pieces))
        query, value = (found[column].combine_chunks() for column in ("query", "value"))
        counts = pc.value_counts(query)
        twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        if len(twice):
            both = value.filter(pc.equal(query, twice[0])).to_pylist()
            raise DataError(
                f"{where}: query {twice[0]} has several values of {name!r}, such as {both[0]!r} "
                f"and {both[1]!r}; the queries of a group need one value each."
            )
        return cls(name, query, value)

    @cached_property
    def no_value(self) -> str:
        """Name of the group of the queries without a value, which is the value of no query."""
        return free_name(NO_VALUE, self.value.to_pylist())

    def values_of(self, query_ids: pa.Array) -> pa.Array:
        """(n_queries,) value of each query as text, null where there is none.

        Raises
        ------
        DataError
            If no query has a value.
        """
        ids = query_ids.cast(pa.string())
        values = self.value.take(pc.index_in(ids, value_set=self.query))
        if values.null_count == len(values):
            raise DataError(
                f"none of the queries has a value of {self.name!r}: the queries are "
                f"{ids[0].as_py()!r} and so on, the values are those of "
                f"{self.query[0].as_py() if len(self.query) else 'no query'!r} and so on. Are the "
                "ids written alike?"
            )
        return values

    def labels(self, query_ids: pa.Array) -> NDArray[np.object_]:
        """(n_queries,) the same values; where there is none, `NO_VALUE` as a name of its own."""
        values = self.values_of(query_ids)
        return np.array(values.fill_null(self.no_value).to_pylist(), dtype=object)

    def rows(self, query_ids: pa.Array) -> dict[str, NDArray[np.int64]]:
        """Rows of the queries of each value: in the order of numbers or texts, no value last."""
        labels = self.labels(query_ids)
        order = sorted({*labels}, key=lambda label: (label == self.no_value, *_order(label)))
        return {label: np.flatnonzero(labels == label) for label in order}


def free_name(name: str, taken: Collection[Any]) -> str:
    """A name that is not taken, in as few parentheses as that needs."""
    return name if name not in taken else free_name(f"({name})", taken)


def and_all(parts: Mapping[str, Part], whole: Part) -> list[tuple[str, Part]]:
    """Groups by their name and, behind them, all queries, under a name that no group has."""
    return [*parts.items(), (free_name(ALL, parts), whole)]


def groups_of_queries(values: Any, name: str = "by") -> QueryGroups:
    """Groups from a mapping from query id to value, or from a pandas Series with such an index."""
    known = getattr(values, "name", None)
    pairs = [*values.items()]
    ids, found = ([pair[i] for pair in pairs] for i in (0, 1))
    return QueryGroups.of_rows(str(known or name), [(ids, found)], "the values of queries")


def read_query_groups(path: AnyPlace, column: str, qid: str = QUERY_NAMES[0]) -> QueryGroups:
    """Groups from CSV, JSON lines or parquet with a column of query ids and a column of values.

    Parameters
    ----------
    path
        The file, with a row for each query or several rows with one value.
    column
        Name of the column of values.
    qid
        Name of the column of query ids; if the file lacks it, the names that other tools give it.

    Raises
    ------
    DataError
        If the file is not there or of another form, lacks a column, or has two values of a query.
    """
    ids, values = read_query_table(path, column, qid)
    return QueryGroups.of_rows(column, [(ids, values)], str(path))


def is_mapping_of_queries(value: Any) -> bool:
    """Whether a value is a mapping from query id to value, or a pandas Series."""
    is_series = getattr(value, "ndim", 0) == 1 and hasattr(value, "items")
    return isinstance(value, Mapping) or is_series


def _distinct(table: pa.Table) -> pa.Table:
    return table.group_by(["query", "value"], use_threads=False).aggregate([])


def _as_texts(values: Any, name: str) -> pa.Array:
    """Values as texts; whole numbers without decimals, NaN and empty texts as null."""
    try:
        is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
        found = values if is_arrow else pa.array(values, from_pandas=True)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if pa.types.is_floating(found.type):
            numbers = found.to_numpy(zero_copy_only=False)
            return pa.array([_as_text(number) for number in numbers], pa.string())
        if pa.types.is_dictionary(found.type):
            found = found.dictionary.cast(pa.string()).take(found.indices)
        texts = found.cast(pa.string())
    except pa.ArrowException as error:
        raise DataError(f"the values of {name!r} cannot be texts ({error}).") from error
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _as_text(number: Any) -> str | None:
    """A number of NumPy with as few digits as tell it apart; None for NaN."""
    if np.isnan(number):
        return None
    return f"{number:.0f}" if number == np.floor(number) and abs(number) < 1e15 else str(number)


def _order(label: str) -> tuple[bool, float, str]:
    """Numbers by size, then texts."""
    try:
        number = float(label)
    except ValueError:
        number = np.nan
    is_number = bool(np.isfinite(number))
    return not is_number, number if is_number else 0.0, label
