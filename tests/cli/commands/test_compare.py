"""`dranking compare` of several runs beside judgements."""

import json

import pytest

import dranking as dr

RUNS = {"good": [3.0, 2.0, 1.0], "poor": [1.0, 2.0, 3.0], "worse": [1.0, 3.0, 2.0]}
"""Scores of the documents d0, d1 and d2, of which d0 is relevant."""


@pytest.fixture
def runs(tmp_path):
    for name, scores in RUNS.items():
        lines = [
            f"q{q} Q0 d{d} 1 {score} {name}" for q in range(30) for d, score in enumerate(scores)
        ]
        (tmp_path / f"{name}.run").write_text("\n".join(lines) + "\n")
    lines = [f"q{q} 0 d0 1" for q in range(30)]
    (tmp_path / "qrels.txt").write_text("\n".join(lines) + "\n")
    return [tmp_path / f"{name}.run" for name in RUNS], tmp_path / "qrels.txt"


def test_the_command_prints_tables_of_all_rankers(dranking, runs):
    paths, qrels = runs
    code, out, err = dranking("compare", *paths, qrels, "--metrics", "map")
    assert code == 0, err
    assert "1.0000 bc" in out
    assert "a - b" in out
    assert "30 / 0 / 0" in out
    _, out, _ = dranking("compare", *paths, qrels, "--metrics", "map", "--format", "markdown")
    rows = ["| ranker | map |", "| --- | --- |", "| a good.run | 1.0000 bc |"]
    assert out.splitlines()[:3] == rows
    assert out.splitlines()[3:] == ["| b poor.run | 0.3333 |", "| c worse.run | 0.3333 |"]
    options = ("--metrics", "map,mean_ndcg", "--format", "latex", "--test", "tukey-hsd")
    _, out, _ = dranking("compare", *paths[:2], qrels, *options)
    assert r"ranker & map & mean\_ndcg \\" in out.splitlines()
    assert r"a good.run & 1.0000 b & 1.0000 b \\" in out.splitlines()


def test_the_command_and_python_have_the_same_figures(dranking, runs):
    paths, qrels = runs
    code, out, _ = dranking("compare", *paths, qrels, "--metrics", "map,p@1", "--json", "--seed", 3)
    rankers = {path.name: path for path in paths}
    found = dr.compare_rankers(rankers, qrels, metrics=["map", "p@1"], seed=3)
    assert code == 0
    assert json.loads(out) == json.loads(json.dumps(found.as_json()))
    assert found["p@1"].rankers[0].better_than == ("poor.run", "worse.run")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("good.run", "qrels.txt"), "two rankers or more are compared: give A B DATA"),
        (("good.run", "good.run", "poor.run", "qrels.txt"), "good.run stands among the rankers 2"),
    ],
)
def test_wrong_arguments_of_the_command(dranking, runs, arguments, said):
    folder = runs[1].parent
    code, _, err = dranking("compare", *(folder / name for name in arguments))
    assert code == 2
    assert said in err
