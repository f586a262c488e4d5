import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dranking.errors import DataError, UsageError
from dranking.metrics.per_query import PerQuery, read_per_query, write_per_query
from tests.metrics.blocks import make_block


def test_of_block_and_concatenate():
    first = make_block([[0.0, 1.0], [0.0]], query_ids=["a", "b"])
    second = make_block([[1.0, 0.0]], query_ids=["c"], weights=[3.0])
    joined = PerQuery.concatenate(
        [
            PerQuery.of_block(first, [0.5, 0.1, 0.2], ["MAP"]),
            PerQuery.of_block(second, [0.5, 0.1], ["MAP"]),
        ]
    )
    assert joined.query_ids.to_pylist() == ["a", "b", "c"]
    np.testing.assert_array_equal(joined.values["map"], [0.5, np.nan, 1.0])
    np.testing.assert_array_equal(joined.weights, [1.0, 1.0, 3.0])
    assert joined.convention == "standard"
    summary = joined.summary()
    assert summary.metrics == {"map": 0.875}
    assert summary.excluded == {"map": 1}


def test_concatenate__nothing():
    with pytest.raises(DataError, match="no queries to evaluate"):
        PerQuery.concatenate([])


@pytest.mark.parametrize("ids", [[3, 1], ["q3", "q1"]])
@pytest.mark.parametrize("weights", [None, np.array([1.0, 0.25])])
@pytest.mark.parametrize("convention", [None, "trec"])
def test_round_trip(tmp_path, ids, weights, convention):
    written = PerQuery(
        pa.array(ids),
        {"map": np.array([0.1, np.nan]), "ndcg@10": np.array([1 / 3, 0.0])},
        weights,
        convention,
    )
    path = tmp_path / "values.parquet"
    write_per_query(path, written)
    read = read_per_query(path)
    assert read.query_ids.equals(written.query_ids)
    assert list(read.values) == ["map", "ndcg@10"]
    for name, values in written.values.items():
        np.testing.assert_array_equal(read.values[name], values)
    assert (read.weights is None) == (weights is None)
    if weights is not None:
        np.testing.assert_array_equal(read.weights, weights)
    assert read.convention == convention


def test_write__existing_file_needs_overwrite(tmp_path):
    path = tmp_path / "values.parquet"
    first, second = (PerQuery(pa.array([1]), {"map": np.array([v])}) for v in (0.25, 0.5))
    write_per_query(path, first)
    with pytest.raises(UsageError, match="--overwrite"):
        write_per_query(path, second)
    assert read_per_query(path).values["map"][0] == 0.25
    write_per_query(path, second, overwrite=True)
    assert read_per_query(path).values["map"][0] == 0.5


def test_columns_must_have_one_entry_per_query():
    with pytest.raises(ValueError, match="map has 2 entries for 1 query ids"):
        PerQuery(pa.array([1]), {"map": np.zeros(2)})
    with pytest.raises(ValueError, match="weight has 3 entries for 1 query ids"):
        PerQuery(pa.array([1]), {"map": np.zeros(1)}, np.ones(3))


def test_read__wrong_files(tmp_path):
    with pytest.raises(DataError, match=r"none\.parquet: cannot read per-query values"):
        read_per_query(tmp_path / "none.parquet")
    text = tmp_path / "text.parquet"
    text.write_text("query_id,map\n1,0.5\n")
    with pytest.raises(DataError, match=r"text\.parquet: cannot read per-query values"):
        read_per_query(text)
    for name, columns in {
        "no ids": {"map": [0.5]},
        "no measures": {"query_id": [1], "weight": [1.0]},
        "text": {"query_id": [1], "map": ["high"]},
    }.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(columns), path)
        with pytest.raises(DataError, match="not a table of per-query values"):
            read_per_query(path)
