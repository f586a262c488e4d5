"""The commit protocol: files and directories are written whole or not at all.

Output is written under a temporary name in its final directory, synchronised to storage and then
renamed. Whatever interrupts a write (an exception, Ctrl-C, a full disk, kill -9), the previous
content of the path stays. The next write to the same path removes the leftovers of a process of
this host that is dead, and after `GRACE_SECONDS` without a change those of any process: another
host cannot be asked, and a process id may be in use again.

Hidden names beside a target NAME end in -HOST-PID-RANDOM of the process that made them:

- ``.NAME.tmp-...``: output being written;
- ``.NAME.old-...``: a directory being replaced, between two renames.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from dranking.errors import UsageError
from dranking.files.json_files import read_json

AnyPath: TypeAlias = str | os.PathLike[str]

MANIFEST_NAME = "manifest.json"
"""File that every directory of the project has; it is written last."""

FORMAT_PREFIX = "dranking-"
"""Beginning of the "format" entry in the manifest of every directory of the project."""

Kind: TypeAlias = Literal["tmp", "old"]

GRACE_SECONDS: Final[Mapping[Kind, float]] = {"tmp": 12 * 3600.0, "old": 60.0}
"""Age of the last change from which the leftover of any process is removed, or restored."""

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_HOST = f"{zlib.crc32(platform.node().encode()):08x}"

_TEMPORARY = re.compile(
    r"\.(?P<target>.+)\.(?P<kind>tmp|old)-(?P<suffix>(?P<host>\w+)-(?P<pid>\d+)-\w+)"
)

# Suffixes of the temporary names that this process is writing. A process id alone does not identify
# a live writer: a restarted container has the host name and process id of the one that died.
_live: set[str] = set()


def atomic_write(path: AnyPath, content: str | bytes, overwrite: bool = False) -> None:
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
    """
    with atomic_path(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_path(path: AnyPath, *, overwrite: bool = False) -> Iterator[Path]:
    """Context manager that yields a temporary path for a file and renames the file at the end.

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
    """
    target = _resolved(path)
    check_output_file(target, overwrite)
    with _temporary(target) as (temporary, _):
        temporary.touch()  # fails before any work if the directory cannot be written
        yield temporary
        check_output_file(target, overwrite)
        _synchronise(temporary)
        os.replace(temporary, target)
        _synchronise(target.parent)


@contextmanager
def new_directory(path: AnyPath, *, overwrite: bool = False) -> Iterator[Path]:
    """Context manager that yields a temporary directory to fill and renames it at the end.

    An exception in the block leaves `path` as it was.

    Parameters
    ----------
    path
        Directory to write; missing parent directories are made.
    overwrite
        Replace a directory that exists, if it is empty or the project's.

    Raises
    ------
    UsageError
        On entry, if the path exists and `overwrite` is false, or is neither empty nor the
        project's; later, if the disk is full.
    ValueError
        If the block wrote no ``manifest.json`` whose "format" begins with ``dranking-``.
    """
    target = _resolved(path)
    check_output_directory(target, overwrite)
    with _temporary(target) as (temporary, suffix):
        temporary.mkdir()
        yield temporary
        if not _is_ours(temporary):
            raise ValueError(
                f"{target}: a directory of the project needs a {MANIFEST_NAME} whose 'format' "
                f"begins with '{FORMAT_PREFIX}'."
            )
        check_output_directory(target, overwrite)
        _synchronise_tree(temporary)
        _install(temporary, target, _sibling(target, "old", suffix))


@contextmanager
def scratch_directory(path: AnyPath) -> Iterator[Path]:
    """Context manager that yields an empty directory beside an output and removes it at the end.

    Parameters
    ----------
    path
        The output. If the process is killed, the next write to the output removes the directory.

    Raises
    ------
    UsageError
        If the directory cannot be made, or the disk is full.
    """
    with _temporary(_resolved(path)) as (temporary, _):
        temporary.mkdir()
        yield temporary


def move_folders(source: Path, target: Path) -> None:
    """Synchronise the folders in `source` to storage and move them into `target` beside it."""
    _synchronise_tree(source)
    for folder in sorted(source.iterdir()):
        os.rename(folder, target / folder.name)
    _synchronise(target)


def check_output_file(path: AnyPath, overwrite: bool) -> None:
    """Check, before any work, that a file may be written at a path.

    Raises
    ------
    UsageError
        If the path is a directory, or exists and `overwrite` is false.
    """
    target = _resolved(path)
    with _explained(target):
        if target.is_dir():
            raise UsageError(f"{target}: is a directory; give the path of a file.")
        if target.exists() and not overwrite:
            raise UsageError(f"{target}: exists already. Pass --overwrite to replace it.")


def check_output_directory(path: AnyPath, overwrite: bool) -> None:
    """Check, before any work, that a directory may be written at a path.

    Raises
    ------
    UsageError
        If the path is a file, exists and `overwrite` is false, or is a directory that is neither
        empty nor the project's.
    """
    target = _resolved(path)
    with _explained(target):
        restore_interrupted(target)
        if not target.exists():
            return
        if not target.is_dir():
            raise UsageError(f"{target}: is a file; give the path of a directory.")
        if not overwrite:
            raise UsageError(f"{target}: exists already. Pass --overwrite to replace it.")
        if not _is_ours(target) and any(target.iterdir()):
            raise UsageError(
                f"{target}: was not written by dranking (no {MANIFEST_NAME} of its own), so it "
                "is not overwritten. Give another path, or delete it yourself."
            )


def restore_interrupted(path: AnyPath) -> None:
    """Restore a directory whose replacement was killed between its two renames.

    Does nothing if the path exists, or if the process that replaces the directory may be alive.
    """
    target = _resolved(path)
    if not target.exists():
        for old in _leftovers(target, "old"):
            with suppress(OSError):
                old.rename(target)
                return


def manifest_format(directory: Path) -> str | None:
    """Entry "format" of a directory's manifest; None if there is no readable manifest."""
    try:
        content = read_json(directory / MANIFEST_NAME)
    except (OSError, ValueError):
        return None
    return str(content.get("format")) if isinstance(content, dict) else None


def _is_ours(directory: Path) -> bool:
    """Whether a directory has a manifest of the project, of any version."""
    return (manifest_format(directory) or "").startswith(FORMAT_PREFIX)


@contextmanager
def _temporary(target: Path) -> Iterator[tuple[Path, str]]:
    """Yield a free temporary path and its suffix; afterwards remove whatever is at the path."""
    suffix = f"{_HOST}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = _sibling(target, "tmp", suffix)
    _live.add(suffix)
    try:
        with _explained(target):
            _make_parent(target)
            _remove_leftovers(target)
            yield temporary, suffix
    finally:
        _remove(temporary)
        _live.discard(suffix)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Convert the operating system's errors about the output into errors that name the output.

    The block also runs the caller's code, whose errors pass unless only writing can cause them.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise UsageError(
                f"{target}: cannot be written, {os.strerror(error.errno)}. Nothing was written; "
                "what was there before is intact. Free some space or give another path, and "
                "run again."
            ) from error
        if _concerns(error.filename, target) or _concerns(error.filename2, target):
            raise UsageError(
                f"{target}: cannot be written, {error.strerror}. Give another path."
            ) from error
        raise


def _concerns(name: object, target: Path) -> bool:
    """Whether a file name in an error is the target, its temporary, or a file in the temporary."""
    if not isinstance(name, str | os.PathLike):
        return False
    path = Path(name)
    hidden = str(target.with_name(f".{target.name}."))
    return path == target or str(path).startswith(hidden)


def _make_parent(target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{target}: its directory cannot be made, {error.strerror}. Give another path."
        ) from error


def _install(temporary: Path, target: Path, aside: Path) -> None:
    """Rename a directory to its target; a directory there is moved aside and then deleted."""
    try:
        if target.exists():
            os.rename(target, aside)
        os.rename(temporary, target)
    except BaseException:
        if aside.exists() and not target.exists():
            os.rename(aside, target)
        _remove(aside)
        raise
    _synchronise(target.parent)
    _remove(aside)


def _resolved(path: AnyPath) -> Path:
    """The absolute path without links: output replaces the target of a link, not the link."""
    return Path(path).resolve()


def _sibling(target: Path, kind: Kind, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{kind}-{suffix}")


def is_temporary(name: str) -> bool:
    """Whether a file or folder has a name that this module gives to unfinished output."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove, or restore, what killed processes left directly in a folder, of whatever output."""
    for name in _names_in(folder):
        if match := _TEMPORARY.fullmatch(name):
            target = folder / match["target"]
            restore_interrupted(target)
            _remove_leftovers(target)


def _remove_leftovers(target: Path) -> None:
    for path in _leftovers(target, "tmp"):
        _remove(path)
    if target.exists():
        for path in _leftovers(target, "old"):
            _remove(path)


def _leftovers(target: Path, kind: Kind) -> list[Path]:
    """Hidden siblings of a target that processes left behind which are dead, or gone for long."""
    matches = [match for name in _names_in(target.parent) if (match := _TEMPORARY.fullmatch(name))]
    return [
        target.with_name(match[0])
        for match in matches
        if (match["target"], match["kind"]) == (target.name, kind)
        and match["suffix"] not in _live
        and (_is_dead(match) or _idle_seconds(target.with_name(match[0])) > GRACE_SECONDS[kind])
    ]


def _names_in(folder: Path) -> list[str]:
    """Sorted names in a folder; none if the folder cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _is_dead(match: re.Match[str]) -> bool:
    """Whether the process that a temporary name belongs to is known to be dead."""
    if match["host"] != _HOST:
        return False
    pid = int(match["pid"])
    if pid == os.getpid():
        return True  # an earlier process with this id: the own names are in `_live`
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _idle_seconds(path: Path) -> float:
    """Seconds since a file, or anything in a folder, was last changed; 0 if that is not known.

    The change time is asked for, as copying sets the modification time to an old one.
    """
    changed = []
    with suppress(OSError):
        changed.append(path.lstat().st_ctime)
        for folder, folders, files in os.walk(path):
            changed += [Path(folder, name).lstat().st_ctime for name in (*folders, *files)]
        return time.time() - max(changed)
    return 0.0


def _remove(path: Path) -> None:
    """Delete a file or a directory tree; what cannot be deleted is left to the next run."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _synchronise_tree(root: Path) -> None:
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            _synchronise(Path(folder, name))
        _synchronise(Path(folder))


def _synchronise(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on storage."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
