"""Reading JSON from anywhere: of bounded size, and every flaw is a ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MAX_JSON_BYTES = 2**30
"""Largest JSON file to read; the manifest of 10^9 documents is smaller."""


def read_json(file: Path, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Parsed content of a file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is larger than `max_bytes`, is not JSON, or is nested too deep.
    """
    if file.stat().st_size > max_bytes:
        raise ValueError(f"larger than {max_bytes:,} bytes")
    return parse_json(file.read_bytes())


def parse_json(text: str | bytes) -> Any:
    """Parsed content of a text.

    Raises
    ------
    ValueError
        If the text is not JSON, or is nested too deep.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    except RecursionError as error:
        raise ValueError("not JSON (nested too deep)") from error
