import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dranking.metrics.comparison.randomised_tests import holm, sign_flip_test
from dranking.metrics.comparison.significance import (
    FEWEST_QUERIES,
    effective_queries,
    mean_and_error,
    mean_interval,
    mean_test,
    paired_t_test,
)

SAMPLES = st.lists(
    st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.125, 0.75]), st.sampled_from([0.5, 1.0, 4.0])),
    min_size=2,
    max_size=24,
)


def plain_interval(differences, weights, n_resamples, confidence=0.95):
    """The interval by loops over samples and queries, with draws of its own."""

    pairs = list(zip(differences.tolist(), weights.tolist(), strict=True))
    mean, error = plain_mean_and_error(pairs)
    narrowest = stats.t.ppf(0.5 + confidence / 2, plain_degrees(weights))
    sizes = plain_sizes(differences, weights, n_resamples)
    factor = max(narrowest, np.quantile(sizes, confidence))
    return mean - factor * error, mean + factor * error


def plain_degrees(weights):
    """Kish's effective queries less 1, at least 1."""
    effective = sum(weights) ** 2 / sum(weight * weight for weight in weights)
    return max(effective - 1, 1)


def plain_mean(pairs):
    return sum(w * d for d, w in pairs) / sum(w for _, w in pairs)


def plain_mean_and_error(pairs):
    """The jackknife: the mean of all queries, and how the means without each query spread."""
    n, mean = len(pairs), plain_mean(pairs)
    without = [plain_mean(pairs[:i] + pairs[i + 1 :]) for i in range(n)]
    return mean, ((n - 1) / n * sum((each - mean) ** 2 for each in without)) ** 0.5


def plain_sizes(differences, weights, n_resamples):
    """Studentised distances of the means of bootstrap samples with spread from the mean."""
    rng = np.random.default_rng(99)
    pairs = list(zip(differences.tolist(), weights.tolist(), strict=True))
    mean, sizes = plain_mean_and_error(pairs)[0], []
    for _ in range(n_resamples):
        drawn = [pairs[i] for i in rng.integers(0, len(pairs), len(pairs))]
        drawn_mean, drawn_error = plain_mean_and_error(drawn)
        if drawn_error > 1e-12:
            sizes.append(abs(drawn_mean - mean) / drawn_error)
    return sizes


@pytest.mark.parametrize("n", [6, 25, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_interval__equals_plain_loops_up_to_the_draws(n, weighted):
    rng = np.random.default_rng(n)
    differences = rng.gamma(0.5, size=n) - 0.2
    weights = rng.choice([0.5, 1.0, 3.0], n) if weighted else np.ones(n)
    found = mean_interval(differences, weights, n_resamples=50_000)
    expected = plain_interval(differences, weights, 4000)
    width = expected[1] - expected[0]
    np.testing.assert_allclose(found, expected, atol=0.06 * width)


def test_mean_interval__skewed_differences_make_it_wider_than_students():
    differences = np.r_[np.zeros(16), 0.1, 0.3, 0.5, 2.0]
    low, high = mean_interval(differences, np.ones(20), n_resamples=2000)
    student = stats.t.interval(0.95, 19, differences.mean(), stats.sem(differences))
    assert high - low > 1.1 * (student[1] - student[0])


@given(SAMPLES)
def test_mean_interval__is_never_narrower_than_students(sample):
    differences, weights = np.array(sample).T
    low, high = mean_interval(differences, weights, n_resamples=40)
    if np.ptp(differences) == 0.0:
        return
    mean, error = plain_mean_and_error(sample)
    half = stats.t.ppf(0.975, plain_degrees(weights)) * error
    assert low <= mean - half * (1 - 1e-9)
    assert high >= mean + half * (1 - 1e-9)


def test_mean_interval__covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    weights = np.ones(60)
    hits = 0
    for seed in range(300):
        sample = rng.exponential(size=60) - rng.exponential(size=60) + 0.1
        low, high = mean_interval(sample, weights, seed=seed, n_resamples=500, confidence=0.9)
        hits += low <= 0.1 <= high
    # Four standard errors of a proportion of 0.9 over 300 samples are 0.07.
    assert abs(hits / 300 - 0.9) < 0.07


@pytest.mark.parametrize("heavy", [1.0, 30.0, 1e3, 1e9])
def test_mean_interval__covers_where_one_query_weighs_more(heavy):
    """The linearised error covered .94, .90, .02 and 0 times of one."""
    rng = np.random.default_rng(6)
    weights = np.append(np.ones(29), heavy)
    ends = [
        mean_interval(rng.normal(size=30), weights, seed=seed, n_resamples=300)
        for seed in range(300)
    ]
    coverage = np.mean([low <= 0.0 <= high for low, high in ends])
    assert coverage > 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / 300)


def test_mean_and_error__of_a_dominant_query_is_that_of_its_difference_to_the_others():
    """With all weight on one query, the mean without it is that of the others: here 1 / 4."""
    differences, weights = np.array([1.0, 0.25, 0.25]), np.array([1.0, 1e-30, 1e-30])
    mean, error = mean_and_error(differences, weights)
    assert mean == 1.0
    assert error == pytest.approx((2 / 3) ** 0.5 * 0.75, rel=1e-12)


@pytest.mark.parametrize("unit", [1e-170, 1e160])
def test_mean_test__does_not_depend_on_the_unit_of_weights(unit):
    rng = np.random.default_rng(4)
    differences, weights = rng.normal(0.3, 1.0, 30), rng.uniform(1, 2, 30)
    assert mean_test(differences, unit * weights, n_resamples=500) == pytest.approx(
        mean_test(differences, weights, n_resamples=500), rel=1e-12
    )
    assert paired_t_test(differences, unit * weights) == pytest.approx(
        paired_t_test(differences, weights), rel=1e-12
    )


def test_effective_queries__is_the_ratio_of_variances():
    """The variance of a weighted mean of independent values of variance 1 is 1 / n_effective."""
    weights = np.array([3.0, 1.0, 0.5, 0.25])
    variance = sum((w / 4.75) ** 2 for w in weights)
    assert effective_queries(weights) == pytest.approx(1 / variance, rel=1e-8)
    assert effective_queries(np.full(20, 0.1)) == 20.0
    assert effective_queries(np.array([1.0] + 19 * [1e-9])) == pytest.approx(1.0, abs=1e-6)


def test_mean_interval__does_not_depend_on_units():
    differences = np.random.default_rng(2).normal(size=30)
    weights = np.linspace(1, 2, 30)
    low, high = mean_interval(differences, weights, n_resamples=500)
    moved = mean_interval(4.0 * differences + 8.0, 0.5 * weights, n_resamples=500)
    np.testing.assert_allclose(moved, (4.0 * low + 8.0, 4.0 * high + 8.0), rtol=1e-9)


@pytest.mark.parametrize("kind", ["normal", "skewed", "discrete", "equal"])
def test_mean_test__is_significant_where_the_interval_leaves_out_0(kind):
    """Over random numbers of queries, weights, levels and draws; the mean lies near both ends."""
    rng = np.random.default_rng(len(kind))
    found = set()
    for seed in range(250):
        n, alpha = int(rng.integers(1, 60)), rng.choice([0.01, 0.05, 0.1, 0.3])
        differences = {
            "normal": lambda n=n: rng.normal(size=n),
            "skewed": lambda n=n: rng.gamma(0.5, size=n) - 0.5,
            "discrete": lambda n=n: rng.choice([-0.5, 0.0, 0.0, 0.25, 1.0], n) - 0.125,
            "equal": lambda n=n: np.full(n, rng.choice([0.0, 0.25])),
        }[kind]()
        if kind in ("normal", "skewed"):
            differences += rng.uniform(-4.0, 4.0) / np.sqrt(n)
        weights = rng.choice([0.25, 1.0, 3.0], n) if seed % 2 else rng.uniform(0.1, 5.0, n)
        test = mean_test(differences, weights, seed=seed, n_resamples=199, confidence=1 - alpha)
        leaves_out = test.low > 0.0 or test.high < 0.0
        assert leaves_out == (test.p_value < alpha), seed
        assert mean_interval(
            differences, weights, seed=seed, n_resamples=199, confidence=1 - alpha
        ) == pytest.approx((test.low, test.high), nan_ok=True)
        found.add(leaves_out)
    assert found == {True, False}


def test_mean_test__counts_the_samples_that_are_as_far():
    """Against a loop over samples with draws of its own; skewed, so that samples decide."""
    differences = np.r_[np.zeros(16), 0.1, 0.3, 0.5, 2.0] + 0.02
    weights = np.tile([0.5, 2.0], 10)
    found = mean_test(differences, weights, n_resamples=50_000)
    mean, error = plain_mean_and_error(list(zip(differences, weights, strict=True)))
    sizes = plain_sizes(differences, weights, 4000)
    share = np.mean(np.array(sizes) >= abs(mean) / error)
    assert share > 2.0 * stats.t.sf(abs(mean) / error, 19)
    assert found.p_value == pytest.approx(share, abs=0.02)


def test_mean_interval__seed_and_confidence():
    differences = np.random.default_rng(2).gamma(0.5, size=50)
    weights = np.ones(50)
    first = mean_interval(differences, weights, seed=5, n_resamples=1000)
    assert first == mean_interval(differences, weights, seed=5, n_resamples=1000)
    assert first != mean_interval(differences, weights, seed=6, n_resamples=1000)
    wider = mean_interval(differences, weights, seed=5, n_resamples=1000, confidence=0.99)
    assert wider[0] < first[0]
    assert wider[1] > first[1]


def test_mean_interval__more_queries_than_drawn_at_once(monkeypatch):
    monkeypatch.setattr("dranking.metrics.comparison.significance.DRAWS_AT_ONCE", 64)
    differences = np.random.default_rng(2).normal(size=100)
    low, high = mean_interval(differences, np.ones(100), n_resamples=400)
    spread = 1.98 * differences.std() / 10
    assert low == pytest.approx(differences.mean() - spread, abs=0.06)
    assert high == pytest.approx(differences.mean() + spread, abs=0.06)


def test_mean_interval__without_spread():
    rounded = np.full(FEWEST_QUERIES, 0.3) - np.tile([0.0, 1e-16], FEWEST_QUERIES // 2)
    assert mean_interval(rounded, np.ones(len(rounded))) == pytest.approx((0.3, 0.3))
    for few in ([0.25], [0.25] * 2, [0.0] * (FEWEST_QUERIES - 1)):
        assert np.isnan(mean_interval(np.array(few), np.ones(len(few)))).all()


def test_mean_interval__no_sample_with_spread():
    # One sample of two of two queries has spread with probability one half.
    ends = {
        mean_interval(np.array([0.0, 1.0]), np.ones(2), n_resamples=1, seed=s) for s in range(9)
    }
    np.testing.assert_allclose(list(ends), [stats.t.interval(0.95, 1, 0.5, 0.5)])


@pytest.mark.parametrize("n", [2, 3, 50, 784])
def test_paired_t_test__equals_scipy(n):
    rng = np.random.default_rng(n)
    a, b = rng.random(n), rng.random(n) + 0.05
    found = paired_t_test(a - b, np.full(n, 3.0))
    assert found == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-10)


def test_paired_t_test__agrees_with_the_interval_of_many_weighted_queries():
    rng = np.random.default_rng(0)
    differences, weights = rng.normal(size=400), rng.uniform(0.1, 5.0, 400)
    low, _ = mean_interval(differences, weights, n_resamples=20_000)
    mean = np.average(differences, weights=weights)
    # Shifted so that 0 is the end of the interval, the p-value is 1 minus the confidence.
    assert paired_t_test(differences - low, weights) == pytest.approx(0.05, abs=0.006)
    assert paired_t_test(differences - mean, weights) == pytest.approx(1.0)


def test_paired_t_test__holds_its_level_for_queries_of_different_weights():
    """Student's t with n - 1 degrees of freedom rejects 1.8 times as often as it says."""
    rng, weights = np.random.default_rng(3), 1.0 / np.arange(1.0, 21.0)
    p_values = [paired_t_test(rng.normal(size=20), weights) for _ in range(20_000)]
    # Four standard errors of a proportion of .01 over 20,000 samples are .0028.
    assert np.mean(np.array(p_values) < 0.01) < 0.01 + 0.0028


def test_mean_and_error__weights_of_any_ratio():
    differences, weights = np.array([1.0, 0.25, 0.25]), np.array([1e300, 1e-100, 1e-100])
    assert mean_and_error(differences, weights) == pytest.approx((1.0, (2 / 3) ** 0.5 * 0.75))
    assert np.isfinite(mean_test(differences, weights, n_resamples=200)).all()


@pytest.mark.parametrize("n", [20, 300])
def test_mean_interval__of_equal_weights_is_the_limit_of_weights_that_are_nearly_equal(n):
    """The sums of squares of equal weights have a formula of their own."""
    rng = np.random.default_rng(n)
    differences, nearly = rng.gamma(0.5, size=n), 1.0 + 1e-9 * rng.random(n)
    assert mean_interval(differences, np.ones(n), n_resamples=300) == pytest.approx(
        mean_interval(differences, nearly, n_resamples=300), rel=1e-7
    )


def test_mean_interval__of_rare_differences_of_many_queries_is_that_of_the_bootstrap():
    """Student's interval is much narrower where 10 of 2,000 queries differ."""
    rng = np.random.default_rng(1)
    differences = np.where(np.arange(2_000) < 10, rng.exponential(size=2_000), 0.0)
    student = stats.t.interval(0.95, 1999, differences.mean(), stats.sem(differences))
    low, high = mean_interval(differences, np.ones(2_000), n_resamples=400)
    assert high - low > 1.3 * (student[1] - student[0])


def test_mean_interval__of_many_even_differences_is_students():
    differences = np.random.default_rng(1).normal(size=2_000)
    student = stats.t.interval(0.95, 1999, differences.mean(), stats.sem(differences))
    assert mean_interval(differences, np.ones(2_000)) == pytest.approx(student, rel=1e-9)


def test_paired_t_test__degenerate_cases():
    assert paired_t_test(np.zeros(10), np.ones(10)) == 1.0
    assert paired_t_test(np.array([0.3]), np.ones(1)) == 1.0
    assert paired_t_test(np.full(4, 0.25), np.ones(4)) == 0.0


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_sign_flip_test__equals_scipys_permutation_test(n):
    rng = np.random.default_rng(n)
    differences = rng.choice([-0.5, 0.0, 0.25, 1.0], n)
    weights = rng.choice([1.0, 2.0], n)
    products = weights * differences
    expected = (
        stats.permutation_test((products,), np.sum, permutation_type="samples", n_resamples=np.inf)
        if n > 1
        else None
    )
    size = abs(products.sum()) - 1e-12
    signs = np.array(np.meshgrid(*[[1, -1]] * n)).reshape(n, -1).T
    plain = np.mean([abs((s * products).sum()) >= size for s in signs])
    assert sign_flip_test(differences, weights) == pytest.approx(plain)
    if expected is not None and expected.pvalue < 1:
        assert plain == pytest.approx(expected.pvalue, abs=1e-9)


@pytest.mark.parametrize("tenths", [(7, -6, -8, 7, -9, 1, 8), (9, 6, 9, -2, -22)])
def test_sign_flip_test__sums_that_cancel_are_compared_exactly(tenths):
    signs = list(itertools.product([1, -1], repeat=len(tenths)))
    sums = [abs(sum(s * t for s, t in zip(row, tenths, strict=True))) for row in signs]
    exact = sum(found >= abs(sum(tenths)) for found in sums) / len(signs)
    assert sign_flip_test(np.array(tenths) / 10, np.ones(len(tenths))) == exact


def test_sign_flip_test__random_signs_come_near_the_exact_p_value():
    differences = np.random.default_rng(4).normal(0.4, 1.0, size=13)
    exact = sign_flip_test(differences, np.ones(13), n_resamples=2**13)
    drawn = sign_flip_test(differences, np.ones(13), n_resamples=2**13 - 1)
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=0.02)


def test_sign_flip_test__no_difference():
    assert sign_flip_test(np.zeros(30), np.ones(30)) == 1.0
    assert sign_flip_test(np.full(10, 0.25), np.ones(10)) == 2 / 2**10


def test_holm__worked_example():
    # Sorted .005 .01 .03 .04 times 4 3 2 1 is .02 .03 .06 .04; the last is raised to .06.
    adjusted = holm(np.array([0.01, 0.04, 0.03, 0.005]))
    np.testing.assert_allclose(adjusted, [0.03, 0.06, 0.06, 0.02], rtol=1e-14)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm__rejects_what_the_step_down_procedure_rejects(p_values):
    adjusted = holm(np.array(p_values))
    for level in (0.01, 0.05, 0.3):
        rejected = [False] * len(p_values)
        by_size = sorted(range(len(p_values)), key=lambda i: p_values[i])
        for step, i in enumerate(by_size):
            if p_values[i] * (len(p_values) - step) > level:
                break
            rejected[i] = True
        assert (adjusted <= level).tolist() == rejected
    assert np.all(adjusted <= 1)


def test_equal_differences_of_many_queries_have_an_interval_whatever_their_weights():
    """As values of a ranker on clicks are weighed, whose traffic is that of a few queries."""
    weights = 1.0 / np.arange(1.0, 101.0)
    assert mean_interval(np.zeros(100), weights) == (0.0, 0.0)


def test_sign_flip_test__does_not_depend_on_the_unit_of_weights():
    differences = np.random.default_rng(2).normal(size=30)
    found = [sign_flip_test(differences, np.full(30, unit)) for unit in (1.0, 1e308)]
    assert found[0] == found[1]
