"""The whole flow as a script."""

import json
import runpy
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.errors import UsageError
from pipelines.greedy import main


@pytest.fixture
def parts(tmp_path):
    """Three LETOR files of queries whose relevance follows features 2 and 5."""
    paths = []
    for seed, name in enumerate(("train", "validation", "test")):
        rng = np.random.default_rng(seed)
        paths.append(tmp_path / f"{name}.txt")
        with paths[-1].open("w") as file:
            for query in range(20):
                for x in rng.integers(0, 10, size=(8, 6)):
                    grade = min(2, (x[1] + 2 * x[4]) // 10)
                    values = " ".join(f"{i}:{v}" for i, v in enumerate(x, start=1))
                    file.write(f"{grade} qid:{query} {values}\n")
    return [str(path) for path in paths]


@pytest.fixture
def run(parts, tmp_path, capsys):
    """Runs the script on the parts; its result, and what it said on stderr."""

    def call(*more, choose_on=None, files=parts):
        train, validation, test = map(str, files)
        choose_on = choose_on or ("--validation", validation)
        capsys.readouterr()
        main(
            ["--train", train, *choose_on, "--test", test, "--output", str(tmp_path / "run"),
             "--max-features", "3", *more]
        )  # fmt: skip
        captured = capsys.readouterr()
        return json.loads(captured.out), captured.err

    return call


def test_everything_is_written_and_agrees(run, parts, tmp_path):
    result, _ = run("--regularization", "2^0..2^3")
    output = tmp_path / "run"
    assert sorted(path.name for path in output.iterdir()) == [
        "curves.svg", "model.json", "model.queries", "per_query.parquet", "result.json",
        "test.zarr", "train.zarr", "validation.zarr",
    ]  # fmt: skip
    assert json.loads((output / "result.json").read_text()) == result
    model = dr.load_model(output / "model.json")
    assert set(model.feature_names) == set(result["names"])
    assert [f"f{i + 1}" for i in result["selected"]] == result["names"]
    assert {"f2", "f5"} <= set(result["names"])
    again = dr.evaluate(model, dr.open_dataset(parts[2]), convention="letor4")
    assert again.as_json() == result["test"]
    per_query = pq.read_table(output / "per_query.parquet")
    assert np.mean(per_query["map"]) == pytest.approx(result["test"]["metrics"]["map"])


def test_a_second_run_replaces_the_first(run):
    first, _ = run()
    assert run()[0] == first


def test_dataset_directories_are_used_where_they_lie(run, parts, tmp_path):
    directories = [tmp_path / f"{number}.zarr" for number in range(3)]
    for part, directory in zip(parts, directories, strict=True):
        dr.ingest(part, directory)
    in_place, _ = run(files=directories)
    assert not (tmp_path / "run" / "train.zarr").exists()
    assert in_place["test"] == run()[0]["test"]


def test_folds_in_place_of_validation_data(run, tmp_path):
    result, _ = run(choose_on=("--folds", "4"))
    assert set(result["chosen"]) == {"regularization", "n_features", "score"}
    assert not (tmp_path / "run" / "validation.zarr").exists()


def test_wrong_calls(run):
    with pytest.raises(UsageError, match="no metric 'mapp'"):
        run("--metric", "mapp")
    with pytest.raises(SystemExit, match="2"):
        run("--regularization", "2^x")
    with pytest.raises(SystemExit, match="2"):
        run("--folds", "3")


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_a_cluster_of_worker_processes_gives_the_same_result(run):
    expected, _ = run()
    found, _ = run("--scheduler", "cluster/local.py", "--cluster", "n_workers=2")
    assert found == expected


def test_errors_have_the_exit_code_of_the_command_line(tmp_path, monkeypatch, capsys):
    nothing = str(tmp_path / "nothing.txt")
    call = ["--train", nothing, "--folds", "2", "--test", nothing]
    call += ["--output", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["greedy", *call])
    monkeypatch.delitem(sys.modules, "pipelines.greedy")  # else `runpy` warns
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("pipelines.greedy", run_name="__main__")
    assert ended.value.code == 3
    said = capsys.readouterr()
    assert "no such file" in said.err
    assert not said.out
