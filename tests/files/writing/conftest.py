"""A disk without space."""

import errno
import os

import pytest


@pytest.fixture
def full_disk(monkeypatch):
    def no_space(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
