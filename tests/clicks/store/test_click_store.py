"""Click stores: what is written is read, by bucket and by night, and damage is noticed."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dranking.clicks.counts import ClickCounts
from dranking.clicks.store.click_store import ClickStore, open_click_store
from dranking.clicks.store.write_store import write_click_store
from dranking.errors import DataError, UsageError
from dranking.files.json_files import sealed_json

KEY = st.tuples(
    st.sampled_from(["q", "q é", "2", "10"]),
    st.sampled_from(["d1", "d10", "d2"]),
    st.sampled_from(["", "phone"]),
    st.sampled_from(["2026-10-31", "2026-11-01", "2026-11-03"]),
    st.sampled_from(["a", "b"]),
    st.integers(1, 3),
)
ROWS = st.dictionaries(KEY, st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1)


def counts_from(rows: dict) -> ClickCounts:
    """Counts with the rows of a dictionary from keys to impressions and clicks."""
    keys = sorted(rows)
    names = [sorted({key[i] for key in keys}) for i in range(5)]
    index = [np.array([names[i].index(key[i]) for key in keys], np.int64) for i in range(5)]
    impressions = np.array([rows[key][0] for key in keys], np.int64)
    clicks = np.minimum([rows[key][1] for key in keys], impressions)
    return ClickCounts(
        query_ids=np.array(names[0]),
        document_ids=np.array(names[1]),
        contexts=tuple(names[2]),
        arms=tuple(names[4]),
        nights=np.array(names[3], "datetime64[D]"),
        **dict(zip(("query", "document", "context", "night", "arm"), index, strict=True)),
        position=np.array([key[5] for key in keys], np.int64),
        impressions=impressions,
        clicks=clicks,
        sessions=np.arange(len(names[0])) + 1,
    )


def rows_of(counts: ClickCounts) -> list:
    """The rows of counts in their order, with names in place of indices."""
    return [
        (
            str(counts.query_ids[counts.query[i]]),
            str(counts.document_ids[counts.document[i]]),
            counts.contexts[counts.context[i]],
            str(counts.nights[counts.night[i]]),
            counts.arms[counts.arm[i]],
            int(counts.position[i]),
            int(counts.impressions[i]),
            int(counts.clicks[i]),
        )
        for i in range(len(counts.query))
    ]


@settings(max_examples=10)
@given(rows=ROWS, n_buckets=st.integers(1, 5))
def test_what_is_written_is_read(rows, n_buckets, tmp_path_factory):
    counts = counts_from(rows)
    place = tmp_path_factory.mktemp("store") / "clicks.store"
    store = write_click_store(counts, place, n_buckets=n_buckets)
    read = [store.counts(bucket) for bucket in store.buckets]
    assert sorted(row for part in read for row in rows_of(part)) == rows_of(counts)
    for part in read:
        assert rows_of(part) == sorted(rows_of(part))
        assert part.query_ids.tolist() == sorted(set(part.query_ids.tolist()))
    sessions = {
        str(query): int(n)
        for part in read
        for query, n in zip(part.query_ids, part.sessions, strict=True)
    }
    assert sessions == {query: n + 1 for n, query in enumerate(counts.query_ids.tolist())}
    assert store.n_queries == len(counts.query_ids)
    assert store.n_rows == len(rows)
    assert store.n_impressions == counts.impressions.sum()
    assert store.n_clicks == counts.clicks.sum()
    since = store.within(since="2026-11-01")
    kept = [row for row in rows_of(counts) if row[3] >= "2026-11-01"]
    assert sorted(r for b in since.buckets for r in rows_of(since.counts(b))) == kept


@pytest.fixture
def store(tmp_path) -> ClickStore:
    rows = {
        (f"q{q}", "d", "", night, "", 1): (2, 1)
        for q in range(5)
        for night in ("2026-10-30", "2026-11-01", "2026-11-02")
    }
    return write_click_store(counts_from(rows), tmp_path / "clicks.store", n_buckets=2)


def test_a_window_counts_dates_back_from_the_newest_night(store):
    assert store.last_nights(1).nights.astype(str).tolist() == ["2026-11-02"]
    assert len(store.last_nights(3).nights) == 2
    assert len(store.last_nights(4).nights) == 3
    with pytest.raises(UsageError, match="one night or more"):
        store.last_nights(0)


def test_wrong_calls_are_refused(store, tmp_path):
    with pytest.raises(UsageError, match="no bucket 2; there are 0 to 1"):
        store.counts(2)
    with pytest.raises(UsageError, match="since is 'yesterday'"):
        open_click_store(store.place, since="yesterday")
    with pytest.raises(DataError, match="no counts by user"):
        store.user_counts(0)
    with pytest.raises(DataError, match="does not exist"):
        open_click_store(tmp_path / "absent")


def test_damage_is_noticed(store):
    part = store.manifest.nights[0].tables[0]
    file = store.place / part.name
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match="its checksum differs"):
        store.counts(part.bucket)
    file.unlink()
    with pytest.raises(DataError, match="is missing"):
        store.counts(part.bucket)
    manifest = store.place / "manifest.json"
    content = json.loads(manifest.read_text())
    content["nights"].reverse()
    manifest.write_bytes(sealed_json(content))
    with pytest.raises(DataError, match="not ascending"):
        open_click_store(store.place)
    manifest.write_text(manifest.read_text().replace('"n_buckets": 2', '"n_buckets": 3'))
    with pytest.raises(DataError, match="not what was written"):
        open_click_store(store.place)
