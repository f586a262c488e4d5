"""Sizes of memory as users write and read them."""

from __future__ import annotations

from dask.utils import format_bytes as format_bytes
from dask.utils import parse_bytes

from dranking.errors import UsageError


def parse_memory(limit: int | str) -> int:
    """A memory limit in bytes: a number, or text such as "8GB" or "500MiB".

    Raises
    ------
    UsageError
        If it is no size above 0.
    """
    try:
        n_bytes = int(parse_bytes(limit))
    except (ValueError, TypeError, AttributeError):
        n_bytes = 0
    if n_bytes <= 0:
        raise UsageError(f"memory_limit is {limit!r}; write a size such as '8GB' or '500MiB'.")
    return n_bytes
