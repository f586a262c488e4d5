"""Progress as commands show it: how far, what moved, how long it will still take."""

import json

import pytest

from dranking.cli import output
from dranking.cli.output import progress_shown
from dranking.engine.progress import report


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(output, "time", clock)
    return clock


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


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
    assert output._fact("bytes_read", 3 * 2**30) == "3.00 GiB read"
    assert output._fact("passes", 4) == "passes 4"


def test_bars_know_how_long_it_will_take(clock, monkeypatch):
    shown = []
    monkeypatch.setattr(output.Progress, "update", lambda self, bar, **fields: shown.append(fields))
    with output._bars() as show:
        show("select", 1, 3, {})
        clock.now += 90
        show("select", 2, 3, {"passes": 2})
    assert [fields["left"] for fields in shown] == ["", "0:01:30 left"]
    assert shown[1]["facts"] == "passes 2"
