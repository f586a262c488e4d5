"""The sources of a run: files, dataset directories or folders to ingest.

Path, size and modification time identify the content of a source, so that a run recognises what
earlier runs have ingested without reading it.
"""

from __future__ import annotations

import glob
import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dranking.data.scaling import Normalize
from dranking.errors import DataError, TryAgainError
from dranking.files.commit import MANIFEST_NAME
from dranking.retrain.config_tables import DataConfig

DIGITS = ("digits:train", "digits:test")
"""Sources that ship with scikit-learn, for trying things out."""


class Source(NamedTuple):
    """A file or directory to ingest.

    Attributes
    ----------
    name
        Path, or one of `DIGITS`.
    key
        Digest of the name, the state of the files, and the options of ingest.
    """

    name: str
    key: str


def find_sources(patterns: Iterable[str], data: DataConfig) -> list[Source]:
    """Find the sources that match some patterns, each source once.

    Parameters
    ----------
    patterns
        Paths, glob patterns, or members of `DIGITS`. The sources of each pattern are sorted by
        name.
    data
        Options of ingest.

    Raises
    ------
    DataError
        If nothing matches a pattern.
    """
    found: list[str] = []
    for pattern in patterns:
        is_name = pattern in DIGITS or Path(pattern).exists()  # a name may have brackets
        names = [pattern] if is_name else sorted(glob.glob(pattern, recursive=True))
        if not names:
            raise DataError(f"{pattern}: nothing is there; name files, directories or a pattern.")
        found += names
    return [Source(name, _key(name, data)) for name in dict.fromkeys(found)]


def check_unchanged(source: Source, data: DataConfig, stored: Path) -> None:
    """Check that a source has not changed since the run began.

    Raises
    ------
    TryAgainError
        If the source has changed. The stored copy of the source is deleted first.
    """
    if _key(source.name, data) == source.key:
        return
    delete(stored)
    raise TryAgainError(
        f"{source.name}: has changed since the run began; run again, without --resume, when the "
        "file is complete."
    )


def delete_others(root: Path, sources: Iterable[Source]) -> None:
    """Delete what a directory has stored under the keys of other sources."""
    kept = {source.key for source in sources}
    for path in root.iterdir() if root.is_dir() else ():
        if path.name.partition(".")[0] not in kept and not path.name.startswith("."):
            delete(path)


def delete(path: Path) -> None:
    """Delete a file, or a folder with its content."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def ingested_scaling(data: DataConfig) -> Normalize:
    """The scaling that parts are stored with.

    Standard scaling changes with every run, as it depends on all training data; parts are then
    stored unscaled.
    """
    return "none" if data.normalize == "standard" else data.normalize


def state_of(path: Path) -> list[tuple[str, int, int]]:
    """Path, size and modification time (ns) of a file, or of the files in a folder.

    In a folder with a manifest, only the manifest is looked at.

    Raises
    ------
    DataError
        If a file cannot be read.
    """
    files = [path]
    if path.is_dir():
        manifest = path / MANIFEST_NAME
        files = [manifest] if manifest.is_file() else sorted(filter(Path.is_file, path.rglob("*")))
    try:
        found = [(file.absolute(), file.stat()) for file in files]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    return [(str(file), status.st_size, status.st_mtime_ns) for file, status in found]


def _key(name: str, data: DataConfig) -> str:
    """Digest that identifies the content of a source and the options of ingest."""
    how = data.model_dump(include={"null", "n_features", "sparse", "regroup"})
    facts: list[object] = [name, sorted(how.items()), ingested_scaling(data)]
    if name not in DIGITS:
        facts += state_of(Path(name))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
