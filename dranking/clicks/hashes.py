"""Salted hashes, in place of ids of users and texts of queries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.regrouping.query_lines import hash_ids

NO_USER = np.uint64(0)
"""Stands for the hash of the user where an event has no id of a user."""


def hashed_texts(texts: Iterable[str], salt: str) -> list[str]:
    """Query texts as 32 hex digits: keyed BLAKE2b of the text, with the salt as key.

    A query of a data set has the same hash, so that counts and documents still find each other.
    """
    key = _key(salt)
    return [hashlib.blake2b(t.encode(), digest_size=16, key=key).hexdigest() for t in texts]


def hashed_users(texts: Iterable[str | None], salt: str) -> NDArray[np.uint64]:
    """(n,) 64-bit hashes of ids of users, or `NO_USER`: keyed BLAKE2b, with the salt as key."""
    key = _key(salt)
    words = [
        b"\0" * 8
        if text is None
        else hashlib.blake2b(text.encode(), digest_size=8, key=key).digest()
        for text in texts
    ]
    return np.frombuffer(b"".join(words), dtype="<u8").astype(np.uint64)


def query_keys(query_ids: NDArray[np.str_]) -> NDArray[np.uint64]:
    """(n_queries,) 64-bit hashes of the ids of queries."""
    return hash_ids(pa.array(query_ids.tolist(), pa.string()))


def session_key(salt: str) -> int:
    """Key of the 64-bit hashes of session ids, which live in the scratch files of a build only."""
    return int.from_bytes(hashlib.blake2b(b"", digest_size=8, key=_key(salt)).digest(), "little")


def _key(salt: str) -> bytes:
    return hashlib.blake2b(salt.encode(), digest_size=32).digest()
