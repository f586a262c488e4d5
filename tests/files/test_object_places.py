"""Reading and writing behind URLs, on an S3 server and on fsspec's memory."""

import json
import os
import secrets
import traceback
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse

from dranking.bilinear.model import BilinearModel, load_bilinear_model
from dranking.errors import DataError, StoreRefusesError, TryAgainError, UsageError
from dranking.files.places import as_place
from dranking.files.reading import list_files, open_input, read_bytes, read_ranges
from dranking.files.requests import ChangedError
from dranking.files.writing import commit, debris, object_store
from dranking.files.writing.atomic_files import atomic_path, atomic_write
from dranking.files.writing.clean import clean
from dranking.files.writing.object_store import put_if_absent, put_if_unchanged, version


@pytest.fixture(params=["s3", "memory", "local"])
def room(request, tmp_path):
    """An empty folder."""
    if request.param == "local":
        return as_place(tmp_path)
    if request.param == "memory":
        return as_place(f"memory://{secrets.token_hex(4)}")
    return as_place(request.getfixturevalue("bucket") + "/room")


@pytest.fixture(params=["s3", "memory"])
def store(request):
    """An empty folder behind a URL."""
    if request.param == "memory":
        return as_place(f"memory://{secrets.token_hex(4)}")
    return as_place(request.getfixturevalue("bucket") + "/room")


def manifest(**entries):
    return json.dumps({"format": "dranking-test", **entries}).encode()


def test_a_file_is_read_whole_and_in_parts(room):
    content = bytes(range(256)) * 100
    atomic_write(room / "a" / "file", content)
    file = room / "a" / "file"
    assert read_bytes(file) == content
    assert read_bytes(file, 3, 1000) == content[3:1000]
    assert read_bytes(file, 300) == content[300:]
    ranges = [(0, 1), (25_599, 25_600), (5, 5), (7, 20_000)]
    assert read_ranges(file, ranges) == [content[start:end] for start, end in ranges]
    with open_input(file) as opened:
        opened.seek(-10, 2)
        assert opened.read() == content[-10:]
        opened.seek(1000)
        assert opened.read(5) == content[1000:1005]


def test_long_reads_in_pieces_keep_their_order(room, monkeypatch):
    monkeypatch.setattr("dranking.files.reading.PIECE_BYTES", 1000)
    content = secrets.token_bytes(10_500)
    atomic_write(room / "file", content)
    assert read_bytes(room / "file") == content
    with open_input(room / "file") as opened:
        assert opened.read() == content


def test_an_empty_file_is_read(room):
    atomic_write(room / "empty", b"")
    assert read_bytes(room / "empty") == b""
    with open_input(room / "empty") as opened:
        assert opened.read() == b""


def test_what_is_not_there_is_file_not_found(room):
    with pytest.raises(FileNotFoundError):
        read_bytes(room / "none")
    with pytest.raises(FileNotFoundError):
        read_bytes(room / "none", 0, 5)
    assert list_files(room / "none") == []


def test_a_range_beyond_the_end_is_an_error(room):
    atomic_write(room / "file", b"12345")
    with pytest.raises(DataError, match=r"file.*bytes 2 to 9 .*3 bytes"):
        read_bytes(room / "file", 2, 9)


def test_files_are_listed_by_name(room):
    for name in ("b", "a/2", "a/1"):
        atomic_write(room / name, b"")
    assert [str(file).removeprefix(str(room)) for file in list_files(room)] == [
        "/a/1",
        "/a/2",
        "/b",
    ]


def test_a_file_is_replaced_only_on_request(room):
    atomic_write(room / "file", "old")
    with pytest.raises(UsageError, match=r"file: .*--overwrite"):
        atomic_write(room / "file", "new")
    assert read_bytes(room / "file") == b"old"
    atomic_write(room / "file", "new", overwrite=True)
    assert read_bytes(room / "file") == b"new"


def test_a_folder_is_not_overwritten_by_a_file(room):
    atomic_write(room / "folder" / "file", "old")
    with pytest.raises(UsageError, match="is a directory"):
        atomic_write(room / "folder", "new", overwrite=True)


def test_a_file_that_appeared_meanwhile_stays(room):
    def both_write():
        with atomic_path(room / "file") as temporary:
            temporary.write_text("ours")
            atomic_write(room / "file", "theirs")

    with pytest.raises(UsageError, match="--overwrite"):
        both_write()
    assert read_bytes(room / "file") == b"theirs"
    assert [file.name for file in list_files(room)] == ["file"]


def test_an_object_is_written_only_under_its_condition(store):
    """The second of two writers that saw the same state is refused, in either form."""
    place = store / "object"
    assert version(place) is None
    put_if_absent(place, b"first")
    with pytest.raises(ChangedError):
        put_if_absent(place, b"second")
    seen = version(place)
    put_if_unchanged(place, b"third", seen)
    with pytest.raises(ChangedError):
        put_if_unchanged(place, b"fourth", seen)
    assert read_bytes(place) == b"third"
    place.fs.rm_file(place.path)
    with pytest.raises(ChangedError):
        put_if_unchanged(place, b"fifth", version(store / "object") or seen)


def test_a_write_whose_answer_was_lost_succeeds(store):
    """The store obeyed the first attempt; the second attempt finds what the first one wrote."""
    put_if_absent(store / "object", b"content")
    put_if_absent(store / "object", b"content")
    seen = version(store / "object")
    put_if_unchanged(store / "object", b"changed", seen)
    put_if_unchanged(store / "object", b"changed", seen)
    assert read_bytes(store / "object") == b"changed"


def test_a_lost_answer_and_a_reset_of_the_comparison_are_no_other_writer(monkeypatch):
    """The store obeyed, the answer was lost, and the next connection was lost as well."""
    place = as_place(f"memory://{secrets.token_hex(4)}/object")
    failures = []
    kind = type(place.fs)
    pipe, cat, compare = kind.pipe_file, kind.cat_file, object_store._is_there

    class PreconditionFailedError(OSError):
        response: ClassVar = {"ResponseMetadata": {"HTTPStatusCode": 412}}

    def lost_answer(fs, *arguments, **options):
        if failures:
            raise PreconditionFailedError
        pipe(fs, *arguments, **options)
        failures.append("write")
        raise ConnectionResetError

    def reset(fs, *arguments, **options):
        if failures[-1:] == ["compare"]:
            failures.append("read")
            raise ConnectionResetError
        return cat(fs, *arguments, **options)

    def arm(place, content):
        failures.append("compare")
        return compare(place, content)

    monkeypatch.setattr(kind, "pipe_file", lost_answer)
    monkeypatch.setattr(object_store, "_is_there", arm)
    monkeypatch.setattr(kind, "cat_file", reset)
    put_if_absent(place, b"new")
    assert failures == ["write", "compare", "read"]
    assert read_bytes(place) == b"new"


# Directories whose parts are written by tasks


def write_directory(place, content, **how):
    with commit.begin_directory(place, **how) as writer:
        writer.remove_replaced()
        part = writer.add("parts/1")
        part.write_bytes(content)
        writer.finish(manifest(part=writer.name("parts/1")))
    return writer.name("parts/1")


def content_of(place):
    return read_bytes(place / json.loads(read_bytes(place / "manifest.json"))["part"])


def test_a_directory_of_parts_appears_with_its_manifest(room):
    place = room / "data"
    with commit.begin_directory(place) as writer:
        writer.add("parts/1").write_bytes(b"content")
        with pytest.raises(FileNotFoundError):
            read_bytes(place / "manifest.json")
        writer.finish(manifest(part=writer.name("parts/1")))
    assert content_of(place) == b"content"
    assert writer.token in writer.name("parts/1")
    with pytest.raises(UsageError, match="exists already"):
        commit.begin_directory(place)
    write_directory(place, b"new", overwrite=True)
    assert content_of(place) == b"new"


def test_a_discarded_directory_leaves_nothing(room):
    def fail():
        with commit.begin_directory(room / "data") as writer:
            writer.add("parts/1").write_bytes(b"content")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list_files(room) == []


@pytest.mark.parametrize("how", [{"overwrite": True}, {"append": True}])
def test_parts_stay_if_the_manifest_arrived_although_its_write_failed(room, monkeypatch, how):
    write_directory(room / "data", b"old")
    put, rename = object_store._send, os.replace

    def interrupted(write):
        def write_and_fail(*arguments, **options):
            write(*arguments, **options)
            names = {getattr(each, "name", "") for each in arguments}
            if "manifest.json" in names:
                raise KeyboardInterrupt

        return write_and_fail

    monkeypatch.setattr(object_store, "_send", interrupted(put))
    monkeypatch.setattr(os, "replace", interrupted(rename))
    with suppress(KeyboardInterrupt):  # a local directory that is replaced has no such moment
        write_directory(room / "data", b"new", **how)
    assert content_of(room / "data") == b"new"


def test_parts_of_a_killed_writer_are_invisible_and_no_obstacle(store):
    commit.begin_directory(store / "data").add("parts/1").write_bytes(b"left")
    write_directory(store / "data", b"content")
    assert content_of(store / "data") == b"content"
    assert len(list_files(store / "data")) == 3


def test_only_the_parts_of_the_last_scores_are_in_a_store(store):
    """Other tools list scores and read all parts, so those of the dead and the old go at once."""

    def write(index, **how):
        with commit.begin_directory(store / "scores", manifest_name="_SUCCESS", **how) as writer:
            name = f"part-{index:06d}-{writer.token}.parquet"
            (writer.root / name).write_bytes(b"scores")
            if index == 0:
                writer._finished = True  # killed: nothing is tidied up
            else:
                writer.finish(manifest(parts=[name]))
        return name

    write(0)
    for how in ({}, {"overwrite": True}):
        last = write(1, **how)
        names = [file.name for file in list_files(store / "scores")]
        assert sorted(names) == sorted(["_SUCCESS", last])


def test_scores_of_a_writer_that_comes_while_another_ends_stay(store, monkeypatch):
    """The second begins and ends behind the manifest of the first, which then removes parts."""

    def write(**how):
        with commit.begin_directory(store / "scores", manifest_name="_SUCCESS", **how) as writer:
            name = f"part-000000-{writer.token}.parquet"
            (writer.root / name).write_bytes(b"scores")
            writer.finish(manifest(parts=[name]))
        return name

    later, forget = [], commit.forget_alive

    def another_comes(*arguments):
        monkeypatch.setattr(commit, "forget_alive", forget)
        later.append(write(overwrite=True))
        forget(*arguments)

    monkeypatch.setattr(commit, "forget_alive", another_comes)
    write()
    names = [file.name for file in list_files(store / "scores")]
    assert later[0] in names
    assert later[0] in (store / "scores" / "_SUCCESS").read_text()


def test_scores_are_written_where_nothing_may_be_deleted(store, monkeypatch):
    def refuse(_, names):
        if names:
            raise StoreRefusesError("no right to delete")

    def write(**how):
        with commit.begin_directory(store / "scores", manifest_name="_SUCCESS", **how) as writer:
            name = f"part-000000-{writer.token}.parquet"
            (writer.root / name).write_bytes(b"scores")
            writer.finish(manifest(parts=[name]))

    monkeypatch.setattr(debris, "_remove", refuse)
    write()
    with pytest.raises(StoreRefusesError, match="stay beside it, and other tools read both"):
        write(overwrite=True)


def test_a_writer_without_this_lock_that_deleted_parts_is_noticed(tmp_path, monkeypatch):
    """Between the first look at the parts and the manifest, as on disks without shared locks."""
    write_directory(tmp_path / "data", b"old")
    with commit.begin_directory(tmp_path / "data", overwrite=True) as first:
        part = first.name("parts/1")
        first.add("parts/1").write_bytes(b"new")
        synchronise = first._synchronise_parts

        def deleted_meanwhile(place):
            synchronise(place)
            (place / part).unlink()

        monkeypatch.setattr(first, "_synchronise_parts", deleted_meanwhile)
        with pytest.raises(TryAgainError, match="is gone"):
            first.finish(manifest(part=part))
    assert content_of(tmp_path / "data") == b"old"


def test_appending_keeps_parts(room):
    old = write_directory(room / "data", b"old")
    new = write_directory(room / "data", b"new", append=True)
    assert content_of(room / "data") == b"new"
    assert read_bytes(room / "data" / old) == b"old"
    assert old != new
    with pytest.raises(DataError, match="no directory of dranking"):
        commit.begin_directory(room / "other", append=True)


@pytest.mark.parametrize("how", [{"append": True}, {"overwrite": True}])
def test_of_two_writers_of_one_state_the_second_is_refused(store, how):
    write_directory(store / "data", b"old")
    first = commit.begin_directory(store / "data", **how)
    write_directory(store / "data", b"second", **how)
    first.add("parts/1").write_bytes(b"first")
    with pytest.raises(TryAgainError, match="another process wrote it meanwhile"):
        first.finish(manifest(part=first.name("parts/1")))
    first.discard()
    assert content_of(store / "data") == b"second"


def test_of_two_new_directories_the_second_is_refused(store):
    first = commit.begin_directory(store / "data")
    write_directory(store / "data", b"second")
    with pytest.raises(UsageError, match="exists already"):
        first.finish(manifest())


@pytest.mark.parametrize("how", [{"append": True}, {"overwrite": True}])
def test_a_local_directory_is_changed_by_one_writer_at_a_time(tmp_path, how):
    write_directory(tmp_path / "data", b"old")
    with commit.begin_directory(tmp_path / "data", append=True):
        with pytest.raises(TryAgainError, match="another process is changing it"):
            commit.begin_directory(tmp_path / "data", **how)
    write_directory(tmp_path / "data", b"new", **how)
    assert content_of(tmp_path / "data") == b"new"


@pytest.mark.parametrize("how", [{"append": True}, {"overwrite": True}])
def test_what_a_host_without_this_lock_wrote_meanwhile_stays(tmp_path, how):
    write_directory(tmp_path / "data", b"old")
    with commit.begin_directory(tmp_path / "data", **how) as first:
        other = manifest(part="of another host")
        atomic_write(tmp_path / "data" / "manifest.json", other, overwrite=True)
        with pytest.raises(TryAgainError, match="another process wrote it meanwhile"):
            first.finish(manifest(part="x"))
    assert (tmp_path / "data" / "manifest.json").read_bytes() == other


def test_parts_that_are_replaced_stay_until_the_next_change_of_a_disk(tmp_path):
    place = tmp_path / "data"
    first = write_directory(place, b"1")
    second = write_directory(place, b"2", overwrite=True)
    assert read_bytes(place / first) == b"1"
    atomic_write(place / "parts" / "0123456789abcdef-9" / "x", b"left by a killed writer")
    (place / "README").write_text("by hand")
    third = write_directory(place, b"3", overwrite=True)
    assert read_bytes(place / second) == b"2"
    assert clean(place, grace=0) == 3  # the second, its marker and its manifest
    left = sorted(str(file).removeprefix(f"{place}/") for file in list_files(place))
    assert left == ["README", "manifest.json", third]


@pytest.mark.parametrize("first", ["data set", "folder"])
def test_a_directory_of_another_kind_is_replaced_whole(tmp_path, first):
    def fill():
        with commit.new_directory(tmp_path / "data", overwrite=True) as folder:
            (folder / "weights").write_bytes(b"123")
            (folder / "manifest.json").write_bytes(manifest())

    def write():
        return write_directory(tmp_path / "data", b"content", overwrite=True)

    steps = [write, fill] if first == "data set" else [fill, write]
    name = [step() for step in steps][-1] or "weights"
    left = sorted(
        str(file.relative_to(tmp_path / "data")) for file in list_files(tmp_path / "data")
    )
    assert left == ["manifest.json", name]


def test_files_of_somebody_else_are_not_overwritten(room):
    atomic_write(room / "thesis" / "chapter", "years of work")
    with pytest.raises(UsageError, match="not written by dranking"):
        commit.begin_directory(room / "thesis", overwrite=True)
    with pytest.raises(UsageError, match="exists already"):
        commit.begin_directory(room / "thesis")


def test_debris_goes_after_its_grace_period_and_nothing_else(room):
    named = write_directory(room / "data", b"content")
    token = named.split("/")[1].partition("-")[0]
    atomic_write(room / "data" / "parts" / f"{token}-0", b"dropped")
    atomic_write(room / "data" / "parts" / "0123456789abcdef-9" / "x", b"left")
    atomic_write(room / "data" / "README", b"by hand")
    assert clean(room / "data") == 0
    assert clean(room / "data", grace=0) == 2
    assert content_of(room / "data") == b"content"
    names = sorted(str(file).removeprefix(str(room / "data")) for file in list_files(room / "data"))
    assert names == ["/README", "/manifest.json", f"/{named}"]
    atomic_write(room / "data" / "manifest.json", b'{"digest": "0"}', overwrite=True)
    with pytest.raises(DataError, match=r"damaged .* so nothing is deleted"):
        clean(room / "data", grace=0)
    assert len(list_files(room / "data")) == 3


def test_only_debris_of_the_directory_itself_is_deleted(room):
    home = room / "home"
    write_directory(home / "train.zarr", b"content")
    atomic_write(home / "invoice-0123456789abcdef.pdf", b"mine")
    with pytest.raises(UsageError, match="home: was not written by dranking"):
        clean(home, grace=0)
    atomic_write(home / "manifest.json", manifest(writers=["fedcba9876543210"]))
    write_directory(home / "parts", b"nested")
    unfinished = home / "parts-of-mine" / "0123456789abcdef-1"
    atomic_write(unfinished, b"mine")
    assert clean(home, grace=0) == 0
    assert content_of(home / "train.zarr") == b"content"
    assert content_of(home / "parts") == b"nested"
    (home / "segments").mkdir(parents=True, exist_ok=True)
    (home / "segments" / ".fedcba9876543210-3.tmp-host-1-2").write_bytes(b"unfinished")
    assert clean(home, grace=0) == 1


def test_grace_counts_from_the_replacement():
    """Parts that are older than the grace period stay for readers that have them open."""
    place = as_place(f"memory://{secrets.token_hex(4)}/data")
    old = write_directory(place, b"old")
    for path, file in place.fs.store.items():
        if path.startswith(place.path):
            file.created = file.modified = datetime.now(UTC) - timedelta(days=8)
    write_directory(place, b"new", overwrite=True)
    assert read_bytes(place / old) == b"old"
    assert clean(place) == 0
    assert clean(place, grace=0) == 3  # the old part, its marker and its manifest
    assert content_of(place) == b"new"


def test_a_filled_directory_is_found_by_its_manifest(room):
    with commit.new_directory(room / "model") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "weights").write_bytes(b"123")
        (folder / "manifest.json").write_bytes(manifest())
    content = json.loads(read_bytes(room / "model" / "manifest.json"))
    assert content["format"] == "dranking-test"
    root = room / "model" / content.get("folder", "")
    assert read_bytes(root / "inner" / "weights") == b"123"


# Errors of stores


def test_a_missing_bucket_is_named(bucket):
    with pytest.raises(DataError, match=r"s3://no-such-bucket-of-ours.*bucket"):
        read_bytes(as_place("s3://no-such-bucket-of-ours/file"))
    with pytest.raises(DataError, match="bucket does not exist"):
        atomic_write("s3://no-such-bucket-of-ours/file", b"")


def test_an_endpoint_that_is_down_is_tried_until_the_deadline(bucket, monkeypatch):
    monkeypatch.setenv("DRANKING_STORE_DEADLINE", "0.3")
    place = as_place(f"{bucket}/file", {"endpoint_url": "http://127.0.0.1:9"})
    with pytest.raises(TryAgainError, match=r"no answer for 0\.3 s"):
        read_bytes(place)


def test_a_url_with_credentials_is_refused_without_showing_them():
    with pytest.raises(UsageError) as caught:
        as_place("s3://AKIA:SEC/RET@bucket/data")
    assert "RET" not in str(caught.value)
    assert "AKIA" not in str(caught.value)
    assert str(as_place("memory://container@account/x")) == "memory://container@account/x"


class Leaky:
    """A client whose errors show its options, as some do."""

    def cat_file(self, path, **range_):
        raise PermissionError(f"{path}: wrong signature of do-not-show-me")


def test_secrets_of_clients_are_in_no_error_and_no_traceback(monkeypatch):
    place = as_place("memory://leaky/file", {"password": "do-not-show-me"})
    monkeypatch.setattr(type(place), "fs", Leaky())
    with pytest.raises(DataError, match="wrong signature of \\*\\*\\*") as caught:
        read_bytes(place, 0, 5)
    shown = "".join(traceback.format_exception(caught.value))
    assert "do-not-show-me" not in shown
    assert "do-not-show-me" not in f"{place!r} {place}"


def test_a_changed_value_in_a_model_is_noticed(room):
    """A word that is another word would change scores, and nothing else would tell."""
    weights = sparse.eye_array(2, format="csr", dtype=np.float32)
    BilinearModel(weights, ("cat", "dog"), ("cat", "dog")).save(room / "model")
    assert load_bilinear_model(room / "model").words == ("cat", "dog")
    file = room / "model" / "manifest.json"
    changed = read_bytes(file).replace(b'"dog"', b'"dot"')
    atomic_write(file, changed, overwrite=True)
    with pytest.raises(DataError, match="'digest'"):
        load_bilinear_model(room / "model")
    atomic_write(file, json.dumps(json.loads(changed.replace(b"dot", b"dog"))), overwrite=True)
    assert load_bilinear_model(room / "model").words == ("cat", "dog")
