"""Nights that are killed after any of their changes, and the next run of the same night.

A kill before a request that changes nothing leaves what the kill before the next change leaves. The
next run ends with the files of an undisturbed night, with the same bytes wherever two undisturbed
nights have the same: others hold times, or the tokens of writers.
"""

import faulthandler
import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from types import SimpleNamespace

import numpy as np
import pytest

from dranking.files.writing.clean import clean
from tests.files.writing.kills import contents, mortal_place, numbered_tokens, put_back
from tests.retrain.remote import Remote
from tests.retrain.runs import check_whole

TOKEN = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")
MANIFEST = re.compile(r"/(work/(?:parts/\w+|statistics))/manifest\.json")

DIGESTS = "/work/digests.json"
"""Digests of the files that are old enough for them to be kept."""


class KilledNight:
    """A night at a place, what is there before it, and the files of an undisturbed run after it."""

    def __init__(self, nights, number, mortal, number_tokens):
        self.nights, self.mortal, self.number_tokens = nights, mortal, number_tokens
        nights.night(number)
        self.before = contents(nights.place)
        first = self.end_of_a_run(1_000)
        put_back(nights.place, self.before)
        self.after = self.end_of_a_run(100_000)
        same = [name for name in first if first[name] == self.after[name]]
        self.same = [name for name in same if name != DIGESTS]

    def end_of_a_run(self, token):
        """Bytes by name, without tokens, of what is there after a run, and after `clean`."""
        self.number_tokens(token)
        self.n_changes = self.mortal.changes_of(self.nights.run)
        check_whole(self.nights.registry)
        found = defaultdict(list)
        for name in contents(self.nights.place):
            if match := MANIFEST.fullmatch(name):
                clean(self.nights.place / match[1], 0)
        for name, content in contents(self.nights.place).items():
            found[TOKEN.sub("token", name)].append(content)
        return {name: sorted(found[name], key=str) for name in found}

    def check(self, last):
        """Kill the night after so many changes, run it again, and compare."""
        put_back(self.nights.place, self.before)
        self.number_tokens(10_000)
        assert self.mortal.killed_after(last, self.nights.run)
        check_whole(self.nights.registry)
        found = self.end_of_a_run(100_000)
        assert {name: len(each) for name, each in found.items()} == {
            name: len(each) for name, each in self.after.items()
        }, last
        differing = [name for name in self.same if found[name] != self.after[name]]
        assert differing == [], last


def killed_nights(kind, tmp_path, monkeypatch):
    """The first night and the second, one after the other, on a store or a disk."""
    monkeypatch.setattr("dranking.files.writing.locks.has_ended", lambda process: True)
    minutes = (datetime(2026, 11, 29, tzinfo=UTC) + timedelta(minutes=n) for n in count())
    clock = SimpleNamespace(now=lambda zone: next(minutes))  # each run has its own minute
    monkeypatch.setattr("dranking.retrain.stages.pages.datetime", clock)
    number_tokens = numbered_tokens(monkeypatch)
    (tmp_path / "made").mkdir()
    with mortal_place(kind, tmp_path, monkeypatch) as (mortal, new):
        nights = Remote(tmp_path / "made", new(), n_queries=3, n_judged_documents=3)
        for number in (1, 2):
            night = KilledNight(nights, number, mortal, number_tokens)
            assert any(name.endswith("model.json") for name in night.same)
            yield night
            put_back(nights.place, night.before)
            night.end_of_a_run(1)


def test_a_night_that_is_killed_is_finished_by_the_next_run(tmp_path, monkeypatch):
    _, night = islice(killed_nights("store", tmp_path, monkeypatch), 2)
    for last in np.linspace(0, night.n_changes - 1, 4).astype(int)[1:]:
        night.check(last)


@pytest.mark.exhaustive
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("kind", ["store", "disk"])
def test_a_night_that_is_killed_anywhere_is_finished_by_the_next_run(kind, tmp_path, monkeypatch):
    """1,082 kills on a disk and 257 on a store, of some seconds each on a busy machine."""
    faulthandler.cancel_dump_traceback_later()  # a dump amid compiled loops ends the process
    for night in killed_nights(kind, tmp_path, monkeypatch):
        for last in range(night.n_changes):
            night.check(last)
