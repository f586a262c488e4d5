"""Selection from simulated clicks: made-up queries whose first feature is their grade."""

import json
import math

import numpy as np
import pytest

from pipelines.reproduce.clicks import study as clicks


@pytest.fixture
def folder(tmp_path):
    """MQ2008's form: 60 queries of 12 documents, with the grade and five features of chance."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "MQ2008"
    folder.mkdir()
    files = [(folder / f"S{part + 1}.txt").open("w") for part in range(5)]
    for query in range(60):
        for document in range(12):
            grade = int(rng.choice(3, p=[0.6, 0.25, 0.15]))
            values = " ".join(f"{i}:{v:.4f}" for i, v in enumerate(rng.normal(size=5), start=2))
            files[query % 5].write(
                f"{grade} qid:{query} 1:{grade} {values} #docid = D{query}-{document}\n"
            )
    for file in files:
        file.close()
    return folder


@pytest.mark.slow
def test_every_way_finds_the_feature_that_is_the_grade(folder, monkeypatch, capsys):
    monkeypatch.setattr(clicks, "N_JUDGED", 1)
    monkeypatch.setattr(clicks, "SESSIONS", (2_000,))
    monkeypatch.setattr(clicks, "OTHER_SESSIONS", (2_000,))
    monkeypatch.setattr(clicks, "SELECTION", ("--n-features", "1", "--regularization", "8"))
    monkeypatch.setattr(clicks, "MAIN", (clicks.MAIN[0], clicks.MAIN[3]))
    users, ways = clicks.OTHERS["trust bias"]
    monkeypatch.setattr(clicks, "OTHERS", {"trust bias": (users, ways[2:3])})
    clicks.main([str(folder), "--seeds", "1", "--json"])
    found = json.loads(capsys.readouterr().out)
    cells = {(c["users"], c["sessions"], c["way"]): c["ndcg@10"] for c in found["cells"]}
    assert cells.keys() == {
        ("position-based", 0, "logging rankers"),
        ("position-based", 2_000, "naive CTR"),
        ("position-based", 2_000, "ratio, harvested"),
        ("trust bias", 2_000, "ratio, a and b given"),
    }
    assert found["full_judgements"] == pytest.approx(1.0)
    assert cells["position-based", 2_000, "ratio, harvested"] == pytest.approx(1.0)
    assert cells["trust bias", 2_000, "ratio, a and b given"] == pytest.approx(1.0)
    assert 0.4 < cells["position-based", 0, "logging rankers"] < 1.0


def test_ndcg_of_the_logging_rankers_is_that_of_plain_loops(folder, tmp_path):
    fold = clicks.read_fold(folder, 1, tmp_path)
    rng = np.random.default_rng(1)
    rankings = [[rng.permutation(12) for _ in fold.queries] for _ in range(2)]
    values = []
    for orders in rankings:
        for query, order in zip(fold.queries, orders, strict=True):
            gains = [{0.05: 0, 0.4: 1, 0.9: 3}[rate] for rate in query.rates.tolist()]
            best = sorted(gains, reverse=True)[:10]
            if best[0]:
                top = [gains[d] for d in order[:10]]
                dcg, ideal = (
                    sum(g / math.log2(k + 2) for k, g in enumerate(each)) for each in (top, best)
                )
                values.append(dcg / ideal)
    assert clicks.logging_ndcg(fold, rankings) == pytest.approx(np.mean(values))
