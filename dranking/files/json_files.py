"""JSON that anybody may have written: bounded, and never more than an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MAX_JSON_BYTES = 2**30
"""More than the manifest of a thousand million documents has."""


def read_json(file: Path, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Content of a file.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is larger than `max_bytes`, or as `parse_json`.
    """
    if file.stat().st_size > max_bytes:
        raise ValueError(f"larger than {max_bytes:,} bytes")
    return parse_json(file.read_bytes())


def parse_json(text: str | bytes) -> Any:
    """Content of a document.

    Raises
    ------
    ValueError
        If it is no JSON, or nested too deep; says so.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    except RecursionError as error:
        raise ValueError("not JSON (nested too deep)") from error
