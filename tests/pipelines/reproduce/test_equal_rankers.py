"""The study of equal rankers: its rows, and a test that finds rankers that differ."""

import json

import numpy as np

from pipelines.reproduce import equal_rankers


def test_the_table_has_a_row_for_every_noise_and_test(capsys, monkeypatch):
    monkeypatch.setattr(equal_rankers, "NOISES", (1.0, 10.0))
    equal_rankers.main(["--samples", "3", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["noise"], row["test"]) for row in rows] == [
        (noise, test) for noise in (1.0, 10.0) for test in ("tukey-hsd", "sign-flip")
    ]
    assert all(0.0 <= row["noisy_pair"] <= row["any_pair"] <= 1.0 for row in rows)


def test_tests_with_p_values_of_0_find_every_pair(monkeypatch):
    monkeypatch.setattr(equal_rankers, "NOISES", (1.0,))
    shape = (equal_rankers.N_RANKERS,) * 2
    monkeypatch.setattr(equal_rankers, "tukey_hsd", lambda *_, **__: np.zeros(shape))
    tukey, signs = equal_rankers.study(2)
    assert (tukey.noisy_pair, tukey.any_pair) == (1.0, 1.0)
    assert signs.noisy_pair < 1.0
