"""Requests to object stores: which failures are tried again, for how long, and what errors say.

Every request of the project to a store passes through `request`. Clients would retry by themselves
as well, in loops within loops, and miss the deadline: their retries are turned off, here for s3fs
and gcsfs, and in `dranking.files.places` for botocore.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from dranking.errors import (
    DataError,
    DrankingError,
    StoreRefusesError,
    TryAgainError,
    UsageError,
)
from dranking.files.places import Place, is_local
from dranking.redaction import without_secrets

Value = TypeVar("Value")

DEADLINE_VARIABLE = "DRANKING_STORE_DEADLINE"
"""Environment variable: seconds within which a request that fails is tried again; 60 if not set."""

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two attempts
# The clients of stores have no exceptions in common, but names: of botocore, aiohttp, requests,
# http.client, azure.core, gcsfs and Python itself. Names of base classes count.
_KINDS: dict[str, set[str]] = {
    "changed": {"FileExistsError"},
    "absent": {"FileNotFoundError"},
    "damaged": {"ShortReadError", "FlexibleChecksumError", "ChecksumError"},
    "transient": {
        *("ConnectionError", "TimeoutError", "HTTPClientError", "ResponseParserError"),
        *("IncompleteReadError", "IncompleteRead", "ClientConnectionError", "ClientPayloadError"),
        *("ServiceRequestError", "ServiceResponseError", "ChunkedEncodingError"),
    },
    "refused": {
        *("PermissionError", "NoCredentialsError", "PartialCredentialsError"),
        *("CredentialRetrievalError", "TokenRetrievalError", "ClientAuthenticationError"),
        *("DefaultCredentialsError", "RefreshError", "ProfileNotFound"),
    },
}
_KIND_OF_STATUS = {
    412: "changed",
    404: "absent",
    # 409: two conditional writes at once
    **dict.fromkeys((408, 409, 429, 500, 502, 503, 504), "transient"),
    **dict.fromkeys((401, 403), "refused"),
}
_STATUS_ATTRIBUTES = {"ClientResponseError": "status", "HttpError": "code"}  # aiohttp, gcsfs


class ChangedError(Exception):
    """A conditional write found another object, or none, where it was to write."""


class ShortReadError(OSError):
    """A store returned fewer or more bytes than a range has."""


def request(place: Place, attempt: Callable[[], Value]) -> Value:
    """The value of an attempt, which is repeated while the store is busy or out of reach.

    Parameters
    ----------
    place
        The subject of the request, for errors.
    attempt
        One request; it must be harmless to send twice.

    Raises
    ------
    FileNotFoundError
        If nothing is at the place.
    ChangedError
        If the condition of a conditional write does not hold.
    TryAgainError
        If the store is still busy or out of reach at the deadline, or the credentials expired.
    DataError
        If the store refuses the request, or the bucket does not exist.
    """
    if not is_local(place) and hasattr(place.fs, "retries"):
        place.fs.retries = 1
    give_up = time.monotonic() + deadline()
    pause, n_damaged, handled = _SHORTEST_PAUSE, 0, sys.exception()
    while True:
        try:
            return attempt()
        except (DrankingError, ChangedError):
            raise
        except Exception as error:
            _cut_chain(error, handled)
            kind = _kind(error)
            n_damaged += kind == "damaged"
            left = give_up - time.monotonic()
            if pause > left or n_damaged > 1 or kind not in ("damaged", "transient"):
                raise _explained(place, error, kind) from _harmless(place, error)
            # Many workers must not come back at once, and none before the store said.
            wait = max(pause * random.uniform(0.5, 1.0), min(_retry_after(error), left))
        time.sleep(wait)
        pause = min(2 * pause, _LONGEST_PAUSE)


def deadline() -> float:
    """Seconds within which a failed request is tried again.

    Raises
    ------
    UsageError
        If the variable of the environment is no number of seconds.
    """
    text = os.environ.get(DEADLINE_VARIABLE, "60")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):  # no comparison with it would ever end the attempts
        raise UsageError(f"{DEADLINE_VARIABLE} is {text!r}; write a number of seconds.")
    return seconds


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, its cause, and so on; the refusal of an earlier request causes nothing."""
    while error is not None:
        yield error
        earlier = None if isinstance(error.__context__, ChangedError) else error.__context__
        error = error.__cause__ or earlier


def _cut_chain(error: BaseException, handled: BaseException | None) -> None:
    """Take out of a chain what was being handled before the request, and tells nothing of it."""
    for each in _chain(error):
        if handled is not None and each.__context__ is handled:
            each.__context__ = None


def _kind(error: BaseException) -> str:
    """Kind of a failure: by the first of an error and its causes with a known type or a response.

    What was merely being handled when an error was raised counts only if it is transient: another
    attempt does no harm, whereas a fault of a client after a 404 does not make a file absent.
    """
    is_cause = True
    for each in _chain(error):
        kind = _own_kind(each)
        if kind == "transient" or (kind is not None and is_cause):
            return kind
        is_cause = is_cause and each.__cause__ is not None
    return "other"


def _own_kind(error: BaseException) -> str | None:
    """Kind of an error without its causes; None if neither its type nor a response is known.

    The type counts before the response: a body that ends early is the body of a good answer. Other
    attributes do not count: aiohttp puts a 400 into errors of its own parser of such bodies.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    for kind, known in _KINDS.items():
        if names & known:
            return kind
    status = _status(error)
    return None if status is None else _KIND_OF_STATUS.get(status, "other")


def _status(error: BaseException) -> int | None:
    """HTTP status of the response that an error reports; None if it reports none."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    elif response is not None:  # requests, azure.core
        found = getattr(response, "status_code", None)
    else:
        known = [_STATUS_ATTRIBUTES.get(kind.__name__) for kind in type(error).__mro__]
        found = next((getattr(error, name, None) for name in known if name is not None), None)
    return found if isinstance(found, int) else None


def _retry_after(error: BaseException) -> float:
    """Seconds that a busy store asks to wait; 0 if it asks for none, or names a date."""
    for each in _chain(error):
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            headers = response.get("ResponseMetadata", {}).get("HTTPHeaders")
        else:
            headers = getattr(each if response is None else response, "headers", None)
        for name in ("Retry-After", "retry-after"):
            text = str(headers.get(name, "")) if isinstance(headers, Mapping) else ""
            if text.isdecimal():
                return float(text)
    return 0.0


def _explained(place: Place, error: Exception, kind: str) -> Exception:
    """The error for users of a request that is not tried again."""
    why = _first_line(place, error)
    if kind == "changed":
        return ChangedError(str(place))
    if kind == "absent":
        names = {type(each).__name__ for each in _chain(error)}
        if "bucket does not exist" in why or "NoSuchBucket" in names:
            return DataError(f"{place}: the bucket does not exist; make it, or mend the URL.")
        return FileNotFoundError(2, "No such file or directory", str(place))
    if is_local(place) and isinstance(error, OSError) and error.strerror:
        return DataError(f"{place}: cannot be read ({error.strerror}).")
    if kind == "damaged":
        return DataError(f"{place}: {why}, twice. The object or the store is damaged.")
    if kind == "transient":
        return TryAgainError(
            f"{place}: the store gave no answer for {deadline():g} s ({why}). Run again when it "
            "can be reached."
        )
    if "expired" in why.lower() or why == "Bad Request":  # the answer to HEAD gives no reason
        return TryAgainError(
            f"{place}: the credentials have probably expired ({why}). Renew them and run again."
        )
    if kind == "refused":
        return StoreRefusesError(
            f"{place}: the store refuses access ({why}). Give credentials as the store's client "
            "reads them (environment, configuration), or as storage options."
        )
    return StoreRefusesError(f"{place}: the store refuses the request ({why}).")


def _first_line(place: Place, error: BaseException) -> str:
    """The message of an error, in one line and without secrets."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    line = text.strip().splitlines()[0].rstrip(".")
    return line if is_local(place) else without_secrets(line, place.storage_options)


def _harmless(place: Place, error: Exception) -> Exception | None:
    """The error as a cause to show, unless its texts contain secrets."""
    if is_local(place):
        return error
    texts = [str(each) for each in _chain(error)]
    return error if all(without_secrets(t, place.storage_options) == t for t in texts) else None
