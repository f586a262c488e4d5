"""Reading JSON from anywhere: of bounded size, and every flaw is a ValueError; JSON with a seal.

A *seal* is the entry "digest" of an object: a hash of all its other entries, by which whoever reads
the object notices every change of content, but no change of layout.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from dranking.files.places import Place
from dranking.files.reading import file_size, read_bytes

MAX_JSON_BYTES = 2**30
"""Largest JSON file to read; the manifest of 10^9 documents is smaller."""

SEAL = "digest"
"""Entry of a sealed object that holds the hash of the other entries."""


def read_json(file: Place, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Parsed content of a file.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    DataError
        If the file cannot be read.
    ValueError
        If the file is larger than `max_bytes`, is not JSON, or is nested too deep.
    """
    size = file_size(file)
    if size > max_bytes:
        raise ValueError(f"larger than {max_bytes:,} bytes")
    return parse_json(read_bytes(file, 0, size))


def parse_json(text: str | bytes) -> Any:
    """Parsed content of a text.

    Raises
    ------
    ValueError
        If the text is not JSON, is nested too deep, or gives a name twice in one object: other
        programs would read another of the two values.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_repetition)
    except RepeatedNameError:
        raise
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    except RecursionError as error:
        raise ValueError("not JSON (nested too deep)") from error


class RepeatedNameError(ValueError):
    """An object of a JSON text has a name twice."""


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RepeatedNameError(f"{name} occurs twice in an object")
        found[name] = value
    return found


def finite(value: Any) -> Any:
    """Plain dictionaries and lists for JSON, with None for a number that is not finite."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def sealed_json(content: Mapping[str, Any], indent: int | None = None) -> bytes:
    """JSON text of an object with its seal; an earlier seal is replaced."""
    unsealed = {name: value for name, value in content.items() if name != SEAL}
    sealed = {**unsealed, SEAL: _digest(unsealed)}
    return (json.dumps(sealed, ensure_ascii=False, indent=indent) + "\n").encode()


def unsealed(content: Any) -> dict[str, Any]:
    """The entries of a sealed object, without the seal, after the seal was compared.

    Raises
    ------
    ValueError
        If the content is no object, there is no seal, or the seal does not fit the entries.
    """
    if not isinstance(content, Mapping):
        raise ValueError("not a JSON object")
    entries = {name: value for name, value in content.items() if name != SEAL}
    if SEAL not in content:
        raise ValueError(f"the entry '{SEAL}' is missing")
    if content[SEAL] != _digest(entries):
        raise ValueError(f"the content is not what was written: its '{SEAL}' is another")
    return entries


def _digest(content: Mapping[str, Any]) -> str:
    """BLAKE2b of the content as canonical JSON: sorted names, no spaces, shortest numbers."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
