"""CRC-32C checksums, and the error of a file that fails its checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import google_crc32c
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

Bytes: TypeAlias = NDArray[np.uint8]
"""(n_bytes,) uint8. A slice of such an array is a view, while a slice of `bytes` is a copy."""

Checksum: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]
"""A checksum as manifests hold it: 8 hex digits."""


class DamagedFileError(Exception):
    """A file differs from what was written; the message says how, without the file's name."""


def checksum(content: bytes | Bytes) -> str:
    """CRC-32C of bytes as 8 hex digits."""
    return f"{google_crc32c.value(content):08x}"


def file_checksum(file: Path) -> str:
    """CRC-32C of a file as 8 hex digits; the file is mapped into memory, not read as a whole.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    if not file.stat().st_size:  # an empty file cannot be mapped
        return checksum(b"")
    return checksum(np.memmap(file, dtype=np.uint8, mode="r"))
