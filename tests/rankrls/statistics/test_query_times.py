"""Times of queries: accepted forms, and errors for others."""

import datetime

import pytest

from dranking.errors import DataError
from dranking.rankrls.statistics.query_times import as_times


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2], "2 times for 3 queries"),
        ([1, None, 2], "2 times for 3 queries"),
        (["a", "b", "c"], "cannot be read"),
    ],
)
def test_times_that_are_wrong(values, message):
    with pytest.raises(DataError, match=message):
        as_times(values, 3)


def test_one_time_for_all():
    assert as_times("7", 2).to_pylist() == as_times(7, 2).to_pylist() == [7, 7]
    assert as_times("2026-02-01", 1).to_pylist() == [datetime.datetime(2026, 2, 1)]
