"""Values of measures per query, as a table that can be stored and compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.roles import DOCUMENT_NAMES
from dranking.errors import DataError, UsageError, listed
from dranking.files.arrow_tables import read_parquet
from dranking.files.places import AnyPlace, as_place, is_local
from dranking.files.reading import arrow_input
from dranking.files.requests import request
from dranking.files.writing.atomic_files import atomic_path
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention, get_convention
from dranking.metrics.evaluate import Summary, aggregate, evaluate_queries

ID_COLUMN = "query_id"
WEIGHT_COLUMN = "weight"
CONVENTION_KEY = b"dranking.convention"


@dataclass(frozen=True, eq=False)
class PerQuery:
    """Values of measures for each query.

    Attributes
    ----------
    query_ids
        (n_queries,) pyarrow array, int64 or string.
    values
        (n_queries,) float64 values of each measure; NaN where the query does not count.
    weights
        (n_queries,) float64 query weights; None if all weights are 1.
    convention
        Name of the convention of the values; None if unknown.
    """

    query_ids: pa.Array
    values: dict[str, NDArray[np.float64]]
    weights: NDArray[np.float64] | None = None
    convention: str | None = None

    def __post_init__(self) -> None:
        columns = dict(self.values)
        if self.weights is not None:
            columns[WEIGHT_COLUMN] = self.weights
        for name, column in columns.items():
            if len(column) != self.n_queries:
                raise ValueError(
                    f"{name} has {len(column)} entries for {self.n_queries} query ids."
                )

    def __repr__(self) -> str:
        return f"PerQuery({self.n_queries:,} queries: {', '.join(self.values)})"

    @classmethod
    def of_block(
        cls,
        block: QueryBlock,
        scores: ArrayLike,
        measures: Sequence[str],
        convention: str | Convention = DEFAULT_CONVENTION,
        retrieved: NDArray[np.bool_] | None = None,
    ) -> PerQuery:
        """Evaluate one block, with the parameters and errors of `evaluate_queries`."""
        return cls(
            query_ids=block.query_ids,
            values=evaluate_queries(block, scores, measures, convention, retrieved),
            weights=block.query_weights,
            convention=get_convention(convention).name,
        )

    @classmethod
    def concatenate(cls, parts: Iterable[PerQuery]) -> PerQuery:
        """Join the values of blocks, in block order.

        Raises
        ------
        DataError
            If there is no block.
        """
        tables = tuple(parts)
        if not tables:
            raise DataError("there are no queries to evaluate.")
        weights = None
        if any(t.weights is not None for t in tables):
            weights = np.concatenate(
                [np.ones(t.n_queries) if t.weights is None else t.weights for t in tables]
            )
        return cls(
            query_ids=pa.concat_arrays([t.query_ids for t in tables]),
            values={
                name: np.concatenate([t.values[name] for t in tables]) for name in tables[0].values
            },
            weights=weights,
            convention=tables[0].convention,
        )

    @property
    def n_queries(self) -> int:
        """Number of queries, including queries that do not count."""
        return len(self.query_ids)

    def take(self, rows: NDArray[np.int64]) -> PerQuery:
        """The values of the queries at `rows`, in that order."""
        return PerQuery(
            query_ids=self.query_ids.take(pa.array(rows)),
            values={name: values[rows] for name, values in self.values.items()},
            weights=None if self.weights is None else self.weights[rows],
            convention=self.convention,
        )

    def counting(self, measure: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values of a measure and weights of the queries that have a value and a weight above 0."""
        values = self.values[measure]
        weights = np.ones(self.n_queries) if self.weights is None else self.weights
        counts = np.isfinite(values) & (weights > 0)
        return values[counts], weights[counts]

    def summary(self) -> Summary:
        """Weighted means of the measures over the queries that count."""
        return aggregate(self.values, self.weights)

    def to_table(self) -> pa.Table:
        """The values as a pyarrow table: ``query_id``, ``weight`` unless None, and the measures."""
        columns = {ID_COLUMN: self.query_ids}
        if self.weights is not None:
            columns[WEIGHT_COLUMN] = pa.array(self.weights)
        columns |= {name: pa.array(values) for name, values in self.values.items()}
        table = pa.table(columns)
        if self.convention is None:
            return table
        return table.replace_schema_metadata({CONVENTION_KEY: self.convention.encode()})


def per_query_of(result: Any) -> PerQuery:
    """Values of queries, as they are or out of the result of `evaluate`.

    Raises
    ------
    UsageError
        If the result is something else.
    """
    found = getattr(result, "per_query", result)
    if isinstance(found, PerQuery):
        return found
    raise UsageError(
        f"a {type(result).__name__} holds no values of queries; give judged data to measure it on, "
        "dranking.compare(a, b, data), or what dranking.evaluate gives for each of the two."
    )


def write_per_query(path: AnyPlace, per_query: PerQuery, overwrite: bool = False) -> None:
    """Write per-query values as a parquet file, whole or not at all.

    Raises
    ------
    UsageError
        If the file exists and `overwrite` is false.
    """
    with atomic_path(path, overwrite=overwrite) as temporary:
        pq.write_table(per_query.to_table(), temporary, write_page_checksum=True)


def is_per_query(path: AnyPlace) -> bool:
    """Whether a parquet file with values of queries, not scores of documents, is at a path."""
    place = as_place(path)
    if is_local(place) and not request(place, place.is_file):
        return False
    try:
        with arrow_input(place) as file:
            names = pq.read_schema(file).names
    except (OSError, pa.ArrowException):
        return False
    return ID_COLUMN in names and not {"score", *DOCUMENT_NAMES} & {*names}


def read_per_query(path: AnyPlace) -> PerQuery:
    """Read a file that `write_per_query` wrote.

    Raises
    ------
    DataError
        If the file does not exist, is not parquet, or does not hold per-query values.
    """
    try:
        with arrow_input(as_place(path)) as file:
            table = read_parquet(file)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot read per-query values: {error}") from error
    names = [n for n in table.column_names if n not in (ID_COLUMN, WEIGHT_COLUMN)]
    numeric = all(pa.types.is_floating(table.schema.field(n).type) for n in names)
    if ID_COLUMN not in table.column_names or not names or not numeric:
        raise DataError(
            f"{path}: not a table of per-query values: the file needs a column {ID_COLUMN!r} and a "
            f"column of floats for each measure, but has "
            f"{listed(table.column_names) or 'no column'}."
        )

    def column(name: str) -> NDArray[np.float64]:
        return np.asarray(table[name].to_numpy(), dtype=np.float64)

    weighted = WEIGHT_COLUMN in table.column_names
    metadata = table.schema.metadata or {}
    ids = table[ID_COLUMN].combine_chunks()
    return PerQuery(
        query_ids=ids.cast(pa.int64() if pa.types.is_integer(ids.type) else pa.string()),
        values={name: column(name) for name in names},
        weights=column(WEIGHT_COLUMN) if weighted else None,
        convention=metadata[CONVENTION_KEY].decode() if CONVENTION_KEY in metadata else None,
    )
