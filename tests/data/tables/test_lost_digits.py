"""Columns whose different values become equal in float32 are named before the conversion."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dranking as dr
from dranking.data.column_profiles import profile_columns
from dranking.data.tables.lost_digits import warn_of_lost_digits
from dranking.errors import DataWarning

N = 60
LOST = {
    "dates": (20260101 + np.arange(N), "multiples of 2"),
    "dates as floats": (20260101.0 + np.arange(N), "multiples of 2"),
    "seconds within a minute": (1_790_000_000 + np.arange(N), "multiples of 128"),
    "seconds with fractions": (1_790_000_000.25 + np.arange(N), "multiples of 128"),
    "below zero": (-20260101 - np.arange(N), "multiples of 2"),
    "far from zero": (5e4 + np.arange(N) / 1e4, "multiples of 0.00390625"),
}
KEPT = {
    "dates less the first": np.arange(N),
    "whole numbers up to 2^24": 2**24 - np.arange(N),
    "prices": 19.99 + np.arange(N),
    "one large number": np.full(N, 20260101),
    "one fraction": np.full(N, 0.1),
    "float32": (20260100 + np.arange(N)).astype(np.float32),
    "counts": np.arange(N) * 10_000,
    "counts of views": 4_899_414 + np.arange(N) * 16_777_003,
    "counts of both signs": (np.arange(N) - N // 2) * 16_777_003,
    "so large that floats have no fractions": np.linspace(0.0, 1e25, N),
}


def table_of(values):
    return pa.table({"qid": np.arange(N) // 6, "relevance": np.arange(N) % 3, "x": values})


def ways(values, tmp_path):
    """Calls that read the values, each in another way."""
    table = table_of(values)
    half = N // 2 // 6 * 6
    pq.write_table(table.slice(0, half), tmp_path / "a.parquet")
    pq.write_table(table.slice(half), tmp_path / "b.parquet", row_group_size=6)
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    output = tmp_path / "data"
    yield lambda: dr.from_table(table)
    yield lambda: dr.open_dataset(paths)
    yield lambda: dr.ingest(paths, output, overwrite=True)
    yield lambda: dr.ingest(table, output, overwrite=True)
    yield lambda: dr.from_arrays(values[:, None], np.arange(N), np.arange(N) // 6)
    yield lambda: dr.from_arrays(table.select(["x"]), np.arange(N), np.arange(N) // 6)


@pytest.mark.parametrize("name", LOST)
def test_lost_digits_are_said_whatever_the_way(name, tmp_path):
    values, steps = LOST[name]
    for read in ways(values, tmp_path):
        with pytest.warns(DataWarning, match=rf"float32, which rounds '(x|f1)' .* {steps}"):
            read()


@pytest.mark.parametrize("name", KEPT)
def test_values_that_float32_keeps_are_no_cause_to_warn(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read in ways(KEPT[name], tmp_path):
            read()


@pytest.mark.parametrize("values", [LOST["dates as floats"][0], LOST["far from zero"][0]])
def test_missing_values_do_not_hide_the_range_of_others(values):
    """The range of an array is that of its present values, as in tables and files."""
    values = values.copy()
    values[7] = np.nan
    rows = values[:, None], np.arange(N) % 3, np.arange(N) // 6
    with pytest.warns(DataWarning, match="float32, which rounds 'f1'"):
        dr.RankRLS().fit(rows[0], rows[1], qid=rows[2], null="mean")


@given(
    st.floats(-1e9, 1e9, allow_subnormal=False),
    st.lists(st.integers(0, 10**6).map(lambda i: i / 10**6), min_size=2, max_size=50),
    st.integers(-6, 6),
)
def test_a_warning_about_fractions_means_lost_digits(origin, values, exponent):
    """The rule knows the ends alone; its alarms are about real losses, or could be."""
    x = origin + 10.0**exponent * np.array(values)
    low, high = float(x.min()), float(x.max())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_lost_digits({"x": (low, high)}, "data")
    if not caught or (low.is_integer() and high.is_integer()):
        return
    step = max(float(np.spacing(np.float32(abs(end)))) for end in (low, high))
    even = np.linspace(low, high, 2_001)
    lost = np.sqrt(np.mean((even.astype(np.float32) - even) ** 2))
    assert low < high
    assert step > 0.01 * np.std(x)
    assert lost > 0.005 * np.std(even)


def test_constant_is_said_of_constants_alone():
    table = pa.table(
        {
            "qid": [1, 1],
            "relevance": [0, 1],
            "merged": [1_790_000_001, 1_790_000_002],
            "constant": [7.0, 7.0],
        }
    )
    with pytest.warns(DataWarning, match="'merged'"):
        found = profile_columns(dr.from_table(table))
    assert [(c.name, c.suggestion) for c in found.columns] == [
        ("merged", ""),
        ("constant", "constant"),
    ]
