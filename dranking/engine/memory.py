"""Memory: how much is available, giving freed memory back, and limits as text."""

from __future__ import annotations

import contextlib
import ctypes

import psutil

from dranking.errors import UsageError

MEMORY_SHARE = 0.7
"""Share of the memory that jobs may take; the rest is for the process and for messages."""


def available_memory() -> int:
    """Bytes of memory that this machine has available now."""
    return int(psutil.virtual_memory().available)


def release_memory() -> None:
    """Give freed memory that allocators keep back to the system: that of Arrow, and that of glibc.

    The allocator of pyarrow keeps buffers that were freed until it is asked, of whatever thread.
    """
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no malloc_trim
        ctypes.CDLL(None).malloc_trim(0)


def parse_memory(limit: int | str) -> int:
    """A memory limit in bytes: a number, or text such as "8GB" or "500MiB".

    Raises
    ------
    UsageError
        If the limit is not a size above 0.
    """
    from dask.utils import parse_bytes

    bare_unit = isinstance(limit, str) and not any(map(str.isdigit, limit))  # 1 to Dask
    try:
        n_bytes = 0 if bare_unit else int(parse_bytes(limit))
    except (ValueError, TypeError, AttributeError, OverflowError):
        n_bytes = 0
    if n_bytes <= 0:
        raise UsageError(f"memory_limit is {limit!r}; write a size such as '8GB' or '500MiB'.")
    return n_bytes
