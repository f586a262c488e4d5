"""Measures of many models in one pass, and means and standard errors from sums."""

import numpy as np
import pytest
from scipy import stats

import dranking as dr
from dranking.metrics.conventions import get_convention
from dranking.models.linear.model import LinearModel
from dranking.tuning.grid import Criterion, ModelPath, block_sums, mean_and_error, query_sums
from tests.reference import tuning as reference

VALUES = np.array([0.2, 0.9, 0.4, 0.4, 1.0, 0.0])


def from_sums(values, weights):
    mean, error = mean_and_error(query_sums(np.asarray(values), np.asarray(weights))[:, None])
    return float(mean[0]), float(error[0])


def test_equal_weights_give_the_textbook_error():
    expected = VALUES.mean(), stats.sem(VALUES)
    assert from_sums(VALUES, np.ones(6)) == pytest.approx(expected, rel=1e-12)
    assert from_sums(VALUES, np.full(6, 7.0)) == pytest.approx(expected, rel=1e-12)


def test_other_weights_are_those_of_a_loop():
    weights = np.array([1.0, 2.0, 0.5, 0.0, 3.0, 1.5])
    expected = reference.mean_and_error(VALUES.tolist(), weights.tolist())
    assert from_sums(VALUES, weights) == pytest.approx(expected, rel=1e-12)


def test_queries_that_do_not_count_change_nothing():
    values = np.concatenate((VALUES, [np.nan, 0.7]))
    weights = np.concatenate((np.ones(6), [1.0, 0.0]))
    assert from_sums(values, weights) == from_sums(VALUES, np.ones(6))


def test_sums_of_parts_add_up():
    weights = np.arange(1.0, 7.0)
    parts = query_sums(VALUES[:2], weights[:2]) + query_sums(VALUES[2:], weights[2:])
    np.testing.assert_allclose(parts, query_sums(VALUES, weights), rtol=1e-15)


def test_equal_values_have_no_error():
    # The sums alone would leave a variance of one rounding, above or below zero.
    for value in np.linspace(0.05, 0.95, 19):
        mean, error = from_sums(np.full(50, value), np.full(50, 0.1))
        assert mean == pytest.approx(value)
        assert error < 1e-8


def test_no_query_and_one_query():
    assert np.isnan(from_sums([], [])).all()
    mean, error = from_sums([0.3], [2.0])
    assert mean == pytest.approx(0.3)
    assert np.isnan(error)


def test_a_model_of_the_grid_ties_documents_as_its_file_does():
    # (0.1 + 0.2) + 0.3 is the fourth weight; (0.3 + 0.2) + 0.1, in selection order, is below it.
    weights = np.array([0.1, 0.2, 0.3, (0.1 + 0.2) + 0.3])
    data = dr.from_arrays([[1, 1, 1, 0], [0, 0, 0, 1]], [1, 0], [7, 7])
    model = LinearModel(feature_names=("f1", "f2", "f3", "f4"), weights=tuple(weights))
    expected = dr.evaluate(model, data, ["map"], "letor4").metrics["map"]
    selected = np.array([2, 1, 0, 3])
    path = ModelPath({"regularization": 1.0}, selected, [weights[selected]])
    sums = block_sums(data.block(0), [path], (), Criterion("map", get_convention("letor4")))
    means, _ = mean_and_error(sums)
    assert means[0] == expected == 1.0
