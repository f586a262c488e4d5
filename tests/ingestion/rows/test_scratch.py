"""Scratch files on a store that is busy, and in the caller's folder."""

import os
import secrets

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from upath import UPath

from dranking.errors import UsageError
from dranking.ingestion.rows.scratch import Scratch


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


def test_the_folder_of_the_job_goes_unless_another_file_is_there(tmp_path):
    scratch = Scratch(tmp_path / "scratch", "0123456789abcdef")
    for others in (["another"], []):
        scratch.part("0").put("a", b"content")
        for name in others:
            (scratch.folder / name).touch()
        scratch.clear()
        assert os.listdir(tmp_path) == ["scratch"][: len(others)]
        for name in others:
            (scratch.folder / name).unlink()


def test_a_place_that_is_a_file_is_refused_in_words(tmp_path):
    file = tmp_path / "file"
    file.write_text("the caller's")
    scratch = Scratch(file / "dranking-0123456789abcdef", "0123456789abcdef")
    with pytest.raises(UsageError, match=r"--scratch"):
        scratch.put("a", b"content")
    assert file.read_text() == "the caller's"
