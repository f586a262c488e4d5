"""Trust bias by moments is right where the joint likelihood is not."""

import json

from pipelines.reproduce import trust_bias


def test_the_joint_likelihood_stays_wrong_and_the_moments_do_not(monkeypatch, capsys):
    monkeypatch.setattr(trust_bias, "CASES", ((5, 4_000),))
    trust_bias.main(["--repeats", "4", "--json"])
    [row] = json.loads(capsys.readouterr().out)["rows"]
    assert row["a by likelihood"] < -0.08
    assert abs(row["a by moments"]) < 0.05
    trust_bias.main(["--repeats", "2"])
    assert "errors of a = 0.5 and b = 0.1" in capsys.readouterr().out
