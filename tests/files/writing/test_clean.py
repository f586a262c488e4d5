"""Cleaning while other processes write, stand still, or read."""

import os
import secrets
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from upath import UPath

import dranking as dr
from dranking.data.store.segment_writer import write_segment
from dranking.data.store.write_dataset import commit_dataset
from dranking.errors import DataError, TryAgainError, UsageError
from dranking.files.places import is_local
from dranking.files.writing import debris
from dranking.files.writing.clean import clean
from dranking.files.writing.commit import begin_directory

WEEK = 7 * 24 * 3600.0
MANIFEST = b'{"format": "dranking-test", "parts": "%s"}'


def blocks(first, n=3):
    X = np.arange(12 * n, dtype=np.float32).reshape(-1, 3)
    rows = dr.from_arrays(X, np.arange(4 * n) % 2, first + np.arange(4 * n) // 4)
    return [rows.block(0)]


def place_of(kind, tmp_path):
    return tmp_path / "data" if kind == "local" else UPath(f"memory://{secrets.token_hex(4)}/data")


@pytest.fixture(params=["local", "store"])
def place(request, tmp_path):
    """A directory of one part that its manifest names."""
    place = place_of(request.param, tmp_path)
    with begin_directory(place) as commit:
        commit.add("parts/1").write_bytes(b"one")
        commit.finish(MANIFEST % commit.name("parts/1").encode())
    return place


def names(place):
    return sorted(file.name for file in debris._files(place))


class Ahead(datetime):
    """A clock that is ten days ahead."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(days=10)


def test_a_clock_that_is_ahead_makes_nothing_old(place, monkeypatch):
    """The parts of a live writer are minutes old by the clock of the place that dates them."""
    if not is_local(place):
        commit = begin_directory(place, append=True)
        commit.add("parts/2").write_bytes(b"two")
    else:  # of a writer on another host, whose lock this host does not see
        (place / "parts" / f"{debris.new_token()}-2").write_bytes(b"two")
    before = names(place)
    monkeypatch.setattr(debris, "datetime", Ahead)
    assert clean(place) == 0
    assert names(place) == before


def aged(place, token, days=8.0):
    """Make the parts of a writer old."""
    for file in place.rglob(f"*{token}*"):
        then = time.time() - days * 24 * 3600
        os.utime(file, (then, then))


STOPPED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from dranking.files.writing.commit import begin_directory

with begin_directory(sys.argv[1], append=True) as commit:
    commit.add("parts/2").write_bytes(b"two")
    print(commit.token, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    before = (commit.root / "manifest.json").read_bytes()
    commit.finish(before[:-2] + b" " + commit.name("2").encode() + before[-2:])
"""


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_writer_that_is_stopped_for_longer_than_the_grace_keeps_its_parts(place):
    """Two processes: one appends and is stopped, the other cleans, with no grace at all too."""
    root = os.path.dirname(os.path.dirname(dr.__file__))
    command = [sys.executable, "-c", STOPPED, str(place), root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        token = writer.stdout.readline().strip()
        try:
            os.waitpid(writer.pid, os.WUNTRACED)
            aged(place, token)
            for grace in (WEEK, 0.0):
                with pytest.raises(TryAgainError, match="another process is changing it"):
                    clean(place, grace)
        finally:
            os.kill(writer.pid, signal.SIGCONT)
        assert writer.wait() == 0
    assert (place / "parts" / f"{token}-2").read_bytes() == b"two"
    assert clean(place, 0.0) == 1  # the manifest before
    assert [name for name in names(place) if "alive" in name or "now" in name] == []


@pytest.mark.parametrize("place", ["store"], indirect=True)
def test_a_writer_whose_parts_were_deleted_changes_nothing(place):
    """In a store, nobody sees whether a writer is alive; at its end it sees what is gone."""
    before = (place / "manifest.json").read_bytes()
    with begin_directory(place, append=True) as commit:
        commit.add("parts/2").write_bytes(b"two")
        assert clean(place, 0.0) == 1
        manifest = before[:-2] + b" " + commit.name("parts/2").encode() + before[-2:]
        with pytest.raises(TryAgainError, match="grace period"):
            commit.finish(manifest)
    assert (place / "manifest.json").read_bytes() == before
    assert len(names(place)) == 2


def test_a_data_set_without_its_segments_is_not_finished(tmp_path):
    """Its manifest names the writer, and the index, which is written at the end, is there."""
    place = place_of("store", tmp_path)
    with begin_directory(place) as commit:
        segment = write_segment(commit.root, commit.name("segments/000000"), blocks(0))
        assert clean(place, 0.0) > 0
        with pytest.raises(TryAgainError, match="-000000, which this job wrote, is gone"):
            commit_dataset(commit, [segment])
    assert not (place / "manifest.json").exists()


@pytest.mark.parametrize("place", ["store"], indirect=True)
def test_a_writer_that_ends_while_the_place_is_cleaned_loses_nothing(place, monkeypatch):
    """It finishes after the first look at the manifest and before the parts are deleted.

    Writers of local directories are kept apart by a lock.
    """
    commit = begin_directory(place, append=True)
    commit.add("parts/2").write_bytes(b"two")
    before = (place / "manifest.json").read_bytes()
    listed = debris.marked_listing

    def finishing(where):
        found = listed(where)
        commit.finish(before[:-2] + b" " + commit.name("parts/2").encode() + before[-2:])
        return found

    monkeypatch.setattr("dranking.files.writing.clean.marked_listing", finishing)
    clean(place, 0.0)
    assert (place / commit.name("parts/2")).read_bytes() == b"two"


def test_a_data_set_that_is_finished_while_debris_is_cleaned_is_whole(monkeypatch):
    """Killed right before its manifest, and run again after the files were listed."""
    place = place_of("store", None)
    dr.write_dataset(blocks(0), place)
    (place / "manifest.json").unlink()
    listed = debris.marked_listing

    def finishing(where):
        found = listed(where)
        dr.write_dataset(blocks(0), place)
        return found

    monkeypatch.setattr("dranking.files.writing.clean.marked_listing", finishing)
    assert clean(place, 0.0) > 0
    assert dr.open_dataset(place).block(0).features.shape == (12, 3)


GROUP = {
    "zarr.json": b'{"zarr_format": 3, "node_type": "group", "attributes": {"of": "years"}}',
    "a1b2c3d4e5f60718/zarr.json": b'{"zarr_format": 3, "node_type": "array"}',
    "a1b2c3d4e5f60718/c/0/0": b"values",
}
SEGMENT = {"segments/a1b2c3d4e5f60718-000000/values/c/0": b"values"}


@pytest.mark.parametrize(
    "files",
    [
        GROUP,
        {**SEGMENT, "zarr.json": GROUP["zarr.json"]},
        {"4bf92f3577b34da6/span.json": b"{}", "00f067aa0ba902b7/span.json": b"{}"},
        {"4bf92f3577b34da6/values/0.npy": b""},
        {"4bf92f3577b34da6-notes": b"", ".4bf92f3577b34da6-hidden": b""},
        {"segments/4bf92f3577b34da6-small/values": b""},
        {"part-000000-4bf92f3577b34da6.csv": b""},
    ],
)
def test_files_of_others_that_are_named_by_hex_digits_are_not_ours(files):
    """A store of Zarr and folders of traces, years old: neither written to nor cleaned."""
    place = place_of("store", None)
    for name, content in files.items():
        (place / name).write_bytes(content)
    for entry in place.fs.store.values():
        entry.created = entry.modified = datetime(2020, 1, 1, tzinfo=UTC)
    with pytest.raises(UsageError, match="exists already"):
        dr.write_dataset(blocks(0), place)
    with pytest.raises(UsageError, match="was not written by dranking"):
        clean(place, 0.0)
    assert {name: (place / name).read_bytes() for name in names(place)} == files


@pytest.mark.parametrize("kind", ["local", "store"])
def test_an_open_reader_reads_on_while_an_overwrite_is_cleaned(tmp_path, kind):
    place = place_of(kind, tmp_path)
    dr.write_dataset(blocks(0), place)
    reader = dr.open_dataset(place)
    dr.write_dataset(blocks(100), place, overwrite=True)
    long_ago = datetime.now(UTC) - timedelta(days=30)
    replaced = [n for n in names(place) if "replaced" not in n and "manifest" not in n]
    for name in replaced:  # the parts are old, but were replaced just now
        if kind == "local":
            os.utime(place / name, (long_ago.timestamp(), long_ago.timestamp()))
        else:
            entry = place.fs.store[(place / name).path]
            entry.created = entry.modified = long_ago
    assert clean(place) == 0
    assert reader.block(0).features.shape == (12, 3)
    assert clean(place, 0.0) > 0
    assert dr.open_dataset(place).block(0).features.shape == (12, 3)
    with pytest.raises(DataError, match=r"^\S+/data: was changed since it was opened"):
        reader.block(0)


def test_a_directory_of_another_kind_keeps_nothing_of_the_one_before(tmp_path):
    dr.write_dataset(blocks(0), tmp_path / "data")
    reader = dr.open_dataset(tmp_path / "data")
    rows = dr.from_arrays(np.arange(24.0).reshape(-1, 2), np.arange(12) % 2, np.arange(12) // 4)
    dr.build_statistics(rows, tmp_path / "data", overwrite=True)
    assert reader.block(0).n_documents
    dr.build_statistics(rows, tmp_path / "fresh")
    assert clean(tmp_path / "data", 0.0) > 0
    found, fresh = (names(tmp_path / name) for name in ("data", "fresh"))
    assert [name[-8:] for name in found] == [name[-8:] for name in fresh]
    with pytest.raises(DataError, match=r"^\S+/data: was changed since it was opened"):
        reader.block(0)
