"""Sizes of memory as users write and read them."""

from __future__ import annotations

from dask.utils import format_bytes as format_bytes
from dask.utils import parse_bytes

from dranking.engine.executor import Executor
from dranking.errors import UsageError


def limit_in_bytes(limit: int | str | None, executor: Executor) -> int:
    """A memory limit in bytes: a number, text such as "8GB" or "500MiB", or the executor's own.

    Raises
    ------
    UsageError
        If it is no size above 0.
    """
    if limit is None:
        return executor.memory_bytes
    try:
        n_bytes = int(parse_bytes(limit))
    except (ValueError, TypeError, AttributeError):
        n_bytes = 0
    if n_bytes <= 0:
        raise UsageError(f"memory_limit is {limit!r}; write a size such as '8GB' or '500MiB'.")
    return n_bytes
