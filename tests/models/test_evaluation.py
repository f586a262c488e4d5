"""`evaluate` against loops over queries, and its errors."""

import numpy as np
import pytest

import dranking as dr
from dranking.data.scaling import scaled
from dranking.errors import DataError, UsageError
from dranking.metrics.comparison.significance import mean_interval
from dranking.models.linear.model import LinearModel
from tests.models.problems import random_problem
from tests.reference import tuning as reference

MEASURES = ["map", "p@3", "mean_ndcg", "ndcg@5", "pairwise_error"]
CHOSEN, WEIGHTS = [1, 4, 6], [0.7, -1.2, 0.3]


def model_of(selected, weights, **options):
    names = tuple(f"f{i + 1}" for i in selected)
    return LinearModel(feature_names=names, weights=tuple(weights), **options)


def with_pairs(problem):
    """Some queries without any relevant document, some without labels."""
    y = problem.y.copy()
    y[problem.qid % 7 == 3] = 0.0
    y[problem.qid % 11 == 5] = np.nan
    return problem._replace(y=y)


@pytest.mark.parametrize("convention", ["letor4", "letor3", "mslr", "standard"])
@pytest.mark.parametrize("max_documents", [1, 40, 10_000])
def test_values_of_each_query_are_those_of_a_loop(convention, max_documents):
    problem = with_pairs(random_problem(n_queries=30, n_features=8, max_documents=7))
    query_ptr = np.concatenate(([0], np.cumsum(problem.sizes)))
    data = (problem.X, problem.y, query_ptr, problem.weights)
    found = dr.evaluate(
        model_of(CHOSEN, WEIGHTS),
        problem.dataset(max_documents=max_documents),
        MEASURES,
        convention,
    )
    assert found.per_query.query_ids.to_pylist() == list(range(30))
    np.testing.assert_array_equal(found.per_query.weights, problem.weights)
    for measure in MEASURES:
        values = reference.query_values(data, CHOSEN, WEIGHTS, measure, convention)
        expected = [np.nan if v is None else v for v in values]
        np.testing.assert_allclose(found.per_query.values[measure], expected, rtol=1e-12)
        mean, _ = reference.mean_and_error(values, problem.weights)
        assert found.metrics[measure] == pytest.approx(mean, rel=1e-12)
        assert found.excluded[measure] == values.count(None)
    assert found.n_queries == 30
    assert sum(found.excluded.values()) > 0


NOT_KNOWN = {"n_judged": 40, "n_trained_on": None, "n_other_documents": 0}


def test_json_is_the_contract():
    found = dr.evaluate(model_of([0], [1.0]), random_problem().dataset(), ["NDCG@10", "map"])
    assert found.as_json() == {
        "metrics": {"ndcg@10": found.metrics["ndcg@10"], "map": found.metrics["map"]},
        "n_queries": 40,
        "excluded": found.excluded,
        "intervals": {name: list(ends) for name, ends in found.intervals.items()},
        "trained_on": NOT_KNOWN,
    }


def test_intervals_are_those_of_the_values_of_the_queries():
    found = dr.evaluate(model_of([0], [1.0]), random_problem().dataset(), ["ndcg@10", "map"])
    frame = found.to_frame()
    for name, (low, high) in found.intervals.items():
        rows = frame.dropna(subset=[name])
        values, weights = rows[name].to_numpy(), rows["weight"].to_numpy()
        assert 0.0 <= low < found.metrics[name] < high <= 1.0
        # That this interval is right, tests of significance say.
        assert (low, high) == mean_interval(values, weights)


def test_intervals_end_at_the_largest_value_that_a_measure_can_have():
    grades = {f"q{n}": {"d": int(n > 0)} for n in range(8)}
    found = dr.evaluate(grades, grades, ["ndcg", "dcg"])
    assert found.metrics == {"ndcg": 0.875, "dcg": 0.875}
    assert found.intervals["ndcg"][1] == 1.0 < found.intervals["dcg"][1]


def test_a_query_that_does_not_count_is_null_in_json():
    data = dr.from_arrays(np.ones((2, 1)), [0, 0], [1, 1])
    found = dr.evaluate(model_of([0], [1.0]), data, ["map"], "standard")
    assert found.as_json() == {
        "metrics": {"map": None},
        "n_queries": 1,
        "excluded": {"map": 1},
        "intervals": {"map": None},
        "trained_on": NOT_KNOWN | {"n_judged": 1},
    }


def test_features_are_found_by_name():
    problem = random_problem()
    model = model_of([2, 0], [1.0, -0.5])
    expected = dr.evaluate(model, problem.dataset()).metrics
    turned = problem._replace(X=problem.X[:, ::-1])
    names = [f"f{i + 1}" for i in range(problem.X.shape[1])]
    data = turned.dataset(feature_names=names[::-1])
    assert dr.evaluate(model, data).metrics == expected


def test_the_scaling_a_model_needs_is_applied_once():
    problem = random_problem()
    raw = problem.dataset()
    standard = scaled(raw, "standard")
    model = dr.RankRLS().fit(standard).to_model()
    assert dr.evaluate(model, raw).metrics == dr.evaluate(model, standard).metrics
    with pytest.raises(DataError, match="scaled by standard, but the model needs nothing"):
        dr.evaluate(model_of([0], [1.0]), standard)


def test_a_model_without_features_ranks_in_ties():
    found = dr.evaluate(model_of([], []), dr.from_arrays([[1.0], [2.0]], [0, 1], [1, 1]), ["map"])
    assert found.metrics == {"map": 0.75}  # the mean of 1/2 and 1


def test_missing_features_are_named():
    with pytest.raises(DataError, match="lacks 1 of the 2 features needed: f99"):
        dr.evaluate(model_of([0, 98], [1.0, 1.0]), random_problem().dataset())


def test_no_queries():
    data = random_problem().dataset()
    nothing = data.select_queries(np.zeros(data.n_queries, dtype=bool))
    with pytest.raises(DataError, match="no labelled document"):
        dr.evaluate(model_of([0], [1.0]), nothing)


def test_unknown_names():
    data = random_problem().dataset()
    with pytest.raises(UsageError, match="no metric 'mapp'"):
        dr.evaluate(model_of([0], [1.0]), data, ["mapp"])
    with pytest.raises(UsageError, match="no evaluation convention 'letor5'"):
        dr.evaluate(model_of([0], [1.0]), data, convention="letor5")
