"""The files of a folder that are parquet files to read."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from dranking.errors import DataError, DataWarning, listed, warn_user
from dranking.files.places import Place, is_local
from dranking.files.reading import list_files
from dranking.files.requests import request
from dranking.files.table_formats import check_no_table_below
from dranking.files.writing.names import MANIFEST_NAME, SUCCESS_NAME
from dranking.files.writing.output_checks import is_ours

ENDINGS = (".parquet", ".parq", ".pq")
"""Endings of the names of parquet files in folders, in small or capital letters."""


def list_parquet(place: Place) -> list[Place]:
    """The parquet files of a folder and of those below it, in natural order; or the file.

    Names tell which files are parquet, see `ENDINGS`; what `is_hidden` is passed over. Links to
    folders are followed; a file that is reached twice is read once. Numbers in names are in
    numerical order, so that part.2 comes before part.10.

    Warns
    -----
    DataWarning
        If other files, or what dranking wrote, are passed over.

    Raises
    ------
    DataError
        If the folder has no such files, or holds a Delta, Iceberg or Hudi table.
    """
    if is_local(place) and not place.is_dir():
        return [place]  # whatever its name; opening it says if it is not there
    files = list_files(place)
    if not files and not is_local(place) and _is_file(place):
        return [place]
    below = {file: parts_below(file, place) for file in files}
    check_no_table_below(place, list(below.values()))
    shown = [file for file in files if not any(map(is_hidden, below[file]))]
    outputs = _outputs(place, below)
    inputs = [file for file in shown if not _lies_in(below[file], outputs)]
    found = [file for file in inputs if is_parquet_name(file.name)]
    if outputs:
        names = listed(sorted("/".join(folder) for folder in outputs))
        _warn(place, f"the folders that dranking wrote are passed over: {names}")
    if not found:
        endings = ", ".join(f"*{ending}" for ending in ENDINGS)
        raise DataError(
            f"{place}: the directory has no files {endings}; give a directory that has."
        )
    if len(found) < len(inputs):
        others = listed(["/".join(below[file]) for file in inputs if file not in {*found}])
        _warn(
            place,
            f"{len(inputs) - len(found)} files are passed over, whose names do not end in "
            f"{', '.join(ENDINGS)}: {others}",
        )
    found.sort(key=lambda file: [_natural_key(part) for part in below[file]])
    return _once(place, found)


def is_parquet_name(name: str) -> bool:
    """Whether a file's name is that of a parquet file."""
    return name.lower().endswith(ENDINGS)


def is_hidden(name: str) -> bool:
    """Whether files and folders of this name are passed over, as by Spark.

    These are names that begin with a dot, or with an underscore unless they are ``key=value``.
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def parts_below(file: Place, folder: Place) -> tuple[str, ...]:
    """Names of the directories between a folder and a file in it, then the file's name."""
    path, above = (p.as_posix() if is_local(p) else p.path for p in (file, folder))
    return PurePosixPath(path).relative_to(above).parts


def _is_file(place: Place) -> bool:
    return is_parquet_name(place.name) or bool(request(place, place.is_file))


def _outputs(root: Place, below: dict[Place, tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Folders below the root that dranking wrote: data sets, scores, statistics stores."""
    manifests = (MANIFEST_NAME, SUCCESS_NAME)
    folders = {parts[:-1] for parts in below.values() if parts[-1] in manifests and parts[1:]}
    return {folder for folder in folders if is_ours(root.joinpath(*folder))}


def _lies_in(parts: Sequence[str], folders: Collection[tuple[str, ...]]) -> bool:
    return any(tuple(parts[: len(folder)]) == folder for folder in folders)


def _once(root: Place, files: list[Place]) -> list[Place]:
    """Each file once, at the place where it lies if that is among them."""
    if not is_local(root):
        return files
    real = {file: os.path.realpath(str(file)) for file in files}
    top = os.path.realpath(root)
    kept: dict[str, Place] = {}
    for file in files:
        is_there = os.path.join(top, *parts_below(file, root)) == real[file]
        kept[real[file]] = file if is_there else kept.get(real[file], file)
    if len(kept) < len(files):
        _warn(root, f"{len(files) - len(kept)} files are links to others of them, and read once")
    return [file for file in files if kept[real[file]] == file]


def _warn(place: Place, message: str) -> None:
    warn_user(f"{place}: {message}.", DataWarning)


def _natural_key(name: str) -> list[tuple[int, str]]:
    return [(int(t), "") if t.isdecimal() else (-1, t) for t in re.split(r"(\d+)", name)]
