"""Scratch files on a store that is busy, and in the caller's folder."""

import os
import secrets

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from upath import UPath

from dranking.data.ingest.scratch import Scratch


class BusyError(Exception):
    def __init__(self):
        self.response = {"ResponseMetadata": {"HTTPStatusCode": 503}}


def busy_once(monkeypatch, name):
    """The first call of a method of the store fails; returns the failures."""
    failed, method = [], getattr(MemoryFileSystem, name)

    def call(self, *args, **kwargs):
        if not failed:
            failed.append(name)
            raise BusyError
        return method(self, *args, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, name, call)
    return failed


@pytest.fixture
def scratch():
    return Scratch(UPath(f"memory://{secrets.token_hex(4)}/scratch"), "0123456789abcdef")


def test_a_busy_store_does_not_end_a_job(scratch, monkeypatch):
    failed = [busy_once(monkeypatch, name) for name in ("pipe_file", "put_file", "rm_file")]
    scratch.put("a", b"content")
    table = pa.table({"x": [1, 2]})
    with (
        scratch.writing("b") as path,
        path.open("wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)
    assert scratch.get("a", 1, 3) == b"on"
    assert scratch.open_arrow("b").read_all() == table
    (scratch.folder / "another").write_bytes(b"")
    scratch.clear()
    assert [len(each) for each in failed] == [1, 1, 1]
    assert [place.name for place in scratch.folder.iterdir()] == ["another"]


def test_a_clean_up_that_fails_ends_no_job(scratch, monkeypatch):
    scratch.put("a", b"content")

    def refuse(*args, **kwargs):
        raise RuntimeError("the connection was dropped")

    monkeypatch.setattr(MemoryFileSystem, "rm_file", refuse)
    scratch.clear()
    assert scratch.get("a") == b"content"


@pytest.mark.parametrize("is_kept", [True, False])
def test_only_the_folder_of_the_caller_stays(tmp_path, is_kept):
    scratch = Scratch(tmp_path / "scratch", "0123456789abcdef", is_kept)
    scratch.part("0").put("a", b"content")
    scratch.clear()
    assert os.listdir(tmp_path) == ["scratch"] * is_kept
