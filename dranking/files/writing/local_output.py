"""Output on local disks: temporary names, synchronisation, leftovers of killed processes.

The names are those of `dranking.files.writing.names`. The next write to the same path removes the
leftovers of a process of this machine that is dead, and after `GRACE_SECONDS` without a change
those of any process: another machine cannot be asked, and a process id may be in use again. Other
containers of this host, and the time before its last start, are other machines: what was left there
waits for 12 hours if it was being written, and for 60 seconds if it was being replaced.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from dranking.errors import UsageError
from dranking.files.reading import at_once
from dranking.files.writing import names
from dranking.files.writing.names import UNFINISHED, Kind, new_suffix, sibling, temporary_of
from dranking.files.writing.processes import is_gone

GRACE_SECONDS: Final[Mapping[Kind, float]] = {"tmp": 12 * 3600.0, "old": 60.0}
"""Age of the last change from which the leftover of any process is removed, or restored."""

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

# Suffixes of the temporary names that this process is writing. A process id alone does not identify
# a live writer: this process may have got the id of one that died.
_live: set[str] = set()


@contextmanager
def temporary_path(target: Path) -> Iterator[tuple[Path, str]]:
    """Yield a free temporary path and its suffix; afterwards remove whatever is at the path."""
    suffix = new_suffix()
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
    """Whether a file name in an error is the target, its temporary, or a file in one of them."""
    if not isinstance(name, str | os.PathLike):
        return False
    path = Path(name)
    hidden = str(target.with_name(f".{target.name}."))
    return target in (path, *path.parents) or str(path).startswith(hidden)


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


def restore(target: Path) -> None:
    """Restore a directory whose replacement was killed between its two renames."""
    with suppress(PermissionError):  # who reads or writes the target says so
        if target.exists():
            return
        for old in leftovers(target, "old"):
            with suppress(OSError):
                old.rename(target)
                return


def remove_leftovers(folder: Path) -> int:
    """Remove, or restore, what killed processes left directly in a folder, of whatever output.

    Returns the number of files and empty folders that were removed.
    """
    matches = [match for name in _names_in(folder) if (match := temporary_of(name))]
    return sum(clear_beside(folder / target) for target in sorted({m["target"] for m in matches}))


def clear_beside(target: Path, grace: float | None = None) -> int:
    """Remove, or restore, what killed processes left beside a target; the number of files removed.

    After `grace` seconds without a change, unfinished output of other machines goes as well.
    """
    restore(target)
    return _remove_leftovers(target, grace)


def _remove_leftovers(target: Path, grace: float | None = None) -> int:
    found = leftovers(target, "tmp", grace)
    if target.exists():
        found += leftovers(target, "old")
    return sum(map(_remove, found))


def leftovers(target: Path, kind: Kind, grace: float | None = None) -> list[Path]:
    """Hidden siblings of a target that processes left behind which are dead, or gone for long."""
    return [
        path
        for path in leftovers_of_any(target)
        if (match := temporary_of(path.name))
        and match["kind"] == kind
        and match["suffix"] not in _live
        and (_is_dead(match) or _idle_seconds(path) > _grace(match, grace))
    ]


def leftovers_of_any(target: Path) -> list[Path]:
    """Hidden siblings of a target, also of processes that may be alive."""
    found = [match for name in _names_in(target.parent) if (match := temporary_of(name))]
    return [target.with_name(match[0]) for match in found if match["target"] == target.name]


def _grace(match: re.Match[str], grace: float | None) -> float:
    """Seconds without a change after which a leftover counts as one of a killed process."""
    usual = GRACE_SECONDS["tmp" if match["kind"] == "tmp" else "old"]
    return usual if grace is None or match["host"] == names.HOST else min(usual, grace)


def _names_in(folder: Path) -> list[str]:
    """Sorted names in a folder; none if the folder cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _is_dead(match: re.Match[str]) -> bool:
    """Whether the process that a temporary name belongs to is known to be dead."""
    if match["host"] != names.HOST:
        return False
    pid = int(match["pid"])
    return pid == os.getpid() or is_gone(pid)  # an earlier process: the own names are in `_live`


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


def _remove(path: Path) -> int:
    """Delete a file or a directory tree, and return the number of files and empty folders.

    What cannot be deleted is left to the next run.
    """
    if os.path.isdir(path) and not os.path.islink(path):
        n_files = sum(len(files) or not folders for _, folders, files in os.walk(path))
        shutil.rmtree(path, ignore_errors=True)
        return n_files
    with suppress(OSError):
        path.unlink()
        return 1
    return 0


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
        folders[:] = [name for name in folders if UNFINISHED not in name]
        yield Path(folder), folders, [name for name in files if UNFINISHED not in name]


def synchronise(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on storage."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
