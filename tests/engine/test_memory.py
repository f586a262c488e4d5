"""Freed memory goes back to the system."""

import platform
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pyarrow as pa
import pytest

from dranking.engine.memory import release_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
def test_freed_memory_is_given_back():
    """Pieces too small for the system to be told by itself, below one that stays."""
    process = psutil.Process()
    pieces = [b"x" * 100_000 for _ in range(1_000)]
    last = b"x" * 100_000
    held = process.memory_info().rss
    del pieces
    release_memory()
    assert process.memory_info().rss < held - 80 * 10**6
    assert len(last) == 100_000


@pytest.mark.parametrize(("n_buffers", "n_bytes"), [(1_000, 100_000), (20, 5_000_000)])
def test_freed_buffers_of_arrow_are_given_back(n_buffers, n_bytes):
    """Also those of another thread, as the threads of a worker's tasks are."""
    process = psutil.Process()

    def fill():
        buffers = [pa.allocate_buffer(n_bytes) for _ in range(n_buffers)]
        for buffer in buffers:
            np.asarray(memoryview(buffer))[:] = 1
        return process.memory_info().rss

    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(fill).result()
        release_memory()
        assert process.memory_info().rss < held - 0.8 * n_buffers * n_bytes
