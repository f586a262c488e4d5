"""Writers that are killed after any of their changes, and the same command once more.

Then the output has the bytes of an undisturbed run, and after `clean` nothing else is there.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.clicks.counting.build import build_clicks
from dranking.clicks.counting.click_log import ClickLog
from dranking.data.store.write_dataset import write_dataset
from dranking.engine.executor import ThreadExecutor
from dranking.errors import DataError, UsageError
from dranking.files.folders.array_folder import write_arrays
from dranking.files.writing.clean import clean
from dranking.models.linear.model import LinearModel
from tests.files.writing.kills import contents, mortal_place, numbered_tokens


class AsWorkers(ThreadExecutor):
    """Threads that share nothing with the driver but places, as the workers of a cluster."""

    in_process = False


class Job(NamedTuple):
    """A command, and the one that made what it changes; may `run` have `overwrite`."""

    run: Callable
    before: Callable | None = None
    replaces: bool = False


def rows_apart(path, first):
    """Rows of four queries, every one in two places."""
    qid = np.tile(np.arange(first, first + 4), 2)
    rows = {"qid": qid, "relevance": np.arange(8) % 3, "x": np.arange(8.0)}
    pq.write_table(pa.table(rows), path, row_group_size=4)
    return path


def impressions(path, day):
    """Two sessions of one night."""
    rows = {
        "session": ["a", "a", "b"],
        "query": ["cats", "cats", "dogs"],
        "document": ["1", "2", "1"],
        "position": [1, 2, 1],
        "clicked": [True, False, True],
        "time": [f"2026-11-{day:02d}T10:00:00Z"] * 3,
    }
    pq.write_table(pa.table(rows), path)
    return path


def jobs_in(folder):
    """The jobs of the tests by their names; their inputs are files in a folder."""
    first, second = (rows_apart(folder / f"{i}.parquet", 100 * i) for i in range(2))
    logs = [impressions(folder / f"log-{day}.parquet", day) for day in (1, 2)]
    X, y, q = np.arange(16.0).reshape(8, 2), np.arange(8) % 3, np.arange(8) // 4
    data = [dr.from_arrays(X + i, y, q + 100 * i) for i in range(2)]
    model = LinearModel(feature_names=data[0].feature_names, weights=(1.0, 2.0))
    workers, threads = AsWorkers(1), ThreadExecutor(1)
    ingest = partial(dr.ingest, first, executor=workers)
    scores = partial(dr.write_scores, model, data[0], executor=threads)
    statistics = partial(dr.build_statistics, data[0], executor=threads)
    of_two = partial(dr.build_statistics, dr.from_arrays(X, y, q), executor=threads)
    click_log = partial(ClickLog, salt="00" * 16)
    clicks = partial(build_clicks, logs[:1], log=click_log(), executor=workers)
    arrays = partial(write_arrays, kind="test", facts={}, arrays={"x": X, "y": y})
    return {
        "ingest": Job(ingest),
        "ingest on threads": Job(partial(dr.ingest, first, executor=threads)),
        "overwrite": Job(
            partial(ingest, overwrite=True), partial(dr.ingest, second, executor=threads), True
        ),
        "append": Job(
            partial(dr.ingest, second, append=True, executor=workers),
            partial(dr.ingest, first, executor=threads),
        ),
        "data set": Job(partial(write_dataset, data[0])),
        "statistics": Job(statistics),
        "append to statistics": Job(
            lambda place: dr.append_queries(place, data[1], executor=threads), statistics
        ),
        "expire statistics": Job(
            lambda place: dr.expire_statistics(place, blocks=[0]),
            lambda place: (of_two(place), dr.append_queries(place, data[1], executor=threads)),
        ),
        "scores": Job(scores),
        "overwrite scores": Job(
            partial(scores, overwrite=True),
            partial(dr.write_scores, model, data[1], executor=threads),
            True,
        ),
        "clicks": Job(clicks),
        "append to clicks": Job(
            partial(build_clicks, logs[1:], log=click_log(), append=True, executor=threads), clicks
        ),
        "arrays": Job(arrays),
        "overwrite arrays": Job(
            partial(arrays, overwrite=True),
            lambda place: write_arrays(place, "test", {}, {"x": y}),
            True,
        ),
    }


NAMES = (
    *("ingest", "ingest on threads", "overwrite", "append", "statistics", "append to statistics"),
    *("expire statistics", "scores", "overwrite scores", "clicks", "append to clicks"),
    *("arrays", "overwrite arrays"),
)


@pytest.fixture
def world(request, tmp_path, monkeypatch):
    """What counts changes and kills, a function of new outputs, and one that numbers tokens."""
    number = numbered_tokens(monkeypatch)
    with mortal_place(request.param, tmp_path, monkeypatch) as (mortal, new):
        yield mortal, new, number


FIRST, KILLED, AGAIN = 0, 1_000, 2_000
"""Numbers of the first tokens of the command before, the killed command, and the repeated one."""

REMEDIES = ("again", "overwrite", "clean", "clean later")


class Kills:
    """The kills of one job; an undisturbed run says what has to be there."""

    def __init__(self, world, job):
        self.mortal, self.new, self.number = world
        self.job = job
        self.n_changes, self.killed = self.undisturbed(KILLED)
        _, self.expected = self.undisturbed(AGAIN)

    def prepared(self):
        place = self.new()
        self.number(FIRST)
        if self.job.before is not None:
            self.job.before(place)
        return place

    def undisturbed(self, token):
        place = self.prepared()
        self.number(token)
        n_changes = self.mortal.changes_of(partial(self.job.run, place))
        clean(place, 0)
        return n_changes, contents(place.parent)

    def check(self, last, remedy):
        """Kill the job after so many changes, apply a remedy, and compare."""
        place = self.prepared()
        self.number(KILLED)
        assert self.mortal.killed_after(last, partial(self.job.run, place))
        manifests = ["/d/manifest.json", "/d/_SUCCESS"]
        left = contents(place.parent)
        is_done = any(name in left and left[name] == self.killed.get(name) for name in manifests)
        if remedy.startswith("clean"):
            with suppress(DataError):  # nothing is there
                clean(place, *([0] if remedy == "clean" else []))
        self.number(AGAIN)
        expected = self.expected
        if remedy == "overwrite" and self.job.before is None:
            self.job.run(place, overwrite=True)
        elif is_done and not self.job.replaces:
            with suppress(UsageError, DataError):  # it is there already
                self.job.run(place)
            expected = self.killed
        else:
            self.job.run(place)
        clean(place, 0)
        assert contents(place.parent) == expected, (last, remedy, sorted(left))


SAMPLE = [("store", name) for name in NAMES] + [("disk", "append"), ("disk", "overwrite")]


@pytest.mark.parametrize(("world", "name"), SAMPLE, indirect=["world"])
def test_a_job_that_is_killed_is_run_again(tmp_path, world, name):
    """Every request of a cluster's ingest to a store, and some of others, with remedies in turn."""
    kills = Kills(world, jobs_in(tmp_path)[name])
    n_kills = kills.n_changes if name == "ingest" else 3
    for number, last in enumerate(np.linspace(0, kills.n_changes - 1, n_kills).astype(int)):
        kills.check(last, REMEDIES[(number + len(name)) % 4])


@pytest.mark.exhaustive
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("world", ["store", "disk"], indirect=True)
def test_a_job_that_is_killed_anywhere_is_run_again(tmp_path, world, name):
    kills = Kills(world, jobs_in(tmp_path)[name])
    for last in range(kills.n_changes):
        for remedy in REMEDIES:
            kills.check(last, remedy)


@pytest.mark.parametrize("name", ["ingest", "data set", "statistics", "clicks"])
def test_an_overwrite_removes_what_the_one_before_left_to_readers(tmp_path, name):
    run = jobs_in(tmp_path)[name].run
    place = tmp_path / "d"
    run(place)
    first = contents(place).keys() - {"/manifest.json"}
    run(place, overwrite=True)
    assert first <= contents(place).keys()
    run(place, overwrite=True)
    assert not first & contents(place).keys()
