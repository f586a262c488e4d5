"""Places: a file or a folder on local disks, or behind an fsspec URL such as ``s3://bucket/name``.

A place is a `pathlib.Path` if it is local and a `upath.UPath` otherwise; both have the methods of
pathlib. A `UPath` is pickled as its URL and storage options; the worker that unpickles it opens its
own connection, so that credentials which expire are looked up anew there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from upath import UPath

from dranking.errors import UsageError
from dranking.files.redaction import redacted

Place: TypeAlias = Path | UPath
AnyPlace: TypeAlias = str | os.PathLike[str] | UPath

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure"}
"""The extra of dranking that installs the client of a protocol."""


def as_place(source: AnyPlace, storage_options: Mapping[str, Any] | None = None) -> Place:
    """The place that a path or a URL names.

    Parameters
    ----------
    source
        A local path, an fsspec URL, or a place, which is returned as it is.
    storage_options
        Options of the URL's file system, as pandas and Dask take them.

    Raises
    ------
    UsageError
        If the URL's protocol is unknown, or needs a package that is not installed.
    """
    if not isinstance(source, str | Path) and isinstance(source, UPath) and not storage_options:
        return source
    text = str(source)
    if "://" not in text or text.startswith("file://"):
        return Path(text.removeprefix("file://")).absolute()
    try:
        place = UPath(text, **(storage_options or {}))
        place.fs  # noqa: B018 - imports the protocol's client
    except (ValueError, ImportError) as error:
        extra = EXTRAS.get(text.partition("://")[0])
        remedy = f" Run: pip install 'dranking[{extra}]'." if extra else ""
        raise UsageError(redacted(f"{text}: cannot be opened ({error}).{remedy}")) from error
    return cast(Place, place)


def is_local(place: Place) -> bool:
    """Whether a place lies on local disks."""
    return isinstance(place, Path)
