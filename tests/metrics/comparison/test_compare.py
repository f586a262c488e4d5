import json
import warnings

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dranking.errors import ComparisonWarning, DataError, UsageError
from dranking.metrics.comparison.compare import compare_rows, compare_values, interval_text
from dranking.metrics.comparison.significance import mean_interval
from dranking.metrics.per_query import PerQuery

NAN = float("nan")

# Most tables here have a handful of queries.
pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.ComparisonWarning")


def table(ids, weights=None, convention=None, **values):
    columns = {name: np.array(column, dtype=np.float64) for name, column in values.items()}
    return PerQuery(pa.array(ids), columns, weights, convention)


def random_tables(n=60):
    rng = np.random.default_rng(0)
    truth = rng.random((3, n))
    names = ["map", "auc", "pairwise_error"]
    a = {name: column for name, column in zip(names, truth, strict=True)}
    b = {name: np.clip(column + rng.normal(0.02, 0.1, n), 0, 1) for name, column in a.items()}
    return table(list(range(n)), **a), table(list(range(n)), **b)


def test_compare__figures():
    a, b = random_tables()
    comparison = compare_values(a, b, seed=4, n_resamples=500)
    assert [entry.metric for entry in comparison.metrics] == ["map", "auc", "pairwise_error"]
    p_values = []
    for name in a.values:
        entry = comparison[name]
        of_a, of_b = a.values[name], b.values[name]
        assert entry.mean_a == pytest.approx(of_a.mean())
        assert entry.mean_b == pytest.approx(of_b.mean())
        assert entry.difference == pytest.approx((of_a - of_b).mean())
        expected = mean_interval(of_a - of_b, np.ones(60), seed=4, n_resamples=500)
        assert (entry.low, entry.high) == expected
        assert entry.low <= entry.difference <= entry.high
        # Samples of 60 normal differences are nearly Student's, and never make the p-value smaller.
        student = stats.ttest_rel(of_a, of_b).pvalue
        assert student * (1.0 - 1e-9) <= entry.p_value <= student + 0.03
        p_values.append(entry.p_value)
        permutations = stats.permutation_test(
            (of_a - of_b,), np.mean, permutation_type="samples", n_resamples=2000, rng=1
        )
        assert entry.p_permutation == pytest.approx(permutations.pvalue, abs=0.08)
        better = of_a < of_b if name == "pairwise_error" else of_a > of_b
        assert entry.wins == better.sum()
        assert entry.ties == (of_a == of_b).sum()
        assert entry.wins + entry.ties + entry.losses == entry.n_queries == 60
    smallest = int(np.argmin(p_values))
    assert comparison.metrics[smallest].p_holm == pytest.approx(min(3 * p_values[smallest], 1))


def test_compare__interval_does_not_depend_on_the_other_measures():
    a, b = random_tables()
    with pytest.warns(ComparisonWarning, match=r"is not compared: map \(not in A\)"):
        alone = compare_values(PerQuery(a.query_ids, {"auc": a.values["auc"]}), b, n_resamples=300)
    together = compare_values(a, b, n_resamples=300)["auc"]
    assert (alone["auc"].low, alone["auc"].high) == (together.low, together.high)
    assert alone["auc"].p_holm == together.p_value


def test_compare__matches_queries_by_id():
    a = table(["x", "y", "z"], map=[0.1, 0.5, 0.9])
    b = table(["z", "x", "y"], map=[0.8, 0.1, 0.6])
    entry = compare_values(a, b, n_resamples=50)["map"]
    assert (entry.wins, entry.ties, entry.losses) == (1, 1, 1)
    assert entry.difference == pytest.approx(0.0)


def test_compare__integer_ids_match_the_same_ids_as_text():
    entry = compare_values(table([1, 2], map=[0, 1]), table(["2", "1"], map=[1, 0]), n_resamples=50)
    assert entry["map"].ties == 2


def test_compare__the_same_model_twice():
    a, _ = random_tables()
    for entry in compare_values(a, a, n_resamples=100).metrics:
        assert (entry.difference, entry.low, entry.high) == (0.0, 0.0, 0.0)
        assert (entry.p_value, entry.p_holm) == (1.0, 1.0)
        assert (entry.wins, entry.ties, entry.losses) == (0, 60, 0)


def test_compare__one_query_has_no_interval():
    with pytest.warns(ComparisonWarning, match="^1 query counts for map: intervals of fewer"):
        entry = compare_values(table([7], map=[0.75]), table([7], map=[0.5]), n_resamples=100)[
            "map"
        ]
    assert entry.difference == 0.25
    assert np.isnan([entry.low, entry.high]).all()
    assert interval_text(entry) == "(one query: no interval)"
    assert (entry.p_value, entry.p_permutation, entry.wins) == (1.0, 1.0, 1)


def test_compare__warns_of_the_measure_with_the_fewest_queries():
    ids = list(range(20))
    map_values = [NAN, *np.linspace(0, 1, 19)]
    a, b = (
        table(ids, auc=np.ones(20), map=map_values),
        table(ids, auc=np.zeros(20), map=np.ones(20)),
    )
    with pytest.warns(ComparisonWarning, match="19 queries count for map"):
        compare_values(a, b, n_resamples=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = PerQuery(b.query_ids, {"auc": b.values["auc"]})
        compare_values(table(ids, auc=np.ones(20)), alone, n_resamples=10)


def test_compare_rows__an_id_may_come_twice():
    a, b = table([7, 8, 7], map=[0.5, 0.5, 1.0]), table([7, 8, 7], map=[0.25, 0.5, 0.0])
    entry = compare_rows(a, b, n_resamples=100)["map"]
    assert entry.difference == pytest.approx(1.25 / 3)
    assert (entry.wins, entry.ties, entry.n_queries) == (2, 1, 3)


def test_compare__rounding_is_a_tie():
    entry = compare_values(table([1, 2], map=[0.1 + 0.2, 0.5]), table([1, 2], map=[0.3, 0.5]))[
        "map"
    ]
    assert entry.ties == 2


def test_compare__leaves_out_queries_that_do_not_count_for_both():
    a = table([1, 2, 3, 4], map=[0.5, NAN, 0.25, 1.0], auc=[0, 0, 0, 0])
    b = table([1, 2, 3, 4], map=[0.25, 1.0, NAN, 0.5], auc=[0, 0, 0, 0])
    comparison = compare_values(a, b, n_resamples=100)
    entry = comparison["map"]
    assert (entry.n_queries, entry.n_excluded, comparison.n_queries) == (2, 2, 4)
    assert (entry.mean_a, entry.mean_b) == (0.75, 0.375)
    assert comparison["auc"].n_excluded == 0


def test_compare__weights_multiply():
    weights = np.array([1.0, 3.0, 0.0])
    a = table([1, 2, 3], weights, map=[1.0, 0.5, 0.0])
    b = table([1, 2, 3], weights, map=[0.0, 0.25, 1.0])
    entry = compare_values(a, b, n_resamples=100)["map"]
    assert entry.mean_a == pytest.approx(2.5 / 4)
    assert entry.difference == pytest.approx(1.75 / 4)
    assert (entry.n_queries, entry.n_excluded) == (2, 1)


def test_compare__equal_weights_change_nothing():
    a, b = random_tables()
    twos = np.full(60, 2.0)
    weighted = compare_values(
        PerQuery(a.query_ids, a.values, twos),
        PerQuery(b.query_ids, b.values, twos),
        n_resamples=200,
    )
    plain = compare_values(a, b, n_resamples=200)
    for one, other in zip(weighted.metrics, plain.metrics, strict=True):
        assert one.p_value == pytest.approx(other.p_value, rel=1e-9)
        assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-9)


def test_compare__other_queries():
    a, b = table(list(range(9)), map=np.zeros(9)), table([0, 99], map=[0, 0])
    with pytest.raises(DataError, match=r"8 only in A \(1, 2, 3, 4, 5, \.\.\.\), 1 only in B \(99"):
        compare_values(a, b)


def test_compare__repeated_query():
    once, twice = table([1, 2], map=[0, 0]), table([1, 2, 2], map=[0, 0, 0])
    with pytest.raises(DataError, match="more than once in B: 2"):
        compare_values(once, twice)


def test_compare__other_weights():
    a = table([1, 2], np.array([1.0, 1.0]), map=[0, 0])
    b = table([1, 2], np.array([1.0, 2.0]), map=[0, 0])
    with pytest.raises(DataError, match="query 2 weighs 1 in A and 2 in B"):
        compare_values(a, b)


def test_compare__other_conventions():
    a, b = table([1], convention="trec", map=[0]), table([1], convention="letor4", map=[0])
    with pytest.raises(DataError, match="trec convention and the values of B the letor4"):
        compare_values(a, b)
    assert compare_values(a, table([1], map=[0]), n_resamples=10)["map"].ties == 1


def test_compare__nothing_to_compare():
    with pytest.raises(UsageError, match="no measure in common: A has map; B has auc"):
        compare_values(table([1], map=[0]), table([1], auc=[0]))
    with pytest.raises(DataError, match="map: no query counts for both"):
        compare_values(table([1], map=[NAN]), table([1], map=[0]))


@pytest.mark.parametrize("options", [{"n_resamples": 0}, {"confidence": 1.0}, {"confidence": 95}])
def test_compare__bad_options(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        compare_values(table([1], map=[0]), table([1], map=[0]), **options)


def test_compare__as_json():
    a, b = random_tables()
    found = json.loads(json.dumps(compare_values(a, b, n_resamples=50).as_json()))
    assert found["metrics"][0]["metric"] == "map"
    assert found["n_queries"] == 60
