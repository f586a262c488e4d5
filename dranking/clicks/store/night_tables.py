"""Nightly tables of counts: one parquet file for each night and bucket of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.errors import DataError
from dranking.files.arrow_tables import read_parquet
from dranking.files.checksums import checksum
from dranking.files.places import Place
from dranking.files.reading import read_bytes
from dranking.files.writing.atomic_files import put_part

QUERY: Final = "query"
DOCUMENT: Final = "document"
CONTEXT: Final = "context"
ARM: Final = "arm"
POSITION: Final = "position"
NIGHT: Final = "night"
USER: Final = "user"
IMPRESSIONS: Final = "impressions"
CLICKS: Final = "clicks"
SESSIONS: Final = "sessions"
OPEN: Final = "open"
WEIGHT_SUM: Final = "weight_sum"
WEIGHT_SQUARE_SUM: Final = "weight_square_sum"

IDS: Final = (QUERY, DOCUMENT, CONTEXT, ARM)
"""Columns of text, in the order of the keys."""

SORTED_BY: Final = (QUERY, DOCUMENT, CONTEXT, NIGHT, ARM, POSITION)
"""The keys of a row of counts in the order of `ClickCounts`; a table of users has `USER` last."""

WEIGHT_SUMS: Final = (WEIGHT_SUM, WEIGHT_SQUARE_SUM)


def write_table(root: Place, name: str, rows: pa.Table) -> str:
    """Write rows of counts as a file, and return its CRC-32C; the same rows give the same bytes.

    Parameters
    ----------
    root
        Directory to write to: `DirectoryCommit.root`.
    name
        Name of the file in it.
    rows
        The rows of one night and one bucket; the column of the night is absent.

    Raises
    ------
    UsageError
        If the root is a local directory that does not exist.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", write_page_checksum=True, write_statistics=False)
    content = bytes(sink.getvalue())
    put_part(root, name, content)
    return checksum(content)


def read_table(
    root: Place, name: str, expected: str, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read a file that `write_table` wrote; columns of text are dictionaries.

    Raises
    ------
    DataError
        If the file is missing, or is not what was written.
    """
    file = root / name
    remedy = "Restore the file from a copy, or build the click store anew."
    try:
        content = read_bytes(file)
        if checksum(content) != expected:
            raise DataError(f"{file}: damaged, its checksum differs. {remedy}")
        return read_parquet(pa.BufferReader(content), columns, IDS)
    except FileNotFoundError as error:
        raise DataError(f"{file}: is missing. {remedy}") from error
    except pa.ArrowException as error:
        raise DataError(f"{file}: cannot be read as parquet ({error}). {remedy}") from error


def join_nights(tables: Sequence[tuple[int, pa.Table]]) -> pa.Table:
    """Rows of several tables in the order of `ClickCounts`, with the index of the night."""
    parts = [
        table.append_column(NIGHT, pa.repeat(pa.scalar(night, pa.int64()), table.num_rows))
        for night, table in tables
    ]
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def counts_of(rows: pa.Table, nights: NDArray[np.datetime64]) -> tuple[ClickCounts, pa.Table]:
    """The counts in rows of `join_nights`, and these rows in the order of the counts.

    Parameters
    ----------
    rows
        At least one row; the keys of no two rows agree.
    nights
        (n_nights,) the nights, ascending.
    """
    names, codes = {}, {}
    for column in IDS:
        names[column], codes[column] = sorted_codes(rows.column(column))
    for column in (NIGHT, POSITION):
        codes[column] = rows.column(column).to_numpy().astype(np.int64)
    keys = [codes[column] for column in SORTED_BY]
    if USER in rows.column_names:
        keys.append(rows.column(USER).to_numpy())
    order = np.lexsort(keys[::-1])
    rows = rows.take(pa.array(order))
    index = {column: values[order] for column, values in codes.items()}
    sums = [rows.column(n).to_numpy() if n in rows.column_names else None for n in WEIGHT_SUMS]
    counts = ClickCounts(
        query_ids=names[QUERY],
        document_ids=names[DOCUMENT],
        contexts=tuple(names[CONTEXT].tolist()),
        arms=tuple(names[ARM].tolist()),
        nights=nights,
        impressions=rows.column(IMPRESSIONS).to_numpy(),
        clicks=rows.column(CLICKS).to_numpy(),
        weight_sum=sums[0],
        weight_square_sum=sums[1],
        sessions=_sessions(rows, index[QUERY], index[NIGHT], len(names[QUERY])),
        **index,
    )
    return counts, rows


def sorted_codes(column: pa.ChunkedArray) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """The distinct texts of a column, sorted, and the index of each row's text among them."""
    texts, codes = sorted_texts(column)
    return np.array(texts.to_pylist(), dtype=np.str_), codes


def sorted_texts(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """Like `sorted_codes`, with the texts as an Arrow array, which makes no Python objects."""
    values = pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
    codes = values.indices.to_numpy()
    is_used = np.zeros(len(values.dictionary), bool)
    is_used[codes] = True
    used = np.flatnonzero(is_used)
    texts = values.dictionary.take(pa.array(used))
    order = pc.sort_indices(texts).to_numpy()
    rank = np.empty(len(is_used), np.int64)
    rank[used[order]] = np.arange(len(order))
    return texts.take(pa.array(order)), rank[codes]


def _sessions(
    rows: pa.Table, query: NDArray[np.int64], night: NDArray[np.int64], n_queries: int
) -> NDArray[np.int64] | None:
    """(n_queries,) sessions of each query, from the first of its rows in each night.

    All rows of a query and a night hold the same number of sessions. None for counts by user, which
    do not have it.
    """
    if SESSIONS not in rows.column_names:
        return None
    n_nights = int(night.max(initial=0)) + 1
    _, first = np.unique(query * n_nights + night, return_index=True)
    sessions = rows.column(SESSIONS).to_numpy()[first]
    return np.bincount(query[first], sessions, n_queries).astype(np.int64)
