"""Groups of equal rows against a dictionary."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dranking.clicks.rows.groups import Groups, packed_keys

INT = st.sampled_from([0, 1, 2, 3, -1, 2**40, -(2**62), 2**62])
ROWS = st.integers(1, 4).flatmap(lambda k: st.lists(st.tuples(*[INT] * k), min_size=1, max_size=40))


@given(rows=ROWS)
def test_groups_are_numbered_by_first_appearance(rows):
    number = {}
    for row in rows:
        number.setdefault(row, len(number))
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    groups = Groups(columns)
    assert groups.of_row.tolist() == [number[row] for row in rows]
    assert groups.first.tolist() == [rows.index(row) for row in number]
    assert groups.count().tolist() == [rows.count(row) for row in number]
    values = np.arange(len(rows)) ** 2 % 7
    own = [[int(v) for v, r in zip(values, rows, strict=True) if r == row] for row in number]
    assert groups.total(values).tolist() == [sum(group) for group in own]
    assert groups.sum(values / 4).tolist() == [sum(group) / 4 for group in own]
    assert groups.least(values).tolist() == [min(group) for group in own]
    assert groups.greatest(values / 4).tolist() == [max(group) / 4 for group in own]
    assert groups.any(values == 1).tolist() == [1 in group for group in own]


@given(rows=ROWS)
def test_packed_keys_order_rows_as_the_columns_do(rows):
    words = packed_keys([np.array(column, np.int64) for column in zip(*rows, strict=True)])
    packed = list(zip(*(word.tolist() for word in words), strict=True))
    assert [sorted(set(packed)).index(p) for p in packed] == [
        sorted(set(rows)).index(row) for row in rows
    ]


def test_hashes_of_users_fill_a_word():
    users = np.array([2**64 - 1, 0, 2**63], np.uint64)
    (word,) = packed_keys([users])
    assert word.tolist() == users.tolist()
