"""Tests show what a benchmark measures, not how fast that is: no call waits for a quiet machine."""

import pytest

from pipelines.benchmarks import harness


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(harness, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(harness, "WAKING", 1_000)
