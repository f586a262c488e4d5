"""The sources of a run: files, dataset directories or folders to ingest.

The content of a source identifies the source. So a run recognises what earlier runs have ingested,
under whatever name, and notices that a file was replaced by another one of the same size and time.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dranking.data.scaling import FROM_MOMENTS, Normalize
from dranking.errors import DataError, TryAgainError
from dranking.files.places import Place, as_place
from dranking.files.reading import exists
from dranking.files.requests import request
from dranking.retrain.config.tables import DataConfig
from dranking.retrain.sources.content_digests import ContentDigests
from dranking.retrain.work_folder import delete, names_in

TEXT_OPTIONS = ("null", "null_indicator", "n_features", "sparse", "regroup")
_ROLES = ("qid", "docid", "relevance", "weight")
TABLE_OPTIONS = ("null", "null_indicator", "shift", *_ROLES, "features", "exclude")
"""Entries of the configuration that `ingest` takes for text, and for parquet tables."""

DIGITS = ("digits:train", "digits:test")
"""Sources that ship with scikit-learn, for trying things out."""


class Source(NamedTuple):
    """A file or directory to ingest.

    Attributes
    ----------
    name
        Path or URL, or one of `DIGITS`.
    key
        Digest of the content and the options of ingest.
    content
        Digest of the content.
    """

    name: str
    key: str
    content: str


def find_sources(
    patterns: Iterable[str], data: DataConfig, digests: ContentDigests
) -> list[Source]:
    """Find the sources that match some patterns, each name once.

    Parameters
    ----------
    patterns
        Paths, URLs, glob patterns, or members of `DIGITS`. The sources of each pattern are sorted
        by name.
    data
        Options of ingest.
    digests
        Digests of contents.

    Raises
    ------
    DataError
        If nothing matches a pattern, or a source cannot be read.
    """
    found: list[str] = []
    for pattern in patterns:
        names = _names(pattern)
        if not names:
            raise DataError(f"{pattern}: nothing is there; name files, directories or a pattern.")
        found += names
    return [_source(name, data, digests) for name in dict.fromkeys(found)]


def unique(sources: Iterable[Source]) -> tuple[list[Source], list[tuple[str, str]]]:
    """The first source of each content, and pairs of names: of a repeated source, and the first.

    A part that was delivered again under another name would count twice.
    """
    first: dict[str, Source] = {}
    again: list[tuple[str, str]] = []
    for source in sources:
        if first.setdefault(source.content, source) is not source:
            again.append((source.name, first[source.content].name))
    return list(first.values()), again


def check_unchanged(
    source: Source, data: DataConfig, digests: ContentDigests, stored: Place
) -> None:
    """Check that a source has not changed since the run began.

    Raises
    ------
    TryAgainError
        If the source has changed. The stored copy of the source is deleted first.
    """
    if _source(source.name, data, digests) == source:
        return
    delete(stored)
    raise TryAgainError(
        f"{source.name}: has changed since the run began; run again, without --resume, when the "
        "file is complete."
    )


def delete_others(root: Place, sources: Iterable[Source]) -> None:
    """Delete what a directory has stored under the keys of other sources."""
    kept = {source.key for source in sources}
    for name in names_in(root):
        if name.partition(".")[0] not in kept and not name.startswith("."):
            delete(root / name)


def ingested_scaling(data: DataConfig) -> Normalize:
    """The scaling that parts are stored with.

    Standard and minmax scaling change with every run, as they depend on all training data; parts
    are then stored unscaled.
    """
    return "none" if data.normalize in FROM_MOMENTS else data.normalize


def _names(pattern: str) -> list[str]:
    """Sorted names that a pattern matches."""
    if pattern in DIGITS:
        return [pattern]
    place = as_place(pattern)
    if isinstance(place, Path):
        # A name may have brackets, and it is shown as it was given.
        return [pattern] if exists(place) else sorted(glob.glob(pattern, recursive=True))
    if exists(place):
        return [pattern]
    found = request(place, lambda: place.fs.glob(place.path))
    return sorted(map(place.fs.unstrip_protocol, found))


def _source(name: str, data: DataConfig, digests: ContentDigests) -> Source:
    content = name if name in DIGITS else digests.of(as_place(name))
    how = data.model_dump(include={*TEXT_OPTIONS, *TABLE_OPTIONS})
    facts = [content, sorted(how.items()), ingested_scaling(data)]
    return Source(name, hashlib.sha256(repr(facts).encode()).hexdigest()[:24], content)
