"""Files that are written whole or not at all, at any place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dranking.files import object_store
from dranking.files.local_output import synchronise, temporary_path
from dranking.files.output_checks import changed_meanwhile, check_output_file, output_place
from dranking.files.places import AnyPlace, Place, is_local


def atomic_write(path: AnyPlace, content: str | bytes, overwrite: bool = False) -> None:
    """Write a file, whole or not at all.

    Parameters
    ----------
    path
        File to write; missing parent directories are made.
    content
        Text, stored as UTF-8, or bytes.
    overwrite
        Replace a file that exists.

    Raises
    ------
    UsageError
        If the path exists and `overwrite` is false, is a directory, or cannot be written.
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    with atomic_path(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_path(path: AnyPlace, *, overwrite: bool = False) -> Iterator[Path]:
    """Context manager that yields a local temporary path for a file, which moves at the end.

    The file must be closed when the block ends. An exception in the block leaves `path` as it was.

    Parameters
    ----------
    path
        File to write; missing parent directories are made.
    overwrite
        Replace a file that exists.

    Raises
    ------
    UsageError
        On entry, if the path is a directory, or exists and `overwrite` is false; later, if the
        disk is full.
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    target = output_place(path)
    check_output_file(target, overwrite)
    if not is_local(target):
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder, target.name)
            yield temporary
            with changed_meanwhile(target, overwrite):
                put = object_store.put if overwrite else object_store.put_if_absent
                put(target, temporary)
        return
    with temporary_path(target) as (temporary, _):
        temporary.touch()  # fails before any work if the directory cannot be written
        yield temporary
        check_output_file(target, overwrite)
        synchronise(temporary)
        os.replace(temporary, target)
        synchronise(target.parent)


@contextmanager
def part_file(part: Place) -> Iterator[Path]:
    """Context manager that yields a local path for one file of a part, which is put at the end."""
    if is_local(part):
        part.parent.mkdir(parents=True, exist_ok=True)
        yield part
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, part.name)
        object_store.put(part, Path(folder, part.name))
