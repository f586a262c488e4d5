"""Parquet files in folders ``key=value``, as Hive, Spark and Dask write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from dranking.data.parquet.files import (
    ParquetPart,
    list_parquet,
    parts_below,
    read_part,
    read_schema,
)
from dranking.data.parquet.where import matching
from dranking.errors import DataError
from dranking.files.places import AnyPlace, Place, as_place

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Value in a folder's name that stands for a missing one."""


class FoundFile(NamedTuple):
    """A file, and the values of the folders ``key=value`` that it lies in, by key."""

    place: Place
    folders: Mapping[str, str]


class ReadFooter(NamedTuple):
    """A file with its number of rows, and its serialized Arrow schema."""

    part: ParquetPart
    schema: bytes


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
        If there are no files.
    UsageError
        If the condition cannot be read.
    """
    found = [
        FoundFile(file, folder_values(parts_below(file, root)[:-1] if file != root else ()))
        for root in map(as_place, sources)
        for file in list_parquet(root)
    ]
    if where is None:
        return found
    kept = matching(where, [file.folders for file in found])
    chosen = [file for file, keep in zip(found, kept, strict=True) if keep]
    if not chosen:
        raise DataError(f"--where {where!r}: none of {len(found)} files lies in such folders.")
    return chosen


def folder_values(names: Sequence[str]) -> dict[str, str]:
    """Values by key of folders named ``key=value``; both are URL-escaped."""
    pairs = [name.split("=", 1) for name in names if "=" in name]
    return {unquote(key): unquote(value) for key, value in pairs if value != DEFAULT_PARTITION}


def read_footers(files: Sequence[FoundFile], folder_features: Sequence[str]) -> list[ReadFooter]:
    """Read the footers of some files: a task.

    Parameters
    ----------
    files
        The files.
    folder_features
        Keys of folders whose values, which must be numbers, are features.

    Raises
    ------
    DataError
        If a file cannot be read, lies in no folder with such a key, or has a column of that name.
    """
    footers = []
    for file in files:
        schema = read_schema(file.place)
        constants = tuple((key, _number(file, key, schema)) for key in folder_features)
        for key, _ in constants:
            schema = schema.append(pa.field(key, pa.float64()))
        part = replace(read_part(file.place), constants=constants)
        footers.append(ReadFooter(part, schema.serialize().to_pybytes()))
    return footers


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
