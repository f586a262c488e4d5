"""The comparison of max-margin rankers, on made-up data of five parts."""

import json

import numpy as np
import pytest

import dranking as dr
from pipelines.reproduce import max_margin


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A LETOR folder of five parts, eight queries each, named as one that there is."""
    folder = tmp_path_factory.mktemp("letor") / "MQ2008"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for part in range(5):
        with (folder / f"S{part + 1}.txt").open("w") as file:
            for query in range(8 * part, 8 * part + 8):
                for _ in range(7):
                    x = rng.random(4)
                    grade = np.digitize(x[0] + x[1] + 0.3 * rng.normal(), [0.9, 1.4])
                    values = " ".join(f"{i}:{v:.4f}" for i, v in enumerate(x, start=1))
                    file.write(f"{grade} qid:{query} {values}\n")
    return folder


def test_every_ranker_is_compared_over_all_queries(monkeypatch, folder, tmp_path, capsys):
    short = {
        name: candidate._replace(lambdas=[1.0, 0.01])
        for name, candidate in max_margin.CANDIDATES.items()
    }
    monkeypatch.setattr(max_margin, "CANDIDATES", short)
    folds = {}  # tuned once, for JSON and tables
    tune_fold = max_margin.tune_fold

    def tuned_once(ranker, fold):
        key = ranker, fold.test.fingerprint
        if key not in folds:
            folds[key] = tune_fold(ranker, fold)
        return folds[key]

    monkeypatch.setattr(max_margin, "tune_fold", tuned_once)
    max_margin.main([str(folder), "--output", str(tmp_path), "--json"])
    result = json.loads(capsys.readouterr().out)["MQ2008"]
    assert (tmp_path / "max-margin-MQ2008.svg").exists()
    assert len(result["differences"]) == 3 * 2 * 4
    for row in result["differences"]:
        assert row["n_queries"] + row["n_excluded"] == 40
        means = [result["means"][row[who]][row["metric"]] for who in ("ranker", "peer")]
        assert row["difference"] == pytest.approx(means[0] - means[1], abs=1e-12)
        assert row["low"] <= row["difference"] <= row["high"]
        worse = row["low"] > 0 if row["metric"] == "pairwise_error" else row["high"] < 0
        assert row["on_par"] == (not worse)
    trained = [
        (row["ranker"], row["metric"]) for row in result["differences"] if row["trained_for"]
    ]
    assert trained == [
        *[("AP", "map")] * 2, *[("NDCG", "ndcg")] * 2, *[("pairwise", "pairwise_error")] * 2,
    ]  # fmt: skip
    max_margin.main([str(folder), "--output", str(tmp_path)])
    assert "trained for" in capsys.readouterr().out


@pytest.mark.parametrize("measure", ["ndcg", "pairwise_error"])
def test_lambda_is_chosen_on_validation_and_tested_on_test(measure, monkeypatch, folder):
    fold = max_margin.read_fold(folder, 2)
    lambdas = [8.0, 1.0, 0.125]
    few = max_margin.CANDIDATES["RankRLS"]._replace(lambdas=lambdas)
    monkeypatch.setattr(max_margin, "CANDIDATES", {"RankRLS": few})
    tuned = max_margin.tune_fold("RankRLS", fold)
    scores = [
        dr.evaluate(dr.RankRLS(v).fit(fold.train).to_model(), fold.validation, [measure], "letor4")
        .metrics[measure] for v in lambdas
    ]  # fmt: skip
    best = np.argmax(scores) if measure == "ndcg" else np.argmin(scores)
    assert tuned.chosen[measure] == lambdas[int(best)]
    model = dr.RankRLS(tuned.chosen[measure]).fit(fold.train).to_model()
    expected = dr.evaluate(model, fold.test, [measure], "letor4").metrics
    assert tuned.tested[measure].summary().metrics == pytest.approx(expected)
