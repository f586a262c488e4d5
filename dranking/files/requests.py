"""Requests to object stores: which failures are tried again, for how long, and what errors say.

Every request of the project to a store passes through `request`. Clients would retry by themselves
as well, in loops within loops, and miss the deadline: their retries are turned off, here for s3fs
and gcsfs, and in `dranking.files.places` for botocore.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from dranking.errors import DataError, DrankingError, TryAgainError, UsageError
from dranking.files.places import Place, is_local
from dranking.redaction import without_secrets

Value = TypeVar("Value")

DEADLINE_VARIABLE = "DRANKING_STORE_DEADLINE"
"""Environment variable: seconds within which a request that fails is tried again; 60 if not set."""

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two attempts
_PRECONDITION_FAILED = 412
_TRANSIENT_STATUSES = {408, 409, 429, 500, 502, 503, 504}  # 409: two conditional writes at once
_REFUSED_STATUSES = {401, 403}

# The clients of stores have no exceptions in common, but names: of botocore, aiohttp, requests,
# http.client, azure.core and Python itself. Names of base classes count.
_TRANSIENT_NAMES = {
    *("ConnectionError", "TimeoutError", "HTTPClientError", "ResponseParserError"),
    *("IncompleteReadError", "IncompleteRead", "ClientConnectionError", "ClientPayloadError"),
    *("ServiceRequestError", "ServiceResponseError"),
}
_DAMAGED_NAMES = {"ShortReadError", "FlexibleChecksumError"}
_REFUSED_NAMES = {
    *("PermissionError", "NoCredentialsError", "PartialCredentialsError"),
    *("CredentialRetrievalError", "TokenRetrievalError", "ClientAuthenticationError"),
    *("DefaultCredentialsError", "RefreshError", "ProfileNotFound"),
}


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
            n_damaged += _is_damaged(error)
            late = time.monotonic() + pause > give_up
            if late or n_damaged > 1 or not (_is_damaged(error) or _is_transient(error)):
                raise _explained(place, error) from _harmless(place, error)
        time.sleep(pause * random.uniform(0.5, 1.0))  # many workers must not come back at once
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
        return float(text)
    except ValueError as error:
        raise UsageError(f"{DEADLINE_VARIABLE} is {text!r}; write a number of seconds.") from error


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


def _statuses(error: BaseException) -> set[int]:
    """HTTP statuses that an error and its causes tell of, whatever client raised them."""
    found: set[object] = set()
    for each in _chain(error):
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            found.add(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
        found |= {getattr(each, name, None) for name in ("status", "status_code", "code")}
    return {status for status in found if isinstance(status, int)}


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for each in _chain(error) for kind in type(each).__mro__}


def _is_transient(error: BaseException) -> bool:
    statuses = _statuses(error)
    if statuses:
        return bool(statuses & _TRANSIENT_STATUSES)
    return bool(_names(error) & _TRANSIENT_NAMES)


def _is_damaged(error: BaseException) -> bool:
    """Whether the store answered, but not with what it stores."""
    return bool(_names(error) & _DAMAGED_NAMES)


def _explained(place: Place, error: Exception) -> Exception:
    """The error for users of a request that is not tried again."""
    statuses, names = _statuses(error), _names(error)
    why = _first_line(place, error)
    if _PRECONDITION_FAILED in statuses or isinstance(error, FileExistsError):
        return ChangedError(str(place))
    if isinstance(error, FileNotFoundError):
        if "bucket does not exist" in why or "NoSuchBucket" in names:
            return DataError(f"{place}: the bucket does not exist; make it, or mend the URL.")
        return FileNotFoundError(2, "No such file or directory", str(place))
    if is_local(place) and isinstance(error, OSError) and error.strerror:
        return DataError(f"{place}: cannot be read ({error.strerror}).")
    if _is_damaged(error):
        return DataError(f"{place}: {why}, twice. The object or the store is damaged.")
    if "expired" in why.lower() or why == "Bad Request":  # the answer to HEAD gives no reason
        return TryAgainError(
            f"{place}: the credentials have probably expired ({why}). Renew them and run again."
        )
    if statuses & _REFUSED_STATUSES or names & _REFUSED_NAMES:
        return DataError(
            f"{place}: the store refuses access ({why}). Give credentials as the store's client "
            "reads them (environment, configuration), or as storage options."
        )
    if _is_transient(error):
        return TryAgainError(
            f"{place}: the store gave no answer for {deadline():g} s ({why}). Run again when it "
            "can be reached."
        )
    return DataError(f"{place}: the store refuses the request ({why}).")


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
