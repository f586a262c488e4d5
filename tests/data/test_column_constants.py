"""The record of the values for missing ones, and the data sets that are filled with them."""

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError
from scipy import sparse

import dranking as dr
from dranking.data.column_constants import ColumnConstants
from dranking.data.steps import every_gap
from tests.data.gaps import filled_by_hand, table_with_gaps, value_of

POLICIES = ("zero", "minimum", "mean")
FILL = {"policy": "mean", "values": [1.0, 2.0], "gaps": [True, False]}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_feature_has_its_value_and_its_gaps(policy):
    table = table_with_gaps(0)
    constants = dr.from_table(table, null=policy).constants
    expected = [value_of(policy, table[name]) for name in ("bm25", "rating", "age")]
    np.testing.assert_allclose(constants.values, expected, rtol=2e-7)
    assert (constants.policy, constants.gaps) == (policy, (False, True, False))


def test_features_without_an_origin_record_none():
    constants = ColumnConstants.of_origins([0.0, 5.0, 0.0])
    assert constants.restricted(np.array([2, 1])).origins == (0.0, 5.0)
    assert constants.restricted(np.array([0, 2])).origins == ()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_filled_table_has_the_values_of_the_table_filled_by_hand(policy):
    table = table_with_gaps(1)
    by_hand = dr.from_table(filled_by_hand(table, policy, table))
    filled = dr.from_table(table, null=policy)
    assert (filled.fingerprint, filled.has_nulls) == (by_hand.fingerprint, False)


def test_a_column_without_a_value_is_filled_with_zeros():
    table = pa.Table.from_pandas(table_with_gaps(2)).append_column("price", pa.nulls(400))
    for policy in POLICIES:
        data = dr.from_table(table, null=policy)
        assert data.constants.values[3] == 0.0
        assert data.constants.gaps[3]
        assert not data.block(0).features[:, 3].any()


def test_arrays_are_filled_as_tables_are():
    table = table_with_gaps(3)
    names = ["bm25", "rating", "age"]
    X = table[names].to_numpy()
    data = dr.from_arrays(X, table.relevance, table.qid, feature_names=names, null="mean")
    assert data.constants == dr.from_table(table, null="mean").constants
    rows = dr.from_arrays(sparse.csr_array(X), table.relevance, table.qid, null="mean")
    assert rows.constants == data.constants
    np.testing.assert_array_equal(
        rows.block(0).features.toarray(), np.asarray(data.block(0).features)
    )


def test_missing_values_stay_an_error_unless_they_are_permitted():
    table = table_with_gaps(4)
    with pytest.raises(dr.DataError, match=r"'rating'.* is missing .* --null"):
        dr.from_table(table)
    with pytest.raises(dr.UsageError, match=r"'median'.*error, zero"):
        dr.from_table(table, null="median")


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "median"},
        {"policy": "error"},
        {"values": [1.0]},
        {"values": [1.0, float("nan")]},
        {"values": [1.0, 1e39]},
        {"values": [1.0, "2"]},
        {"gaps": [True, 1]},
        {"more": 1},
    ],
)
def test_a_wrong_record_is_refused(wrong):
    ColumnConstants.model_validate(FILL)
    with pytest.raises(ValidationError):
        ColumnConstants.model_validate(FILL | wrong)


def test_values_of_some_columns_of_a_block_are_filled():
    table = table_with_gaps(5)
    data = dr.from_table(table, null="mean")
    raw = dr.from_table(table[["qid", "relevance", "rating"]], null="zero").block(0)
    holes = np.where(table.rating.isna().to_numpy()[:, None], np.nan, raw.features)
    block = raw.with_features(holes.astype(np.float32))
    filled = every_gap(data.feature_names, data.constants).apply(block, np.array([1]))
    np.testing.assert_array_equal(filled.features, data.block(0).features[:, [1]])
