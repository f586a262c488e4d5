"""The address of a running scheduler: the given address, or the content of a scheduler file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from dranking.engine.cluster.tls import has_certificates, is_temporary
from dranking.errors import TryAgainError, UsageError
from dranking.files.json_files import parse_json

FILE_POLL_SECONDS = 0.1


def scheduler_address(name: str, seconds: float, security: Any) -> str:
    """The address of a running scheduler, checked against the certificates of this client.

    Parameters
    ----------
    name
        An address, or the path of a scheduler file.
    seconds
        Deadline for the scheduler file.
    security
        A `distributed.Security`; None means the security of Dask's configuration.

    Raises
    ------
    UsageError
        If the file is not a scheduler file, or if the address does not fit the certificates.
    TryAgainError
        If there is no such file in time.
    """
    address = name if "://" in name else address_in_file(Path(name), seconds)
    if is_temporary(security):
        raise UsageError(
            f"security = true is for clusters that this command starts; for {address} name the "
            "files of its certificates: tls_ca_file, tls_cert, tls_key."
        )
    if address.startswith("tls://") and not has_certificates(security):
        raise UsageError(
            f"{address} speaks TLS, and there is no certificate of this client: give tls_ca_file, "
            "tls_cert and tls_key, or set distributed.comm.tls in Dask's configuration."
        )
    if address.startswith("tcp://") and security is not None:
        raise UsageError(
            f"{address} is not encrypted, and certificates were given: write tls://, or leave the "
            "certificates out."
        )
    return address


def address_in_file(path: Path, seconds: float) -> str:
    """Wait until a scheduler file is there and has content; return the address in it."""
    deadline = time.monotonic() + seconds
    while not (text := _text_of(path)):
        if time.monotonic() >= deadline:
            raise TryAgainError(
                f"{path}: the scheduler has not {'written' if text is None else 'filled'} this "
                f"file within {seconds:g} s."
            )
        time.sleep(FILE_POLL_SECONDS)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path}: not a scheduler file, {error}.") from error
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str) or "://" not in address:
        raise UsageError(f"{path}: not a scheduler file, it has no 'address'.")
    return address


def _text_of(path: Path) -> str | None:
    """Content of a scheduler file; None if there is no file."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a scheduler file ({error}).") from error
