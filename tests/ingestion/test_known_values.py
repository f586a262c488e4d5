"""The values for missing ones of several sources: their own, or those of an earlier model."""

import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from dranking.ingestion.known_values import known_values, measure_source
from dranking.ingestion.rows.row_rules import RowRules

PARTS = [[1.0, np.nan, 3.0], [7.0, np.nan, np.nan]]
OWN = {"mean": 11.0 / 3.0, "minimum": 1.0, "zero": 0.0}
"""By hand: the mean and the minimum of 1, 3 and 7; values are kept as float32."""


def table(values):
    return pd.DataFrame({"qid": [1, 1, 2], "relevance": [0, 1, 0], "x": values})


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Names and moments of two sources."""
    executor, folder = ThreadExecutor(1), tmp_path_factory.mktemp("moments")
    rules = RowRules(null="mean")
    found = [measure_source(table(v), dr.Columns(), rules, folder, executor) for v in PARTS]
    executor.close()
    return found[0].names, [each.summary for each in found]


@pytest.mark.parametrize("policy", OWN)
def test_the_values_are_those_of_all_sources_together(measured, policy):
    found = known_values(*measured, policy)
    assert found.feature_names == ("x",)
    assert found.constants.policy == policy
    np.testing.assert_allclose(found.constants.values, [OWN[policy]], rtol=1e-7)


@pytest.mark.parametrize("policy", OWN)
def test_an_earlier_model_keeps_its_values_unless_its_policy_is_another(measured, policy):
    """The value of the earlier data is 100, of each policy but zero."""
    earlier = dr.from_table(table([100.0, np.nan, 100.0]), null="mean")
    found = known_values(*measured, policy, earlier)
    expected = 100.0 if policy == "mean" else OWN[policy]
    assert found.constants.policy == policy
    np.testing.assert_allclose(found.constants.values, [expected], rtol=1e-7)
