"""Tables in the formats Delta, Iceberg and Hudi, whose logs say which of their files count."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from dranking.errors import DataError
from dranking.files.places import Place, is_local
from dranking.files.reading import at_once
from dranking.files.requests import request


class _Log(NamedTuple):
    """A log that tells that the folder around it is a table: its folder, and its files' ending."""

    kind: str
    folder: str
    ending: str = ""


_LOGS = (
    _Log("Delta", "_delta_log"),
    _Log("Iceberg", "metadata", ".metadata.json"),
    _Log("Hudi", ".hoodie"),
)


def check_no_table_format(places: Sequence[Place]) -> None:
    """Raise DataError if files or folders are, or lie in, a table whose log says which files count.

    The log is searched in the folder itself and in all folders above, of links also where they
    lead. Folders of a store that may not be listed, and web servers, tell nothing.
    """
    around: dict[Place, Place] = {}
    for place in places:
        for folder in _folders_around(place):
            around.setdefault(folder, place)
    pairs = list(product(around, _LOGS))
    of_each = map(_found, pairs) if all(map(is_local, around)) else at_once(_found, pairs)
    for (folder, log), found in zip(pairs, of_each, strict=True):
        if found is not None:
            raise _of_format(around[folder], folder, log.kind, f"{log.folder}/{found}")


def check_no_table_below(folder: Place, files: Sequence[tuple[str, ...]]) -> None:
    """Raise DataError if files below a folder, as names of folders and file, have such a log."""
    for *folders, name in files:
        for log in _LOGS:
            if log.folder in folders and name.endswith(log.ending):
                raise _of_format(folder, folder, log.kind, "/".join([*folders, name]))


def _of_format(place: Place, table: Place, kind: str, log: str) -> DataError:
    is_table = "is the folder of" if place == table else f"lies in {table}, the folder of"
    return DataError(
        f"{place} {is_table} a table in the {kind} format, for it has {log}: the parquet files "
        "also hold rows that the table has no longer. Open the table with a library for the "
        "format, and pass it in Python as an Arrow data set or reader, as "
        "dr.ingest(DeltaTable(PATH).to_pyarrow_dataset(), OUTPUT) does."
    )


def _folders_around(place: Place) -> list[Place]:
    """A place and all folders above it; of a link, also those where it leads."""
    if not is_local(place):
        if place.protocol in ("http", "https"):
            return []
        # What lies below a place is looked at when it is listed: a file costs no request here.
        return [*([] if place.suffix == ".parquet" else [place]), *place.parents]
    paths = dict.fromkeys((os.path.abspath(place), os.path.realpath(place)))
    return [folder for path in map(Path, paths) for folder in (path, *path.parents)]


def _found(pair: tuple[Place, _Log]) -> str | None:
    """The first file of a log in a folder; None if there is none, or the store does not tell."""
    folder, log = pair
    place = folder / log.folder

    def names() -> list[str]:
        if is_local(place):
            return os.listdir(place)
        return [os.path.basename(name) for name in place.fs.ls(place.path, detail=False)]

    try:
        logs = [name for name in request(place, names) if name.endswith(log.ending)]
        return min(logs, default=None)
    except (FileNotFoundError, NotADirectoryError, DataError):
        return None
