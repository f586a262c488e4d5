"""Simulated arms, valid and not, on few logs."""

import json

import numpy as np
import pytest

from pipelines.reproduce.clicks import arms
from pipelines.reproduce.clicks.users import CascadeUsers


def test_valid_arms_pass_and_patient_users_are_refused(monkeypatch, capsys):
    chosen = ("valid, good and random", "patient users, 100% of one arm, good orders")
    settings = {name: arms.SETTINGS[name] for name in chosen}
    monkeypatch.setattr(arms, "SETTINGS", settings)
    monkeypatch.setattr(arms, "ERROR_LOGS", 5)
    arms.main(["--logs", "20", "--json"])
    found = json.loads(capsys.readouterr().out)
    valid, patient = (found[name] for name in chosen)
    assert valid["refused"] == 0
    assert valid["warned"] <= 0.1
    assert patient["refused"] == 1
    assert abs(valid["error"]) < 0.15 < patient["error"]


def test_logs_are_in_the_order_of_the_format():
    counts = arms.made_log(arms.SETTINGS["valid, random orders"], np.random.default_rng(0))
    names = ("query", "document", "context", "night", "arm", "position")
    rows = list(zip(*(getattr(counts, name).tolist() for name in names), strict=True))
    assert rows == sorted(set(rows))
    assert len(rows) == 200 * 4 * 10
    assert (counts.clicks <= counts.impressions).all()


def test_cascade_users_examine_as_their_chances_say():
    rates = np.array([[0.9, 0.4, 0.05, 0.4], [0.05, 0.05, 0.9, 0.4]])
    found = CascadeUsers().clicks(200_000, rates, np.random.default_rng(0)) / 200_000
    for row, clicked in zip(rates.tolist(), found.tolist(), strict=True):
        looking = 1.0
        for rate, share in zip(row, clicked, strict=True):
            assert share == pytest.approx(looking * rate, abs=0.004)
            looking *= 1 - rate * 0.5 - (1 - rate) * 0.2
