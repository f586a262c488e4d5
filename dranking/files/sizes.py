"""Sizes as text."""

from __future__ import annotations

UNITS = ("PiB", "TiB", "GiB", "MiB", "kiB")
"""Units of 1024 bytes to a power, the largest first."""


def format_bytes(n_bytes: int) -> str:
    """A size as text, such as "1.50 GiB"; the text is that of `dask.utils.format_bytes`."""
    for power, unit in zip(range(5, 0, -1), UNITS, strict=True):
        if n_bytes >= 0.9 * 1024**power:
            return f"{n_bytes / 1024**power:.2f} {unit}"
    return f"{n_bytes} B"
