"""Measures of many models in one pass, and means and standard errors from sums."""

import itertools

import numpy as np
import pytest
from scipy import stats

import dranking as dr
from dranking.metrics.conventions import get_convention
from dranking.models.linear.model import LinearModel
from dranking.tuning.grid import (
    Criterion,
    ModelPath,
    block_sums,
    mean_and_error,
    paired_errors,
    query_sums,
)
from tests.reference import tuning as reference

VALUES = np.array([0.2, 0.9, 0.4, 0.4, 1.0, 0.0])


def from_sums(values, weights):
    mean, error = mean_and_error(query_sums(np.array([values]), np.asarray(weights), 1))
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
    assert from_sums(values, weights) == pytest.approx(from_sums(VALUES, np.ones(6)), rel=1e-12)


def test_sums_of_parts_add_up():
    weights = np.arange(1.0, 7.0)
    both = np.stack((VALUES, VALUES[::-1]))
    parts = query_sums(both[:, :2], weights[:2], 3) + query_sums(both[:, 2:], weights[2:], 3)
    np.testing.assert_allclose(parts, query_sums(both, weights, 3), rtol=1e-15)


def test_paired_errors_are_those_of_the_differences_of_each_two_models():
    rng = np.random.default_rng(4)
    values = rng.uniform(size=(3, 40))
    values[2] = values[0] + 0.05 + 0.001 * values[1]
    values[:, 7] = np.nan
    weights = rng.uniform(0.5, 2.0, size=40)
    found = paired_errors(query_sums(values, weights, 5))
    for i, j in itertools.product(range(3), repeat=2):
        differences = (None if np.isnan(v) else v for v in (values[i] - values[j]).tolist())
        _, error = reference.mean_and_error(list(differences), weights.tolist())
        assert found[i, j] == pytest.approx(error, rel=1e-6, abs=1e-9)
    assert found[0, 2] < 1e-3 < found[0, 1]


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
