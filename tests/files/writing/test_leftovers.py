"""Leftovers of processes that died are removed, or restored."""

import os
import runpy
import signal
import time

import pytest

from dranking.errors import DataError
from dranking.files.writing import local_output, names, processes
from dranking.files.writing.clean import clean
from dranking.files.writing.output_checks import check_output_directory, restore_interrupted
from tests.files.writing.directories import (
    content_of,
    dead_process_id,
    leftover_name,
    make_directory,
    names_in,
    run_python,
)


@pytest.mark.parametrize("kind", ["tmp", "old"])
def test_leftovers_of_dead_processes_are_removed(tmp_path, kind):
    path = tmp_path / "out"
    make_directory(path, "old")
    leftover = tmp_path / leftover_name("out", kind, dead_process_id())
    (leftover / "inner").mkdir(parents=True)
    make_directory(path, "new", overwrite=True)
    assert names_in(tmp_path) == ["out"]
    assert content_of(path) == "new"


def test_leftovers_of_an_earlier_process_with_our_id_are_removed(tmp_path):
    (tmp_path / leftover_name("out", "tmp", os.getpid())).mkdir()
    make_directory(tmp_path / "out", "new")
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize(
    "name",
    [
        leftover_name("out", "tmp", os.getppid()),
        leftover_name("out", "tmp", 1),
        leftover_name("out", "tmp", 10**30),
        leftover_name("out", "tmp", 2**22 + 1, host="deadbeef"),
        leftover_name("outer", "tmp", 2**22 + 1),
        ".out.tmp-notes",
    ],
)
def test_files_that_may_be_in_use_stay(tmp_path, name):
    (tmp_path / name).mkdir()
    make_directory(tmp_path / "out", "new")
    assert names_in(tmp_path) == sorted(["out", name])


OTHERS = [("deadbeef", 1), (None, 1), (None, os.getppid())]
"""A process of another host, which cannot be asked, and ids that are in use."""


@pytest.mark.parametrize(("host", "pid"), OTHERS)
def test_leftovers_of_any_process_are_removed_after_a_grace_period(
    tmp_path, monkeypatch, host, pid
):
    left = tmp_path / leftover_name("out", "tmp", pid, host)
    left.mkdir()
    (left / "inner").write_text("x")
    os.utime(left / "inner", (1, 1))  # copied with its old time, and yet young
    elsewhere = tmp_path / leftover_name("never-again", "tmp", pid, host)
    elsewhere.touch()
    local_output.remove_leftovers(tmp_path)
    assert names_in(tmp_path) == sorted([left.name, elsewhere.name])
    later = time.time() + local_output.GRACE_SECONDS["tmp"] + 60
    monkeypatch.setattr("time.time", lambda: later)
    make_directory(tmp_path / "out", "new")
    assert names_in(tmp_path) == sorted([elsewhere.name, "out"])
    local_output.remove_leftovers(tmp_path)
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize("unreadable", [False, True])
def test_the_output_of_a_writer_in_another_container_of_the_same_host_name_stays(
    tmp_path, monkeypatch, unreadable
):
    """Its process id means nothing here; here no process has it."""

    def namespace(path):
        if unreadable:
            raise PermissionError(13, "Permission denied", path)
        return "pid:[1]"

    machine = processes.machine.__wrapped__
    with monkeypatch.context() as patch:
        patch.setattr(os, "readlink", namespace)
        patch.setattr(processes, "machine", machine)
        host = runpy.run_path(names.__file__)["HOST"]
    left = tmp_path / leftover_name("out", "tmp", dead_process_id(), host)
    left.mkdir()
    with pytest.raises(DataError, match="12 hours after its last change"):
        clean(tmp_path / "out")
    make_directory(tmp_path / "out", "new")
    assert names_in(tmp_path) == sorted([left.name, "out"])


def test_a_directory_that_another_host_was_replacing_is_restored(tmp_path, monkeypatch):
    make_directory(tmp_path / "out", "old")
    (tmp_path / "out").rename(tmp_path / leftover_name("out", "old", 1, "deadbeef"))
    local_output.remove_leftovers(tmp_path)
    assert not (tmp_path / "out").exists()
    later = time.time() + local_output.GRACE_SECONDS["old"] + 60
    monkeypatch.setattr("time.time", lambda: later)
    local_output.remove_leftovers(tmp_path)
    assert content_of(tmp_path / "out") == "old"


def test_what_a_killed_first_write_left_is_cleaned(tmp_path):
    """Also of a file, and of another host if nothing young is to be kept; not of a live process."""
    for name in ("out", "model.json"):
        (tmp_path / leftover_name(name, "tmp", dead_process_id())).mkdir()
        assert clean(tmp_path / name) == 1
        (tmp_path / leftover_name(name, "tmp", 1, "deadbeef")).touch()
        with pytest.raises(DataError, match=r"no directory is there\. The writer .* may be alive"):
            clean(tmp_path / name)
        time.sleep(0.01)
        assert clean(tmp_path / name, grace=0) == 1
        assert names_in(tmp_path) == []
    live = tmp_path / leftover_name("out", "tmp", os.getppid())
    live.mkdir()
    with pytest.raises(DataError, match="12 hours after its last change"):
        clean(tmp_path / "out", grace=0)
    assert names_in(tmp_path) == [live.name]


def test_what_killed_appends_left_in_a_directory_is_cleaned(tmp_path):
    make_directory(tmp_path / "out", "old")
    inside = [leftover_name("manifest.json", "tmp", dead_process_id()), f"scratch/{'0' * 16}-rows"]
    for name in inside:
        (tmp_path / "out" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "out" / name).touch()
    (tmp_path / "out" / "segments").mkdir()
    (tmp_path / leftover_name("out", "tmp", dead_process_id())).mkdir()
    assert clean(tmp_path / "out", grace=0) == 3
    assert names_in(tmp_path / "out") == ["inner", "manifest.json"]
    assert names_in(tmp_path) == [".out.lock", "out"]


@pytest.mark.parametrize(
    "recover",
    [
        restore_interrupted,
        lambda path: check_output_directory(path, overwrite=True),
    ],
)
def test_a_replacement_killed_between_its_renames_is_undone(tmp_path, recover):
    path = tmp_path / "out"
    make_directory(path, "old")
    path.rename(tmp_path / leftover_name("out", "old", dead_process_id()))
    recover(path)
    assert content_of(path) == "old"
    assert names_in(tmp_path) == ["out"]


def test_a_replacement_in_progress_is_not_undone(tmp_path):
    aside = tmp_path / leftover_name("out", "old", os.getppid())
    aside.mkdir()
    restore_interrupted(tmp_path / "out")
    assert names_in(tmp_path) == [aside.name]


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_kill_at_any_moment_of_the_swap(tmp_path, moment):
    """After a kill before, between or after the renames, the next write finds a whole directory."""
    path = tmp_path / "out"
    make_directory(path, "old")
    program = """
        import os, signal, sys
        from pathlib import Path
        from dranking.files.writing.commit import new_directory
        path, moment = Path(sys.argv[1]), sys.argv[2]
        rename = os.rename
        done = []
        def deadly(source, destination):
            if (moment, len(done)) in {("before", 0), ("between", 1)}:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(source, destination)
            done.append(source)
            if (moment, len(done)) == ("after", 2):
                os.kill(os.getpid(), signal.SIGKILL)
        os.rename = deadly
        with new_directory(path, overwrite=True) as temporary:
            (temporary / "inner").mkdir()
            (temporary / "inner" / "content").write_text("new")
            (temporary / "manifest.json").write_text('{"format": "dranking-test"}')
    """
    assert run_python(program, path, moment).returncode == -signal.SIGKILL
    assert len(names_in(tmp_path)) == 2
    restore_interrupted(path)
    assert content_of(path) == ("new" if moment == "after" else "old")
    make_directory(path, "newest", overwrite=True)
    assert content_of(path) == "newest"
    assert names_in(tmp_path) == ["out"]
