"""Tuples drawn from preferences: all that there are, as often as promised, and no others."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chisquare

from dranking.bilinear.texts import preferences as preferences_module
from dranking.bilinear.texts.make_collection import collection
from dranking.bilinear.texts.preferences import (
    preferences_from_judgments,
    preferences_from_table,
    read_qrels,
    read_tuples,
    same_class,
)
from dranking.bilinear.tuples import tuple_sampler
from dranking.errors import DataError

N_DRAWN = 20_000


def drawn(preferences, *shard, n=N_DRAWN):
    tuples = tuple_sampler(preferences, *shard).draw(np.random.default_rng(0), n)
    return Counter(zip(*(a.tolist() for a in tuples), strict=True))


def assert_as_likely(counts, shares):
    """Exactly these tuples, each about as often as it should be."""
    assert set(counts) == set(shares)
    expected = [N_DRAWN * share for share in shares.values()]
    assert chisquare([counts[t] for t in shares], expected).pvalue > 1e-4


def per_query(tuples):
    """Queries equally likely, and the tuples of each."""
    queries = Counter(q for q, _, _ in tuples)
    return {t: 1 / len(queries) / queries[t[0]] for t in tuples}


def documents(labels=None, n=7, empty=()):
    vectors = np.ones((n, 2))
    vectors[list(empty)] = 0.0
    return collection(vectors, ids=[f"d{i}" for i in range(n)], labels=labels)


def test_classes():
    labels = ["a", "b", "a", "c", "b", "a", "b"]
    preferences = same_class(documents(labels, empty=[6]))
    assert preferences.n_excluded == 2  # the empty one, and the only one of class c
    used = [0, 1, 2, 4, 5]
    wanted = [
        (q, b, w)
        for q, b, w in itertools.product(used, repeat=3)
        if q != b and labels[q] == labels[b] != labels[w]
    ]
    assert_as_likely(drawn(preferences), per_query(wanted))


def test_judgments():
    collection_ = documents(empty=[5])
    table = [
        ("d0", "d1", 2), ("d0", "d2", 0), ("d0", "d3", 1), ("d0", "d4", 1),
        ("d1", "d2", 1), ("d1", "d3", 1),
        ("d2", "d4", 1), ("d2", "d0", 3),
        ("d3", "d5", 1), ("d3", "d0", 0), ("d3", "nowhere", 2),
    ]  # fmt: skip
    query_ids, doc_ids, grades = zip(*table, strict=True)
    preferences = preferences_from_judgments(collection_, collection_, query_ids, doc_ids, grades)
    assert preferences.n_excluded == 2
    wanted = [(0, 1, 2), (0, 1, 3), (0, 1, 4), (0, 3, 2), (0, 4, 2), (2, 0, 4)]
    assert_as_likely(drawn(preferences), per_query(wanted))


def test_a_table():
    c = documents()
    table = [("d0", "d1", "d2"), ("d3", "d1", "d2"), ("d0", "d1", "d4"), ("d0", "x", "d2")]
    preferences = preferences_from_table(c, c, *zip(*table, strict=True))
    assert preferences.n_excluded == 1
    wanted = {(0, 1, 2): 1 / 3, (3, 1, 2): 1 / 3, (0, 1, 4): 1 / 3}
    assert_as_likely(drawn(preferences), wanted)


@pytest.mark.parametrize("kind", ["classes", "judgments", "table"])
def test_shards_divide_the_queries(kind):
    rng = np.random.default_rng(1)
    c = documents(rng.integers(3, size=40), n=40)
    ids = [f"d{i}" for i in rng.integers(40, size=300)]
    preferences = {
        "classes": lambda: same_class(c),
        "judgments": lambda: preferences_from_judgments(
            c, c, np.repeat([f"d{i}" for i in range(10)], 30),
            np.tile([f"d{i}" for i in range(10, 40)], 10), rng.integers(3, size=300),
        ),
        "table": lambda: preferences_from_table(c, c, ids[:100], ids[100:200], ids[200:]),
    }[kind]()  # fmt: skip
    everything = tuple_sampler(preferences).queries
    parts = [tuple_sampler(preferences, shard, 3).queries for shard in range(3)]
    assert sorted(np.concatenate(parts)) == sorted(everything)
    for shard, part in enumerate(parts):
        assert {q for q, _, _ in drawn(preferences, shard, 3, n=2_000)} <= set(part.tolist())


def test_files(tmp_path):
    c = documents()
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("d0 0 d1 1\n\nd0 0 d2 0\n")
    assert set(drawn(read_qrels(qrels, c, c), n=9)) == {(0, 1, 2)}
    table = pa.table({"query": ["d3"], "preferred": ["d1"], "other": ["d2"], "more": [1]})
    pq.write_table(table, tmp_path / "tuples.parquet")
    assert set(drawn(read_tuples(tmp_path / "tuples.parquet", c, c), n=9)) == {(3, 1, 2)}


def test_a_table_read_in_parts_is_that_table(tmp_path, monkeypatch):
    c, rng = documents(), np.random.default_rng(0)
    ids = [f"d{i}" for i in range(c.n_documents)] + ["x"]
    table = {name: rng.choice(ids, size=50) for name in ("query", "preferred", "other")}
    pq.write_table(pa.table(table), tmp_path / "tuples.parquet")
    monkeypatch.setattr(preferences_module, "TUPLES_AT_ONCE", 7)
    found, wanted = (
        read_tuples(tmp_path / "tuples.parquet", c, c),
        preferences_from_table(c, c, *table.values()),
    )
    assert found.n_excluded == wanted.n_excluded > 0
    for name in ("query", "better", "worse"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_bad_files(tmp_path):
    c = documents()
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("d0 0 d1 1\nd0 0 d2\n")
    with pytest.raises(DataError, match=r"qrels.txt:2: no line of a TREC qrels \(3 fields\)"):
        read_qrels(qrels, c, c)
    qrels.write_text("\n")
    with pytest.raises(DataError, match="there are no rows"):
        read_qrels(qrels, c, c)
    with pytest.raises(DataError, match="no such file"):
        read_qrels(tmp_path / "nowhere", c, c)
    pq.write_table(pa.table({"query": ["d0"], "preferred": ["d1"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="no column other"):
        read_tuples(tmp_path / "t.parquet", c, c)
    with pytest.raises(DataError, match="no parquet table"):
        read_tuples(qrels, c, c)


def test_bad_preferences():
    c = documents()
    with pytest.raises(DataError, match="no classes"):
        same_class(c)
    with pytest.raises(DataError, match="1 of 2 classes"):
        same_class(documents(["a"] * 6 + ["b"]))
    with pytest.raises(DataError, match="judged twice for query d0"):
        preferences_from_judgments(c, c, ["d0", "d0"], ["d1", "d1"], [1, 2])
    with pytest.raises(DataError, match="judgment 1 has no grade"):
        preferences_from_judgments(c, c, ["d0", "d0"], ["d1", "d2"], [1, np.nan])
    with pytest.raises(DataError, match=r"different grades \(1 of 2"):
        preferences_from_judgments(c, c, ["d0", "x"], ["d1", "d1"], [1, 2])
    with pytest.raises(DataError, match="none of 1 tuples"):
        preferences_from_table(c, c, ["x"], ["d1"], ["d2"])
