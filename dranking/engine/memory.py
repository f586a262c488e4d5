"""Sizes of memory: what there is, and how users write and read them."""

from __future__ import annotations

import contextlib
import ctypes

import psutil

from dranking.errors import UsageError

MEMORY_SHARE = 0.7
"""Of the memory that is there; the rest is for the process itself and what passes through."""


def available_memory() -> int:
    """Bytes that this machine has available now."""
    return int(psutil.virtual_memory().available)


def release_memory() -> None:
    """Give memory that was freed, and kept for reuse, back to the system, where that can be."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # glibc alone has malloc_trim
        ctypes.CDLL(None).malloc_trim(0)


def format_bytes(n_bytes: int) -> str:
    """A size as text, such as "1.50 GiB"."""
    from dask.utils import format_bytes

    return str(format_bytes(n_bytes))


def parse_memory(limit: int | str) -> int:
    """A memory limit in bytes: a number, or text such as "8GB" or "500MiB".

    Raises
    ------
    UsageError
        If it is no size above 0.
    """
    from dask.utils import parse_bytes

    bare_unit = isinstance(limit, str) and not any(map(str.isdigit, limit))  # dask's 1 of it
    try:
        n_bytes = 0 if bare_unit else int(parse_bytes(limit))
    except (ValueError, TypeError, AttributeError, OverflowError):
        n_bytes = 0
    if n_bytes <= 0:
        raise UsageError(f"memory_limit is {limit!r}; write a size such as '8GB' or '500MiB'.")
    return n_bytes
