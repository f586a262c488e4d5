"""Parquet files in folders ``key=value``, as Hive, Spark and Dask write them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.parquet.listing import list_parquet, parts_below
from dranking.data.parquet.part import (
    ParquetPart,
    column_bytes,
    column_ranges,
    read_footer,
    vector_widths,
)
from dranking.data.parquet.where import matching
from dranking.data.roles import DEFAULT_COLUMNS, Columns
from dranking.data.tables.columns import Layout
from dranking.data.tables.lost_digits import (
    Origins,
    Range,
    check_raw,
    may_lose_digits,
    no_lists,
    origins_of,
)
from dranking.data.tables.vectors import with_elements
from dranking.errors import DataError, listed
from dranking.files.places import AnyPlace, Place, as_place, is_local
from dranking.files.reading import at_once
from dranking.files.table_formats import check_no_table_format

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Value in a folder's name that stands for a missing one."""


class FoundFile(NamedTuple):
    """A file, and the values of the folders ``key=value`` that it lies in, by key."""

    place: Place
    folders: Mapping[str, str]


class ReadFooter(NamedTuple):
    """A file with its number of rows, and its serialized Arrow schema; and facts of its columns.

    `column_bytes` are those of `dranking.data.parquet.part`, and 0 for columns that the file does
    not hold. `column_ranges` are None for most of many files: a few tell how far values lie.
    """

    part: ParquetPart
    schema: bytes
    column_bytes: NDArray[np.int64]
    column_ranges: NDArray[np.float64] | None


def find_files(sources: Sequence[AnyPlace], where: str | None) -> list[FoundFile]:
    """Parquet files of several places, in order, whose folders fulfil a condition.

    Parameters
    ----------
    sources
        Files, or folders, whose files and folders are read in natural order.
    where
        A condition on the values of folders, see `dranking.data.parquet.where`; None for all files.

    Raises
    ------
    DataError
        If there are no files, or they belong to a Delta, Iceberg or Hudi table.
    UsageError
        If the condition cannot be read.
    """
    roots = [as_place(source) for source in sources]
    check_no_table_format(roots)
    found = [
        FoundFile(file, folder_values(parts_below(file, root)[:-1] if file != root else ()))
        for root in roots
        for file in list_parquet(root)
    ]
    check_no_table_format(_links(found))
    if where is None:
        return found
    kept = matching(where, [file.folders for file in found])
    chosen = [file for file, keep in zip(found, kept, strict=True) if keep]
    if not chosen:
        raise DataError(f"--where {where!r}: none of {len(found)} files lies in such folders.")
    return chosen


def _links(files: Sequence[FoundFile]) -> list[Place]:
    """The local files and their folders that are links, or lie behind one."""
    local = [file.place for file in files if is_local(file.place)]
    folders = dict.fromkeys(place.parent for place in local)
    behind = [folder for folder in folders if os.path.realpath(folder) != os.path.abspath(folder)]
    return [*behind, *(place for place in local if place.is_symlink())]


def folder_values(names: Sequence[str]) -> dict[str, str]:
    """Values by key of folders named ``key=value``; both are URL-escaped."""
    pairs = [name.split("=", 1) for name in names if "=" in name]
    return {unquote(key): unquote(value) for key, value in pairs if value != DEFAULT_PARTITION}


def read_footers(
    files: Sequence[FoundFile], columns: Columns = DEFAULT_COLUMNS
) -> list[ReadFooter]:
    """Read the footers of some files: a task. Files behind URLs are read side by side.

    Parameters
    ----------
    files
        The files.
    columns
        The roles that the caller gives to columns. The values of folders that are features must be
        numbers. To find origins, the ranges of columns are those of all rows, otherwise of a few
        files and row groups.

    Raises
    ------
    DataError
        If a file cannot be read, lies in no folder with such a key, or has a column of that name.
    """
    of_all = columns.origins == "auto"
    read = partial(_read_footer, columns=columns)
    ends = {0, len(files) - 1}
    numbered = [(file, of_all or number in ends) for number, file in enumerate(files)]
    if all(is_local(file.place) for file in files):
        return [read(each) for each in numbered]
    return at_once(read, numbered)


def _read_footer(file_and_ranges: tuple[FoundFile, bool], columns: Columns) -> ReadFooter:
    file, has_ranges = file_and_ranges
    footer = read_footer(file.place)
    schema = footer.schema
    constants = tuple((key, _number(file, key, schema)) for key in columns.folder_features)
    for key, _ in constants:
        schema = schema.append(pa.field(key, pa.float64()))
    widths = vector_widths(footer, columns)
    part = replace(footer.part, constants=constants, vectors=tuple(widths.items()))
    n_bytes = np.append(column_bytes(footer), np.zeros(len(constants), np.int64))
    ranges = column_ranges(footer, columns.origins == "auto") if has_ranges else None
    if widths:
        of_each = np.array([widths.get(name, 1) for name in schema.names])
        n_bytes = np.repeat(n_bytes // of_each, of_each)
        ranges = None if ranges is None else np.repeat(ranges, of_each[: len(ranges)], axis=0)
        schema = with_elements(schema, widths)
    return ReadFooter(part, schema.serialize().to_pybytes(), n_bytes, ranges)


def ranges_of(footers: Sequence[ReadFooter], names: Sequence[str]) -> dict[str, Range]:
    """Range of the values of some columns in the files whose footers were asked for ranges.

    It is (NaN, NaN) for columns of which some footer does not know it; columns without any value
    have none.
    """
    by_schema: dict[bytes, NDArray[np.float64]] = {}
    for footer in footers:
        ends = footer.column_ranges
        if ends is not None:
            known = by_schema.get(footer.schema, ends)
            low, high = np.minimum(known[:, 0], ends[:, 0]), np.maximum(known[:, 1], ends[:, 1])
            by_schema[footer.schema] = np.stack([low, high], axis=1)
    ends_of: dict[str, list[Range]] = {}
    for schema, ranges in by_schema.items():
        there = pa.ipc.read_schema(pa.py_buffer(schema))
        # Columns of folders come last in the schema, and the file does not hold them.
        for field, (low, high) in zip(there, ranges.tolist(), strict=False):
            if may_lose_digits(field.type) and not low > high:
                ends_of.setdefault(field.name, []).append((low, high))
    for footer in footers:
        for key, value in footer.part.constants:
            ends_of.setdefault(key, []).append((value, value))
    found = {name: np.array(ends_of[name]) for name in names if name in ends_of}
    return {n: (float(e[:, 0].min()), float(e[:, 1].max())) for n, e in found.items()}


def with_origins(layout: Layout, footers: Sequence[ReadFooter], wanted: Origins) -> Layout:
    """The layout with the numbers to subtract from columns; see `origins_of`.

    Raises
    ------
    UsageError
        If origins are to be found in lists.
    DataError
        If origins are to be found in columns whose range the footers do not know, or known ones
        subtracted from columns without raw values.
    """
    where = footers[0].part.name
    if layout.width is not None:
        if wanted == "auto":
            raise no_lists(where)
        return layout
    if wanted and wanted != "auto":
        first_with = {footer.schema: footer.part.name for footer in reversed(footers)}
        for schema, name in first_with.items():
            check_raw(pa.ipc.read_schema(pa.py_buffer(schema)), layout.columns, wanted, name)
    ranges = ranges_of(footers, layout.columns)
    unknown = [name for name, (low, _) in ranges.items() if np.isnan(low)]
    if unknown and wanted == "auto":
        raise DataError(
            f"{where}: shift looks for the least value of each column in the statistics of the "
            f"files, and there is none of {listed(unknown)}. Write the files with statistics, or "
            "give the table in memory."
        )
    found = origins_of(ranges, layout.columns, wanted, where)
    return replace(layout, origins=found)


def _number(file: FoundFile, key: str, schema: pa.Schema) -> float:
    if key in schema.names:
        raise DataError(
            f"{file.place}: has a column {key!r}, so the folder {key}=... cannot be a feature."
        )
    try:
        return float(file.folders[key])
    except KeyError as error:
        raise DataError(f"{file.place}: lies in no folder {key}=...") from error
    except ValueError as error:
        raise DataError(
            f"{file.place}: the folder {key}={file.folders[key]} is not a number, so it cannot be "
            "a feature."
        ) from error
