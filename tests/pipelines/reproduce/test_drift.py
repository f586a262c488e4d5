"""The study of the drift gate runs, and its rows say what they should."""

import json

import numpy as np

from pipelines.reproduce import drift


def test_the_study_of_made_queries(monkeypatch, capsys):
    monkeypatch.setattr(drift, "SIZES", ((40, 20), (900, 1)))
    monkeypatch.setattr(drift, "N_PERMUTATIONS", 99)
    drift.main(["--splits", "4", "--json"])
    [row] = json.loads(capsys.readouterr().out)["rows"]  # there are not 901 queries
    assert row["queries"] == "40 against 20"
    assert row["index above .25"] == 1.0
    assert row["gate"] <= row["test at 5 %"] <= 0.5
    assert row["interval"][0] <= row["test at 5 %"] <= row["interval"][1]


def test_one_feature_is_shifted_by_its_deviation():
    rng = np.random.default_rng(0)
    queries = drift.made_queries(rng, n=50, n_features=3)
    before, after = (np.concatenate(q) for q in (queries, drift.shifted(queries, rng)))
    change = (after - before).mean(axis=0) / before.std(axis=0)
    np.testing.assert_allclose(sorted(change), [0, 0, 1], atol=1e-4)
