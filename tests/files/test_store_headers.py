"""Requester pays and keys of encryption: storage options that S3 wants with every request.

moto checks neither who pays nor whose key it is, so the requests are read on their way to it.
"""

import base64
import hashlib
import secrets
from urllib.parse import parse_qs, urlsplit

import pytest
from fsspec.config import conf

import dranking as dr
from dranking.files.places import as_place
from dranking.files.reading import exists, file_size, read_bytes, read_ranges
from dranking.files.writing import object_store
from pipelines.benchmarks.s3_proxy import Faults, Proxy, _Handler
from tests.engine.small_data import dataset_of

KEY = "0123456789abcdef0123456789abcdef"
"""A key of encryption with 32 characters."""

SSE = "x-amz-server-side-encryption"
PAYS = {"requester_pays": True}, {"x-amz-request-payer": "requester"}
KMS = (
    {"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "key-7"}},
    {SSE: "aws:kms", f"{SSE}-aws-kms-key-id": "key-7"},
)
CUSTOMER = (
    {"s3_additional_kwargs": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": KEY}},
    {
        f"{SSE}-customer-algorithm": "AES256",
        f"{SSE}-customer-key": base64.b64encode(KEY.encode()).decode(),
        f"{SSE}-customer-key-MD5": base64.b64encode(hashlib.md5(KEY.encode()).digest()).decode(),
    },
)

WRITES = {"put", "put if absent", "put if unchanged", "begin parts"}
OF_OBJECTS = {*WRITES, "put part", "get", "head"}
EVERY = {*OF_OBJECTS, "end parts", "list", "delete"}


def kind_of(request):
    """What a request to S3 does."""
    method, path, headers = request
    asked = parse_qs(urlsplit(path).query, keep_blank_values=True)
    if method == "POST":
        return "begin parts" if "uploads" in asked else "end parts"
    if method == "PUT" and "partNumber" in asked:
        return "put part"
    if method == "PUT" and "If-None-Match" in headers:
        return "put if absent"
    if method == "PUT" and "If-Match" in headers:
        return "put if unchanged"
    return "list" if "list-type" in asked else method.lower()


@pytest.fixture
def seen(monkeypatch):
    """All requests so far: method, path, headers."""
    found, pass_on = [], _Handler._pass_on

    def noted(handler, number, body):
        found.append((handler.command, handler.path, handler.headers))
        pass_on(handler, number, body)

    monkeypatch.setattr(_Handler, "_pass_on", noted)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "kinds", "way"),
    [
        (PAYS, EVERY, "storage options"),
        (KMS, WRITES, "fsspec's configuration"),
        (CUSTOMER, OF_OBJECTS, "storage options"),
    ],
    ids=["requester pays", "SSE-KMS by configuration", "SSE-C"],
)
def test_every_kind_of_request_has_the_headers(
    bucket, s3_server, seen, monkeypatch, tmp_path, option, kinds, way
):
    """Also requests in several parts, on a condition, and those of a data set."""
    options, headers = option
    if way == "fsspec's configuration":
        monkeypatch.setitem(conf, "s3", {**conf.get("s3", {}), **options})
        options = {}
    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *_, **__: 5 * 2**20)
    with Proxy(s3_server, Faults()) as proxy:
        room = as_place(f"{bucket}/room", {"endpoint_url": proxy.url, **options})
        object_store.put(room / "a", b"12345")
        assert read_bytes(room / "a", 1, 3) == b"23"
        assert read_ranges(room / "a", [(0, 1), (4, 5)]) == [b"1", b"5"]
        assert file_size(room / "a") == 5
        object_store.put_if_absent(room / "b", b"once")
        object_store.put_if_unchanged(room / "b", b"twice", object_store.version(room / "b"))
        large = tmp_path / "large"
        large.write_bytes(content := secrets.token_bytes(11 * 2**20))
        object_store.put(room / "large", large)
        assert read_bytes(room / "large") == content
        assert [each.name for each in object_store.list_objects(room)] == ["a", "b", "large"]
        object_store.remove(room, ["a", "large"])
        assert not exists(room / "a")
        stored = dr.write_dataset(dataset_of(3).read_blocks(), room / "d.zarr")
        assert sum(block.n_documents for block in stored.read_blocks()) == stored.n_documents
    assert {kind_of(request) for request in seen} == EVERY
    without = [
        (kind_of(request), request[1], name)
        for request in seen
        for name, value in headers.items()
        if kind_of(request) in kinds and request[2].get(name) != value
    ]
    assert not without
