"""The commit protocol: files and directories are written whole or not at all, at any place.

On local disks, output is written under a temporary name beside its place, synchronised to storage
and renamed. Whatever interrupts a write (an exception, Ctrl-C, a full disk, kill -9), the previous
content stays. The next write to the same place removes the leftovers of a killed process.

An object store has no rename. The parts of a directory are objects under names nobody has; the
manifest names them and is put last, in one request: only if there is none, or, to overwrite or to
append, only if it is the one that was there at the beginning (`dranking.files.writing.object_store`
says which stores keep such conditions). Readers follow the manifest alone, so that parts which it
does not name are invisible; `dranking.files.writing.debris` removes them after a week.

A local directory of such parts is overwritten and appended to in the same way, by one writer at a
time: those who read it read on. A disk is finite, so an overwrite, before it writes, removes what
the manifest does not name, also parts that were replaced less than a week ago.

Other tools list a directory of scores, and would read all parts. It is replaced by renaming, and in
an object store the parts that were replaced are removed at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from upath import UPath

from dranking.errors import DataError, DrankingError, TryAgainError
from dranking.files.json_files import parse_json, sealed_json
from dranking.files.places import AnyPlace, Place, is_local
from dranking.files.reading import at_once, read_bytes
from dranking.files.writing import object_store
from dranking.files.writing.atomic_files import atomic_write, not_shared
from dranking.files.writing.debris import (
    GRACE,
    Listing,
    forget_alive,
    is_of_parts,
    listing_of,
    mark_alive,
    missing_parts,
    remove_token,
    remove_unnamed,
)
from dranking.files.writing.local_output import (
    explained,
    install,
    synchronise_all,
    synchronise_tree,
    temporary_path,
    walk_written,
    written_in,
)
from dranking.files.writing.locks import alone_in, locked_file
from dranking.files.writing.names import (
    MANIFEST_NAME,
    SUCCESS_NAME,
    lock_of,
    manifest_digest,
    names_in,
    new_token,
    replaced_manifest,
    sibling,
    token_in,
)
from dranking.files.writing.output_checks import (
    FORMAT_PREFIX,
    changed_meanwhile,
    check_output_directory,
    is_ours,
    output_place,
    was_changed,
)

FOLDER_ENTRY = "folder"
"""Entry of a manifest: the folder beside it with the directory's files, in an object store."""


@contextmanager
def new_directory(
    path: AnyPlace, *, overwrite: bool = False, grace: timedelta = GRACE
) -> Iterator[Path]:
    """Context manager that yields a local temporary directory to fill, which moves at the end.

    An exception in the block leaves `path` as it was. In an object store, the files lie in a folder
    that the manifest names; `dranking.files.folders.manifests` reads both forms.

    Parameters
    ----------
    path
        Directory to write; missing parent directories are made.
    overwrite
        Replace a directory that exists, if it is empty or the project's.
    grace
        Time for which the files of a directory that was replaced stay in an object store.

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
    target = output_place(path)
    with DirectoryCommit(target, overwrite, append=False, in_parts=False) as commit:
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
    return DirectoryCommit(output_place(path), overwrite, append, manifest_name)


class DirectoryCommit:
    """A directory that is being written; as a context manager, it discards what is not finished.

    Attributes
    ----------
    place
        The directory.
    root
        Directory to write parts to until then: the directory itself, or its temporary name. Workers
        must see it.
    token
        A name that nobody has, which stands in the names of all parts.
    """

    def __init__(
        self,
        place: Place,
        overwrite: bool,
        append: bool,
        manifest_name: str = MANIFEST_NAME,
        in_parts: bool = True,
    ) -> None:
        self.place = place
        self._manifest_name = manifest_name
        in_parts &= manifest_name == MANIFEST_NAME
        self.token = new_token()
        self._overwrite, self._append = overwrite, append
        self._finishing = self._finished = False
        self._replaced: Listing | None = None
        self._before: str | None = None
        self._parts: list[str] = []
        if append:
            if not is_ours(place):
                raise DataError(f"{place}: no directory of dranking that can be appended to.")
        else:
            check_output_directory(place, overwrite)
        self.root: Place = place
        if not is_local(place):
            self._before = object_store.version(place / manifest_name)
        with ExitStack() as begun:
            if is_local(place):
                self._begin_on_disk(place, begun, append or (in_parts and is_of_parts(place)))
            self._begun = begun.pop_all()

    def _begin_on_disk(self, place: Path, begun: ExitStack, in_place: bool) -> None:
        begun.enter_context(explained(place))
        if not in_place:
            self.root, self._suffix = begun.enter_context(temporary_path(place))
            self.root.mkdir()
            return
        begun.enter_context(locked_file(lock_of(place), f"{place}: another process is changing it"))
        if self._overwrite:  # without scratch files of this job, and what another writer finishes
            self._replaced = listing_of(place)
        self._before = read_bytes(place / self._manifest_name).decode()
        mark_alive(place, self.token)  # fails before any work if the directory cannot be written

    def __enter__(self) -> DirectoryCommit:
        return self

    def __exit__(self, *problem: Any) -> None:
        begun = self._begun.pop_all()
        self.discard()
        begun.__exit__(*problem)  # explains a full disk

    def remove_replaced(self) -> None:
        """Remove what earlier overwrites of a local directory left to its readers.

        A writer that may overwrite calls this once, when the input is checked and the writing
        begins: the disk then holds the present parts and the new ones, and nothing older.
        """
        if self._replaced is not None:
            manifest = read_bytes(self.place / self._manifest_name)
            remove_unnamed(self.place, self._replaced, manifest, timedelta(0))

    def name(self, part: str) -> str:
        """Name of a part relative to the directory: ``segments/17`` is ``segments/<token>-17``."""
        folder, slash, last = part.rpartition("/")
        return f"{folder}{slash}{self.token}-{last}"

    def add(self, part: str) -> Place:
        """The place that a task writes a part to; a local folder for it is made."""
        place = self.root / self.name(part)
        if is_local(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def check_parts(self, names: Iterable[str]) -> None:
        """Raise UsageError unless all parts that workers say they wrote are here.

        A worker on another host may see a directory of the same name that is not this one. An
        object store is the same for all; `finish` looks there for the parts.
        """
        self._parts = list(names)
        if is_local(self.root) and not all((self.root / name).exists() for name in self._parts):
            raise not_shared(self.place)

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
        self._check_kept(manifest)
        self._mark_replaced(manifest)
        others_list = self._manifest_name == SUCCESS_NAME and self.root == self.place
        replaced = listing_of(self.place) if others_list else None  # nothing of a later writer
        self._finishing = True
        if not is_local(self.place):
            self._finish_in_store(self.place / self._manifest_name, manifest)
        elif self.root == self.place:
            self._finish_in_place(self.place, manifest)
        elif is_local(self.root):
            self._finish_renaming(self.root, self.place, manifest)
        self._begun.close()
        self._finished = True
        with suppress(DrankingError, OSError):  # what is left is removed another time
            forget_alive(self.place, self.token)
            if replaced is None:
                remove_unnamed(self.place, listing_of(self.place), manifest, grace)
        if replaced is not None:
            self._remove_at_once(replaced, manifest)

    def _remove_at_once(self, listing: Listing, manifest: bytes) -> None:
        """Remove the parts that were replaced, since other tools read all that they list."""
        files = [file for file in listing.files if self.token not in file.name]
        try:
            remove_unnamed(self.place, listing._replace(files=files), manifest, timedelta(0))
        except DrankingError as error:
            raise type(error)(
                f"{self.place}: is written, but parts that it replaces stay beside it, and other "
                f"tools read both: {error}"
            ) from error

    def _check_kept(self, manifest: bytes) -> None:
        """Raise TryAgainError if parts were deleted as those of a killed writer.

        A writer may stand still for longer than the grace, for example on a machine that sleeps.
        """
        if self.root == self.place:
            if missing := missing_parts(self.place, self.token, manifest, self._parts):
                raise TryAgainError(
                    f"{self.place}: {missing[0]}, which this job wrote, is gone. The job stood "
                    "still for longer than the grace period, and was taken for a killed one, or "
                    "another process overwrites the directory on a disk where locks are not "
                    "shared. Nothing was changed; run again."
                )

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
        """Keep the manifest that is replaced, and mark its parts: their grace begins here."""
        if self.root != self.place or not (self._overwrite or self._append):
            return
        if self._manifest_name == SUCCESS_NAME:
            return
        with suppress(FileNotFoundError):
            before = read_bytes(self.place / self._manifest_name)
            kept = replaced_manifest(manifest_digest(before))
            atomic_write(self.place / kept, before, overwrite=True)
            gone = {token_in(name) for name in names_in(before) - names_in(manifest)}
            at_once(self._mark, sorted(gone))

    def _mark(self, token: str) -> None:
        # Readers of folders of parquet files pass over names that begin with a period.
        atomic_write(self.place / f".{token}-replaced", b"", overwrite=True)

    def _finish_in_store(self, place: UPath, manifest: bytes) -> None:
        replaces = self._overwrite or self._append
        with changed_meanwhile(self.place, replaces):
            if replaces:
                object_store.put_if_unchanged(place, manifest, self._before)
            else:
                object_store.put_if_absent(place, manifest)

    def _finish_in_place(self, place: Path, manifest: bytes) -> None:
        with explained(place):
            self._synchronise_parts(place)
        with alone_in(place.parent):
            self._check_kept(manifest)
            if read_bytes(place / self._manifest_name).decode() != self._before:
                raise was_changed(place)
            atomic_write(place / self._manifest_name, manifest, overwrite=True)

    def _synchronise_parts(self, place: Path) -> None:
        """Wait until the parts of this writer are on storage."""
        paths: list[Path] = []
        for folder, folders, files in walk_written(place):
            own = [name for name in (*folders, *files) if name.startswith(self.token)]
            for name in own:
                paths += written_in(folder / name) if name in folders else [folder / name]
            if own:
                paths.append(folder)
            folders[:] = [name for name in folders if name not in own]
        synchronise_all(paths)

    def _finish_renaming(self, root: Path, place: Path, manifest: bytes) -> None:
        with explained(place):
            (root / self._manifest_name).write_bytes(manifest)
            synchronise_tree(root)
            with alone_in(place.parent):
                check_output_directory(place, self._overwrite)
                install(root, place, sibling(place, "old", self._suffix))


def _own_manifest(folder: Path, target: Place) -> bytes:
    """The manifest in a directory that was filled, if it is one of the project."""
    if not is_ours(folder):
        raise ValueError(
            f"{target}: a directory of the project needs a {MANIFEST_NAME} whose 'format' "
            f"begins with '{FORMAT_PREFIX}'."
        )
    return (folder / MANIFEST_NAME).read_bytes()
