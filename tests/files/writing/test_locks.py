"""Locks of places: one holder at a time, on local disks and in stores."""

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dranking.errors import TryAgainError
from dranking.files import requests
from dranking.files.places import as_place
from dranking.files.reading import exists, read_bytes
from dranking.files.writing import locks, processes
from dranking.files.writing.locks import locked
from dranking.files.writing.processes import this_process
from tests.files.writing.directories import dead_process_id

BUSY = "s3://b: another process is changing it"


@pytest.fixture
def place():
    return as_place(f"memory://{secrets.token_hex(4)}") / ".lock"


@pytest.mark.parametrize("where", ["local", "memory", "s3"])
def test_one_holder_at_a_time(tmp_path, request, where):
    urls = {"local": str(tmp_path), "memory": f"memory://{secrets.token_hex(4)}"}
    url = urls[where] if where in urls else request.getfixturevalue("bucket")
    place = as_place(f"{url}/registry/.lock")
    with locked(place, BUSY) as check:
        with pytest.raises(TryAgainError, match="another process is changing it"):
            locked(place, BUSY).__enter__()
        check()
    with locked(place, BUSY):
        pass


def test_a_lease_is_renewed_until_its_release(place, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.3)
    with locked(place, BUSY) as check:
        first = read_bytes(place)
        deadline = time.monotonic() + 20
        while read_bytes(place) == first:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        check()
    assert not exists(place)


def test_the_lease_of_a_dead_process_is_taken_over_after_its_end(place):
    place.write_bytes(json.dumps({"holder": "x", "expires": time.time() + 0.2}).encode())
    with pytest.raises(TryAgainError, match=r"its lock ends at \d\d:\d\d:\d\d UTC, in 0 s"):
        locked(place, BUSY).__enter__()
    time.sleep(0.25)
    with locked(place, BUSY) as check:
        check()


LEASE_OF = """
import os, signal, sys
from dranking.files.writing.locks import Lease

sys.stdout.write(Lease(None, "")._content().decode())
sys.stdout.flush()
signal.pause()
"""


def test_the_lease_of_a_process_that_has_ended_here_is_taken_over_at_once(place):
    """It holds as long as the process lives; also one that nobody has waited for has ended."""
    with subprocess.Popen(
        [sys.executable, "-c", LEASE_OF], cwd=Path(__file__).parents[3], stdout=subprocess.PIPE
    ) as holder:
        lease = json.loads(holder.stdout.read1())
        try:
            with pytest.raises(
                TryAgainError, match=rf"process \({holder.pid} on host .*, in 300 s"
            ):
                taken(place, lease)
            assert lease["process"]["pid"] == holder.pid
            another_start = {**lease, "process": {**lease["process"], "started": "1"}}
            assert taken(place, another_start)
        finally:
            holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        assert taken(place, lease)
    assert taken(place, lease)
    elsewhere = {**lease, "process": {**lease["process"], "machine": "0" * 16}}
    with pytest.raises(TryAgainError, match="on its machine, outside of other containers"):
        taken(place, elsewhere)


@pytest.mark.parametrize("unreadable", ["boot_id", "ns/pid"])
def test_the_lease_of_a_process_stays_where_the_machine_is_not_known(
    place, monkeypatch, unreadable
):
    """As in another container of the same host name, in which the process's id means nothing."""
    read_text, readlink = Path.read_text, os.readlink

    def guarded(read):
        def guard(path, *arguments, **options):
            if str(path).endswith(unreadable):
                raise PermissionError(13, "Permission denied", str(path))
            return read(path, *arguments, **options)

        return guard

    processes.machine.cache_clear()
    monkeypatch.setattr(Path, "read_text", guarded(read_text))
    monkeypatch.setattr(os, "readlink", guarded(readlink))
    try:
        lease = {"holder": "x", "process": this_process()._replace(pid=dead_process_id())._asdict()}
        with pytest.raises(TryAgainError, match="another process is changing it"):
            taken(place, lease)
    finally:
        processes.machine.cache_clear()


def taken(place, lease):
    """Whether a lock whose lease is in the store can be taken."""
    place.write_bytes(json.dumps({**lease, "expires": time.time() + 300}).encode())
    with locked(place, BUSY) as check:
        check()
    return True


def test_of_two_that_take_over_one_lease_one_gets_it(place, monkeypatch):
    """Both have seen the expired lease; the second finds it changed."""
    place.write_bytes(json.dumps({"holder": "x", "expires": 0}).encode())
    seen = locks.version(place)
    with locked(place, BUSY):
        monkeypatch.setattr(locks, "version", lambda _: seen)
        monkeypatch.setattr(locks.Lease, "_check_free", lambda _: None)
        with pytest.raises(TryAgainError, match="since a moment ago"):
            locked(place, BUSY).__enter__()
        monkeypatch.undo()


def test_a_lease_that_another_holder_took_is_lost_and_not_deleted(place):
    with locked(place, BUSY) as check:
        theft = json.dumps({"holder": "thief", "expires": time.time() + 60}).encode()
        place.write_bytes(theft)
        with pytest.raises(TryAgainError, match="the lock was lost"):
            check()
    assert read_bytes(place) == theft


def fail_to_write(monkeypatch, failures):
    send = locks.put_if_unchanged

    def failing(where, content, seen):
        if seen is not None and failures:
            raise failures.pop()
        send(where, content, seen)

    monkeypatch.setattr(locks, "put_if_unchanged", failing)


def test_a_lease_that_cannot_be_renewed_is_lost(place, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.3)
    fail_to_write(monkeypatch, [requests.ChangedError()] * 100)
    with locked(place, BUSY) as check:
        check()
        time.sleep(0.35)
        with pytest.raises(TryAgainError, match=r"could not be renewed for 0\.3 s"):
            check()


def test_a_renewal_that_failed_once_is_made_up_for(place, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 1.2)
    failures = [ConnectionError("the network is away")]
    fail_to_write(monkeypatch, failures)
    with locked(place, BUSY) as check:
        time.sleep(1.4)
        assert not failures
        check()
