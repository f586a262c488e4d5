"""Output on local disks: temporary names, synchronisation, leftovers of killed processes.

Hidden names beside a target NAME end in -HOST-PID-RANDOM of the process that made them:

- ``.NAME.tmp-...``: output being written;
- ``.NAME.old-...``: a directory being replaced, between two renames.

The next write to the same path removes the leftovers of a process of this host that is dead, and
after `GRACE_SECONDS` without a change those of any process: another host cannot be asked, and a
process id may be in use again.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from dranking.errors import UsageError
from dranking.files.reading import at_once

Kind: TypeAlias = Literal["tmp", "old"]

GRACE_SECONDS: Final[Mapping[Kind, float]] = {"tmp": 12 * 3600.0, "old": 60.0}
"""Age of the last change from which the leftover of any process is removed, or restored."""

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
HOST = f"{zlib.crc32(platform.node().encode()):08x}"

_TEMPORARY = re.compile(
    r"\.(?P<target>.+)\.(?P<kind>tmp|old)-(?P<suffix>(?P<host>\w+)-(?P<pid>\d+)-\w+)"
)

_UNFINISHED = ".tmp-"
"""In the names of all unfinished output: of this module, and of tasks (`atomic_files`)."""

# Suffixes of the temporary names that this process is writing. A process id alone does not identify
# a live writer: a restarted container has the host name and process id of the one that died.
_live: set[str] = set()


@contextmanager
def temporary_path(target: Path) -> Iterator[tuple[Path, str]]:
    """Yield a free temporary path and its suffix; afterwards remove whatever is at the path."""
    suffix = f"{HOST}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = sibling(target, "tmp", suffix)
    _live.add(suffix)
    try:
        with explained(target):
            _make_parent(target)
            _remove_leftovers(target)
            yield temporary, suffix
    finally:
        _remove(temporary)
        _live.discard(suffix)


@contextmanager
def explained(target: Path) -> Iterator[None]:
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


def install(temporary: Path, target: Path, aside: Path) -> None:
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
    synchronise(target.parent)
    _remove(aside)


def sibling(target: Path, kind: Kind, suffix: str) -> Path:
    """The hidden name of a kind and a suffix beside a target."""
    return target.with_name(f".{target.name}.{kind}-{suffix}")


def restore(target: Path) -> None:
    """Restore a directory whose replacement was killed between its two renames."""
    with suppress(PermissionError):  # who reads or writes the target says so
        if target.exists():
            return
        for old in leftovers(target, "old"):
            with suppress(OSError):
                old.rename(target)
                return


def is_temporary(name: str) -> bool:
    """Whether a file or folder has a name that this module gives to unfinished output."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove, or restore, what killed processes left directly in a folder, of whatever output."""
    for name in _names_in(folder):
        if match := _TEMPORARY.fullmatch(name):
            target = folder / match["target"]
            restore(target)
            _remove_leftovers(target)


def _remove_leftovers(target: Path) -> None:
    for path in leftovers(target, "tmp"):
        _remove(path)
    if target.exists():
        for path in leftovers(target, "old"):
            _remove(path)


def leftovers(target: Path, kind: Kind) -> list[Path]:
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
    if match["host"] != HOST:
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


def synchronise_tree(root: Path) -> None:
    """Wait until all files in a folder, and their names, are on storage."""
    *inside, last = written_in(root)
    synchronise_all(inside)
    synchronise(last)


def written_in(root: Path) -> list[Path]:
    """All files and folders in a folder, without unfinished output; the folder itself is last."""
    paths = []
    for folder, _, files in reversed(list(walk_written(root))):
        paths += [*(folder / name for name in files), folder]
    return paths


def synchronise_all(paths: Sequence[Path]) -> None:
    """Wait until files and names in directories are on storage, in any order.

    A disk joins requests that wait side by side: 300 of them took a tenth of the time.
    """
    at_once(synchronise, paths)


def walk_written(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Folders with the names in them, as `os.walk` yields them, without unfinished output.

    A task may still run whose worker was given up, and makes and removes unfinished output
    meanwhile. All other names stay: what vanishes among them is an error.
    """
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if _UNFINISHED not in name]
        yield Path(folder), folders, [name for name in files if _UNFINISHED not in name]


def synchronise(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on storage."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
