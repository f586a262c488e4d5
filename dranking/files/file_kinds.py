"""Kinds of files that are not read, told by their first bytes."""

from __future__ import annotations

import re
from typing import Final

N_BYTES: Final = 64
"""Bytes at the beginning of a file that tell its kind."""

_BINARY = rb"(?=(?s:.*)[\x00-\x08])"  # a query id in text may begin with the same letters
_TO_PARQUET = "Make it parquet once (pandas.{reader}(...).to_parquet(...))"
_KINDS: Final = (
    (re.compile(rb"\s*(?:\[\s*)?\{\s*[\"}]"), "JSON", _TO_PARQUET.format(reader="read_json")),
    (
        re.compile(rb"(?:ARROW1|FEA1)" + _BINARY),
        "Feather",
        _TO_PARQUET.format(reader="read_feather"),
    ),
    (re.compile(rb"ORC" + _BINARY), "ORC", _TO_PARQUET.format(reader="read_orc")),
    (
        re.compile(rb"PK\x03\x04"),
        "a zip archive or an Excel sheet",
        "Unpack it, or make it parquet",
    ),
    (
        re.compile(rb"\xff\xfe|\xfe\xff|(?:\x00[^\x00]){8}|(?:[^\x00]\x00){8}"),
        "text in UTF-16",
        "Write it in UTF-8 once (iconv -f UTF-16 -t UTF-8)",
    ),
)


def foreign_kind(content: bytes) -> str | None:
    """The kind of a file and what to do, for a message; None for text and for other kinds.

    Parameters
    ----------
    content
        The first `N_BYTES` bytes of the file, decompressed, or more.

    Examples
    --------
    >>> foreign_kind(b'{"qid": 1}')
    'is JSON, which is not read here. Make it parquet once (pandas.read_json(...).to_parquet(...))'
    """
    for pattern, kind, remedy in _KINDS:
        if pattern.match(content):
            return f"is {kind}, which is not read here. {remedy}"
    return None
