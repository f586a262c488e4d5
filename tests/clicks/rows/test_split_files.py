"""What goes from tasks to tasks comes back whole, in the order of the rows."""

import numpy as np
import pyarrow as pa
import pytest

from dranking.clicks.rows.split_files import BucketParts, Routed, get_joined, put_split
from dranking.clicks.sessions.row_sums import SAMPLE, sums_if_fewer, sums_of_rows
from dranking.clicks.sessions.runs import Runs, runs_of
from dranking.ingestion.rows.scratch import Scratch


def events(rng, n_rows):
    """Rows with texts, some missing, and integers of several widths."""
    return pa.table(
        {
            "session": pa.array(np.sort(rng.integers(0, 9, n_rows)).astype(np.uint64)),
            "query": pa.array(rng.choice(["a", "b", None], n_rows).tolist(), pa.string())
            .dictionary_encode(),
            "document": pa.array([f"d{d}" for d in rng.integers(0, 40, n_rows)])
            .dictionary_encode(),
            "position": pa.array(rng.integers(-200, 200, n_rows).astype(np.int32)),
            "time": pa.array(rng.integers(2**40, 2**40 + 2, n_rows)),
            "clicked": rng.random(n_rows) < 0.5,
        }
    )  # fmt: skip


@pytest.mark.parametrize("n_buckets", [1, 3])
def test_rows_of_a_bucket_come_back_in_their_order(tmp_path, n_buckets):
    rng = np.random.default_rng(n_buckets)
    scratch = Scratch(tmp_path, "x")
    files, expected = [], [[] for _ in range(n_buckets)]
    for number, n_rows in enumerate((50, 1, 200)):
        rows = events(rng, n_rows)
        buckets = rng.integers(0, n_buckets, n_rows)
        for row, bucket in zip(rows.to_pylist(), buckets.tolist(), strict=True):
            expected[bucket].append(row)
        tables = [Routed(rows, buckets), Routed(rows.select(["time"]), buckets)]
        files.append(put_split(scratch, f"f{number}", tables, n_buckets))
    for bucket in range(n_buckets):
        found, times = get_joined(scratch, BucketParts.of(files, bucket))
        assert found.to_pylist() == expected[bucket]
        assert times.column("time").to_pylist() == [row["time"] for row in expected[bucket]]
        texts = found.column("document").chunk(0).dictionary.to_pylist()
        assert set(texts) == {row["document"] for row in expected[bucket]}


def test_a_part_holds_no_texts_of_other_buckets(tmp_path):
    rows = events(np.random.default_rng(0), 100)
    buckets = np.arange(100) % 4
    file = put_split(Scratch(tmp_path, "x"), "f", [Routed(rows, buckets)], 5)
    assert BucketParts.of([file], 4).names == ()
    found = get_joined(Scratch(tmp_path, "x"), BucketParts.of([file], 2))[0]
    own = dict.fromkeys(row["document"] for row in rows.to_pylist()[2::4])
    assert found.column("document").chunk(0).dictionary.to_pylist() == list(own)


def test_runs_are_the_events_again():
    rows = events(np.random.default_rng(1), 300)
    runs = runs_of(rows)
    assert runs.shared.num_rows < rows.num_rows
    again = []
    for shared in runs.shared.to_pylist():
        n_events = shared.pop("length")
        for own in runs.own.slice(len(again), n_events).to_pylist():
            again.append({**shared, **own})
    assert [{name: row[name] for name in rows.column_names} for row in again] == rows.to_pylist()
    assert Runs(*runs).lengths.sum() == 300
    assert runs_of(rows.slice(0, 0)).own.num_rows == 0


def test_rows_are_summed_where_many_are_equal():
    rng = np.random.default_rng(2)
    n_rows = SAMPLE + 100
    rows = pa.table(
        {
            "position": rng.integers(0, 50, n_rows),
            "impressions": np.ones(n_rows, np.int8),
            "clicks": rng.integers(0, 2, n_rows).astype(np.int8),
        }
    )
    total = {}
    for row in rows.to_pylist():
        sums = total.setdefault(row["position"], [0, 0])
        sums[0] += 1
        sums[1] += row["clicks"]
    summed = sums_if_fewer(rows)
    assert {r["position"]: [r["impressions"], r["clicks"]] for r in summed.to_pylist()} == total
    distinct = rows.set_column(0, "position", pa.array(np.arange(n_rows)))
    assert sums_if_fewer(distinct) is distinct
    assert sums_of_rows(distinct).num_rows == n_rows
