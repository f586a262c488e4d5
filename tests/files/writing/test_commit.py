"""The commit protocol: after a write, all of the output or the old state is there."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from dranking.errors import UsageError
from dranking.files.writing import local_output
from dranking.files.writing.atomic_files import atomic_path, atomic_write, new_folder, put_part
from dranking.files.writing.clean import clean
from dranking.files.writing.commit import begin_directory, new_directory
from dranking.files.writing.output_checks import check_output_directory, restore_interrupted

OURS = json.dumps({"format": "dranking-test"})


def make_directory(path, content, overwrite=False):
    with new_directory(path, overwrite=overwrite) as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "content").write_text(content)
        (temporary / "manifest.json").write_text(OURS)


def content_of(path):
    return (path / "inner" / "content").read_text()


def names_in(folder):
    return sorted(os.listdir(folder))


def run_python(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        check=False,
    )


def dead_process_id():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def leftover_name(name, kind, pid, host=None):
    return f".{name}.{kind}-{host or local_output.HOST}-{pid}-00c0ffee"


@pytest.fixture
def full_disk(monkeypatch):
    def no_space(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)


# Files


@pytest.mark.parametrize(
    ("content", "stored"), [("é\n", b"\xc3\xa9\n"), (b"\x00\r\n", b"\x00\r\n")]
)
def test_atomic_write_stores_text_as_utf8_and_bytes_as_they_are(tmp_path, content, stored):
    atomic_write(tmp_path / "a" / "b" / "file", content)
    assert (tmp_path / "a" / "b" / "file").read_bytes() == stored
    assert names_in(tmp_path / "a" / "b") == ["file"]


def test_atomic_write_refuses_what_exists_before_any_work(tmp_path):
    file = tmp_path / "file"
    atomic_write(str(file), "old")
    with pytest.raises(UsageError, match=r"file: exists already\. Pass --overwrite"):
        atomic_write(file, "new")
    with (
        pytest.raises(UsageError, match="--overwrite"),
        atomic_path(file),
    ):
        pytest.fail("the work was started")
    assert file.read_text() == "old"
    atomic_write(file, "new", overwrite=True)
    assert file.read_text() == "new"


def test_atomic_write_refuses_a_directory_even_to_overwrite(tmp_path):
    with pytest.raises(UsageError, match="is a directory"):
        atomic_write(tmp_path, "text", overwrite=True)


def test_atomic_path_refuses_a_file_that_appeared_meanwhile(tmp_path):
    file = tmp_path / "file"

    def both_write():
        with atomic_path(file) as temporary:
            temporary.write_text("ours")
            file.write_text("theirs")

    with pytest.raises(UsageError, match="--overwrite"):
        both_write()
    assert file.read_text() == "theirs"
    assert names_in(tmp_path) == ["file"]


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_file_leaves_the_old_one(tmp_path, interruption):
    file = tmp_path / "file"
    file.write_text("old")

    def half_written():
        with atomic_path(file, overwrite=True) as temporary:
            temporary.write_text("half")
            raise interruption

    with pytest.raises(interruption):
        half_written()
    assert file.read_text() == "old"
    assert names_in(tmp_path) == ["file"]


def test_overwriting_a_link_replaces_what_it_points_to(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    atomic_write(tmp_path / "link", "new", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_names_the_file_and_the_remedy(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(UsageError, match=r"/file: cannot be written, No space.*Free some space"):
        atomic_write(file, "new", overwrite=True)
    assert file.read_text() == "old"
    assert names_in(tmp_path) == ["file"]


def test_a_real_write_failure_leaves_nothing(tmp_path):
    program = """
        import resource, sys
        from dranking.files.writing.atomic_files import atomic_write
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        atomic_write(sys.argv[1], "x" * 20_000)
    """
    result = run_python(program, tmp_path / "file")
    assert "UsageError" in result.stderr
    assert "file: cannot be written, File too large" in result.stderr
    assert names_in(tmp_path) == []


def test_errors_of_the_callers_own_work_pass_unchanged(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"input\.txt"),
        atomic_path(tmp_path / "file"),
    ):
        (tmp_path / "input.txt").open()
    assert names_in(tmp_path) == []


def test_a_place_that_cannot_be_written_is_found_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UsageError, match="directory cannot be made"),
        atomic_path(tmp_path / "file" / "below"),
    ):
        pytest.fail("the work was started")
    with (
        pytest.raises(UsageError, match="cannot be written, File name too long"),
        atomic_path(tmp_path / ("x" * 250)),
    ):
        pytest.fail("the work was started")


# Directories


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
        pytest.raises(UsageError, match=r"out: exists already\. Pass --overwrite"),
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
    with pytest.raises(UsageError, match="/out: cannot be written, No space left"):
        make_directory(path, "new", overwrite=True)
    assert content_of(path) == "old"
    assert names_in(tmp_path) == ["out"]


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


# What dead processes leave behind


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


def test_a_directory_that_another_host_was_replacing_is_restored(tmp_path, monkeypatch):
    make_directory(tmp_path / "out", "old")
    (tmp_path / "out").rename(tmp_path / leftover_name("out", "old", 1, "deadbeef"))
    local_output.remove_leftovers(tmp_path)
    assert not (tmp_path / "out").exists()
    later = time.time() + local_output.GRACE_SECONDS["old"] + 60
    monkeypatch.setattr("time.time", lambda: later)
    local_output.remove_leftovers(tmp_path)
    assert content_of(tmp_path / "out") == "old"


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
