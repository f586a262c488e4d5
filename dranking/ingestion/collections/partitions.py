"""Partitions of Dask collections as Arrow tables, and the lines that tell which queries they hold.

The functions run as tasks, where a partition lies.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.roles import Roles
from dranking.data.tables.given_rows import canonical_rows
from dranking.data.tables.ids import as_ids, check_no_null
from dranking.data.tables.numeric_values import arrow_numbers, as_float32, as_numbers, is_number
from dranking.errors import DataError

FEATURES, INDICES, VALUES = "features", "indices", "values"
"""Columns of features from arrays: fixed-size lists of dense rows, or two lists of sparse rows."""

Ints = NDArray[np.int64]


class Lines(NamedTuple):
    """The driver's summary of a part: one line for each of its queries, by first appearance.

    Attributes
    ----------
    ids
        (n_lines,) query ids, int64 or string.
    n_documents, n_unlabelled, n_values
        (n_lines,) int64 rows, rows without a grade, and stored values of sparse features.
    is_grouped
        Whether the rows of each query are adjacent.
    digest
        Digest of the part's content.
    schema
        Digest of the names and types of the part's columns.
    """

    ids: pa.Array
    n_documents: Ints
    n_unlabelled: Ints
    n_values: Ints
    is_grouped: bool
    digest: str
    schema: str


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of one partition.

    Attributes
    ----------
    table
        The rows.
    lines
        One line for each query.
    codes
        (n_rows,) the line of each row, or None if `lines.is_grouped`.
    """

    table: pa.Table
    lines: Lines
    codes: NDArray[np.int32] | None

    @property
    def line_of_row(self) -> NDArray[Any]:
        """(n_rows,) the line of each row."""
        if self.codes is not None:
            return self.codes
        return np.repeat(np.arange(len(self.lines.ids)), self.lines.n_documents)

    def __sizeof__(self) -> int:
        """Bytes of the rows, which Dask takes as the memory of a part."""
        return object.__sizeof__(self) + int(self.table.nbytes)


class ChunkForm(NamedTuple):
    """The form of the chunks of a dask array: number of columns, and whether rows are sparse."""

    width: int
    is_sparse: bool

    def check(self, number: int, chunk: Any) -> None:
        """Raise DataError if a chunk is of another form."""
        shape = np.shape(chunk)
        if len(shape) != 2 or shape[1] != self.width:
            raise DataError(
                f"chunk {number} of X has shape {shape}, and X says (n_documents, {self.width}); "
                "give the function or the delayed value that makes the chunks their true shape."
            )
        if sparse.issparse(chunk) != self.is_sparse:
            declared = "sparse" if self.is_sparse else "dense"
            raise DataError(
                f"chunk {number} of X is of type {type(chunk).__name__}, and X says that chunks "
                f"are {declared}; pass meta=, an empty array of the true type, where X is made."
            )


def make_part(
    number: int,
    roles: Roles,
    X: Any,
    y: Any = None,
    qid: Any = None,
    form: ChunkForm | None = None,
) -> Part:
    """One partition as a part.

    Parameters
    ----------
    number
        Position of the partition, for errors.
    roles
        Names of the columns that are not features. If `qid` is given, query ids and grades are
        added under these names.
    X
        A pandas DataFrame, or (n_rows, n_features) array or `scipy.sparse` rows of numbers.
    y, qid
        (n_rows,) grades and query ids. None if they are columns of `X`.
    form
        What the dask array says of its chunks; None for a DataFrame.

    Raises
    ------
    DataError
        If the chunk is of another form than the array says, lengths differ, an id is missing, or
        the rows cannot become an Arrow table.
    """
    if form is not None:
        form.check(number, X)
    X = canonical_rows(X) if sparse.issparse(X) else X
    table = _as_table(X)
    if qid is not None:
        columns = {roles.qid: as_ids(qid, "qid")}
        if roles.relevance is not None:
            columns[roles.relevance] = pa.array(as_numbers(y, "y"))
        for name, column in columns.items():
            if len(column) != table.num_rows:
                raise DataError(
                    f"partition {number}: {name} has {len(column)} entries for {table.num_rows} "
                    "rows of X; give collections with the same chunks of rows, or one frame."
                )
            table = table.append_column(name, column)
    stored = np.diff(X.indptr) if sparse.issparse(X) else None
    table = _narrowed(table, roles)
    lines, codes = _lines_of(number, table, roles, stored)
    return Part(table, lines, None if lines.is_grouped else codes)


def lines_of(part: Part) -> Lines:
    """The lines of a part, which the driver receives."""
    return part.lines


def schema_of(part: Part) -> pa.Schema:
    """Names and types of the columns of a part."""
    return part.table.schema


def _as_table(X: Any) -> pa.Table:
    if hasattr(X, "columns"):
        try:
            table = pa.Table.from_pandas(X.rename(columns=str), preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(
                "two columns of the dask DataFrame have one name, or a column mixes types "
                f"({error})."
            ) from error
        return table.replace_schema_metadata(None)
    if sparse.issparse(X):
        return _sparse_table(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)  # masked is missing, as in memory
    array = np.ascontiguousarray(X)
    if array.dtype.kind not in "biuf":
        raise DataError(f"X is of type {array.dtype}; features are numbers.")
    array = _float32_if_finite(array)
    flat = pa.array(array.ravel())
    return pa.table({FEATURES: pa.FixedSizeListArray.from_arrays(flat, array.shape[1])})


def _sparse_table(matrix: Any) -> pa.Table:
    ptr = pa.array(matrix.indptr.astype(np.int64))
    columns = {
        INDICES: matrix.indices.astype(np.int64),
        VALUES: _float32_if_finite(matrix.data),
    }
    lists = {n: pa.LargeListArray.from_arrays(ptr, pa.array(v)) for n, v in columns.items()}
    return pa.table(lists)


def _float32_if_finite(values: NDArray[Any]) -> NDArray[Any]:
    """Half the memory; values that cannot be features stay as they are, for the error."""
    cast, invalid = as_float32(values)
    return cast if invalid is None else values


def _narrowed(table: pa.Table, roles: Roles) -> pa.Table:
    """The table with columns of float64 as float32, where all values can be features."""
    for position, field in enumerate(table.schema):
        if field.name in roles.names or not pa.types.is_float64(field.type):
            continue
        values, invalid = as_float32(arrow_numbers(table.column(position)))
        if invalid is None:
            table = table.set_column(position, field.name, pa.array(values))
    return table


def _lines_of(
    number: int, table: pa.Table, roles: Roles, stored: Ints | None
) -> tuple[Lines, NDArray[np.int32]]:
    def place(row: int) -> str:
        return f"partition {number}, row {row}"

    ids = as_ids(table.column(roles.qid), roles.qid, place=place)
    check_no_null(ids, roles.qid, place)
    encoded = ids.dictionary_encode()
    codes, n_lines = encoded.indices.to_numpy(), len(encoded.dictionary)
    is_grouped = bool((np.diff(codes) >= 0).all())  # codes count by first appearance
    lines = Lines(
        ids=encoded.dictionary,
        n_documents=_count(codes, n_lines),
        n_unlabelled=_count(codes, n_lines, _is_unlabelled(table, roles.relevance)),
        n_values=_count(codes, n_lines, np.zeros(len(codes)) if stored is None else stored),
        is_grouped=is_grouped,
        digest=_digest(table),
        schema=hashlib.blake2b(table.schema.serialize(), digest_size=16).hexdigest(),
    )
    return lines, codes


def _count(codes: NDArray[Any], n_lines: int, weights: NDArray[Any] | None = None) -> Ints:
    return np.bincount(codes, weights, n_lines).astype(np.int64)


def _is_unlabelled(table: pa.Table, relevance: str | None) -> NDArray[np.bool_]:
    if relevance is None:
        return np.ones(table.num_rows, dtype=bool)
    column = table.column(relevance)
    if not is_number(column.type):
        return np.zeros(table.num_rows, dtype=bool)  # `find_layout` refuses the column
    return np.isnan(arrow_numbers(column).astype(np.float64))


class _Hash:
    """A file that keeps a digest of what is written to it."""

    closed = False

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""


def _digest(table: pa.Table) -> str:
    """Digest of the values of a table, without a copy of the table."""
    file = _Hash()
    with pa.ipc.new_stream(pa.PythonFile(file, "w"), table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return file.digest.hexdigest()
