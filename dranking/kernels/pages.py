"""Memory for the arrays of blocks, in huge pages.

The system gives memory page by page, as each is first written: 4 KB in a microsecond or two, which
is longer than most kernels take for them. An array of a block is too small for huge pages, but all
that a task makes for its blocks lies together in *slabs* that have them. These arrays should live
equally long: a slab is given back when the last of them is gone.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import prod
from threading import local

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HAS_HUGE_PAGES = hasattr(mmap, "MADV_HUGEPAGE")

HUGE_PAGE = 2**21
"""Bytes, on most machines."""

SLAB = 2**25
"""Bytes of a slab; of its end, what is never written takes no memory."""

LINE = 64
"""Bytes between whose multiples arrays begin."""


class _Slab(local):
    """The slab of this thread's task; none outside of tasks."""

    bytes: NDArray[np.uint8] | None = None
    used = 0
    n_alike = 1


_SLAB = _Slab()


@contextmanager
def side_by_side(n_alike: int) -> Iterator[None]:
    """Put the arrays that `room` gives to this thread meanwhile into slabs.

    Unless so many of them, all alike, do not fill a huge page.
    """
    _SLAB.bytes, _SLAB.used, _SLAB.n_alike = np.empty(0, np.uint8), 0, n_alike
    try:
        yield
    finally:
        _SLAB.bytes = None


def room(*shape: int) -> Array:
    """An array (shape) with any values, float64; like `np.empty`."""
    n_bytes = 8 * prod(shape)
    if not HAS_HUGE_PAGES or _SLAB.bytes is None or n_bytes * _SLAB.n_alike < HUGE_PAGE:
        return np.empty(shape)
    if _SLAB.used + n_bytes > len(_SLAB.bytes):
        _SLAB.bytes, _SLAB.used = _new_slab(max(n_bytes, SLAB)), 0
    part = _SLAB.bytes[_SLAB.used : _SLAB.used + n_bytes]
    _SLAB.used += -(-n_bytes // LINE) * LINE
    return part.view(np.float64).reshape(shape)


def _new_slab(n_bytes: int) -> NDArray[np.uint8]:
    """Bytes in huge pages, so many or more."""
    # Whole pages, and from the system itself: what an allocator puts before them misaligns them.
    size = -(-n_bytes // HUGE_PAGE) * HUGE_PAGE
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # some kernels are built without
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
