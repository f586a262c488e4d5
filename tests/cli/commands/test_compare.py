"""`dranking compare` and `report` of several runs beside judgements."""

import json
import re

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
    code, out, err = dranking("compare", *paths, qrels, "--metric", "map")
    assert code == 0, err
    assert "1.0000 bc" in out
    assert "a - b" in out
    assert "30 / 0 / 0" in out
    _, out, _ = dranking("compare", *paths, qrels, "--metric", "map", "--format", "markdown")
    rows = ["| ranker | map |", "| --- | --- |", "| a good.run | 1.0000 bc |"]
    assert out.splitlines()[:3] == rows
    assert out.splitlines()[3:] == ["| b poor.run | 0.3333 |", "| c worse.run | 0.3333 |"]
    options = ("--metric", "map,mean_ndcg", "--format", "latex", "--test", "tukey-hsd")
    _, out, _ = dranking("compare", *paths[:2], qrels, *options)
    assert r"ranker & map & mean\_ndcg \\" in out.splitlines()
    assert r"a good.run & 1.0000 b & 1.0000 b \\" in out.splitlines()


def test_the_command_and_python_have_the_same_figures(dranking, runs):
    paths, qrels = runs
    code, out, _ = dranking("compare", *paths, qrels, "--metric", "map,p@1", "--json", "--seed", 3)
    rankers = {path.name: path for path in paths}
    found = dr.compare_rankers(rankers, qrels, metric=["map", "p@1"], seed=3)
    assert code == 0
    assert json.loads(out) == json.loads(json.dumps(found.as_json()))
    assert found["p@1"].rankers[0].better_than == ("poor.run", "worse.run")


def test_a_report_of_several_rankers_and_of_one(dranking, runs, tmp_path):
    paths, qrels = runs
    page = tmp_path / "page.html"
    call = "--output", page, "--metric", "map,p@1", "--overwrite", "--json"
    code, out, err = dranking("report", *paths, qrels, *call)
    assert code == 0, err
    assert json.loads(out) == {"output": str(page), "trained_on": {}}
    text, cells = page.read_text(), found_in(page)
    assert ["a", "good.run", "1.0000 bc", "1.0000 bc"] in cells
    assert ["b", "poor.run", "0.3333", "0.0000"] in cells
    assert [row[-1] for row in cells if row[:1] == ["b - c"]] == ["0 / 30 / 0"] * 2
    assert [row[-1] for row in cells if row[:1] == ["a - c"]] == ["30 / 0 / 0"] * 2
    assert ["q0", "1.0000", "0.3333", "0.3333"] in cells
    assert text.count("<svg") == 4
    assert "judged and not retrieved (missed): 0" in text
    segments = tmp_path / "segments.csv"
    segments.write_text("qid,kind\n" + "".join(f"q{q},{'ab'[q % 2]}\n" for q in range(29)))
    by = "--by", f"{segments}:kind"
    options = "--test", "tukey-hsd", "--confidence", 0.9, "--resamples", 99, "--seed", 4
    code, out, err = dranking("report", *paths, qrels, *call, *by, *options)
    assert code == 0, err
    text = page.read_text()
    assert all(said in text for said in ("randomised test, which holds for", ">90%<", "99, 4"))
    for label, n in [("a", "15"), ("b", "14"), ("(no value)", "1"), ("all", "30")]:
        means = found_in(page, label)
        assert len(means) == 2
        assert [cell[:6] for cell in means[0][1:4]] == ["1.0000", "0.3333", "0.3333"]
        assert means[0][4].split()[0] == n
    code, out, err = dranking("report", paths[1], qrels, *call, *by)
    assert code == 0, err
    assert ">MAP</td>" in page.read_text()
    assert [cell.split()[0] for cell in found_in(page, "b")[0]] == ["b", "0.3333", "0.0000", "14"]
    values = [
        "evaluate",
        paths[0],
        qrels,
        "--metric",
        "map",
        "--per-query",
        tmp_path / "p.parquet",
    ]
    assert dranking(*values)[0] == 0
    assert dranking("report", tmp_path / "p.parquet", "--output", tmp_path / "p.html")[0] == 0
    assert "30 queries, judged under the trec convention" in (tmp_path / "p.html").read_text()
    for options, said in [
        ((paths[0], qrels, "--champion", paths[1]), "--champion and --train go with one linear"),
        ((paths[0], qrels, "--test", "tukey-hsd"), "are for the page of several rankers"),
        ((paths[0],), "and DATA behind it, are needed"),
        (("m.json", tmp_path, "-l", "2"), "--relevance-level and --gain have no effect on the"),
    ]:
        code, _, err = dranking("report", *options, "--output", tmp_path / "other.html")
        assert code == 2
        assert said in " ".join(err.split())


def found_in(page, first=None):
    """Cells of the rows of tables; of those with some text and numbers behind it."""
    rows = re.findall("<tr>(.*?)</tr>", page.read_text())
    cells = [re.findall("<td[^>]*>(.*?)</td>", row) for row in rows]
    return [row for row in cells if first is None or (row[:1] == [first] and row[1][:1].isdigit())]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("good.run", "qrels.txt"), "two rankers or more are compared: give A B DATA"),
        (("good.run", "good.run", "poor.run", "qrels.txt"), "good.run is given 2 times"),
    ],
)
def test_wrong_arguments_of_the_command(dranking, runs, arguments, said):
    folder = runs[1].parent
    code, _, err = dranking("compare", *(folder / name for name in arguments))
    assert code == 2
    assert said in err
