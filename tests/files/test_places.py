import pickle
from pathlib import Path, PurePath

import pytest
from upath import UPath

import dranking as dr
from dranking.cli.parsing.places import place_of
from dranking.errors import UsageError
from dranking.files.places import as_place, is_local
from dranking.files.requests import DEADLINE_VARIABLE, deadline, request
from dranking.files.writing.commit import begin_directory
from dranking.files.writing.output_checks import check_output_directory, check_output_file
from dranking.models.linear.model import LinearModel
from dranking.models.load import load_model


def test_a_local_path_is_an_absolute_pathlib_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source in ("a/b", Path("a/b"), UPath("a/b"), f"file://{tmp_path}/a/b"):
        place = as_place(source)
        assert is_local(place)
        assert place == tmp_path / "a" / "b"


def test_one_slash_of_a_local_url_is_enough():
    for source in ("file:/tmp/x", Path("file:///tmp/x"), "file:///tmp/x"):
        assert as_place(source) == Path("/tmp/x")


@pytest.mark.parametrize(
    "source", [Path("s3://b/m.json"), "s3:/b/m.json", "gs:/b", PurePath("s3+x.y-z://b"), "abfs:/"]
)
def test_a_url_that_lost_a_slash_makes_no_local_folder(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = LinearModel(feature_names=("a",), weights=(1.0,))
    for use in (as_place, model.save, load_model, place_of):
        with pytest.raises(UsageError, match=r"^\w.*://.*: .*one slash"):
            use(source if use is not place_of else str(source))
    assert list(tmp_path.iterdir()) == []


def test_credentials_of_a_url_that_lost_a_slash_are_not_shown():
    for source in ("s3:/KEY:SECRET@bucket/x", Path("s3://KEY:SECRET@bucket/x")):
        with pytest.raises(UsageError, match="one slash only") as caught:
            as_place(source)
        assert "SECRET" not in str(caught.value)


def test_local_names_with_colons_are_local(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source in ("./s3:/b", "C:/b", "a b:/c", "s3:b", "x/s3:/b", str(tmp_path / "s3:" / "b")):
        assert as_place(source) == (tmp_path / source)


def test_a_url_is_a_place_that_survives_pickling():
    place = as_place("memory://bucket/x.zarr")
    (place / "part").write_bytes(b"content")
    assert not is_local(place)
    assert str(place) == "memory://bucket/x.zarr"
    assert (pickle.loads(pickle.dumps(place)) / "part").read_bytes() == b"content"


def test_an_unknown_protocol_is_a_usage_error():
    with pytest.raises(UsageError, match="nowhere://x: cannot be opened"):
        as_place("nowhere://x")


def test_a_deadline_that_is_no_number_is_a_usage_error(monkeypatch):
    monkeypatch.setenv(DEADLINE_VARIABLE, "1m")
    with pytest.raises(UsageError, match="write a number of seconds"):
        deadline()


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:123/abc@bkt/x",
        "ftp://:pw@host/x",
        "https://host/x?X-Amz-Signature=abc",
        "https://host/x?sv=1&sig=abc",
    ],
)
def test_a_url_with_a_password_or_a_signature_is_refused(url):
    with pytest.raises(UsageError, match="has credentials in it") as caught:
        as_place(url)
    assert not any(secret in str(caught.value) for secret in ("abc", "pw", "AKIA"))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("x" * 256, "has a name of 256 bytes, and file systems hold names of 255"),
        ("a/" + "é" * 128 + "/b", "has a name of 256 bytes"),
        ("bad\0.zarr", "no name of a file has a null character"),
        ("bad\udcff.zarr", "the name is no text in UTF-8"),
    ],
)
def test_names_that_no_file_has(name, told, tmp_path):
    """Read and written, as a path and as a URL, without a traceback."""
    for given in (name, Path(name), f"file://{tmp_path}/{name}"):
        with pytest.raises(UsageError, match=told):
            as_place(given)
        with pytest.raises(UsageError, match=told):
            check_output_file(given, overwrite=False)


def test_the_longest_name_of_an_output(tmp_path):
    """Names of at most 207 bytes are written; files that exist may have 255."""
    for check in (check_output_file, check_output_directory):
        with pytest.raises(UsageError, match=r"the name has 208 bytes.* at most 207"):
            check(tmp_path / ("y" * 208), overwrite=False)
    longest = tmp_path / ("y" * 207)
    dr.write_dataset(dr.from_arrays([[1.0], [2.0]], [0, 1], [1, 1]), longest)
    with begin_directory(longest, append=True):  # with a lock beside it
        pass
    (tmp_path / ("z" * 255)).write_text("0 qid:1 1:1\n1 qid:1 1:2\n")
    assert dr.open_dataset(tmp_path / ("z" * 255)).n_documents == 2


def test_local_is_another_word_for_file(tmp_path):
    assert as_place(f"local://{tmp_path}/a") == tmp_path / "a"


def test_a_missing_file_is_missing_at_once_while_another_error_is_handled(tmp_path):
    """A run that a lock has stopped looks for files while it notes that; a lock is a timeout."""
    attempts = []

    def attempt():
        attempts.append(None)
        return (tmp_path / "absent").read_bytes()

    try:
        raise TimeoutError("locked")
    except TimeoutError:
        with pytest.raises(FileNotFoundError):
            request(tmp_path / "absent", attempt)
    assert len(attempts) == 1
