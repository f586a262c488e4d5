"""Rows in any order, split anywhere, come out as plain loops bring them together."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.data.blocks import block_boundaries
from dranking.data.regrouping import layout
from dranking.data.regrouping.exchange import first_rows, join_rows, split_rows
from dranking.data.regrouping.layout import (
    HashCollisionError,
    QueryOrder,
    check_queries,
    order_queries,
    plan_segments,
    summarize,
)
from dranking.data.regrouping.query_lines import LINE, hash_ids, merge_lines, query_lines
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


@given(cuts=st.lists(st.integers(1, 30), max_size=30, unique=True), data=st.data())
def test_queries_are_ordered_in_parts(cuts, data):
    """Parts of a drawn number of queries, which overlap; some parts are empty."""
    first = np.cumsum([0, *cuts])[:-1]
    part = np.array([data.draw(st.integers(0, 3)) for _ in cuts], dtype=int)
    parts = []
    for number in range(5):
        own = first[part == number]
        rows = np.array(cuts, dtype=np.uint32)[part == number]
        parts.append(QueryOrder(own, rows, len(own), 2 * len(own)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "QUERIES_AT_ONCE", data.draw(st.integers(1, 6)))
        order = order_queries(parts)
    assert order.first.tolist() == first.tolist()
    assert order.rows.tolist() == cuts
    assert (order.n_scattered_queries, order.n_scattered_rows) == (len(cuts), 2 * len(cuts))


def test_a_query_of_many_rows():
    """One query has more rows than 32 bits count; another part has small queries alone."""
    lines = np.zeros(3, LINE)
    lines["first"], lines["rows"] = [2**33, 7, 0], [2**32 + 5, 2**33 - 7, 7]
    lines["last"] = lines["first"] + lines["rows"] - 1
    order = order_queries([summarize(lines[:2]), summarize(lines[2:])])
    assert order.first.tolist() == [0, 7, 2**33]
    assert order.rows.tolist() == [7, 2**33 - 7, 2**32 + 5]
    assert order.is_adjacent
    assert [each.row_ptr for each in plan_segments(order)] == [
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
    order = order_queries([summarize(lines[half:]), summarize(lines[:half])])

    expected = regrouped(qids)
    apart = scattered(qids)
    assert order.first.tolist() == [rows[0] for rows in expected]
    assert order.rows.tolist() == [len(rows) for rows in expected]
    assert order.is_adjacent == (not apart)
    assert order.n_scattered_queries == len(apart)
    assert order.n_scattered_rows == sum(map(len, apart))

    segments = plan_segments(order, max_documents=6, segment_documents=12)
    packed = blocks(expected, 6)
    sizes = [b - a for s in segments for a, b in zip(s.row_ptr, s.row_ptr[1:], strict=False)]
    assert sizes == [sum(map(len, block)) for block in packed]
    assert [n for s in segments for n in s.n_queries] == [len(block) for block in packed]
    assert all(s.n_rows <= 12 or len(s.n_queries) == 1 for s in segments)
    eight = [s for s in plan_segments(order, max_documents=1) if s.n_rows]
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
