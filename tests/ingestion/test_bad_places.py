"""Stores that are slow, busy, cut short, out of credentials, and disks that are full."""

import errno
import os
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.errors import DataError, TryAgainError, UsageError
from dranking.files.places import as_place
from dranking.files.reading import exists, list_files
from dranking.ingestion.rows import segments
from pipelines.benchmarks.s3_proxy import Faults, Proxy

N = 120
BAD = Faults(delay=0.002, drop=50, busy=30, truncate=41)


def frame(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"qid": rng.integers(0, 12, N), "relevance": rng.integers(0, 3, N), "x": rng.random(N)}
    )


@pytest.fixture
def lake(tmp_path, bucket, s3_server):
    """Rows in any order: in three files here, and in a store behind a proxy."""
    whole, here = frame(), tmp_path / "lake"
    here.mkdir()
    with Proxy(s3_server, Faults()) as proxy:
        place = as_place(f"{bucket}/room", {"endpoint_url": proxy.url})
        for number, rows in enumerate(np.array_split(np.arange(N), 3)):
            file = here / f"{number}.parquet"
            pq.write_table(pa.Table.from_pandas(whole.iloc[rows]), file, row_group_size=10)
            (place / "lake" / file.name).write_bytes(file.read_bytes())
        expected, _ = dr.ingest(here, tmp_path / "expected")
        yield proxy, place, expected


@pytest.mark.exhaustive
@pytest.mark.usefixtures("small_tasks")
def test_a_bad_store_gives_the_same_bits(lake, tmp_path, threads):
    """Slow, busy, dropping and truncating; data is read from and written to it, and scored."""
    proxy, place, _ = lake
    expected, _ = dr.ingest(tmp_path / "lake", tmp_path / "small", executor=threads)
    proxy.faults = BAD
    stored, _ = dr.ingest(place / "lake", place / "d", executor=threads)
    model = dr.RankRLS().fit(expected).to_model()
    dr.write_scores(model, stored, place / "scores", executor=threads)
    assert proxy.n_faults >= 5
    proxy.faults = Faults()
    assert stored.fingerprint == expected.fingerprint
    dr.write_scores(model, expected, tmp_path / "scores")
    ours, theirs = (dr.read_scores(p) for p in (place / "scores", tmp_path / "scores"))
    for index in range(expected.n_blocks):
        block = expected.block(index)
        np.testing.assert_array_equal(ours.of_block(block), theirs.of_block(block))


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        (Faults(expired=1), TryAgainError),
        pytest.param(Faults(busy=1), TryAgainError, marks=pytest.mark.exhaustive),
    ],
)
def test_credentials_end_or_the_store_stays_busy(lake, monkeypatch, threads, faults, error):
    """Amid the write of segments, and of scores; nothing is left that a reader sees."""
    proxy, place, expected = lake
    write = segments.write_segment

    def then_ends(*arguments):
        proxy.n_requests, proxy.faults = 0, faults
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setenv("DRANKING_STORE_DEADLINE", "1")
        patch.setattr(segments, "write_segment", then_ends)
        why = "credentials have probably expired" if faults.expired else "gave no answer"
        with pytest.raises(error, match=why) as told:
            dr.ingest(place / "lake", place / "d", executor=threads)
    assert told.value.exit_code == 75
    proxy.faults = Faults()
    assert not exists(place / "d" / "manifest.json")
    again, _ = dr.ingest(place / "lake", place / "d", executor=threads)
    assert again.fingerprint == expected.fingerprint
    model = dr.RankRLS().fit(expected).to_model()
    proxy.n_requests, proxy.faults = 0, Faults(expired=3) if faults.expired else faults
    with monkeypatch.context() as patch:
        patch.setenv("DRANKING_STORE_DEADLINE", "1")
        with pytest.raises(error) as told:
            dr.write_scores(model, expected, place / "scores", executor=threads)
    assert told.value.exit_code == 75
    proxy.faults = Faults()
    assert not exists(place / "scores" / "_SUCCESS")
    assert dr.write_scores(model, expected, place / "scores", executor=threads) == N


@pytest.mark.exhaustive
def test_of_two_writers_of_one_place_one_is_told(lake, threads, monkeypatch):
    """Both begin on nothing; the one that ends later is refused, and removes its parts."""
    _, place, expected = lake
    write, meet = segments.write_segment, threading.Barrier(2, timeout=60)

    def together(*arguments):
        meet.wait()
        return write(*arguments)

    monkeypatch.setattr(segments, "write_segment", together)
    ended = []

    def store():
        try:
            ended.append(dr.ingest(place / "lake", place / "d", executor="threads")[0].fingerprint)
        except (UsageError, TryAgainError) as error:
            ended.append(error.exit_code)

    others = [threading.Thread(target=store) for _ in range(2)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert sorted(map(str, ended)) == sorted(["2", expected.fingerprint])
    found = dr.open_dataset(place / "d")
    assert found.fingerprint == expected.fingerprint
    parts = {file.name for file in list_files(place / "d") if "index" in file.name}
    assert {name[:16] for name in parts} == set(found.manifest.writers)


def test_a_full_disk(lake, tmp_path, threads, monkeypatch):
    """In the midst of the segments, and of the scores: a clear error, and nothing at the place."""
    _, _, expected = lake

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(segments, "write_segment", full)
        with pytest.raises(UsageError, match="No space left"):
            dr.ingest(tmp_path / "lake", tmp_path / "d", executor=threads)
    model = dr.RankRLS().fit(expected).to_model()
    with monkeypatch.context() as patch:
        patch.setattr("dranking.models.write_scores.write_part", full)
        with pytest.raises(UsageError, match="No space left"):
            dr.write_scores(model, expected, tmp_path / "s", executor=threads)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["expected", "lake"]


def test_a_store_that_refuses(lake, threads, monkeypatch):
    _, place, _ = lake
    monkeypatch.setattr("pipelines.benchmarks.s3_proxy._Handler._pass_on", refused)
    with pytest.raises(DataError, match="the store refuses access") as told:
        dr.ingest(place / "lake", place / "d", executor=threads)
    assert told.value.exit_code == 3


def refused(handler, number, body):
    handler._refuse(403, "AccessDenied", "Access Denied")
