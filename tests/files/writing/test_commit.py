"""The commit protocol of directories: after a write, all of it or the old state is there."""

import errno
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from dranking.errors import DataError, UsageError
from dranking.files.writing import commit, local_output
from dranking.files.writing.atomic_files import atomic_path, atomic_write, new_folder, put_part
from dranking.files.writing.clean import clean
from dranking.files.writing.commit import begin_directory, new_directory
from dranking.ingestion.open import open_dataset
from tests.files.writing.directories import (
    OURS,
    content_of,
    everything_in,
    make_directory,
    names_in,
    run_python,
)


def test_new_directory_appears_whole(tmp_path):
    path = tmp_path / "a" / "out"
    with new_directory(path) as temporary:
        (temporary / "manifest.json").write_text(OURS)
        assert not path.exists()
        assert temporary.parent == path.parent
    assert names_in(path) == ["manifest.json"]
    assert names_in(tmp_path / "a") == ["out"]


def test_new_directory_refuses_what_exists_before_any_work(tmp_path):
    path = tmp_path / "out"
    make_directory(path, "old")
    with (
        pytest.raises(UsageError, match=r"out: .*--overwrite"),
        new_directory(path),
    ):
        pytest.fail("the work was started")
    make_directory(path, "new", overwrite=True)
    assert content_of(path) == "new"
    assert names_in(tmp_path) == ["out"]


def test_overwriting_replaces_an_empty_directory(tmp_path):
    (tmp_path / "out").mkdir()
    make_directory(tmp_path / "out", "new", overwrite=True)
    assert content_of(tmp_path / "out") == "new"


@pytest.mark.parametrize(
    "manifest", [None, "{", "[]", '{"manifest_version": 3}', '{"format": "x"}']
)
def test_overwriting_refuses_a_directory_of_somebody_else(tmp_path, manifest):
    path = tmp_path / "thesis"
    path.mkdir()
    (path / "chapter").write_text("years of work")
    if manifest is not None:
        (path / "manifest.json").write_text(manifest)
    with pytest.raises(UsageError, match="not written by dranking"):
        make_directory(path, "new", overwrite=True)
    assert (path / "chapter").read_text() == "years of work"
    assert names_in(tmp_path) == ["thesis"]


def test_overwriting_a_file_with_a_directory_is_refused(tmp_path):
    (tmp_path / "out").write_text("old")
    with pytest.raises(UsageError, match="is a file"):
        make_directory(tmp_path / "out", "new", overwrite=True)
    assert (tmp_path / "out").read_text() == "old"


def test_a_directory_without_manifest_is_a_mistake_of_the_program(tmp_path):
    with (
        pytest.raises(ValueError, match=r"manifest\.json"),
        new_directory(tmp_path / "out"),
    ):
        pass
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_directory_leaves_the_old_state(tmp_path, interruption, exists):
    path = tmp_path / "out"
    if exists:
        make_directory(path, "old")

    def half_written():
        with new_directory(path, overwrite=exists) as temporary:
            (temporary / "manifest.json").write_text(OURS)
            raise interruption

    with pytest.raises(interruption):
        half_written()
    assert names_in(tmp_path) == (["out"] if exists else [])
    assert not exists or content_of(path) == "old"


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_the_old_directory(tmp_path, monkeypatch):
    path = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        make_directory(path, "old")
    with pytest.raises(UsageError, match=r"/out: .*No space"):
        make_directory(path, "new", overwrite=True)
    assert content_of(path) == "old"
    assert names_in(tmp_path) == ["out"]


def refuse_access(monkeypatch, name, folder):
    """Let a function of `os` refuse paths in a folder, as it does to users without the right."""
    function = getattr(os, name)

    def refuse(path, *arguments, **options):
        if str(path).startswith(f"{folder}/"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return function(path, *arguments, **options)

    monkeypatch.setattr(os, name, refuse)


def test_a_folder_without_the_right_to_write_is_named(tmp_path, monkeypatch):
    refuse_access(monkeypatch, "mkdir", tmp_path)
    with pytest.raises(UsageError, match="/out: cannot be written, Permission denied"):
        begin_directory(tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["open", "mkdir"])
def test_a_directory_of_parts_without_the_right_to_write_is_named(tmp_path, monkeypatch, name):
    """Before any work where no file can be written; later where a worker cannot make its folder."""
    with begin_directory(tmp_path / "data") as writer:
        writer.add("parts/1").write_bytes(b"1")
        writer.finish(OURS.encode())

    def overwritten():
        with begin_directory(tmp_path / "data", overwrite=True) as writer:
            assert name != "open"
            with new_folder(writer.root, writer.name("segments/1")):
                pass

    refuse_access(monkeypatch, name, tmp_path / "data")
    with pytest.raises(UsageError, match="/data: cannot be written, Permission denied"):
        overwritten()
    monkeypatch.undo()
    assert "manifest.json" in everything_in(tmp_path / "data")


def test_the_lock_ends_where_the_writer_cannot_begin(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left")

    with begin_directory(tmp_path / "data") as writer:
        writer.add("parts/1").write_bytes(b"1")
        writer.finish(OURS.encode())
    monkeypatch.setattr(commit, "mark_alive", refuse)
    with pytest.raises(UsageError, match="No space left") as kept:
        begin_directory(tmp_path / "data", overwrite=True)
    monkeypatch.undo()
    with begin_directory(tmp_path / "data", overwrite=True) as writer:
        writer.finish(OURS.encode())
    assert kept.value


def test_a_refused_input_leaves_what_was_replaced_before_to_its_readers(tmp_path):
    for token in ("1", "2"):
        with begin_directory(tmp_path / "data", overwrite=token == "2") as writer:
            part = writer.name("parts/1")
            (writer.root / "parts").mkdir(exist_ok=True)
            (writer.root / part).write_bytes(b"")
            manifest = {"format": "dranking-test", "part": part}
            writer.finish(json.dumps(manifest).encode())
    before = everything_in(tmp_path / "data")
    with (
        pytest.raises(ValueError, match="refused"),
        begin_directory(tmp_path / "data", overwrite=True),
    ):
        raise ValueError("refused")
    assert everything_in(tmp_path / "data") == before
    with begin_directory(tmp_path / "data", overwrite=True) as writer:
        writer.remove_replaced()
        assert len(everything_in(tmp_path / "data")) < len(before)


def test_a_folder_without_the_right_to_enter_is_named(tmp_path, monkeypatch):
    refuse_access(monkeypatch, "stat", tmp_path)
    with pytest.raises(UsageError, match="/out: cannot be written, Permission denied"):
        begin_directory(tmp_path / "out")
    for name in ("data.zarr", "model.json"):
        with pytest.raises(DataError, match=rf"/{name}: cannot be read \(Permission denied\)"):
            open_dataset(tmp_path / name)


def test_a_failed_second_rename_brings_the_old_directory_back(tmp_path, monkeypatch):
    path = tmp_path / "out"
    make_directory(path, "old")
    rename = os.rename
    calls = []

    def fail_second(source, destination):
        calls.append(source)
        if len(calls) == 2:
            raise KeyboardInterrupt
        rename(source, destination)

    monkeypatch.setattr(os, "rename", fail_second)
    with pytest.raises(KeyboardInterrupt):
        make_directory(path, "new", overwrite=True)
    assert content_of(path) == "old"
    assert names_in(tmp_path) == ["out"]


def test_two_writers_in_one_process_do_not_disturb_each_other(tmp_path):
    inside, done = threading.Event(), threading.Event()

    def slow():
        with atomic_path(tmp_path / "file", overwrite=True) as temporary:
            inside.set()
            done.wait(30)
            temporary.write_text("slow")

    thread = threading.Thread(target=slow)
    thread.start()
    assert inside.wait(30)
    atomic_write(tmp_path / "file", "fast", overwrite=True)
    done.set()
    thread.join()
    assert (tmp_path / "file").read_text() == "slow"
    assert names_in(tmp_path) == ["file"]


def test_everything_is_synchronised_before_it_is_named(tmp_path, monkeypatch):
    synchronised = []
    fsync = os.fsync

    def record(descriptor):
        synchronised.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    make_directory(tmp_path / "out", "new")
    *inside, last = synchronised
    assert last == tmp_path
    assert sorted(path.name for path in inside[:-1]) == ["content", "inner", "manifest.json"]
    assert inside[-1].name.startswith(".out.tmp-")


@pytest.mark.parametrize("append", [False, True])
def test_what_a_late_worker_makes_and_removes_meanwhile_does_not_matter(
    tmp_path, monkeypatch, append
):
    """A worker that was given up may still fill folders, which vanish before they are reached."""
    real, synchronised = os.open, []

    def vanishing(path, *arguments, **options):
        if ".tmp-late" in str(path):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        synchronised.append(Path(path).name)
        return real(path, *arguments, **options)

    def finish():
        part = writer.name("segments/000001")
        with new_folder(writer.root, part) as folder:
            (folder / "features").write_text("new")
        put_part(writer.root, writer.name("index"), b"index")
        late = writer.root / f"{writer.name('segments/000002')}.tmp-late"
        late.mkdir()
        (late / "features").write_text("half")
        (writer.root / f".{writer.name('table')}.tmp-late").touch()
        (writer.root / f"{writer.name('table')}.tmp-late").touch()
        monkeypatch.setattr(os, "open", vanishing)
        writer.finish(OURS.encode())
        monkeypatch.undo()
        assert {"features", Path(part).name, writer.name("index")} <= set(synchronised)
        assert (tmp_path / "data" / part / "features").read_text() == "new"

    with begin_directory(tmp_path / "data") as writer:
        if not append:
            finish()
        else:
            writer.finish(OURS.encode())
    if append:
        with begin_directory(tmp_path / "data", append=True) as writer:
            finish()


def test_what_a_killed_worker_leaves_of_a_file_is_removed(tmp_path):
    """A task was killed while it put a part, and ran again; the part has no token in its name."""
    program = """
        import os, signal, sys
        from pathlib import Path
        from dranking.files.writing.atomic_files import put_part
        os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
        put_part(Path(sys.argv[1]), "part-000000.parquet", b"half")
    """
    place = tmp_path / "scores"
    with begin_directory(place, manifest_name="_SUCCESS") as writer:
        assert run_python(program, writer.root).returncode == -signal.SIGKILL
        put_part(writer.root, "part-000000.parquet", b"whole")
        writer.finish(
            json.dumps({"format": "dranking-test", "parts": ["part-000000.parquet"]}).encode()
        )
    assert len(names_in(place)) == 3
    assert clean(place) == 0  # another host might be at work
    assert clean(place, grace=0) == 1
    assert names_in(place) == ["_SUCCESS", "part-000000.parquet"]
    assert (place / "part-000000.parquet").read_bytes() == b"whole"


def test_a_part_that_vanishes_before_the_manifest_is_an_error(tmp_path, monkeypatch):
    with begin_directory(tmp_path / "data") as writer:
        part = writer.add("segments/000001")
        part.write_text("new")
        real = local_output.synchronise

        def vanishing(path):
            part.unlink(missing_ok=True)
            real(path)

        monkeypatch.setattr(local_output, "synchronise", vanishing)
        with pytest.raises(UsageError, match="No such file"):
            writer.finish(OURS.encode())
    assert not (tmp_path / "data").exists()
