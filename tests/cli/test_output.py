"""What commands print: names in data are printed literally; progress and remaining time."""

import json
import random
import re
from collections import Counter
from datetime import datetime

import pytest
from rich.console import Console

from dranking.cli import output
from dranking.cli.feature_profiles import print_features
from dranking.cli.output import note, print_line, print_table, progress_shown
from dranking.engine import shown_progress
from dranking.engine.progress import report


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("bm25[title]", "bm25[title]"),
        ("[/x]", "[/x]"),
        ("[bold]b[/bold]", "[bold]b[/bold]"),
        ("a\\[b]", "a\\[b]"),
        (":smile:", ":smile:"),
        ("größe Δ 大", "größe Δ 大"),
        ("a\x1b[31mb\x07", r"a\x1b[31mb\x07"),
        ("a\nb\tc", r"a\nb\tc"),
        ("a\u202eb", r"a\u202eb"),
        ("a\udc80b", r"a\udc80b"),
    ],
)
def test_names_from_data_are_printed_literally(capsys, name, shown):
    print_table(f"title {name}", [f"column {name}"], [(name,)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"title {shown}"
    assert f"column {shown}" in lines[2]
    assert f" {shown} " in lines[4]
    print_line(name)
    assert capsys.readouterr().out == f"{shown}\n"


def test_notes_are_literal_line_by_line(capsys):
    note("error: [/x] is\n  \x1b[2Jwrong: s3://key:secret@bucket")
    assert capsys.readouterr().err == "error: [/x] is\n  \\x1b[2Jwrong: s3://***@bucket\n"


def test_feature_names_with_markup(dranking, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"qid": [1, 1, 2, 2], "relevance": [1, 0, 1, 0], "[/x]": [1.0, 0.0, 2.0, 0.5]}
    columns["bm25[title]"] = [0.0, 1.0, 0.0, 1.0]
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    model = tmp_path / "m.json"
    code, out, _ = dranking("select", tmp_path / "d.parquet", "--n-features", 2, "-o", model)
    assert code == 0
    assert "[/x]" in out
    assert "bm25[title]" in out
    code, out, _ = dranking("info", model)
    assert (code, "[/x]" in out, "bm25[title]" in out) == (0, True, True)


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(shown_progress, "time", clock)
    return clock


def lines(capsys):
    """The JSON lines on stderr without their times, each of which has seconds and a zone."""
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert all(datetime.fromisoformat(line.pop("time")).tzinfo for line in found)
    return found


def test_lines_say_how_long_it_will_take(clock, capsys, monkeypatch):
    """From the first report on: of a resumed job, what was done before took no time of this one."""
    with progress_shown():
        clock.now += 20
        report("select", 4, 10, bytes_read=5)
        clock.now += 20
        report("select", 6, 10, bytes_read=6)
        clock.now += 1
        report("select", 7, 10)  # not yet
        report("newton", 1, None)
        clock.now += 20
        report("newton", 2, None)
    assert lines(capsys) == [
        {"stage": "select", "done": 4, "total": 10, "bytes_read": 5},
        {"stage": "select", "done": 6, "total": 10, "bytes_read": 6, "seconds_left": 40.0},
        {"stage": "newton", "done": 1, "total": None},
        {"stage": "newton", "done": 2, "total": None},
    ]


def test_bars_show_bytes_as_sizes():
    assert shown_progress._fact("bytes_read", 3 * 2**30) == "3.00 GiB read"
    assert shown_progress._fact("passes", 4) == "passes 4"


def test_bars_know_how_long_it_will_take(clock, monkeypatch):
    shown = []
    monkeypatch.setattr(
        shown_progress.Progress, "update", lambda self, bar, **fields: shown.append(fields)
    )
    with shown_progress._bars() as show:
        show("select", 1, 3, {})
        clock.now += 90
        show("select", 2, 3, {"passes": 2})
    assert [fields["left"] for fields in shown] == ["", "0:01:30 left"]
    assert shown[1]["facts"] == "passes 2"


def test_a_table_that_is_too_wide_is_printed_line_by_line(capsys, monkeypatch):
    monkeypatch.setattr(output, "console", Console(width=60))
    row = ("map", 0.6757, "+0.0157 [-0.0007, +0.0322]", "0.0589", "a" * 70)
    headings = ["metric", "mean of A", "A - B [95%]", "p of signs", "digest of the data"]
    print_table("wide", headings, [row, row])
    shown = capsys.readouterr().out
    assert "…" not in shown
    title, *records = re.split(r"\n(?=metric)", shown)  # each row begins with its metric
    assert (title, len(records)) == ("wide", 2)
    assert records[0] == records[1], "an empty line is between rows, and none at the end"
    assert max(map(len, shown.splitlines())) <= 60
    lines = [re.split(r" {2,}", line.strip(), maxsplit=1) for line in shown.splitlines()]
    assert ["A - B [95%]", "+0.0157 [-0.0007, +0.0322]"] in lines
    assert shown.count("a" * 20) >= 2
    assert re.sub(r"\s", "", shown).count("a" * 70) == 2


def test_a_row_that_is_printed_line_by_line_has_no_line_without_a_value(capsys, monkeypatch):
    monkeypatch.setattr(output, "console", Console(width=60))
    rows = [("bm25", 0.5, "a" * 40, ""), ("age", 0.0, "b" * 40, "log")]
    print_table("wide", ["feature", "low", "digest", "suggestion"], rows)
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines() if line.strip()] == [
        *("wide", "feature", "low", "digest"),
        *("feature", "low", "digest", "suggestion"),
    ]


def test_facts_that_are_too_wide_are_printed_on_a_line_each(capsys, monkeypatch):
    monkeypatch.setattr(output, "console", Console(width=60))
    facts = [("version", "000001"), ("checksums.per_query.parquet", "a" * 64), ("n", 3)]
    print_table("wide", ["", "value"], facts)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [["wide"], ["version", "000001"]]
    assert lines[2][0] == "checksums.per_query.parquet"
    assert set(lines[2][1]) == {"a"}
    assert lines[-1] == ["n", "3"]
    assert sum(len(line[-1]) for line in lines[2:-1]) == 64


@pytest.mark.parametrize("width", [60, 80, 120])
def test_words_that_fit_beside_each_other_are_not_cut(width, capsys, monkeypatch):
    """Random tables whose longest words fill the width: each row of words is whole somewhere."""
    monkeypatch.setattr(output, "console", Console(width=width))
    rng = random.Random(width)
    for n_columns in (2, 3, 5, 7):
        room = width - 3 * n_columns - 1
        longest = [room // n_columns + rng.choice([-3, 0, 2]) for _ in range(n_columns)]
        longest[0] += room - sum(longest)
        # Words of a column have letters of their own, so that no other word contains them.
        words = [
            [letter * rng.randint(1, length) for _ in range(rng.randint(1, 9))] + [letter * length]
            for letter, length in zip("abcdefg", longest, strict=False)
        ]
        for header in range(2):
            cells = [" ".join(rng.sample(each, len(each))) for each in words]
            names = cells if header else [each[0] for each in words]
            print_table("", names, [cells, ["x"] * n_columns])
            shown = capsys.readouterr().out
            assert max(map(len, shown.splitlines())) <= width
            found = Counter(re.findall(r"[a-g]+", shown))
            expected = Counter(" ".join([*names, *cells]).split())
            assert found == expected


def test_tables_of_commands_fit_60_columns(dranking, letor, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "console", Console(width=60))
    data, model, other = letor(), tmp_path / "model.json", tmp_path / "other.json"
    said = []
    for command in (
        ["select", data, "--n-features", 3, "-o", model],
        ["train", "rankrls", data, "-o", other],
        ["tune", data, "--folds", 2, "--regularization", "1,2", "-o", tmp_path / "tuned.json"],
        ["evaluate", model, data],
        ["evaluate", "--metric", "help"],
        ["compare", model, other, data],
        ["bounds", model, data],
        ["info", data],
        ["info", model],
        ["stats", "build", data, "-o", tmp_path / "statistics"],
    ):
        code, out, err = dranking(*command)
        assert code == 0, err
        tables = [line for line in out.splitlines() if line[:1] in "┏┃┡│└" or "  " in line]
        assert tables
        assert max(map(len, tables)) <= 60, out
        said.append(out)
    assert "…" not in "".join(said)


@pytest.mark.parametrize("suggestion", ["", "log"])
def test_features_without_suggestions_have_no_column_for_them(capsys, suggestion):
    feature = {"name": "f1", "low": 0.0, "high": 1.0, "zeros": 0.5, "distinct": 9}
    features = [{**feature, "suggestion": suggestion}, {**feature, "suggestion": ""}]
    print_features({"features": features, "n_blocks_read": 1, "advice": ""}, 1)
    assert ("suggestion" in capsys.readouterr().out) == bool(suggestion)
