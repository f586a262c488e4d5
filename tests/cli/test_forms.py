"""`select --forms` and `stats build --forms` on text."""

import json
import re
import shlex

import numpy as np
import pytest

from dranking.models.linear.model import load_model


def test_a_form_is_selected_by_its_name(dranking, tmp_path):
    rng = np.random.default_rng(0)
    sizes, others = rng.lognormal(6, 2, 60), rng.normal(size=60)
    text = "".join(
        f"{int(np.log(a))} qid:{i // 6} 1:{b:.4f} 2:{a:.4f}\n"
        for i, (a, b) in enumerate(zip(sizes, others, strict=True))
    )
    (tmp_path / "data.txt").write_text(text)
    common = ("--n-features", 1, "--json", "--output")
    model, other = tmp_path / "model.json", tmp_path / "other.json"
    code, out, error = dranking(
        "select", tmp_path / "data.txt", "--forms", "raw,log,rank", *common, model
    )
    assert code == 0, error
    assert json.loads(out)["names"] == ["log(f2)"]
    code, _, error = dranking(
        "stats", "build", tmp_path / "data.txt", "--forms", "raw,log,rank",
        "--output", tmp_path / "stats",
    )  # fmt: skip
    assert code == 0, error
    code, out, error = dranking("select", tmp_path / "stats", *common, other)
    assert json.loads(out)["names"] == ["log(f2)"]
    weights = [json.loads(path.read_text())["weights"] for path in (model, other)]
    assert np.allclose(*weights)
    code, out, error = dranking("evaluate", model, tmp_path / "data.txt", "--json")
    assert code == 0, error
    assert json.loads(out)["metrics"]["map"] > 0.9
    wrong = ("select", tmp_path / "data.txt", "--forms", "cube", *common, tmp_path / "no.json")
    code, _, error = dranking(*wrong)
    assert code == 2
    assert "forms are cube; give each of raw" in error


@pytest.mark.usefixtures("short_search")
def test_info_and_ingest_show_the_features(dranking, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    sizes = rng.lognormal(6, 3, 300)
    text = "".join(f"{i % 3} qid:{i // 6} 1:{a:.3f} 2:{i % 4} 3:5\n" for i, a in enumerate(sizes))
    (tmp_path / "data.txt").write_text(text)
    store = tmp_path / "my data.zarr"
    code, out, error = dranking("ingest", tmp_path / "data.txt", "--output", store)
    assert code == 0, error
    assert "25.0%" in out
    far = "1 of 3 features have values far above the others: try "
    commands = re.search(far + r"(dranking tune .*), or (dranking select .*)\.", error).groups()
    monkeypatch.chdir(tmp_path)
    for words in map(shlex.split, commands):  # as they stand
        code, _, said = dranking(*words[1:])
        assert code == 0, said
        (tmp_path / "model.json").unlink()
    facts = json.loads(dranking("info", store, "--json")[1])
    first, second, third = facts["features"]
    assert first["high"] == np.float32(round(sizes.max(), 3))
    assert (first["suggestion"], third["suggestion"]) == ("log", "constant")
    assert (second["low"], second["high"], second["distinct"]) == (0, 3, 4)
    assert facts["n_blocks_read"] == 1
    scaled = tmp_path / "log.zarr"
    code, out, error = dranking(
        "ingest", tmp_path / "data.txt", "--output", scaled, "--normalize", "log", "--json"
    )
    assert code == 0, error
    assert json.loads(out)["advice"] == ""
    code, out, _ = dranking("info", scaled, "--all-blocks")
    assert code == 0
    assert "suggestion" in out


def test_tune_needs_data_and_output_alone(dranking, letor, tmp_path):
    train, model = letor(), tmp_path / "model.json"
    code, out, error = dranking("tune", train, "--output", model, "--max-features", 2)
    assert code == 0, error
    assert out.startswith("ndcg@10 (held-out folds, standard convention)")
    assert sum("chosen" in line for line in out.splitlines()) == 1
    for said in ("raw,log,quantile", "rescore", "held-out queries: "):
        assert said in out
    tuning = load_model(model).provenance["tuning"]
    assert (tuning["folds"], tuning["repeats"], tuning["max_features"]) == (5, 2, 2)
    again = ("tune", train, "--output", model, "--max-features", 2, "--overwrite", "--json")
    code, out, error = dranking(*again, "--time", "1s", "--folds", 2, "--forms", "raw")
    assert code == 0, error
    assert {point["forms"] for point in json.loads(out)["grid"]} == {"raw"}
    assert load_model(model).provenance["tuning"]["folds"] == 2


def test_tune_of_three_queries_makes_three_folds_and_takes_the_plain_features(dranking, tmp_path):
    text = "".join(f"{i % 4 > 1} qid:{i // 4} 1:{i % 4}\n" for i in range(12))
    (tmp_path / "data.txt").write_text(text.replace("True", "1").replace("False", "0"))
    model = tmp_path / "model.json"
    code, out, error = dranking("tune", tmp_path / "data.txt", "--output", model, "--json")
    assert code == 0, error
    assert load_model(model).provenance["tuning"]["folds"] == 3
    # Every model is right, and the first set of forms has no more than the feature itself.
    assert json.loads(out)["best"]["forms"] == "raw"


def test_tune_chooses_a_scaling_or_takes_forms(dranking, letor, tmp_path):
    train, model = letor(), tmp_path / "model.json"
    common = ("tune", train, "--criterion", "lqo-map", "--regularization", "1,4", "--output", model)
    code, out, error = dranking(*common, "--normalize", "none,log", "--max-features", 2)
    assert code == 0, error
    assert "normalize" in out
    rows = [line.split("│")[1:4] for line in out.splitlines() if line.startswith("│")]
    shown = {(lambdas.strip(), scaling.strip()) for lambdas, scaling, _ in rows}
    # Lambdas with equal scores share a row.
    for scaling in ("none", "log"):
        assert {lambdas for lambdas, name in shown if name == scaling} in ({"1", "4"}, {"1 to 4"})
    code, out, error = dranking(*common, "--forms", "raw,log", "--overwrite", "--json")
    assert code == 0, error
    assert max(point["n_features"] for point in json.loads(out)["grid"]) == 6
    code, _, error = dranking(*common, "--forms", "log", "--normalize", "log", "--overwrite")
    assert code == 2
    assert "give --forms or --normalize" in error
