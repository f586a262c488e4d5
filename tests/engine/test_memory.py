"""Freed memory goes back to the system."""

import platform

import psutil
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
