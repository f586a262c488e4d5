"""Places: a file or a folder on local disks, or behind an fsspec URL such as ``s3://bucket/name``.

A place is a `pathlib.Path` if it is local and a `upath.UPath` otherwise; both have the methods of
pathlib. A `UPath` is pickled as its URL and storage options; the worker that unpickles it opens its
own connection, so that credentials which expire are looked up anew there. A URL never holds
credentials, because URLs are shown in errors, reports and logs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from upath import UPath

from dranking.errors import UsageError
from dranking.redaction import has_credentials, redacted, without_secrets

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Place: TypeAlias = Path | UPath
AnyPlace: TypeAlias = str | os.PathLike[str] | UPath

NAME_BYTES = 255
"""Bytes of a file's name, without its folders, that file systems hold."""

_LOCAL = ("file://", "local://")

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure"}
"""The extra of dranking that installs the client of a protocol."""

MAX_REQUESTS = 32
"""Requests of a process that are under way at once. A store answers after tens of milliseconds, so
that one request at a time would read a few objects a second."""

_LISTED_ANEW: dict[str, Any] = {"use_listings_cache": False}  # other processes write too
CLIENT_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        **_LISTED_ANEW,
        "config_kwargs": {"retries": {"max_attempts": 0}, "max_pool_connections": MAX_REQUESTS},
    },
    "gs": _LISTED_ANEW,
    "gcs": _LISTED_ANEW,
}
"""Options of clients unless the caller or fsspec's configuration says otherwise. Retries are those
of `dranking.files.requests` alone: botocore's would multiply them. By itself, botocore has ten
connections."""

_FILE = re.compile("^(file:(//)?(?=/)|file://|local://)")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:(?=/)")  # two letters or more: C:/ is a drive of Windows

_defaults: ContextVar[Mapping[str, Any] | None] = ContextVar("storage_options", default=None)


def is_path(value: object) -> bool:
    """Whether a value names a place: a path, a URL, or a place itself."""
    return isinstance(value, (str, os.PathLike, UPath))


def as_place(source: AnyPlace, storage_options: Mapping[str, Any] | None = None) -> Place:
    """The place that a path or a URL names.

    Parameters
    ----------
    source
        A local path, an fsspec URL, or a place, which is returned as it is.
    storage_options
        Options of the URL's file system, as pandas and Dask take them. Without any, those of
        `default_storage_options`.

    Raises
    ------
    UsageError
        If a local name is none that file systems hold; if the URL holds a password or a signature,
        has one slash only, or its protocol is unknown or needs a package that is not installed; or
        if the options are not those of the protocol's client.
    """
    if not isinstance(source, str | Path) and isinstance(source, UPath) and not storage_options:
        return source
    text = str(source)
    if "://" not in text or text.startswith(_LOCAL):
        return local_path(text).absolute()
    if has_credentials(text):
        raise UsageError(
            f"{redacted(text)}: has credentials in it, and URLs are shown in errors and reports. "
            "Leave them out; give them as storage options or as the store's client reads them."
        )
    given = dict(storage_options or _defaults.get() or {})
    protocol = text.partition("://")[0]
    try:
        place = UPath(text, **_client_options(protocol, given))
        place.fs  # noqa: B018 - imports the protocol's client
    except (ValueError, TypeError, ImportError) as error:
        extra = EXTRAS.get(protocol) if isinstance(error, ImportError) else None
        remedy = f" Run: pip install 'dranking[{extra}]'." if extra else ""
        raise UsageError(
            without_secrets(f"{text}: cannot be opened ({error}).{remedy}", given)
        ) from None
    return cast(Place, place)


def local_path(text: str) -> Path:
    """The local path that a text without ``://``, or a URL of a local file, names.

    Raises
    ------
    UsageError
        If file systems hold no such name, or the text is a URL that lost one of its two slashes, as
        `pathlib.Path` makes it.
    """
    path = _FILE.sub("", text)
    if scheme := _SCHEME.match(path):
        name = scheme[0]
        # Credentials are known by the two slashes before them.
        whole = redacted(f"{name}//{path[scheme.end() :].lstrip('/')}")
        raise UsageError(
            f"{whole}: is a URL that was given with one slash only. Write two, as a string and not "
            f"as a pathlib.Path; a local folder of this name is ./{name}"
        )
    try:
        longest = max(len(name.encode()) for name in path.split("/"))
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{text!r}: the name is no text in UTF-8; rename the file or the folder."
        ) from error
    if "\0" in path:
        raise UsageError(f"{text!r}: no name of a file has a null character; mend the path.")
    if longest > NAME_BYTES:
        raise UsageError(
            f"{text[:60]}...: has a name of {longest} bytes, and file systems hold names of "
            f"{NAME_BYTES}; give a shorter one."
        )
    return Path(path)


@contextmanager
def default_storage_options(options: Mapping[str, Any]) -> Iterator[None]:
    """Give URLs that are named inside the context, in this thread, these storage options."""
    before = _defaults.set(dict(options))
    try:
        yield
    finally:
        _defaults.reset(before)


def _client_options(protocol: str, given: dict[str, Any]) -> dict[str, Any]:
    from fsspec.config import conf

    options = CLIENT_OPTIONS.get("s3" if protocol == "s3a" else protocol, {})
    configured = conf.get(protocol, {})
    return {name: value for name, value in options.items() if name not in configured} | given


def is_local(place: Place) -> TypeIs[Path]:
    """Whether a place lies on local disks."""
    return isinstance(place, Path)
