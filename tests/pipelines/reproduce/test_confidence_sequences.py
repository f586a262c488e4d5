"""The study of confidence sequences: its peer against SciPy, its means, and its table."""

import json

import numpy as np
import pytest
from scipy import stats

from pipelines.reproduce import confidence_sequences as study


def test_students_interval_is_that_of_scipy():
    values = np.random.default_rng(0).random(40)
    lower, upper = study.student_ends(values)
    for n in (20, 40):
        expected = stats.t.interval(0.95, n - 1, values[:n].mean(), stats.sem(values[:n]))
        assert (lower[n - 1], upper[n - 1]) == pytest.approx(expected)
    assert np.isinf(lower[:19]).all()


@pytest.mark.parametrize("credits", study.CREDITS, ids=lambda each: each.name)
def test_credits_have_the_mean_that_they_state(credits):
    draws = credits.draw(np.random.default_rng(3), 100_000)
    assert draws.mean() == pytest.approx(credits.mean, abs=0.005)


def test_a_short_study(capsys):
    study.main(["--runs", "40", "--values", "800", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert all(row["sequence holds"] >= 0.95 > row["Student's holds"] for row in rows)
    assert all(1.0 < row["width after 800"] for row in rows)
    study.main(["--runs", "2", "--values", "100"])
    assert "interleaved" in capsys.readouterr().out
