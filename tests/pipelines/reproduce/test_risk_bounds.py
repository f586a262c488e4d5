"""The study of risk bounds: its data, its risks by plain loops, and its rows."""

import json
import math

import numpy as np
import pytest

from pipelines.reproduce import risk_bounds
from pipelines.reproduce.risk_bounds import Setup
from pipelines.reproduce.risk_bounds_terms import shares
from tests.reference import max_margin as reference


@pytest.fixture
def queries():
    return risk_bounds.draw_queries(np.random.default_rng(0), 40, 4)


def test_features_are_in_the_ball_and_all_documents_ranked(queries):
    dataset = queries.dataset(ranked=True)
    assert np.linalg.norm(dataset.block(0).features.astype(float), axis=1).max() <= 1.0
    assert (np.sort(queries.ranks, axis=1) == np.arange(4)).all()
    assert set(queries.grades.ravel()) == {0, 1, 2}
    better = queries.ranks[:, :, None] > queries.ranks[:, None, :]
    assert not (better & (queries.grades[:, :, None] < queries.grades[:, None, :])).any()


@pytest.mark.parametrize("ranked", [False, True])
def test_risks_are_those_of_the_definitions(queries, ranked):
    weights = np.array([0.5, 0.1, -0.4, 0.2, 0.0])
    found = risk_bounds.risks_of(queries, weights, ranked=ranked)
    expected = dict.fromkeys(found, 0.0)
    for X, grades, ranks in zip(*queries, strict=True):
        scores = (X @ weights).tolist()
        relevant = [int(g > 0) for g in grades]
        kinds = [("full", ranks.tolist(), "ranks", 0)] if ranked else [
            ("multipartite", grades.tolist(), "levels", 3), ("bipartite", relevant, "levels", 2)
        ]  # fmt: skip
        for kind, relevance, margins, r in kinds:
            zero_one, weighted, _ = reference.pairwise_losses(scores, relevance, margins, r)
            expected[f"{kind} 0-1 risk of pairs"] += zero_one / 40
            expected[f"{kind} margin-weighted 0-1 risk of pairs"] += weighted / 40
        order = sorted(range(4), key=lambda i: -scores[i])
        places = [order.index(i) + 1 for i in range(4)]
        for name, gains in (("ap", relevant), ("ndcg", [2**g - 1 for g in grades.tolist()])):
            if len(set(gains)) > 1:
                risk = f"1 - {name.upper()}"
                expected[risk] += reference.LOSSES[name](gains, places) / 40
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.fixture(scope="module")
def reached():
    """The reached shares of the terms, of which the search takes seconds."""
    return shares()


def test_terms_are_reached_and_not_exceeded(reached):
    """By hand: pairs reach all of both terms; lists are bounded a little less closely.

    Lists of 6, half relevant: slope 2 M c with c = 6/5, so 4 B M c / sqrt(n) of the contraction's
    2 sqrt(2) B M sqrt(16 * 7 / 15) / sqrt(n); and the largest hinge is 1 - AP of the worst ranking
    plus 2 B M c. Of two documents, that is half of what is relevant: 1 - 1/2, and c = 2.
    """
    found = {(share.case, share.version): share[3:] for share in reached}
    contraction = 4 * 1.2 / (2 * math.sqrt(2) * math.sqrt(16 * 7 / 15))
    worst_ap = 1 - (1 / 4 + 2 / 5 + 3 / 6) / 3
    discounts = [1 / math.log2(k + 1) for k in range(1, 7)]
    worst_ndcg = 1 - sum(discounts[3:]) / sum(discounts[:3])
    ndcg_of_two = 1 - 1 / math.log2(3)

    def range_of(worst, c, n_terms=1):
        return (worst + 200 * c) / (n_terms * (1 + 200 * c))  # B = 100, M = 1

    expected = {
        ("full pairwise", "weighted"): (1, 1),
        ("multipartite", "weighted"): (1, 1),
        ("bipartite", "weighted"): (1, 1),
        # One of the two rankings is the true one, which has no hinge.
        ("listwise, 1 - AP", "corrected"): (0.5, range_of(0.5, 2, 2)),
        ("listwise AP, by classes", "corrected"): (0.5, range_of(0.5, 2, 2)),
        ("listwise, 1 - NDCG", "corrected"): (0.5, range_of(ndcg_of_two, 2, 2)),
        ("arg-max AP", "union"): (0.5, range_of(0.5, 2)),
        ("arg-max AP", "contraction"): (contraction, range_of(worst_ap, 1.2)),
        ("arg-max NDCG", "contraction"): (contraction, range_of(worst_ndcg, 1.2)),
    }
    assert set(found) == set(expected)
    for key, terms in found.items():
        assert terms == pytest.approx(expected[key], rel=1e-6), key
        assert max(terms) <= 1 + 1e-6


@pytest.mark.exhaustive  # its terms and risks are held to their definitions above
def test_study_on_few_samples(reached, monkeypatch, tmp_path, capsys):
    small = {"n": [Setup(60), Setup(120)], "m": [Setup(60, 2), Setup(60, 30)],
             "B": [Setup(60, 3, 0.5), Setup(60, 3, 2.0)]}  # fmt: skip
    monkeypatch.setattr(risk_bounds, "SWEEPS", small)
    monkeypatch.setattr(risk_bounds, "shares", lambda: reached)
    options = ["--repeats", "2", "--test", "500", "--output", str(tmp_path)]
    risk_bounds.main([*options, "--json"])
    result = json.loads(capsys.readouterr().out)
    rows = result["rows"]
    assert len(result["terms"]) == 9
    assert len(rows) == 5 * 19 + 13  # lists of 30 have too many rankings
    assert {row["n_samples"] for row in rows} == {2}
    assert {row["coverage"] for row in rows if row["version"] != "printed"} == {1.0}
    assert all(row["ratio"] > 1 for row in rows)
    assert all(row["slack_needed"] < 1 for row in rows if row["version"] != "printed")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "risk-bounds-n.svg", "risk-bounds-ratio.svg",
    ]  # fmt: skip
    looser = [r["bound"] for r in rows if r["sweep"] == "B" and r["version"] == "contraction"]
    assert looser[0] < looser[2]
    # Tables are printed as fast as JSON, but lists of 30 take seconds.
    monkeypatch.setattr(risk_bounds, "SWEEPS", {**small, "m": small["m"][:1]})
    risk_bounds.main(options)
    printed = capsys.readouterr()
    assert "against n" in printed.out
    assert "above 1, a constant is too small" in printed.out
    assert "coverage does not tell whether the constants are right" in printed.err
