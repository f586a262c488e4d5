"""The contract of the command line: JSON, exit codes, and outputs that are whole or not there."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import dranking as dr

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


def test_version(dranking: Call) -> None:
    assert dranking("--version") == (0, f"dranking {dr.__version__}\n", "")


@pytest.mark.parametrize(
    ("way", "title"),
    [
        (("--criterion", "lqo-map"), "map (leave-query-out predictions, standard convention)"),
        (("--criterion", "lqo-squared_error"), "squared_error (leave-query-out predictions, "),
        (("--folds", "3"), "ndcg@10 (held-out folds, standard convention): 11 of 12 queries count"),
    ],
)
def test_tune_says_what_its_scores_are(
    dranking: Call, letor: Write, tmp_path: Path, way: tuple[str, ...], title: str
) -> None:
    data, arguments = letor(), ("--regularization", "1,8", "--output", tmp_path / "m.json")
    lines = data.read_text().splitlines()
    data.write_text("\n".join(f"0{li[1:]}" if "qid:1 " in li else li for li in lines) + "\n")
    code, out, err = dranking("tune", data, *way, *arguments)
    assert code == 0, err
    assert out.startswith(title)


def test_ingest_prints_counts(dranking: Call, letor: Write, tmp_path: Path) -> None:
    code, out, _ = dranking("ingest", letor(), "--output", tmp_path / "d.zarr", "--json")
    counts = json.loads(out)
    assert code == 0
    assert counts["n_documents"] == 96
    assert counts["n_queries"] == 12
    assert counts["n_features"] == 6
    assert counts["n_blocks"] == 1
    assert counts["n_unlabelled"] == 0
    assert out.count("\n") == 1


def test_ingest_refuses_an_output_that_exists(dranking: Call, letor: Write, tmp_path: Path) -> None:
    arguments = ("ingest", letor(), "--output", tmp_path / "d.zarr")
    assert dranking(*arguments)[0] == 0
    code, _, err = dranking(*arguments)
    assert code == 2
    assert "--overwrite" in err
    assert dranking(*arguments, "--overwrite")[0] == 0


def test_ingest_counts_queries_without_pairs(dranking: Call, tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text(
        "1 qid:a 1:1\n0 qid:b 1:1\n0 qid:b 1:2\n"
        "-1 qid:c 1:1\n1 qid:c 1:2\n0 qid:d 1:1\n1 qid:d 1:0\n"
    )
    code, out, _ = dranking("ingest", text, "--output", tmp_path / "d.zarr", "--json")
    assert code == 0
    assert json.loads(out)["n_queries_without_pairs"] == 3
    assert json.loads(out)["n_unlabelled"] == 1


@pytest.mark.parametrize("normalize", ["query-minmax", "standard"])
@pytest.mark.parametrize("null", ["zero", "minimum"])
def test_ingest_scales(dranking: Call, tmp_path: Path, normalize: str, null: str) -> None:
    from dranking.ingestion.open import open_dataset

    text = tmp_path / "t.txt"
    text.write_text("1 qid:a 1:4 2:1\n0 qid:a 1:NULL 2:2\n0 qid:b 1:2 2:2\n1 qid:b 1:6 2:2\n")
    output = tmp_path / "d.zarr"
    arguments = ("ingest", text, "-o", output, "--normalize", normalize, "--null", null)
    code, _, err = dranking(*arguments)
    if normalize == "query-minmax":  # a filled value would move the other documents of the query
        assert code == 3
        assert "scaled by the other values of its query" in err
        return
    assert code == 0
    first = np.array([4, 0 if null == "zero" else 2, 2, 6], dtype=float)
    second = np.array([1.0, 2, 2, 2])
    expected = [(x - x.mean()) / x.std() for x in (first, second)]
    block = open_dataset(output).block(0)
    np.testing.assert_allclose(block.features, np.transpose(expected), rtol=1e-6)


def test_select_prints_what_it_picked(dranking: Call, letor: Write, tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    code, out, _ = dranking(
        "select", letor(), "--n-features", 2, "--regularization", "2^1", "-o", model, "--json"
    )
    result = json.loads(out)
    assert code == 0
    assert sorted(result["selected"]) == [1, 4]
    assert [f"f{i + 1}" for i in result["selected"]] == result["names"]
    assert len(result["lqo_error"]) == 2
    assert result["regularization"] == 2.0
    assert json.loads(model.read_text())["kind"] == "linear"


def test_the_whole_flow(dranking: Call, letor: Write, tmp_path: Path) -> None:
    train, validation, test = (letor(f"{n}.txt", seed) for seed, n in enumerate("abc"))
    model = tmp_path / "tuned.json"
    code, out, _ = dranking(
        "tune", train, "--validation", validation, "--model", "greedy-rankrls", "--regularization",
        "2^0..2^2", "--max-features", 3, "--metric", "map", "--convention", "letor4", "-o", model,
        "--figure", tmp_path / "curves.svg", "--json",
    )  # fmt: skip
    tuned = json.loads(out)
    assert code == 0
    assert set(tuned) >= {"best", "selected", "grid"}
    assert set(tuned["chosen"]) == {"regularization", "n_features", "score"}
    assert len(tuned["grid"]) == 9
    assert (tmp_path / "curves.svg").read_text().lstrip().startswith("<?xml")

    code, out, _ = dranking(
        "evaluate", model, test, "--convention", "letor4", "--metric", "map,ndcg@5", "--json",
        "--per-query", tmp_path / "q.parquet",
    )  # fmt: skip
    evaluated = json.loads(out)
    assert code == 0
    assert set(evaluated["metrics"]) == {"map", "ndcg@5"}
    assert evaluated["n_queries"] == 12
    per_query = pq.read_table(tmp_path / "q.parquet")
    assert np.mean(per_query["map"]) == pytest.approx(evaluated["metrics"]["map"])

    assert dranking("train", "rankrls", train, "-o", tmp_path / "all.json")[0] == 0
    code, out, _ = dranking("compare", model, tmp_path / "all.json", test, "--json")
    assert code == 0
    assert {m["metric"] for m in json.loads(out)["metrics"]} >= {"map", "ndcg@10"}

    code, out, _ = dranking("predict", model, test, "-o", tmp_path / "run.txt", "--json")
    assert code == 0
    lines = (tmp_path / "run.txt").read_text().splitlines()
    assert len(lines) == json.loads(out)["n_documents"] == 96
    assert lines[0].split()[1] == "Q0"
    assert dranking("predict", model, test, "-o", tmp_path / "p.parquet")[0] == 0
    assert pq.read_table(tmp_path / "p.parquet").num_rows == 96


def test_compare_takes_the_options_of_its_resamples(
    dranking: Call, letor: Write, tmp_path: Path
) -> None:
    data = letor(n_queries=25)
    for column in ("f2", "f4"):
        dr.LinearModel(feature_names=(column,), weights=(1.0,)).save(tmp_path / f"{column}.json")
    models = [tmp_path / "f2.json", tmp_path / "f4.json"]
    found = []
    for seed in (0, 7):
        options = ("--seed", seed, "--resamples", 50, "--confidence", 0.8)
        code, out, err = dranking("compare", *models, data, "--metric", "map", *options, "--json")
        assert code == 0, err
        expected = dr.compare(
            *map(dr.load_model, models), dr.open_dataset(data), metric=["map"],
            seed=seed, n_resamples=50, confidence=0.8,
        )  # fmt: skip
        found.append(json.loads(out))
        assert found[-1] == json.loads(json.dumps(expected.as_json()))
    assert found[0] != found[1]


@pytest.mark.parametrize(
    "model",
    [
        ("rankrls",),
        ("ranksvm",),
        ("ranksvm", "--loss", "hinge"),
        ("ranklogistic",),
        ("spd", "--epochs", 2, "--seed", 3),
    ],
)
def test_train_prints_its_objective(
    dranking: Call, letor: Write, tmp_path: Path, model: tuple[str | int, ...]
) -> None:
    name, *options = model
    code, out, _ = dranking("train", name, letor(), *options, "-o", tmp_path / "m.json", "--json")
    assert code == 0
    assert set(json.loads(out)) == {"model", "n_features", "objective", "seconds"}


def test_train_chooses_among_lambdas(dranking: Call, letor: Write, tmp_path: Path) -> None:
    call = ("train", "rankrls", letor(), "--regularization", "2^-2..2^9", "--json")
    code, out, _ = dranking(*call, "-o", tmp_path / "m.json")
    assert code == 0
    chosen = json.loads(out)["regularization"]
    provenance = json.loads((tmp_path / "m.json").read_text())["provenance"]
    errors = provenance["lqo_error"]
    assert chosen == 2.0 ** (errors.index(min(errors)) - 2)


def test_train_lcra_learns_from_unlabelled_documents(
    dranking: Call, letor: Write, tmp_path: Path
) -> None:
    data, call = letor(), ("--epochs", 2, "--loss", "squared", "-o", tmp_path / "m.json", "--json")
    code, _, err = dranking("train", "lcra", data, *call)
    assert code == 3
    assert "unlabelled" in err
    lines = data.read_text().splitlines()
    hidden = [f"-1{line[1:]}" if "qid:1 " in line else line for line in lines]
    data.write_text("\n".join(hidden) + "\n")
    code, out, _ = dranking("train", "lcra", data, *call)
    assert code == 0
    assert json.loads(out)["model"] == "lcra"


def test_train_rankrls_with_signs(dranking: Call, letor: Write, tmp_path: Path) -> None:
    call = ("train", "rankrls", letor(), "-o", tmp_path / "m.json", "--non-negative", "f1,f3,f4,f5")
    code, out, _ = dranking(*call, "--json")
    assert code == 0
    expected = dr.RankRLS(non_negative=["f1", "f3", "f4", "f5"]).fit(letor())
    at_zero = [f"f{i + 1}" for i in expected.at_zero_]
    assert at_zero
    assert json.loads(out)["at_zero"] == at_zero
    assert dr.load_model(tmp_path / "m.json").weights == expected.to_model().weights
    code, _, err = dranking(*call, "--regularization", "1,2", "--overwrite")
    assert code == 2
    assert "takes one lambda" in " ".join(err.split())


def test_ranksvm_takes_one_lambda(dranking: Call, letor: Write, tmp_path: Path) -> None:
    call = ("train", "ranksvm", letor(), "-o", tmp_path / "m.json", "--regularization")
    assert dranking(*call, "2^-10")[0] == 0
    provenance = json.loads((tmp_path / "m.json").read_text())["provenance"]
    assert provenance["parameters"]["regularization"] == 2.0**-10
    code, _, err = dranking(*call, "1,2", "--overwrite")
    assert code == 2
    assert "dranking tune DATA --regularization 1,2" in " ".join(err.replace("│", " ").split())
    code, _, err = dranking(*call, "1", "--overwrite", "--loss", "logistic")
    assert code == 2
    assert "is not one of 'squared-hinge', 'hinge'" in err


def test_info_of_versions_data_and_model(dranking: Call, letor: Write, tmp_path: Path) -> None:
    assert "numpy" in json.loads(dranking("info", "--json")[1])
    assert json.loads(dranking("info", letor(), "--json")[1])["n_queries"] == 12
    stored = tmp_path / "data.zarr"
    dranking("ingest", letor(), "-o", stored)
    facts = json.loads(dranking("info", stored, "--json")[1])
    segments = (facts["n_segments"], facts["n_writes"], facts["largest_segment"])
    assert segments == (1, 1, facts["n_documents"])
    model = tmp_path / "m.json"
    dranking("select", letor(), "--n-features", 1, "-o", model)
    assert json.loads(dranking("info", model, "--json")[1])["n_features"] == 1
    assert dranking("info", model)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--n-features", "7"), 2, "the data has 6 features"),
        (("--n-features", "0"), 2, "choose 1 to 6"),
        (("--n-features", "2", "--regularization", "0"), 2, "above 0"),
        (("--n-features", "2", "--regularization", "x"), 2, "is not a number"),
        (("--n-features", "2", "--unknown"), 2, "No such option"),
        (("--n-features", "2", "--non-negative", "f1"), 2, "train rankrls DATA --features NAMES"),
        (("--n-features", "2", "--feature-blocks", "7"), 2, "feature_blocks is 7"),
        (("--n-features", "2", "--scheduler", "nowhere"), 2, "is not threads"),
        (("--n-features", "2", "--scheduler", "missing.py"), 2, "there is no such file"),
        (
            ("--n-features", "2", "--scheduler", "missing.json", "--cluster", "timeout=0.2s"),
            75,
            "has not written",
        ),
    ],
)
def test_wrong_calls_of_select(
    dranking: Call,
    letor: Write,
    tmp_path: Path,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    output = tmp_path / "m.json"
    found, out, err = dranking("select", letor(), "--output", output, *arguments)
    assert found == code
    assert message in " ".join(err.split())
    assert not out
    assert not output.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:x\n", "bad.txt:1"),
        ("", "bad.txt"),
    ],
)
def test_wrong_data_exits_3(dranking: Call, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    code, out, err = dranking("ingest", path, "--output", tmp_path / "d.zarr")
    assert code == 3
    assert message in " ".join(err.split())
    assert not out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.txt"]


def test_regroup(dranking: Call, tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("1 qid:1 1:1\n0 qid:2 1:1\n1 qid:1 1:2\n")
    code, out, err = dranking("ingest", path, "-o", tmp_path / "d.zarr", "--json")
    assert code == 0
    assert json.loads(out)["n_queries"] == 2
    assert "the rows of 1 query (2 documents) lay apart" in " ".join(err.split())
    code, _, err = dranking("ingest", path, "-o", tmp_path / "e.zarr", "--no-regroup")
    assert code == 3
    assert "t.txt:3: query 1 appears again (first at line 1, ended at line 1)" in err
    assert not (tmp_path / "e.zarr").exists()


def test_data_that_is_not_there(dranking: Call, tmp_path: Path) -> None:
    code, _, err = dranking("info", tmp_path / "nothing.zarr")
    assert code == 3
    assert "no such file" in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("export closed/m.json --format sql --output m.sql", 3),
        ("compare closed/a.parquet closed/b.parquet", 3),
        ("clicks info closed/c.store", 3),
        ("stats expire closed/st --before 2026-01-01", 3),
        ("select data.txt --n-features 1 --output m.json --scheduler closed/x.py", 3),
        ("retrain closed/r.toml", 2),
        ("retrain open.toml", 3),
    ],
)
def test_a_folder_that_may_not_be_entered(
    dranking: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    Path("open.toml").write_text(
        'data = {train = ["closed/*.parquet"], holdout = ["data.txt"]}\n'
        'model = {kind = "rankrls", regularization = 1.0}\n'
        'registry = {location = "registry"}\n'
    )
    stat = os.stat

    def refuse(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if "closed/" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refuse)
    found, _, err = dranking(*words.split())
    assert (found, "Permission denied" in err) == (code, True), err


def test_a_model_that_does_not_fit(dranking: Call, letor: Write, tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    assert dranking("select", letor(), "--n-features", 2, "-o", model)[0] == 0
    narrow = tmp_path / "narrow.txt"
    narrow.write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    code, _, err = dranking("evaluate", model, narrow)
    assert code == 3
    assert "lacks 2 of the 2 features" in " ".join(err.split())


def test_a_file_that_is_no_model(dranking: Call, letor: Write, tmp_path: Path) -> None:
    broken = tmp_path / "m.json"
    broken.write_text("{")
    code, _, err = dranking("evaluate", broken, letor())
    assert code == 3
    assert "not JSON" in err


def test_data_before_the_model(dranking: Call, letor: Write, tmp_path: Path) -> None:
    stored = tmp_path / "d.zarr"
    assert dranking("ingest", letor(), "-o", stored)[0] == 0
    model = tmp_path / "m.json"
    assert dranking("train", "rankrls", stored, "-o", model)[0] == 0
    code, _, err = dranking("evaluate", stored, model)
    assert (code, "m.json: is a model, and stands where DATA is expected" in err) == (2, True)


def test_queries_that_do_not_count_are_told(dranking: Call, tmp_path: Path) -> None:
    data, scores = tmp_path / "d.txt", tmp_path / "s.csv"
    data.write_text("1 qid:1 1:1 # docid = a\n0 qid:1 1:2 # docid = b\n0 qid:2 1:1 # docid = a\n")
    scores.write_text("qid,docid,score\n1,a,1\n1,b,0\n2,a,1\n")
    code, out, err = dranking("evaluate", scores, data, "--metric", "map")
    assert code == 0, err
    assert out.startswith("2 queries, standard convention\n")
    assert re.search(r"map .* 1\.0000 .* 1 ", out)
    out = dranking("evaluate", scores, data, "--metric", "map", "--convention", "letor4")[1]
    assert out.startswith("2 queries, letor4 convention\n")
    assert re.search(r"map .* 0\.5000 .* 2 ", out)


def test_unknown_metric_and_convention(dranking: Call, letor: Write, tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    dranking("select", letor(), "--n-features", 2, "-o", model)
    assert dranking("evaluate", model, letor(), "--metric", "nope")[0] == 2
    assert dranking("evaluate", model, letor(), "--convention", "nope")[0] == 2


def test_a_selection_without_gain_is_warned_of(dranking: Call, tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("".join(f"{d % 2} qid:{q} 1:{d % 2} 2:7\n" for q in range(5) for d in range(4)))
    code, out, err = dranking(
        "select", path, "--n-features", 2, "-o", tmp_path / "m.json", "--json"
    )
    assert code == 0
    assert json.loads(out)["selected"] == [0, 1]
    assert "without lowering" in " ".join(err.split())


@pytest.mark.cluster
@pytest.mark.slow
def test_select_on_worker_processes_gives_the_same_model(
    dranking: Call, letor: Write, tmp_path: Path
) -> None:
    data = tmp_path / "d.zarr"
    dranking("ingest", letor(n_queries=40), "-o", data)
    models = []
    for where in (("threads",), ("local", "--cluster", "n_workers=1")):
        output = tmp_path / f"{len(models)}.json"
        code, _, err = dranking(
            "select", data, "--n-features", 3, "-o", output, "--scheduler", *where
        )
        assert code == 0, err
        models.append(output.read_text())
    assert models[0] == models[1]


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dranking", "info", "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["dranking"]


def test_select_in_feature_blocks_gives_the_same_model(
    dranking: Call, letor: Write, tmp_path: Path
) -> None:
    selections, weights = [], []
    for number in (1, 3):
        output = tmp_path / f"{number}.json"
        code, out, err = dranking(
            *("select", letor(), "--n-features", 3, "-o", output),
            *("--feature-blocks", number, "--json"),
        )
        assert code == 0, err
        selections.append(json.loads(out))
        weights.append(json.loads(output.read_text())["weights"])
    assert selections[0] == selections[1]
    assert weights[0] == weights[1]


def test_select_is_steered_and_goes_on_from_a_checkpoint(
    dranking: Call, letor: Write, tmp_path: Path
) -> None:
    data, checkpoint = letor(), tmp_path / "picks.json"
    arguments = ("select", data, "--n-features", 3, "--start", "f6", "--forbid", "f2,f1")
    results = []
    for name in "ab":
        code, out, _ = dranking(
            *arguments, "-o", tmp_path / name, "--checkpoint", checkpoint, "--json"
        )
        assert code == 0
        results.append(json.loads(out))
        assert checkpoint.exists()
    assert results[0] == results[1]
    assert results[0]["names"][0] == "f6"
    assert not {"f1", "f2"} & set(results[0]["names"])
    code, _, err = dranking(*arguments, "-o", tmp_path / "c", "--forbid", "f9")
    assert code == 3
    assert "f9" in err


def test_a_memory_limit(dranking: Call, letor: Write, tmp_path: Path) -> None:
    data = tmp_path / "d.zarr"
    dranking("ingest", letor(), "-o", data)
    for command in (("select", "--n-features", 2), ("tune", "--folds", 2, "--regularization", "1")):
        call = (command[0], data, *command[1:], "-o", tmp_path / f"{command[0]}.json")
        code, _, err = dranking(*call, "--memory-limit", "2kB")
        assert code == 2
        assert "needs at least" in err
        assert dranking(*call, "--memory-limit", "1GB")[0] == 0


def test_an_interrupt_is_said_and_leaves_nothing(
    dranking: Call, letor: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dranking.ingestion.ingest.commit_dataset", interrupt)
    code, out, err = dranking("ingest", letor(), "-o", tmp_path / "d.zarr")
    assert code == 130
    assert out == ""
    assert "interrupted" in err
    assert not (tmp_path / "d.zarr").exists()
