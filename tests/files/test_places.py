import pickle
from pathlib import Path

import pytest
from upath import UPath

from dranking.errors import UsageError
from dranking.files.places import as_place, is_local
from dranking.files.requests import DEADLINE_VARIABLE, deadline


def test_a_local_path_is_an_absolute_pathlib_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source in ("a/b", Path("a/b"), UPath("a/b"), f"file://{tmp_path}/a/b"):
        place = as_place(source)
        assert is_local(place)
        assert place == tmp_path / "a" / "b"


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
