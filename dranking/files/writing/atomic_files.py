"""Files and folders that are written whole or not at all, at any place."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dranking.errors import UsageError
from dranking.files.places import AnyPlace, Place, is_local
from dranking.files.writing import object_store
from dranking.files.writing.local_output import synchronise, temporary_path
from dranking.files.writing.names import new_token, token_of
from dranking.files.writing.output_checks import changed_meanwhile, check_output_file, output_place


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
def new_folder(root: Place, name: str) -> Iterator[Path]:
    """Context manager that yields a local folder to fill, which becomes `name` of a place, whole.

    Tasks write the parts of a directory with it. A task may run twice, also side by side, because
    its worker seemed to be lost: a local folder that is there stays, and no reader of it ever sees
    a file that is being written.

    Parameters
    ----------
    root
        `dranking.files.writing.commit.DirectoryCommit.root`.
    name
        Path of the new folder inside; its parent is made.

    Raises
    ------
    UsageError
        If the root is local and not there.
    """
    if not is_local(root):
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch)
            object_store.put_files(Path(scratch), root / name)
        return
    target = root / name
    with _shared(root):
        target.parent.mkdir(exist_ok=True)
    scratch = tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}.tmp-")
    try:
        yield Path(scratch)
        os.chmod(scratch, target.parent.stat().st_mode)
        try:
            os.rename(scratch, target)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                raise  # otherwise another run of the task has written the same
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def put_part(root: Place, name: str, content: bytes) -> None:
    """Write a part of a directory that is a single file, as `new_folder` writes those of several.

    Parameters
    ----------
    root
        `dranking.files.writing.commit.DirectoryCommit.root`.
    name
        Path of the file inside; its parent is made.
    content
        Its content.

    Raises
    ------
    UsageError
        If the root is local and not there.
    """
    if not is_local(root):
        object_store.put(root / name, content)
        return
    target = root / name
    # With a token in its name, what a killed task leaves is found and removed as debris.
    hidden = f".{target.name}" if token_of(name) else f".{new_token()}-{target.name}"
    with _shared(root):
        if target.parent != root:
            target.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{hidden}.tmp-") as scratch:
            file = Path(scratch, target.name)
            file.write_bytes(content)
            os.replace(file, target)


@contextmanager
def _shared(root: Path) -> Iterator[None]:
    """Say what is wrong if a directory that was begun on another host is not on this one."""
    try:
        yield
    except FileNotFoundError as error:
        raise not_shared(root) from error


def not_shared(root: Place) -> UsageError:
    """The error for workers that do not see the directory that they write to."""
    return UsageError(
        f"{root}: is not the same directory on all hosts. The workers write there: give a "
        "directory that all hosts see, or a URL."
    )
