"""Operations on the working directory of runs, which may be at any place."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dranking.files.places import Place
from dranking.files.reading import list_files, read_bytes
from dranking.files.writing import object_store
from dranking.files.writing.names import MANIFEST_NAME


def names_in(folder: Place) -> list[str]:
    """Sorted names of files and folders directly in a folder; none if there is no folder."""
    if isinstance(folder, Path):
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return sorted({name.partition("/")[0] for name in _relative_names(folder)})


def delete(place: Place) -> None:
    """Delete a file, or a folder with its content; nothing happens if nothing is there.

    The manifest goes first, so that a folder whose deletion is killed does not count as whole.
    """
    if isinstance(place, Path):
        if place.is_dir():
            (place / MANIFEST_NAME).unlink(missing_ok=True)
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        return
    object_store.remove(place, [MANIFEST_NAME])
    object_store.remove(place, _relative_names(place))
    object_store.remove(place.parent, [place.name])


def newest_last(folder: Place) -> list[str]:
    """Names of the folders in a folder, in the order of their last changes."""
    if isinstance(folder, Path):
        return sorted(names_in(folder), key=lambda name: (folder / name).stat().st_mtime)
    changed: dict[str, float] = {}
    for found in object_store.list_objects(folder):
        name = found.name.partition("/")[0]
        time = found.modified.timestamp() if found.modified else 0.0
        changed[name] = max(time, changed.get(name, 0.0))
    return sorted(changed, key=lambda name: changed[name])


@contextmanager
def local_copy(folder: Place) -> Iterator[Path]:
    """Yield a local folder as it is, and of any other folder a copy that is deleted at the end."""
    if isinstance(folder, Path):
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        for name in _relative_names(folder):
            target = Path(temporary, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(read_bytes(folder / name))
        yield Path(temporary)


def _relative_names(folder: Place) -> list[str]:
    beginning = folder.as_posix().rstrip("/") + "/"
    return [file.as_posix().removeprefix(beginning) for file in list_files(folder)]
