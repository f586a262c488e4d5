"""Twelve nights of retraining with all that goes wrong, as the script of the pipelines has them."""

import pytest

from dranking.retrain.monitoring.nights_page import nights_page
from pipelines.nights.twelve_nights import twelve_nights


@pytest.mark.exhaustive
def test_twelve_nights(tmp_path, monkeypatch):
    for module in ("dranking.retrain.gate.budget", "dranking.retrain.stages.judging"):
        monkeypatch.setattr(f"{module}.datetime", None)  # restored after the test
    nights = twelve_nights(tmp_path / "nights")
    assert (nights.day, len(nights.kills)) == (12, 14)
    assert "<h2>Decisions</h2>" in nights_page(nights.registry)
