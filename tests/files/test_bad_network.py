"""Stores that are slow, busy, out of reach, or that send half of what was asked for."""

import json
import pickle
import secrets
import time

import numpy as np
import pytest

import dranking as dr
from dranking.errors import DataError, StoreRefusesError, TryAgainError, UsageError
from dranking.files.places import as_place
from dranking.files.reading import list_files, read_bytes, read_ranges
from dranking.files.requests import ChangedError, request
from dranking.files.writing import commit
from dranking.files.writing.atomic_files import atomic_write
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.retrain.quarantine import set_aside_if_wrong
from dranking.retrain.workflows import click_labels
from pipelines.benchmarks.s3_proxy import Faults, Proxy

BAD = Faults(delay=0.01, drop=50, busy=30)


@pytest.fixture
def bad(bucket, s3_server):
    """A proxy whose faults the test chooses, and a folder behind it."""
    with Proxy(s3_server, Faults()) as proxy:
        yield proxy, as_place(f"{bucket}/room", {"endpoint_url": proxy.url})


def write_parts(place, parts, **how):
    with commit.begin_directory(place, **how) as writer:
        for name, content in parts.items():
            atomic_write(writer.add(name), content)
        names = [writer.name(name) for name in parts]
        writer.finish(json.dumps({"format": "dranking-test", "parts": names}).encode())
    return names


def test_a_bad_network_changes_nothing(bad):
    """Every 50th connection drops and every 30th answer is 503: all is written and read."""
    proxy, place = bad
    proxy.faults = BAD
    parts = {f"parts/{i}": secrets.token_bytes(1000 + i) for i in range(25)}
    names = write_parts(place / "data", parts)
    stored = json.loads(read_bytes(place / "data" / "manifest.json"))
    assert stored["parts"] == names
    for name, content in zip(names, parts.values(), strict=True):
        ranges = [(0, 10), (500, 1000), (0, len(content))]
        found = read_ranges(place / "data" / name, ranges)
        assert found == [content[start:end] for start, end in ranges]
    assert len(list_files(place / "data")) == 26
    assert proxy.n_faults >= 5


def test_an_answer_that_is_lost_is_no_failure(bad):
    """The store obeyed a conditional write; the second attempt finds it done, not forbidden."""
    proxy, place = bad
    proxy.faults = Faults(lose_answer=1)

    def heal_after_first():
        number = Proxy.next(proxy)
        proxy.faults = Faults(lose_answer=1 if proxy.n_faults == 0 else 0)
        return number

    proxy.next = heal_after_first
    atomic_write(place / "file", b"content")
    assert proxy.n_faults == 1
    assert read_bytes(place / "file") == b"content"


def test_half_an_answer_is_read_once_more(bad):
    proxy, place = bad
    content = secrets.token_bytes(10_000)
    atomic_write(place / "file", content)
    proxy.faults, proxy.n_requests = Faults(truncate=2), 1  # the next request, and every second
    assert read_bytes(place / "file", 0, 10_000) == content
    assert proxy.n_faults == 1
    proxy.faults = Faults(truncate=1)
    # Servers that send no checksum are found out by the number of bytes.
    why = r"(Expected checksum .*|bytes .* came), twice\. The object or the store"
    with pytest.raises(DataError, match=why):
        read_bytes(place / "file", 0, 10_000)


def test_a_body_that_ends_early_is_read_once_more(bad, monkeypatch):
    """The store announced more bytes than came; that says nothing of the object."""
    proxy, place = bad
    data = dr.from_arrays(np.ones((40, 30)), np.arange(40) % 3, np.arange(40) // 10)
    dr.write_dataset(data, place / "data")
    proxy.faults, proxy.n_requests = Faults(cut=3), 0
    read = dr.open_dataset(place / "data")
    assert read.block(0).features.tolist() == data.block(0).features.tolist()
    assert proxy.n_faults >= 3
    proxy.faults = Faults()
    monkeypatch.setenv("DRANKING_STORE_DEADLINE", "0.5")
    read = dr.open_dataset(place / "data")
    proxy.faults = Faults(cut=1)
    with pytest.raises(TryAgainError, match=r"the store gave no answer for 0\.5 s"):
        read.block(0)


class HttpError(Exception):
    """As in gcsfs: made of an answer, whose status is called code."""

    def __init__(self, code):
        self.code = code


class ClientPayloadError(Exception):
    """As in aiohttp, whose parser of bodies raises an error with the code 400 as its cause."""


class ClientResponseError(Exception):
    """As in aiohttp."""

    def __init__(self, status):
        self.status = status


class ParserError(Exception):
    code = 400


class BusyError(Exception):
    code = status = 503


class CodedError(OSError):
    """As s3fs raises errors of botocore."""

    def __init__(self, status):
        super().__init__("told by the store")
        self.__cause__ = ClientError(status)


class ClientError(Exception):
    def __init__(self, status):
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


def caused(error, cause):
    error.__cause__ = cause
    return error


def after(error, handled):
    error.__context__ = handled
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (HttpError(503), TryAgainError),
        (HttpError(400), StoreRefusesError),
        (ClientResponseError(500), TryAgainError),
        (ClientResponseError(403), StoreRefusesError),
        (caused(ClientPayloadError("half"), ParserError()), TryAgainError),
        (caused(OSError("half"), ParserError()), StoreRefusesError),
        (BusyError("no answer"), StoreRefusesError),
        (CodedError(429), TryAgainError),
        (CodedError(400), StoreRefusesError),
        (CodedError(404), FileNotFoundError),
        (CodedError(412), ChangedError),
        (caused(TimeoutError("the store's own"), ClientError(400)), TryAgainError),
        (caused(PermissionError("no"), ClientError(400)), StoreRefusesError),
        (after(TypeError("a fault"), ClientError(404)), StoreRefusesError),
        (after(TypeError("a fault"), FileNotFoundError()), StoreRefusesError),
        (after(TypeError("a fault"), caused(OSError(), FileExistsError())), StoreRefusesError),
        (after(OSError("as s3fs lists"), ClientError(503)), TryAgainError),
        (after(ValueError("as s3fs lists"), TimeoutError()), TryAgainError),
        (caused(OSError("told"), after(OSError(), ClientError(503))), TryAgainError),
    ],
)
def test_errors_are_known_by_type_and_by_the_status_of_an_answer(error, expected, monkeypatch):
    monkeypatch.setenv("DRANKING_STORE_DEADLINE", "0")

    def attempt():
        raise error

    with pytest.raises(expected) as told:
        request(as_place("memory://file"), attempt)
    assert type(told.value) is expected


@pytest.mark.parametrize("text", ["nan", "soon", ""])
def test_a_deadline_is_a_number(text, monkeypatch):
    monkeypatch.setenv("DRANKING_STORE_DEADLINE", text)
    with pytest.raises(UsageError, match=f"DRANKING_STORE_DEADLINE is '{text}'; write a number"):
        request(as_place("memory://file"), lambda: None)


def test_a_refusal_is_no_damage(bad, monkeypatch):
    """Neither of a data set, nor of a statistics store, nor does a night set such a part aside.

    A worker, whose copy of a data set opens it at its first use, says so too.
    """
    _, place = bad
    data = dr.from_arrays(np.ones((40, 30)), np.arange(40) % 3, np.arange(40) // 10)
    dr.write_dataset(data, place / "data")
    dr.build_statistics(data, place / "statistics")
    read, stored = dr.open_dataset(place / "data"), StatisticsDataset(place / "statistics")
    copy = pickle.loads(pickle.dumps(read))
    monkeypatch.setattr(click_labels, "is_statistics", lambda _: True)
    refuse = lambda handler, *_: handler._refuse(403, "AccessDenied", "Access Denied")  # noqa: E731
    monkeypatch.setattr("pipelines.benchmarks.s3_proxy._Handler._pass_on", refuse)
    actions = (
        lambda: read.block(0),
        lambda: list(stored.queries()),
        lambda: copy.feature_names,
        lambda: click_labels._can_be_relabelled(place / "statistics", read),
    )
    for action in actions:
        with pytest.raises(StoreRefusesError, match="the store refuses access"):
            action()
    with pytest.raises(StoreRefusesError), set_aside_if_wrong(None, None):
        read.block(0)


def test_a_store_that_says_when_to_come_back_is_asked_then(bad, monkeypatch):
    proxy, place = bad
    atomic_write(place / "file", b"content")
    proxy.faults, proxy.n_requests = Faults(throttle=2), 1
    begun = time.monotonic()
    assert read_bytes(place / "file", 0, 7) == b"content"
    assert time.monotonic() - begun >= 1
    assert proxy.n_faults == 1
    proxy.faults = Faults(throttle=1, retry_after=3_600)
    monkeypatch.setenv("DRANKING_STORE_DEADLINE", "0.5")
    with pytest.raises(TryAgainError, match=r"the store gave no answer for 0\.5 s"):
        read_bytes(place / "file", 0, 7)
    assert time.monotonic() - begun < 30


def test_a_store_that_is_always_busy_is_left_at_the_deadline(bad, monkeypatch):
    proxy, place = bad
    monkeypatch.setenv("DRANKING_STORE_DEADLINE", "0.5")
    proxy.faults = Faults(busy=1)
    with pytest.raises(TryAgainError, match=r"no answer for 0\.5 s .Service Unavailable"):
        atomic_write(place / "file", b"content")
    proxy.faults = Faults(drop=1)
    with pytest.raises(TryAgainError, match=r"the store gave no answer for 0\.5 s"):
        read_bytes(place / "file")


def test_a_store_that_does_not_answer_in_time_is_left(bad, bucket, monkeypatch):
    proxy, _ = bad
    monkeypatch.setenv("DRANKING_STORE_DEADLINE", "0.5")
    patience = {"read_timeout": 0.2, "retries": {"max_attempts": 0}}
    options = {"endpoint_url": proxy.url, "config_kwargs": patience}
    proxy.faults = Faults(delay=1.0)
    with pytest.raises(TryAgainError, match=r"the store gave no answer for 0\.5 s"):
        read_bytes(as_place(f"{bucket}/file", options), 0, 5)


def test_credentials_that_end_amid_a_write_leave_nothing_that_a_reader_sees(bad):
    proxy, place = bad
    write_parts(place / "data", {"parts/0": b"old"})
    before = read_bytes(place / "data" / "manifest.json")
    proxy.faults, proxy.n_requests = Faults(expired=8), 0
    parts = {f"parts/{i}": b"new" for i in range(20)}
    with pytest.raises(TryAgainError, match=r"credentials .*expired"):
        write_parts(place / "data", parts, overwrite=True)
    proxy.faults = Faults()
    assert read_bytes(place / "data" / "manifest.json") == before
    write_parts(place / "data", parts, overwrite=True)
