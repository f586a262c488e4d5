"""`select`: every way to search features, from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dranking.files.key_values import names_in

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def select(dranking: Call, letor: Write, tmp_path: Path) -> Callable[..., dict[str, object]]:
    """Runs `select` on random queries and gives what it prints as JSON."""
    data = letor(n_queries=30)

    def run(*options: object, size: int = 3) -> dict[str, object]:
        code, out, err = dranking(
            "select", data, "--n-features", size, "-o", tmp_path / "m.json", "--overwrite",
            "--json", *options,
        )  # fmt: skip
        assert code == 0, err
        return json.loads(out)

    return run


COSTS_CSV = "feature,cost,group\nf1,1,\nf2,5,s\nf3,5,s\nf4,1,\nf5,5,s\nf6,1,\n"
COSTS_TOML = """
[costs]
f1 = 1
f2 = 5
f3 = 5.0
f4 = "1"
f5 = 5
f6 = 1

[groups]
s = ["f2", "f3", "f5"]
"""


@pytest.mark.parametrize(("name", "text"), [("c.csv", COSTS_CSV), ("c.toml", COSTS_TOML)])
def test_costs_of_a_file(select, tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    result = select("--feature-costs", file, "--budget", 5)
    assert result["names"][:2] == ["f5", "f2"]
    assert result["cost"] == 5.0
    assert set(result["names"]) <= {"f2", "f3", "f5"}
    assert "cost" not in select()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.csv", "name,cost\nf1,1\n", "first line must be feature,cost"),
        ("c.csv", "feature,cost\nf1,1,2\n", r"c\.csv:2: there must be 2 values"),
        ("c.csv", "feature,cost\nf1\n", r"c\.csv:2: there must be 2 values"),
        ("c.csv", "feature,cost\nf1,1\nf1,2\n", r"c\.csv:3: feature f1 has a cost already"),
        ("c.csv", "feature,cost\nf1,much\n", r"c\.csv:2: the cost of feature f1 is 'much'"),
        ("c.csv", "feature,cost\nf1,1\n", "feature_costs lacks 5 of the 6 features"),
        ("c.toml", "[costs\n", "cannot be read"),
        ("c.toml", "f1 = 1\n", r"write a table \[costs\]"),
        ("c.toml", "[costs]\nf1 = true\n", "which is no number"),
        ("c.toml", "[costs]\nf1 = 1\n[groups]\na = 'f1'\n", r"write a table \[costs\]"),
        ("c.toml", "[costs]\nf1 = 1\n[groups]\na = ['f1']\nb = ['f1']\n", "f1 is in two groups"),
        (None, "", "cannot be read"),
    ],
)
def test_cost_files_that_cannot_be(dranking, letor, tmp_path, name, text, message):
    import re

    file = tmp_path / (name or "absent.csv")
    if name:
        file.write_text(text)
    code, _, err = dranking(
        "select", letor(), "--n-features", 2, "-o", tmp_path / "m.json", "--feature-costs", file
    )
    assert code == 2
    assert re.search(message, " ".join(err.split()))
    assert not (tmp_path / "m.json").exists()


def test_a_budget_without_costs_is_refused(dranking, letor, tmp_path):
    code, _, err = dranking(
        "select", letor(), "--n-features", 2, "-o", tmp_path / "m.json", "--budget", 3
    )
    assert code == 2
    assert "budget needs feature_costs" in err


def test_start_and_forbidden_of_files(select, tmp_path):
    whole = select(size=4)
    first, second = whole["names"][:2]
    (tmp_path / "names.txt").write_text(f"{second}\n\n{first}\n")
    assert select("--start", f"@{tmp_path}/names.txt")["names"][:2] == [second, first]
    assert first not in select("--forbid", first)["names"]
    # A warm start: the model of a selection, in the order in which it was made.
    select(size=2)
    (tmp_path / "m.json").rename(tmp_path / "two.json")
    assert select("--start", f"@{tmp_path}/two.json", size=4) == whole


def test_hinges_are_named_on_the_command_line(select):
    options = ("--forms", "raw,hinge")
    first, second = select(*options)["names"][:2]
    hinge = next(name for name in select(*options, size=4)["names"] if name.startswith("max(0, "))
    assert select(*options, "--start", f"{hinge}")["names"][0] == hinge
    others = select(*options, "--forbid", f"{hinge}, {first},{second}")["names"]
    assert not {hinge, first, second} & set(others)
    text = "map(rel=2), ndcg@10,max(0, a(b) - 1),c(,d)"
    assert names_in(text) == ["map(rel=2)", "ndcg@10", "max(0, a(b) - 1)", "c(,d)"]
    assert names_in("a(, b,,c") == ["a(", "b", "c"]


def test_a_start_file_that_is_not_there(dranking, letor, tmp_path):
    code, _, err = dranking(
        "select", letor(), "--n-features", 2, "-o", tmp_path / "m.json", "--start", "@nowhere.txt"
    )
    assert code == 2
    assert "nowhere.txt" in err


def test_random_candidates_follow_their_seed(select):
    runs = [
        select("--candidates", 1, "--seed", seed, "--prefetch", 1)["names"]
        for seed in (0, 0, 1, 2, 3)
    ]
    assert runs[0] == runs[1]
    assert len(set(map(tuple, runs))) > 1


def test_other_scores_of_candidates(select):
    back = select("--fitting", "back")
    assert len(back["selected"]) == 3
    rescored = select("--rescore", "ndcg@3", "--rescore-candidates", 3, "--convention", "letor4")
    assert len(rescored["selected"]) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rescore", "nothing"), "there is no metric 'nothing'"),
        (("--rescore", "map", "--convention", "mine"), "no evaluation convention 'mine'"),
        (("--fitting", "post"), "post"),
    ],
)
def test_scores_that_cannot_be(dranking, letor, tmp_path, options, message):
    code, _, err = dranking(
        "select", letor(), "--n-features", 2, "-o", tmp_path / "m.json", *options
    )
    assert code == 2
    assert message in " ".join(err.split())


@pytest.mark.parametrize("search", ["floating", "backward"])
def test_other_searches_say_what_each_round_did(dranking, select, letor, tmp_path, search):
    result = select("--search", search, "--checkpoint", tmp_path / "c.json", size=2)
    kept = set()
    for done in result["rounds"]:
        kept = kept - set(done["dropped"]) | set(done["added"])
        assert len(kept) == done["n_features"]
    assert kept == set(result["names"])
    assert [done["lqo_error"] for done in result["rounds"]] == result["lqo_error"]
    assert select("--search", search, "--checkpoint", tmp_path / "c.json", size=2) == result
    code, out, _ = dranking(
        "select", letor(), "--n-features", 2, "-o", tmp_path / "t.json", "--search", search
    )
    assert code == 0
    assert "- f" in out or search == "floating"
    assert all(name in out for name in result["names"])


def test_a_search_that_cannot_be(dranking, letor, tmp_path):
    code, _, err = dranking(
        "select", letor(), "--n-features", 2, "-o", tmp_path / "m.json", "--search", "backward",
        "--rescore", "map",
    )  # fmt: skip
    assert code == 2
    assert "rescore needs search='forward'" in " ".join(err.split())


def test_a_performance_report_is_of_a_cluster(dranking: Call, letor: Write, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    code, _, err = dranking(
        "select", letor(), "--n-features", 2, "-o", tmp_path / "m.json",
        "--performance-report", page,
    )  # fmt: skip
    assert code == 2
    assert "name a --scheduler" in err
    assert not page.exists()
    assert not (tmp_path / "m.json").exists()
