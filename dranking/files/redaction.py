"""Removal of secrets from texts such as logs, reports and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

HIDDEN = "***"

_CREDENTIALS = re.compile(r"://[^@\s\"']+@")  # slashes included: secrets of S3 contain slashes
_SIGNATURES = re.compile(
    r"([?&][^=&\s\"']*(?:key|pass|secret|sig|token)[^=&\s\"']*=)[^&\s\"']+", re.IGNORECASE
)
_SECRET_NAME = re.compile(
    r"pass|secret|token|credential|auth|signature|connection_?string|(^|[_-])(key|dsn|sas|sig)$",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """The text without credentials in its URLs.

    Examples
    --------
    >>> redacted("s3://key:secret@bucket/models")
    's3://***@bucket/models'
    >>> redacted("https://host/models?sv=2026&sig=secret")
    'https://host/models?sv=2026&sig=***'
    """
    return _SIGNATURES.sub(rf"\1{HIDDEN}", _CREDENTIALS.sub(f"://{HIDDEN}@", text))


def without_secrets(text: str, options: Mapping[str, Any]) -> str:
    """The text without credentials in URLs and without the values of secret options.

    An option is secret if its name says so, such as "password", "token" or "api_key".

    Examples
    --------
    >>> without_secrets("no entry with 'xyzzy'", {"connect": {"password": "xyzzy"}})
    "no entry with '***'"
    """
    for secret in sorted(_secrets(options), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return redacted(text)


def _secrets(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif isinstance(value, str) and value and _SECRET_NAME.search(name):
            yield value
