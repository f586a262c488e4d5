"""The simulation of the nightly gate: the budget holds, and the naive gate promotes by chance."""

import json

import numpy as np
import pytest
from scipy import stats

from dranking.retrain.gate.false_discoveries import difference_e_value
from pipelines.reproduce import nightly_gate


def test_false_promotions_of_a_few_years(monkeypatch, capsys):
    monkeypatch.setattr(nightly_gate, "NIGHTS", 60)
    nightly_gate.main(["--years", "40", "--queries", "50", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    found = {(row["case"], row["gate"]): row for row in rows}
    assert len(found) == 24
    one, ledger = found["a", "one test"], found["a", "ledger"]
    assert one["false promotions a year"] > 0.3 > ledger["false promotions a year"]
    assert all(row["true promotions a year"] == 0 for row in rows if row["case"] == "a")
    assert all(len(row["quality by quarter"]) == 4 for row in rows)
    assert found["b", "one test"]["quality by quarter"][-1] > 0
    nothing = found["b", "ledger"]
    assert (nothing | {"gate": ""}) == (found["b", "Bonferroni"] | {"gate": ""})


def test_challengers_that_inherit_luck_are_promoted_again_and_again(monkeypatch):
    """The promotions of plain t-tests, on the queries of one year each."""
    rng, n_nights, promoted = np.random.default_rng(0), 60, 0
    critical = stats.t.ppf(0.975, 49)
    for _ in range(40):
        champion = rng.normal(size=50)
        for _ in range(n_nights):
            challenger = 0.9 * champion + np.sqrt(1 - 0.9**2) * rng.normal(size=50)
            difference = challenger - champion
            if difference.mean() > critical * difference.std(ddof=1) / np.sqrt(50):
                champion, promoted = challenger, promoted + 1
    found = {}
    monkeypatch.setattr(nightly_gate, "NIGHTS", n_nights)
    pool = np.random.default_rng(1).normal(size=5_000)
    for luck in ("inherited", "own"):
        rows = nightly_gate.simulate("a", pool, 40, 50, luck)
        [row] = [row for row in rows if row["gate"] == "one test"]
        found[luck] = row["false promotions a year"]
    # Both counts are about 40: their difference has a standard deviation of .2 a year.
    assert found["inherited"] == pytest.approx(promoted / 40, abs=0.6)
    assert found["own"] < 0.7 * found["inherited"]


def test_bets_are_those_of_the_gate():
    differences = np.random.default_rng(0).normal(0.05, 0.2, (3, 40)).clip(-1, 1)
    expected = [difference_e_value(row, np.ones(40)) for row in differences]
    np.testing.assert_allclose(nightly_gate.e_values(differences), expected)


def test_a_part_of_the_queries_serves_until_a_champion_was_chosen_on_it():
    rotation = nightly_gate.Rotation(2, [0.05] * 9)
    rng = np.random.default_rng(0)
    won, lost = rng.normal(1.0, 0.1, 40), rng.normal(-1.0, 0.1, 40)
    both = np.stack([won, np.where(np.arange(40) < 10, won, lost)])
    found = np.array([rotation(night, both) for night in range(6)])
    assert found.sum(axis=0).tolist() == [4, 1]  # four parts; the first part alone is better


def test_levels_of_a_year_are_the_budget():
    assert sum(nightly_gate.ledger_levels()) == pytest.approx(nightly_gate.BUDGET)
    weekly = nightly_gate.ledger_levels(every=7)
    assert weekly[7] == pytest.approx(7 * nightly_gate.BUDGET / 365)
    assert sum(weekly) <= nightly_gate.BUDGET
