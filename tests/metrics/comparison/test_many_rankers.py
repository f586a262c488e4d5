"""Several rankers against plain loops, and against the comparison of two."""

from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dranking as dr
from dranking.errors import ComparisonWarning, DataError, UsageError
from dranking.metrics.comparison.many_rankers import compare_ranker_values
from dranking.metrics.comparison.randomised_tests import (
    sign_flip_test,
    sign_flip_tests,
    tukey_hsd,
)
from dranking.metrics.comparison.significance import measure_interval
from dranking.metrics.per_query import PerQuery

pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.ComparisonWarning")

NAN = float("nan")


def table(ids, weights=None, convention=None, **values):
    columns = {name: np.array(column, dtype=np.float64) for name, column in values.items()}
    return PerQuery(pa.array(ids), columns, weights, convention)


def random_rankers(n_rankers=4, n=40):
    rng = np.random.default_rng(3)
    truth = rng.random(n)
    return {
        f"r{i}": table(
            list(range(n)),
            map=np.clip(truth + rng.normal(0.05 * i, 0.1, n), 0, 1),
            pairwise_error=np.clip(1 - truth + rng.normal(0.0, 0.1, n), 0, 1),
        )
        for i in range(n_rankers)
    }


def plain_holm(p_values):
    """Adjusted p-values by the definition: the smallest level at which a test is rejected."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for step, i in enumerate(order):
        largest = max(largest, (len(p_values) - step) * p_values[i])
        adjusted[i] = min(largest, 1.0)
    return adjusted


def test_all_pairs_have_the_figures_of_two_rankers_and_one_correction():
    rankers = random_rankers()
    drawn = {"seed": 5, "n_resamples": 400}
    found = compare_ranker_values(rankers, **drawn)
    assert found.rankers == ("r0", "r1", "r2", "r3")
    names, p_values = ["map", "pairwise_error"], []
    for name in names:
        pairs = [(pair.a, pair.b) for pair in found[name].pairs]
        assert pairs == list(combinations(found.rankers, 2))
        for pair in found[name].pairs:
            two = dr.compare(rankers[pair.a], rankers[pair.b], **drawn)[name]
            found_ends, ends = (pair.difference, pair.low, pair.high), (two.low, two.high)
            assert found_ends == pytest.approx((two.difference, *ends), rel=1e-9, abs=1e-12)
            # Five standard errors of a share of 400 random signs.
            assert pair.p_value == pytest.approx(two.p_permutation, abs=5 * 0.5 / 400**0.5)
            assert (pair.wins, pair.ties, pair.losses) == (two.wins, two.ties, two.losses)
            p_values.append(pair.p_value)
    adjusted = [pair.p_adjusted for name in names for pair in found[name].pairs]
    np.testing.assert_allclose(adjusted, plain_holm(p_values), rtol=1e-12)


def test_too_many_rankers_are_refused_before_any_is_measured():
    rankers = {f"r{i}": "no such feature" for i in range(27)}
    for options, said in [({}, "rankers is 27; 2 to 26"), ({"test": "t"}, "test is 't'")]:
        with pytest.raises(UsageError, match=said):
            dr.compare_rankers(rankers, "no such data", **options)


def test_queries_of_different_weights_have_the_intervals_of_two_rankers():
    weights = np.random.default_rng(1).lognormal(size=40)
    rankers = {
        name: PerQuery(one.query_ids, {"map": one.values["map"]}, weights)
        for name, one in random_rankers(3).items()
    }
    entry = compare_ranker_values(rankers, seed=2, n_resamples=300)["map"]
    for pair in entry.pairs:
        two = dr.compare(rankers[pair.a], rankers[pair.b], seed=2, n_resamples=300)["map"]
        assert (pair.low, pair.high) == pytest.approx((two.low, two.high), rel=1e-9, abs=1e-12)
    for one, table_of in zip(entry.rankers, rankers.values(), strict=True):
        ends = measure_interval("map", table_of.values["map"], weights, seed=2, n_resamples=300)
        assert (one.low, one.high) == pytest.approx(ends, rel=1e-9)


def test_a_measure_that_a_ranker_lacks_is_named():
    rankers = random_rankers(3)
    rankers["r1"] = PerQuery(rankers["r1"].query_ids, {"map": rankers["r1"].values["map"]})
    with pytest.warns(ComparisonWarning, match=r"pairwise_error \(not in r1\)"):
        found = compare_ranker_values(rankers, n_resamples=10)
    assert [entry.metric for entry in found.metrics] == ["map"]


def test_a_ranker_is_better_where_the_adjusted_p_value_is_below_the_level():
    found = compare_ranker_values(random_rankers(), n_resamples=2000)
    for entry in found.metrics:
        lower_is_better = entry.metric == "pairwise_error"
        better = {name: set() for name in found.rankers}
        for pair in entry.pairs:
            if pair.p_adjusted < 0.05:
                a_wins = (pair.difference > 0) != lower_is_better
                winner, loser = (pair.a, pair.b) if a_wins else (pair.b, pair.a)
                better[winner].add(loser)
        assert {one.ranker: {*one.better_than} for one in entry.rankers} == better
    assert any(one.better_than for one in found["map"].rankers)
    frame = found.to_frame()
    assert list(frame.index) == ["a r0", "b r1", "c r2", "d r3"]
    assert frame.loc["d r3", "map"].split()[1].startswith("a")


def test_the_queries_that_count_for_all_are_compared():
    rankers = {
        "x": table(["q1", "q2", "q3", "q4"], map=[0.1, NAN, 0.4, 0.9]),
        "y": table(["q4", "q3", "q2", "q1"], map=[0.2, 0.4, 0.7, 0.3]),
        "z": table(["q1", "q2", "q3", "q4"], map=[0.5, 0.2, 0.4, NAN]),
    }
    entry = compare_ranker_values(rankers, n_resamples=10)["map"]
    assert (entry.n_queries, entry.n_excluded) == (2, 2)
    assert [one.mean for one in entry.rankers] == pytest.approx([0.25, 0.35, 0.45])
    assert entry.furthest == (("q1", (0.1, 0.3, 0.5)),)  # the rankers agree about q3


@given(st.lists(st.tuples(*[st.integers(-3, 3)] * 3, st.integers(1, 2)), min_size=1, max_size=9))
def test_sign_flip_tests__of_few_queries_are_those_of_each_column(rows):
    differences = np.array([row[:3] for row in rows]) / 4
    weights = np.array([row[3] for row in rows], float)
    found = sign_flip_tests(differences, weights)
    expected = [sign_flip_test(column, weights) for column in differences.T]
    np.testing.assert_array_equal(found, expected)


def test_sign_flip_tests__random_signs_come_near_all_of_them():
    differences = np.random.default_rng(4).normal([0.4, 0.0], 1.0, size=(13, 2))
    exact = sign_flip_tests(differences, np.ones(13), n_resamples=2**13)
    drawn = sign_flip_tests(differences, np.ones(13), n_resamples=2**13 - 1)
    assert np.all(drawn != exact)
    np.testing.assert_allclose(drawn, exact, atol=0.02)


def test_many_tests_have_as_many_draws_as_their_correction_needs():
    """With 10,000 draws, no p-value of 544 tests could be below .05 after Holm's correction."""
    rng = np.random.default_rng(0)
    rankers = {
        f"r{i}": table(range(20), **{f"m{j}": i / 20 + rng.normal(0, 1e-4, 20) for j in range(4)})
        for i in range(17)
    }
    found = compare_ranker_values(rankers)
    assert len(found["m0"].rankers[-1].better_than) == 16


def test_the_interval_of_a_mean_is_cut_to_0_and_1_for_values_in_there():
    rankers = {name: table(range(3), map=[0.0, 0.5, 1.0], clicks=[1.0, 5.0, 6.0]) for name in "xy"}
    found = compare_ranker_values(rankers, n_resamples=10)
    assert (found["map"].rankers[0].low, found["map"].rankers[0].high) == (0.0, 1.0)
    assert found["clicks"].rankers[0].low < 1.0 < found["clicks"].rankers[0].high


def plain_tukey(values, weights):
    """Exact p-values: every order of the values of each query, in fractions."""
    n_rankers, total = len(values[0]), sum(weights)

    def means(rows):
        return [
            sum(w * row[i] for w, row in zip(weights, rows, strict=True)) / total
            for i in range(n_rankers)
        ]

    given_means = means(values)
    ranges = [
        max(found) - min(found)
        for orders in product(*(permutations(row) for row in values))
        for found in [means(orders)]
    ]
    return [
        [Fraction(sum(r >= abs(a - b) for r in ranges), len(ranges)) for b in given_means]
        for a in given_means
    ]


@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 3, st.integers(1, 3)), min_size=1, max_size=3),
)
def test_tukey_hsd__comes_near_all_orders(rows):
    values = [tuple(Fraction(v, 4) for v in row[:3]) for row in rows]
    weights = [Fraction(row[3]) for row in rows]
    exact = np.array(plain_tukey(values, weights), dtype=np.float64)
    found = tukey_hsd(np.array(values, float), np.array(weights, float), n_resamples=4000)
    # 4.5 standard errors of the share of 4,000 orders.
    np.testing.assert_allclose(found, exact, atol=4.5 * 0.5 / 4000**0.5)
    np.testing.assert_array_equal(found, found.T)


def test_p_values_of_tukeys_test_are_those_of_all_metrics_together():
    rankers = random_rankers(3)
    found = compare_ranker_values(rankers, test="tukey-hsd", n_resamples=300, seed=2)
    for entry in found.metrics:
        values = np.column_stack([one.values[entry.metric] for one in rankers.values()])
        p_values = tukey_hsd(values, np.ones(40), n_resamples=300, seed=2)
        for pair, (a, b) in zip(entry.pairs, combinations(range(3), 2), strict=True):
            assert pair.p_value == p_values[a, b]
            assert pair.p_adjusted == min(1.0, 2 * p_values[a, b])


@pytest.mark.parametrize(
    ("rankers", "options", "error", "said"),
    [
        ({"x": table([1], map=[0.1])}, {}, UsageError, "rankers is 1; 2 to 26"),
        (
            {"x": table([1], map=[0.1]), "y": table([2], map=[0.1])},
            {},
            DataError,
            r"x and y are not about the same queries: 1 only in x \(1\), 1 only in y \(2\)",
        ),
        (
            {
                "x": table([1], convention="trec", map=[0.1]),
                "y": table([1], convention="letor4", map=[0.1]),
            },
            {},
            DataError,
            "values of x follow the trec convention and the values of y the letor4",
        ),
        (
            {"x": table([1], map=[0.1]), "y": table([1], auc=[0.1])},
            {},
            UsageError,
            "no measure in common",
        ),
        (
            {"x": table([1, 2], map=[NAN, 0.1]), "y": table([1, 2], map=[0.1, NAN])},
            {},
            DataError,
            "map: no query counts for all rankers",
        ),
        (random_rankers(2), {"test": "t"}, UsageError, "test is 't'"),
        (random_rankers(2), {"confidence": 1.0}, UsageError, "confidence is 1.0"),
    ],
)
def test_refusals(rankers, options, error, said):
    with pytest.raises(error, match=said):
        compare_ranker_values(rankers, **options)


@pytest.mark.filterwarnings("default")
def test_few_queries_cause_a_warning():
    with pytest.warns(ComparisonWarning, match="5 queries count for map"):
        compare_ranker_values(
            {name: table(range(5), map=np.arange(5) / 10) for name in "xyz"}, n_resamples=10
        )
