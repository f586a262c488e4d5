"""Harvested propensities of simulated users, on few queries and logs."""

import json

import numpy as np
import pytest

from pipelines.reproduce.clicks import propensities as reproduction


@pytest.mark.slow
def test_a_few_logs(monkeypatch, capsys):
    monkeypatch.setattr(reproduction, "N_QUERIES", 80)
    monkeypatch.setattr(reproduction, "SIZES", ((80, 200),))
    monkeypatch.setattr(reproduction, "N_NIGHTS", 4)
    monkeypatch.setattr(reproduction, "NIGHT_LOGS", 2)
    reproduction.main(["--logs", "5", "--json"])
    found = json.loads(capsys.readouterr().out)
    arms = found["independent arms"]["80 queries, 200 sessions"]
    assert 0 < arms["rmse"] < 0.05
    assert 0.7 <= arms["coverage"] <= 1
    assert "at positions 1 to 5 and at positions 6 to 10" in found["gap"]
    nights = found["nights"]
    assert len(nights) == 4
    for each in nights.values():
        assert each["lowest"] <= each["mean"] <= each["highest"]
    fair, learning = (
        nights[f"{kind}, 20 sessions"]["mean"] for kind in ("random orders", "learning rankers")
    )
    assert abs(fair) < 0.25 < learning  # the curve of rankers that learn is too flat


def test_counts_of_nights_are_joined_in_the_order_of_the_format(monkeypatch):
    monkeypatch.setattr(reproduction, "N_QUERIES", 3)
    draw = np.random.default_rng(0)
    queries, nights = reproduction.made_queries(draw), []
    for night in range(3):
        arms = [reproduction.random_orders(draw) for _ in range(2)]
        counts = reproduction.served(queries, arms, reproduction.USERS, 50, draw)
        nights.append(reproduction.replace(counts, night=counts.night + night))
    found = reproduction.joined(nights)
    names = ("query", "document", "context", "night", "arm", "position", "impressions", "clicks")
    rows = [
        row
        for n in nights
        for row in zip(*(getattr(n, name).tolist() for name in names), strict=True)
    ]
    assert list(zip(*(getattr(found, name).tolist() for name in names), strict=True)) == sorted(
        rows
    )
    assert [str(night) for night in found.nights] == ["2026-01-01", "2026-01-02", "2026-01-03"]
