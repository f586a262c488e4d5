"""Files of the working directory that can be computed again, each with a digest of its content."""

from __future__ import annotations

import hashlib

from dranking.files.places import Place
from dranking.files.reading import read_bytes
from dranking.files.writing.atomic_files import atomic_write

_DIGEST_BYTES = 16


def write_side_file(file: Place, content: bytes) -> None:
    """Write a file with the digest of its content in front."""
    atomic_write(file, _digest(content) + content, overwrite=True)


def read_side_file(file: Place) -> bytes | None:
    """Content of a file; None if there is no such file, or another content than was written."""
    try:
        stored = read_bytes(file)
    except OSError:
        return None
    content = stored[_DIGEST_BYTES:]
    return content if stored[:_DIGEST_BYTES] == _digest(content) else None


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
