"""Values of queries, looked up by query id, against a dictionary."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dranking.errors import TryAgainError
from dranking.ingestion.collections import query_tables
from dranking.ingestion.collections.query_tables import QueryValues

IDS = {"integers": [7, -3, 0, 2**40, 5], "text": ["b", "a", "", "query 7", "Ä"]}


@pytest.fixture(params=["hashes", "one hash for all ids"])
def _hashes(request, monkeypatch):
    if request.param != "hashes":
        monkeypatch.setattr(query_tables, "hash_ids", lambda ids: np.zeros(len(ids), np.uint64))


@pytest.mark.usefixtures("_hashes")
@pytest.mark.parametrize("kind", IDS)
def test_values_of_rows(kind):
    ids = IDS[kind]
    values = np.random.default_rng(0).normal(size=(len(ids), 3))
    known = dict(zip(ids, values, strict=True))
    there = QueryValues(pa.array(ids), values)
    rows = pd.Series([ids[i] for i in (4, 4, 0, 2, 1, 0, 3)])
    found, codes = there.of(rows)
    np.testing.assert_array_equal(found[codes], [known[each] for each in rows])
    with pytest.raises(TryAgainError, match="holds query 99 and did not"):
        there.of(pd.Series([ids[0], 99 if kind == "integers" else "99"]))


def test_integers_among_ids_that_are_text():
    """A partition may hold integers where others hold text; see `BlockPlan.query_ids`."""
    found, codes = QueryValues(pa.array(["7", "x"]), np.eye(2)).of(pd.Series([7, 7]))
    np.testing.assert_array_equal(found[codes], [[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(TryAgainError, match="holds query x and did not"):
        QueryValues(pa.array([7]), np.eye(1)).of(pd.Series(["x"]))
