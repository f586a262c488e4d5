"""`dranking clicks build` and `info`: JSON, tables, and exit codes."""

import json
from collections import Counter
from random import Random

import pytest
from typer.testing import CliRunner

from dranking.cli.app import app, run

LOG = """sid,text,doc,rank,hit,at,device
s1,cats,d1,1,0,2026-11-01T23:59:00+02:00,tv
s1,cats,d2,2,1,2026-11-01T23:59:00+02:00,tv
s1,cats,d2,2,1,2026-11-01T23:59:30+02:00,tv
s2,cats,d1,1,1,2026-11-01T23:59:00Z,web
s2,cats,d2,2,0,2026-11-02T00:01:00Z,web
s3,dogs,d1,0,1,2026-11-02T00:01:00Z,web
s3,dogs,[d7],1,1,2026-11-02T00:01:00Z,web
"""
NAMES = {
    "session": "sid", "query": "text", "document": "doc", "position": "rank", "clicked": "hit",
    "time": "at",
}  # fmt: skip
COLUMNS = [part for name, own in NAMES.items() for part in (f"--{name}-column", own)]


@pytest.fixture
def log(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    return str(tmp_path / "log.csv")


def test_a_log_is_counted_and_described(log, tmp_path, capsys):
    store = str(tmp_path / "clicks.store")
    call = ["clicks", "build", log, "-o", store, *COLUMNS, "--context-columns", "device"]
    assert run([*call, "--max-unmatched", "0.2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["unmatched_share"] == pytest.approx(1 / 7)
    assert facts["problems"]["positions_of_0"] == sum(facts["problems"].values()) == 1
    assert {name: n for name, n in facts["notes"].items() if n} == {
        "times_in_other_zones": 3,
        "repeated_events": 1,
        "sessions_over_midnight": 1,
    }
    counts = {"n_events": 7, "n_nights": 2, "n_sessions": 3, "n_queries": 2, "n_impressions": 5}
    assert counts.items() <= facts.items()
    assert run(["clicks", "info", store, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["context_columns"] == ["device"]
    assert told["nights"][0] == {
        "night": "2026-11-01", "n_sessions": 2, "n_queries": 1, "n_impressions": 4, "n_clicks": 2,
    }  # fmt: skip
    assert run(["clicks", "info", store, "--since", "2026-11-02", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_impressions"] == 1


def test_arms_are_listed_with_their_sessions(tmp_path, capsys):
    """300 sessions of two nights, which ask one or two queries; some events name no arm."""
    draw, lines = Random(0), ["session,query,document,position,clicked,time,arm"]
    sessions, impressions, clicks = set(), Counter(), Counter()
    for s in range(300):
        arm = draw.choice(["", "old", "new", "new"])
        for query in draw.sample(["cats", "dogs", "birds"], draw.randint(1, 2)):
            sessions.add((arm, s, query))
            for position in range(1, draw.randint(2, 6)):
                clicked = int(draw.random() < 0.3)
                impressions[arm] += 1
                clicks[arm] += clicked
                document = f"d{draw.randint(0, 3)}-{position}"
                day = 1 + s % 2
                lines.append(f"s{s},{query},{document},{position},{clicked},2026-11-0{day},{arm}")
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    store = str(tmp_path / "clicks.store")
    build = ["clicks", "build", str(tmp_path / "log.csv"), "-o", store, "--arm-column", "arm"]
    assert run(build) == 0
    capsys.readouterr()
    assert run(["clicks", "info", store, "--json"]) == 0
    n_sessions = Counter(arm for arm, _, _ in sessions)
    assert json.loads(capsys.readouterr().out)["arms"] == [
        {
            "arm": arm,
            "n_sessions": n_sessions[arm],
            "n_impressions": impressions[arm],
            "n_clicks": clicks[arm],
        }
        for arm in ("", "new", "old")
    ]
    assert "(no arm)" in CliRunner().invoke(app, ["clicks", "info", store]).output


def test_positions_that_count_from_0_are_refused_and_read(tmp_path, capsys):
    """Pages of 25 results: a position of 0 is one event in 25, less than may be unmatched."""
    rows = [f"s{s},q,d{p},{p},{int(p < 2)},2026-11-01" for s in range(40) for p in range(25)]
    head = "session,query,document,position,clicked,time"
    (tmp_path / "log.csv").write_text("\n".join([head, *rows]) + "\n")
    call = ["clicks", "build", str(tmp_path / "log.csv"), "-o", str(tmp_path / "clicks.store")]
    assert run(call) == 3
    told = capsys.readouterr().err
    assert "40 events in 40 sessions are at position 0" in told
    assert "--first-position 0" in told
    assert run([*call, "--first-position", "0", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["n_impressions"], facts["unmatched_share"]) == (1000, 0)


def test_what_is_wrong_stands_in_a_table_at_the_end(log, tmp_path):
    store = str(tmp_path / "clicks.store")
    call = ["clicks", "build", log, "-o", store, *COLUMNS, "--max-unmatched", "0.2"]
    shown = CliRunner().invoke(app, call)
    assert shown.exit_code == 0
    assert "the log (14.29% left out)" in shown.output
    assert "positions of 0, in a log that counts from 1" in shown.output
    shown = CliRunner().invoke(app, ["clicks", "info", store])
    assert "2026-11-02" in shown.output


def test_wrong_logs_and_calls_have_their_exit_codes(log, tmp_path, capsys):
    store = str(tmp_path / "clicks.store")
    assert run(["clicks", "build", log, "-o", store, *COLUMNS]) == 3
    told = capsys.readouterr().err
    assert "14.3% of 7 events cannot be used, more than 5.0%" in told
    assert "  1: positions of 0, in a log that counts from 1" in told
    assert not (tmp_path / "clicks.store").exists()
    assert run(["clicks", "build", log, "-o", store]) == 3
    assert "there is no column 'session'" in capsys.readouterr().err
    assert run(["clicks", "build", log, "-o", store, "--window", "week"]) == 2
    assert run(["clicks", "build", log, "-o", store, *COLUMNS, "--append"]) == 3
    assert run(["clicks", "info", store]) == 3
