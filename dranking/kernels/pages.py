"""Memory for the arrays of blocks, in huge pages.

The system gives memory page by page, as each is first written: 4 KB in a microsecond or two, which
is longer than most kernels take for them. An array of a block is too small for huge pages, but all
that a task makes for its blocks lies together in *slabs* that have them. These arrays should live
equally long: a slab is free when the last of them is gone. Some free slabs are kept for tasks to
come, for even a huge page must be zeroed first; the system may take their pages at any time.
"""

import mmap
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import prod
from threading import local
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HAS_HUGE_PAGES = hasattr(mmap, "MADV_HUGEPAGE")

HUGE_PAGE = 2**21
"""Bytes, on most machines."""

SLAB, LARGE_SLAB = 2**24, 2**25
"""Bytes of a slab, and of one for arrays that are more than that together: there they fill their
huge pages. What is never written of a slab takes no memory."""

MOST_KEPT = 8
"""Free slabs that are kept, 128 MB; large ones are given back."""

LINE = 64
"""Bytes between whose multiples arrays begin."""


class _Slab(local):
    """The slab of this thread's task; none outside of tasks."""

    bytes: NDArray[np.uint8] | None = None
    used = 0
    n_alike = 1


_SLAB = _Slab()

_KEPT: deque[mmap.mmap] = deque(maxlen=MOST_KEPT)
"""Free slabs. They come and go in all threads: a deque takes each in one step."""


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
        _SLAB.bytes, _SLAB.used = _new_slab(n_bytes), 0
    part = _SLAB.bytes[_SLAB.used : _SLAB.used + n_bytes]
    _SLAB.used += -(-n_bytes // LINE) * LINE
    return part.view(np.float64).reshape(shape)


def _new_slab(n_bytes: int) -> NDArray[np.uint8]:
    """So many bytes or more in huge pages: of a free slab, or new ones."""
    if n_bytes * _SLAB.n_alike > SLAB:
        return np.frombuffer(_mapped(max(n_bytes, LARGE_SLAB)), np.uint8)
    try:
        memory = _KEPT.pop()
    except IndexError:
        memory = _mapped(SLAB)
    # All arrays within refer to this one: it is gone only after them. What is there when the
    # interpreter exits is in use.
    slab = np.frombuffer(memory, np.uint8)
    finalize(slab, _keep, memory).atexit = False
    return slab


def _keep(memory: mmap.mmap) -> None:
    """Keep a slab that nothing uses any more; where there are enough, the oldest is given back.

    It is given back itself where the system could not take its pages: before Linux 4.5.
    """
    try:
        memory.madvise(mmap.MADV_FREE)
    except (OSError, AttributeError):
        return
    _KEPT.append(memory)


def give_back_slabs() -> None:
    """Give all free slabs back to the system, which counts them as memory in use."""
    _KEPT.clear()


def _mapped(n_bytes: int) -> mmap.mmap:
    """Memory in huge pages, so many bytes or more."""
    # Whole pages, and from the system itself: what an allocator puts before them misaligns them.
    size = -(-n_bytes // HUGE_PAGE) * HUGE_PAGE
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # some kernels are built without
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
