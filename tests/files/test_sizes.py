"""Sizes as text are those of Dask."""

import dask.utils
from hypothesis import given
from hypothesis import strategies as st

from dranking.files.sizes import format_bytes


@given(st.integers(0, 60).flatmap(lambda n: st.integers(0, 2**n)))
def test_sizes_are_written_as_dask_writes_them(n_bytes):
    assert format_bytes(n_bytes) == dask.utils.format_bytes(n_bytes)
