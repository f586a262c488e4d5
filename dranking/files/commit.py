"""The commit protocol: files and directories are written whole or not at all, at any place.

On local disks, output is written under a temporary name beside its place, synchronised to storage
and renamed. Whatever interrupts a write (an exception, Ctrl-C, a full disk, kill -9), the previous
content stays. The next write to the same place removes the leftovers of a killed process.

An object store has no rename. The parts of a directory are objects under names nobody has; the
manifest names them and is put last, in one request: only if there is none, or, to overwrite or to
append, only if it is the one that was there at the beginning (`dranking.files.object_store` says
which stores keep such conditions). Readers follow the manifest alone, so that parts which it does
not name are invisible; `dranking.files.debris` removes them after a week.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from upath import UPath

from dranking.errors import DataError, DrankingError, TryAgainError, UsageError
from dranking.files import object_store
from dranking.files.debris import (
    GRACE,
    names_in,
    new_token,
    remove_token,
    remove_unnamed,
    token_in,
    token_of,
)
from dranking.files.json_files import SEAL, parse_json, read_json, sealed_json, unsealed
from dranking.files.local_output import (
    explained,
    install,
    restore,
    sibling,
    synchronise,
    synchronise_tree,
    temporary_path,
)
from dranking.files.locks import alone_in, locked_file
from dranking.files.places import AnyPlace, Place, as_place, is_local
from dranking.files.reading import at_once, exists, read_bytes
from dranking.files.requests import ChangedError, request

MANIFEST_NAME = "manifest.json"
"""File that every directory of the project has; it is written last."""

SUCCESS_NAME = "_SUCCESS"
"""Name of the manifest in directories that other tools read as a data set of parquet files: they
pass over names that begin with an underscore, and wait for this one."""

FORMAT_PREFIX = "dranking-"
"""Beginning of the "format" entry in the manifest of every directory of the project."""

FOLDER_ENTRY = "folder"
"""Entry of a manifest: the folder beside it with the directory's files, in an object store."""


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
    target = _target(path)
    check_output_file(target, overwrite)
    if not is_local(target):
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder, target.name)
            yield temporary
            with _changed_meanwhile(target, overwrite):
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
def new_directory(
    path: AnyPlace, *, overwrite: bool = False, grace: timedelta = GRACE
) -> Iterator[Path]:
    """Context manager that yields a local temporary directory to fill, which moves at the end.

    An exception in the block leaves `path` as it was. In an object store, the files lie in a folder
    that the manifest names; `dranking.files.manifests` reads both forms.

    Parameters
    ----------
    path
        Directory to write; missing parent directories are made.
    overwrite
        Replace a directory that exists, if it is empty or the project's.
    grace
        How long the files of a directory that was replaced stay in an object store.

    Raises
    ------
    UsageError
        On entry, if the path exists and `overwrite` is false, or is neither empty nor the
        project's; later, if the disk is full.
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    ValueError
        If the block wrote no ``manifest.json`` whose "format" begins with ``dranking-``.
    """
    target = _target(path)
    with begin_directory(target, overwrite=overwrite) as commit:
        if is_local(commit.root):
            yield commit.root
            commit.finish(_own_manifest(commit.root, target))
            return
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
            content = parse_json(_own_manifest(Path(folder), target))
            Path(folder, MANIFEST_NAME).unlink()
            object_store.put_files(Path(folder), commit.root / commit.token)
            commit.finish(sealed_json({**content, FOLDER_ENTRY: commit.token}), grace)


def begin_directory(
    path: AnyPlace,
    *,
    overwrite: bool = False,
    append: bool = False,
    manifest_name: str = MANIFEST_NAME,
) -> DirectoryCommit:
    """Begin a directory whose parts are written by many tasks, on any machine.

    Parameters
    ----------
    path
        Directory to write; missing parent directories are made.
    overwrite
        Replace a directory that exists, if it is empty or the project's.
    append
        Add parts to a directory of the project, whose parts stay.
    manifest_name
        Name of the manifest: `MANIFEST_NAME` or `SUCCESS_NAME`.

    Raises
    ------
    UsageError
        If the path exists and neither `overwrite` nor `append` is true, or if it is neither empty
        nor the project's.
    DataError, TryAgainError
        If there is nothing to append to, or a store refuses access or is out of reach.
    """
    return DirectoryCommit(_target(path), overwrite, append, manifest_name)


class DirectoryCommit:
    """A directory that is being written; as a context manager, it discards what is not finished.

    Attributes
    ----------
    place
        The directory.
    root
        Where parts are written until then: the directory itself, or its temporary name. Workers
        must see it.
    token
        A name that nobody has, which stands in the names of all parts.
    """

    def __init__(self, place: Place, overwrite: bool, append: bool, manifest_name: str) -> None:
        self.place = place
        self._manifest_name = manifest_name
        self.token = new_token()
        self._overwrite, self._append = overwrite, append
        self._finishing = self._finished = False
        self._begun = ExitStack()
        self._before: str | None = None
        if append:
            if not _is_ours(place):
                raise DataError(f"{place}: no directory of dranking that can be appended to.")
        else:
            check_output_directory(place, overwrite)
        self.root: Place = place
        if not is_local(place):
            self._before = object_store.version(place / manifest_name)
        elif append:
            busy = f"{place}: another process is changing it"
            lock = place.with_name(f".{place.name}.lock")
            self._begun.enter_context(explained(place))
            self._begun.enter_context(locked_file(lock, busy))
            self._before = read_bytes(place / manifest_name).decode()
        else:
            self.root, self._suffix = self._begun.enter_context(temporary_path(place))
            self.root.mkdir()

    def __enter__(self) -> DirectoryCommit:
        return self

    def __exit__(self, *problem: Any) -> None:
        begun = self._begun.pop_all()
        self.discard()
        begun.__exit__(*problem)  # explains a full disk

    def name(self, part: str) -> str:
        """Name of a part relative to the directory: ``segments/17`` is ``segments/<token>-17``."""
        folder, slash, last = part.rpartition("/")
        return f"{folder}{slash}{self.token}-{last}"

    def add(self, part: str) -> Place:
        """Where a task writes a part; a local folder for it is made."""
        place = self.root / self.name(part)
        if is_local(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def finish(self, manifest: bytes, grace: timedelta = GRACE) -> None:
        """Put the manifest, which makes all parts that it names visible at once.

        Parameters
        ----------
        manifest
            Content of the manifest.
        grace
            Parts that the manifest does not name are deleted when they are older.

        Raises
        ------
        UsageError
            If something appeared at the place meanwhile, or the disk is full.
        TryAgainError
            If another process changed the directory meanwhile; nothing was changed then.
        """
        self._mark_replaced(manifest)
        self._finishing = True
        if not is_local(self.place):
            self._finish_in_store(self.place / self._manifest_name, manifest)
        elif self._append:
            self._finish_appending(self.place, manifest)
        elif is_local(self.root):
            self._finish_renaming(self.root, self.place, manifest)
        self._begun.close()
        self._finished = True
        with suppress(DrankingError, OSError):  # what is left is removed another time
            remove_unnamed(self.place, manifest, grace)

    def begin_again(self) -> None:
        """Delete all parts, and take another token for those that are written from here on."""
        with suppress(DrankingError, OSError):
            remove_token(self.root, self.token)
        self.token = new_token()

    def discard(self) -> None:
        """Delete all parts, unless the directory is finished, or may be.

        A manifest that was sent may have arrived although `finish` failed. Parts then stay unless
        the manifest at the place can be read and does not name them; `clean` removes them later.
        """
        if self._finished:
            return
        self._finished = True
        self._begun.close()
        if self.root == self.place:
            with suppress(DrankingError, OSError):
                manifest = read_bytes(self.place / self._manifest_name) if self._finishing else b""
                if self.token.encode() not in manifest:
                    remove_token(self.place, self.token)

    def _mark_replaced(self, manifest: bytes) -> None:
        """Write markers for the parts that are replaced: their grace counts from this moment."""
        if self.root != self.place or not (self._overwrite or self._append):
            return
        with suppress(FileNotFoundError):
            before = read_bytes(self.place / self._manifest_name)
            named = names_in(manifest)
            gone = {token_in(name) for name in names_in(before) - named}
            at_once(self._mark, sorted(gone - named))

    def _mark(self, token: str) -> None:
        # Readers of folders of parquet files pass over names that begin with a period.
        atomic_write(self.place / f".{token}-replaced", b"", overwrite=True)

    def _finish_in_store(self, place: UPath, manifest: bytes) -> None:
        replaces = self._overwrite or self._append
        with _changed_meanwhile(self.place, replaces):
            if replaces:
                object_store.put_if_unchanged(place, manifest, self._before)
            else:
                object_store.put_if_absent(place, manifest)

    def _finish_appending(self, place: Path, manifest: bytes) -> None:
        with explained(place):
            for part in place.rglob(f"{self.token}*"):
                synchronise_tree(part) if part.is_dir() else synchronise(part)
                synchronise(part.parent)
        with alone_in(place.parent):
            if read_bytes(place / self._manifest_name).decode() != self._before:
                raise _changed(place)
            atomic_write(place / self._manifest_name, manifest, overwrite=True)

    def _finish_renaming(self, root: Path, place: Path, manifest: bytes) -> None:
        with explained(place):
            (root / self._manifest_name).write_bytes(manifest)
            synchronise_tree(root)
            with alone_in(place.parent):
                check_output_directory(place, self._overwrite)
                install(root, place, sibling(place, "old", self._suffix))


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


def check_output_file(path: AnyPlace, overwrite: bool) -> None:
    """Check, before any work, that a file may be written at a path.

    Raises
    ------
    UsageError
        If the path is a directory, or exists and `overwrite` is false.
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    target = _target(path)
    kind = _kind(target)
    if kind == "directory":
        raise UsageError(f"{target}: is a directory; give the path of a file.")
    if kind is not None and not overwrite:
        raise _exists(target)


def check_output_directory(path: AnyPlace, overwrite: bool) -> None:
    """Check, before any work, that a directory may be written at a path.

    Raises
    ------
    UsageError
        If the path is a file, exists and `overwrite` is false, or is a directory that is neither
        empty nor the project's.
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    target = _target(path)
    restore_interrupted(target)
    kind = _kind(target)
    if kind is None:
        return
    if kind == "file":
        raise UsageError(f"{target}: is a file; give the path of a directory.")
    ours = _is_ours(target)
    if not ours and _is_debris(target):
        return
    if not overwrite:
        raise _exists(target)
    if not ours and not _is_empty(target):
        raise UsageError(
            f"{target}: was not written by dranking (no {MANIFEST_NAME} of its own), so it "
            "is not overwritten. Give another path, or delete it yourself."
        )


def clean(path: AnyPlace, grace: float = GRACE.total_seconds()) -> int:
    """Delete what killed writers left in a directory, and what replaced directories consisted of.

    Parameters
    ----------
    path
        The directory.
    grace
        Seconds since the last write of the writer in question, so that what a live writer makes,
        or an open reader may still use, stays.

    Returns
    -------
    Number of files that were deleted.

    Raises
    ------
    UsageError
        If the directory is not one of the project.
    DataError, TryAgainError
        If there is nothing at the path, the manifest is damaged, or a store refuses access or is
        out of reach.
    """
    target = _target(path)
    if _kind(target) != "directory":
        raise DataError(f"{target}: no directory is there.")
    manifest = b""
    for name in (MANIFEST_NAME, SUCCESS_NAME):
        with suppress(FileNotFoundError):
            manifest += read_bytes(target / name)
            _check_whole(target / name)
    if not _is_ours(target) and not _is_debris(target):
        raise UsageError(f"{target}: was not written by dranking, so nothing in it is deleted.")
    return remove_unnamed(target, manifest, timedelta(seconds=grace))


def _check_whole(manifest: Place) -> None:
    """Raise DataError if a manifest is damaged: it might not name what it named."""
    try:
        content = read_json(manifest)
        if SEAL in content:
            unsealed(content)
    except ValueError as error:
        raise DataError(f"{manifest}: damaged ({error}), so nothing is deleted.") from error


def is_written(path: AnyPlace) -> bool:
    """Whether a directory is at a place; in an object store, one with a manifest.

    Raises
    ------
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    target = _target(path)
    restore_interrupted(target)
    return target.exists() if is_local(target) else exists(target / MANIFEST_NAME)


def restore_interrupted(path: AnyPlace) -> None:
    """Restore a local directory whose replacement was killed between its two renames.

    Does nothing if the path exists, or if the process that replaces the directory may be alive.
    """
    target = _target(path)
    if is_local(target):
        restore(target)


def manifest_format(directory: Place) -> str | None:
    """Entry "format" of a directory's manifest; None if there is no readable manifest.

    Raises
    ------
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    for name in (MANIFEST_NAME, SUCCESS_NAME):
        try:
            content = read_json(directory / name)
        except DataError:
            if not is_local(directory):
                raise
        except (OSError, ValueError):
            pass
        else:
            return str(content.get("format")) if isinstance(content, dict) else None
    return None


def _is_ours(directory: Place) -> bool:
    """Whether a directory has a manifest of the project, of any version."""
    return (manifest_format(directory) or "").startswith(FORMAT_PREFIX)


def _own_manifest(folder: Path, target: Place) -> bytes:
    """The manifest in a directory that was filled, if it is one of the project."""
    if not _is_ours(folder):
        raise ValueError(
            f"{target}: a directory of the project needs a {MANIFEST_NAME} whose 'format' "
            f"begins with '{FORMAT_PREFIX}'."
        )
    return (folder / MANIFEST_NAME).read_bytes()


def _target(path: AnyPlace) -> Place:
    """The place without links: output replaces the target of a link, not the link."""
    place = as_place(path)
    return place.resolve() if isinstance(place, Path) else place


def _kind(target: Place) -> str | None:
    """Whether a "file" or a "directory" is at a place; None if nothing is."""
    if is_local(target):
        with explained(target):
            return "directory" if target.is_dir() else "file" if target.exists() else None
    try:
        return str(request(target, lambda: target.fs.info(target.path))["type"])
    except FileNotFoundError:
        return None


def _is_debris(target: Place) -> bool:
    """Whether a folder of an object store holds parts of killed writers, and nothing else."""
    if is_local(target):
        return False
    return all(token_of(found.name) for found in object_store.list_objects(target))


def _is_empty(target: Place) -> bool:
    return is_local(target) and not any(target.iterdir())


@contextmanager
def _changed_meanwhile(target: Place, may_exist: bool) -> Iterator[None]:
    try:
        yield
    except ChangedError as error:
        if may_exist:
            raise _changed(target) from error
        raise _exists(target) from error


def _exists(target: Place) -> UsageError:
    return UsageError(f"{target}: exists already. Pass --overwrite to replace it.")


def _changed(target: Place) -> TryAgainError:
    return TryAgainError(
        f"{target}: another process wrote it meanwhile. Nothing was changed; run again."
    )
