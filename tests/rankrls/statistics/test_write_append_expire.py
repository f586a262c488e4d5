"""Appending to a statistics store and expiring queries, whole or not at all."""

import datetime
from dataclasses import replace

import filelock
import numpy as np
import pyarrow as pa
import pytest

from dranking.errors import DataError, TryAgainError, UsageError
from dranking.files.writing.clean import clean
from dranking.rankrls.statistics.per_query import QueryStatistics
from dranking.rankrls.statistics.write_append_expire import (
    append_statistics,
    expire_statistics,
    write_statistics,
)
from tests.data.store.blocks import everything_in
from tests.rankrls.statistics.stores import (
    assert_same_statistics,
    blocks_of,
    everything_of,
    statistics_of,
    written,
    written_into,
)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("times", [None, [1, 2, 3, 4]])
def test_append_equals_a_build_from_all(tmp_path, is_sparse, times):
    blocks = list(blocks_of(4, is_sparse))
    expected = written(blocks, tmp_path / "all", times)
    path = tmp_path / "grown"
    written(blocks[:2], path, times and times[:2])
    before = {file: file.stat().st_ino for file in everything_in(path / "blocks")}
    grown = append_statistics(
        path,
        lambda _, folders: written_into(folders, statistics_of(blocks[2:], times and times[2:]), 2),
    )
    assert_same_statistics(grown, expected)
    assert everything_of(grown) == everything_of(expected)
    assert {file: file.stat().st_ino for file in before} == before  # not copied
    assert grown.fingerprint == expected.fingerprint


@pytest.mark.parametrize("dropped", [[0], [1, 3], [2]])
def test_expiring_blocks_equals_a_build_from_the_rest(tmp_path, dropped):
    blocks = list(blocks_of(4))
    written(blocks, tmp_path / "store")
    left = expire_statistics(tmp_path / "store", blocks=dropped)
    rest = [block for number, block in enumerate(blocks) if number not in dropped]
    expected = written(rest, tmp_path / "rest")
    assert_same_statistics(left, expected)
    folders = {f"blocks/{folder.name}" for folder in (left.path / "blocks").iterdir()}
    named = {entry.path for entry in left.manifest.blocks}
    assert named < folders  # a reader may have the old manifest open
    n_others = 2  # a marker of the time, which their writer's token shares, and the old manifest
    assert clean(left.path, grace=0) == 2 * len(dropped) + n_others
    assert {f"blocks/{folder.name}" for folder in (left.path / "blocks").iterdir()} == named
    assert left.fingerprint == expected.fingerprint


@pytest.mark.parametrize("before", [3, 4, 10, 12])
def test_expiring_queries_equals_a_build_from_the_rest(tmp_path, before):
    """Times at and between borders of blocks; an emptied block is removed."""
    times = [[1, 9, 3], [2, 2, 2], [12, 4, 11]]
    blocks = list(blocks_of(3))
    written(blocks, tmp_path / "store", times)
    left = expire_statistics(tmp_path / "store", before=before)
    keep = [np.array(part) >= before for part in times]
    rest = [b.take_queries(k) for b, k in zip(blocks, keep, strict=True) if k.any()]
    kept_times = [np.array(part)[k] for part, k in zip(times, keep, strict=True) if k.any()]
    made = (
        replace(QueryStatistics.of(block), times=pa.array(t))
        for block, t in zip(rest, kept_times, strict=True)
    )
    expected = write_statistics(
        lambda folders: written_into(folders, made),
        tmp_path / "rest",
        feature_names=left.feature_names,
    )
    assert_same_statistics(left, expected)
    everything = written(blocks, tmp_path / "all", times)
    assert left.fingerprint != everything.fingerprint


def test_nothing_to_expire_changes_nothing(tmp_path):
    store = written(blocks_of(2), tmp_path / "store", [5, 6])
    before = everything_in(store.path)
    assert expire_statistics(store.path, before=5).n_queries == 6
    assert everything_in(store.path) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": [0, 1]}, "no query would be left"),
        ({"before": 100}, "no query would be left"),
        ({"blocks": [2]}, "no block 2; there are 0 to 1"),
        ({"blocks": [-1]}, "no block -1"),
        ({"before": "yesterday"}, "'yesterday' is no time; write"),
        ({"before": "2026-01-31"}, "is of another type than the times .*whole numbers"),
    ],
)
def test_what_cannot_expire(tmp_path, options, message):
    store = written(blocks_of(2), tmp_path / "store", [5, 6])
    before = everything_in(store.path)
    with pytest.raises(UsageError, match=message):
        expire_statistics(store.path, **options)
    assert everything_in(store.path) == before


def test_a_store_without_times_has_none_to_expire_by(tmp_path):
    written(blocks_of(2), tmp_path / "store")
    with pytest.raises(UsageError, match="no times to expire by"):
        expire_statistics(tmp_path / "store", before=3)


def test_dates_expire(tmp_path):
    days = [datetime.date(2026, 1, d) for d in (1, 2, 3)]
    written(blocks_of(3), tmp_path / "store", [[day] * 3 for day in days])
    assert expire_statistics(tmp_path / "store", before="2026-01-02").n_queries == 6
    left = expire_statistics(tmp_path / "store", before="2026-01-02T00:00:01")
    assert left.query_ids().to_pylist() == ["20", "21", "22"]


@pytest.mark.parametrize(
    ("blocks", "times", "message"),
    [
        (blocks_of(1, n_features=5), [7], "have 5 features, but 4"),
        (blocks_of(1), None, "have times that are whole numbers, but the new ones no times"),
        (blocks_of(1), ["2026-01-01"], "but the new ones times that are dates"),
    ],
)
def test_what_does_not_fit_is_not_appended(tmp_path, blocks, times, message):
    store = written(blocks_of(2), tmp_path / "store", [5, 6])
    before = everything_in(store.path)
    with pytest.raises(DataError, match=message):
        append_statistics(
            store.path, lambda _, folders: written_into(folders, statistics_of(blocks, times))
        )
    assert everything_in(store.path) == before
    assert {p.name for p in tmp_path.iterdir()} == {"store", ".store.lock"}


def test_an_interrupted_append_leaves_the_old_store(tmp_path):
    store = written(blocks_of(2), tmp_path / "store")
    before = everything_in(store.path)

    def interrupted(_, folders):
        yield from written_into(folders, statistics_of(blocks_of(1)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        append_statistics(store.path, interrupted)
    assert everything_in(store.path) == before
    assert {p.name for p in tmp_path.iterdir()} == {"store", ".store.lock"}


def test_only_one_process_changes_a_store(tmp_path):
    path = written(blocks_of(2), tmp_path / "store").path
    with filelock.FileLock(tmp_path / ".store.lock"):
        for change in (
            lambda: append_statistics(path, lambda _, __: []),
            lambda: expire_statistics(path, blocks=[0]),
        ):
            with pytest.raises(TryAgainError, match="another process is changing it"):
                change()
