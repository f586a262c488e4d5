"""Removal of secrets from texts such as logs, reports and errors."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

HIDDEN = "***"

SHORT = 4
"""Fewer characters make no secret: hidden everywhere, they would make messages unreadable."""

# Slashes included: secrets of S3 contain slashes.
_USER = re.compile(r"(?P<protocol>[\w+.-]*)://(?P<user>[^@\s\"']+)@")
_HOST_AND_PATH = re.compile(r"[^:/]*(:\d{1,5})?/")
_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "cos"}
_CONTAINERS = {"abfs", "abfss", "wasb", "wasbs", "az"}  # abfs://container@account.dfs...
_KEYS = re.compile(
    r"\b(AccountKey|SharedAccessKey|SharedAccessSignature|Password|Pwd)=[^;\s\"']+", re.IGNORECASE
)
_SIGNATURES = re.compile(
    r"([?&][^=&\s\"']*(?:key|pass|secret|sig|token)[^=&\s\"']*=)[^&\s\"']+", re.IGNORECASE
)
_SIGNED = re.compile(r"[?&][^=&]*(?:credential|sig)[^=&]*=", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"pass|secret|token|credential|auth|signature|connection_?string|key$|(^|[_-])(dsn|sas|sig)$",
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
    >>> redacted("AccountName=us;AccountKey=c2VjcmV0;EndpointSuffix=core")
    'AccountName=us;AccountKey=***;EndpointSuffix=core'
    """
    return _KEYS.sub(rf"\1={HIDDEN}", _SIGNATURES.sub(rf"\1{HIDDEN}", _USER.sub(_hidden, text)))


def has_credentials(url: str) -> bool:
    """Whether a URL holds a password, a key or a signature.

    Examples
    --------
    >>> has_credentials("s3://key:se/cret@bucket"), has_credentials("hdfs://host:8020/a@b")
    (True, False)
    """
    found = _USER.search(url)
    has_password = found is not None and ":" in found["user"] and _hidden(found) != found[0]
    return has_password or _SIGNED.search(url) is not None


def _hidden(found: re.Match[str]) -> str:
    """The text before an @, without a password; a container or a path is no password."""
    protocol, user = found["protocol"].lower(), found["user"]
    is_path = protocol not in _BUCKETS and _HOST_AND_PATH.match(user) is not None
    is_container = protocol in _CONTAINERS and ":" not in user
    return found[0] if is_path or is_container else f"{protocol}://{HIDDEN}@"


def without_secrets(text: str, options: Mapping[str, Any]) -> str:
    """The text without credentials in URLs and without the values of secret options.

    An option is secret if its name says so, such as "password", "token" or "SSECustomerKey". Its
    value is hidden as it is, and in base64, as headers of requests have it. A value of fewer than
    `SHORT` characters is hidden where it is a word, and not within words.

    Examples
    --------
    >>> without_secrets("no entry with 'xyzzy'", {"connect": {"password": "xyzzy"}})
    "no entry with '***'"
    """
    for secret in sorted(_secrets(options), key=len, reverse=True):
        word = re.escape(secret)
        text = re.sub(word if len(secret) >= SHORT else rf"(?<!\w){word}(?!\w)", HIDDEN, text)
    return redacted(text)


def _secrets(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif isinstance(value, str | bytes) and value and _SECRET_NAME.search(name):
            yield value if isinstance(value, str) else repr(value)[2:-1]
            yield b64encode(value.encode() if isinstance(value, str) else value).decode()
