"""Single files: after a write, the whole file or the old one is there."""

import pytest

from dranking.errors import UsageError
from dranking.files.writing.atomic_files import atomic_path, atomic_write
from tests.files.writing.directories import names_in, run_python


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
    with pytest.raises(UsageError, match=r"file: .*--overwrite"):
        atomic_write(file, "new")
    with (
        pytest.raises(UsageError, match="--overwrite"),
        atomic_path(file),
    ):
        pytest.fail("the work was started")
    assert file.read_text() == "old"
    atomic_write(file, "new", overwrite=True)
    assert file.read_text() == "new"


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
    with pytest.raises(UsageError, match=r"/file: .*No space"):
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
        pytest.raises(UsageError, match=r"the name has 250 bytes\..* at most 207"),
        atomic_path(tmp_path / ("x" * 250)),
    ):
        pytest.fail("the work was started")
