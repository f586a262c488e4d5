"""The simulation of the nightly gate: the budget holds, and the naive gate promotes by chance."""

import json

import pytest

from pipelines.reproduce import nightly_gate


def test_false_promotions_of_a_few_years(monkeypatch, capsys):
    monkeypatch.setattr(nightly_gate, "NIGHTS", 60)
    nightly_gate.main(["--years", "40", "--queries", "50", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    found = {(row["case"], row["gate"]): row for row in rows}
    assert len(found) == 15
    one, ledger = found["a", "one test"], found["a", "ledger"]
    assert one["false promotions a year"] > 0.3 > ledger["false promotions a year"]
    assert all(row["true promotions a year"] == 0 for row in rows if row["case"] == "a")


def test_levels_of_a_year_are_the_budget():
    assert sum(nightly_gate.ledger_levels()) == pytest.approx(nightly_gate.BUDGET)
    weekly = nightly_gate.ledger_levels(every=7)
    assert weekly[7] == pytest.approx(7 * nightly_gate.BUDGET / 365)
    assert sum(weekly) <= nightly_gate.BUDGET
