"""Rows in any order, split anywhere, come out as plain loops bring them together."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.data.blocks import block_boundaries
from dranking.data.regrouping import layout
from dranking.data.regrouping.layout import (
    HashCollisionError,
    check_queries,
    order_queries,
    plan_segments,
    ranges_of_first_rows,
    summarize,
)
from dranking.data.regrouping.query_lines import LINE, hash_ids, merge_lines, query_lines
from dranking.data.regrouping.rows_by_bucket import first_rows, join_rows, split_rows
from tests.reference.regrouping import block_borders, blocks, regrouped, scattered

NAMES = ["a", "b", "", "ä", "a long name of more than eight bytes", "another such name", "7", "8"]


@st.composite
def problems(draw):
    qids = draw(st.lists(st.integers(0, 7), min_size=1, max_size=40))
    if draw(st.booleans()):
        qids = sorted(qids)
    cuts = draw(st.lists(st.integers(0, len(qids)), max_size=4))
    kind = draw(st.sampled_from(["int64", "string"]))
    return qids, [0, *sorted(cuts), len(qids)], kind


def ids_of(qids, kind):
    return pa.array(qids) if kind == "int64" else pa.array([NAMES[q] for q in qids])


@given(
    sizes=st.lists(st.integers(0, 9), max_size=40),
    most=st.integers(1, 20),
    at_once=st.integers(1, 6),
)
def test_blocks_of_queries_that_are_summed_in_parts(sizes, most, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dranking.data.blocks.QUERIES_AT_ONCE", at_once)
        found = block_boundaries(np.array(sizes, dtype=np.int64), most)
    assert found.tolist() == block_borders(sizes, most)


def in_order(parts):
    """All queries by first row, as the tasks of an ingest order them, from parts of lines."""
    summarized = [summarize(part) for part in parts]
    found = []
    for low, high, items in ranges_of_first_rows([summary for _, summary in summarized]):
        read = [q[a:b] for (q, _), (a, b) in zip(summarized, items.tolist(), strict=True)]
        found.append(order_queries(read, low, high))
    return np.concatenate(found), [summary for _, summary in summarized], found


@given(
    cuts=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    at_once=st.integers(1, 6),
    sample=st.integers(1, 4),
    data=st.data(),
)
def test_queries_are_ordered_and_packed_in_parts(cuts, at_once, sample, data):
    """Parts of a drawn number of queries, which overlap; some parts are empty."""
    part = np.array([data.draw(st.integers(0, 3)) for _ in cuts])
    lines = np.zeros(len(cuts), LINE)
    lines["first"], lines["rows"] = np.cumsum([0, *cuts])[:-1], cuts
    lines["last"] = lines["first"] + lines["rows"] - np.array(cuts) % 2  # odd ones are adjacent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "QUERIES_AT_ONCE", at_once)
        patch.setattr(layout, "SAMPLE", sample)
        queries, summaries, found = in_order([lines[part == number] for number in range(5)])
    assert queries["first"].tolist() == lines["first"].tolist()
    assert queries["rows"].tolist() == cuts
    even = [n for n in cuts if n % 2 == 0]
    assert sum(each.n_scattered_queries for each in summaries) == len(even)
    assert sum(each.n_scattered_rows for each in summaries) == sum(even)
    assert max(map(len, found)) <= max(at_once, sample) + 5 * sample
    segments = plan_segments(found, max_documents=40, segment_documents=90)
    borders = block_borders(cuts, 40)
    assert [n for each in segments for n in each.n_queries] == np.diff(borders).tolist()
    rows = [0, *(row for each in segments for row in each.row_ptr[1:])]
    assert rows == [sum(cuts[:query]) for query in borders]
    queries_before = np.cumsum([0, *(sum(each.n_queries) for each in segments)])[:-1]
    assert [each.first for each in segments] == lines["first"][queries_before].tolist()


def test_a_source_without_queries():
    assert plan_segments([]) == []
    assert ranges_of_first_rows([summarize(np.zeros(0, LINE))[1]]) == []


def test_a_query_of_many_rows():
    """One query has more rows than 32 bits count; another part has small queries alone."""
    lines = np.zeros(3, LINE)
    lines["first"], lines["rows"] = [2**33, 7, 0], [2**32 + 5, 2**33 - 7, 7]
    lines["last"] = lines["first"] + lines["rows"] - 1
    queries, summaries, parts = in_order([lines[:2], lines[2:]])
    assert queries["first"].tolist() == [0, 7, 2**33]
    assert queries["rows"].tolist() == [7, 2**33 - 7, 2**32 + 5]
    assert not any(each.n_scattered_queries for each in summaries)
    assert [each.row_ptr for each in plan_segments(parts)] == [
        (0, 7),
        (7, 2**33),
        (2**33, 2**33 + 2**32 + 5),
    ]


@given(problem=problems(), key=st.integers(0, 3), n_groups=st.integers(1, 3), data=st.data())
def test_rows_come_together_in_order(problem, key, n_groups, data):
    qids, cuts, kind = problem
    ids = ids_of(qids, kind)
    ranges = list(pairwise(cuts))
    scans = [query_lines(ids[a:b], a, key=key) for a, b in ranges]
    groups = [scans[i::n_groups] for i in range(n_groups)]
    lines = merge_lines([merge_lines(group) for group in groups])
    half = len(lines) // 2
    order, summaries, parts = in_order([lines[half:], lines[:half]])

    expected = regrouped(qids)
    apart = scattered(qids)
    assert order["first"].tolist() == [rows[0] for rows in expected]
    assert order["rows"].tolist() == [len(rows) for rows in expected]
    assert sum(each.n_scattered_queries for each in summaries) == len(apart)
    assert sum(each.n_scattered_rows for each in summaries) == sum(map(len, apart))

    segments = plan_segments(parts, max_documents=6, segment_documents=12)
    packed = blocks(expected, 6)
    sizes = [b - a for s in segments for a, b in zip(s.row_ptr, s.row_ptr[1:], strict=False)]
    assert sizes == [sum(map(len, block)) for block in packed]
    assert [n for s in segments for n in s.n_queries] == [len(block) for block in packed]
    assert all(s.n_rows <= 12 or len(s.n_queries) == 1 for s in segments)
    eight = [s for s in plan_segments(parts, max_documents=1) if s.n_rows]
    assert all(len(s.n_queries) == 8 for s in eight[:-1])

    inner = [s.first for s in segments[1:] if data.draw(st.booleans())]
    borders = np.array([0, *inner])
    whole = merge_lines(scans)
    files = []
    for (a, b), scan in zip(ranges, scans, strict=True):
        first = whole["first"][np.searchsorted(whole["hash"], scan["hash"])]
        rows = pa.table({"qid": ids[a:b], "row": pa.array(np.arange(a, b))})
        files.append(split_rows(rows, first_rows(ids[a:b], scan, first, key=key), borders))
    found = []
    for bucket in range(len(borders)):
        parts = [table.slice(p[bucket], p[bucket + 1] - p[bucket]) for table, p in files]
        found += join_rows(parts).column("row").to_pylist()
    assert found == [row for rows in expected for row in rows]


def test_hashes_differ_by_id_and_key_and_agree_between_chunkings():
    names = pa.array(NAMES)
    assert len(set(hash_ids(names).tolist())) == len(NAMES)
    assert not set(hash_ids(names, 1).tolist()) & set(hash_ids(names, 2).tolist())
    np.testing.assert_array_equal(hash_ids(names)[3:6], hash_ids(names.slice(3, 3)))
    np.testing.assert_array_equal(hash_ids(names), hash_ids(names.cast(pa.large_string())))
    numbers = np.arange(100_000)
    assert len(set((hash_ids(pa.array(numbers)) % (1 << 32)).tolist())) > 99_900
    assert len(hash_ids(pa.array([], pa.string()))) == 0


def test_more_queries_than_hashes_are_a_collision():
    check_queries(3, 3)
    with pytest.raises(HashCollisionError, match="3 queries have 2 hashes"):
        check_queries(3, 2)
