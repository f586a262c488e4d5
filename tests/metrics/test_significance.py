import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dranking.metrics.significance import bootstrap_interval, holm, paired_t_test


def test_bootstrap_interval__agrees_with_scipy():
    rng = np.random.default_rng(0)
    differences = rng.gamma(1.0, size=60) - 0.8
    expected = stats.bootstrap(
        (differences,), np.mean, method="percentile", n_resamples=20_000, rng=rng
    ).confidence_interval
    found = bootstrap_interval(differences, np.ones(60), n_resamples=20_000)
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_bootstrap_interval__covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    weights = np.ones(60)
    hits = 0
    for seed in range(300):
        sample = rng.exponential(size=60) - rng.exponential(size=60) + 0.1
        low, high = bootstrap_interval(sample, weights, seed=seed, n_resamples=500, confidence=0.9)
        hits += low <= 0.1 <= high
    # Four standard errors of a proportion of 0.9 over 300 samples are 0.07.
    assert abs(hits / 300 - 0.9) < 0.07


def test_bootstrap_interval__integer_weights_shift_it_as_repetition_does():
    differences = np.r_[np.zeros(200), np.ones(200)]
    weights = np.r_[np.ones(200), np.full(200, 3.0)]
    low, high = bootstrap_interval(differences, weights, n_resamples=4000)
    assert low < 0.75 < high
    assert (low + high) / 2 == pytest.approx(0.75, abs=0.01)


def test_bootstrap_interval__seed_and_confidence():
    differences = np.random.default_rng(2).normal(size=50)
    weights = np.ones(50)
    first = bootstrap_interval(differences, weights, seed=5, n_resamples=1000)
    assert first == bootstrap_interval(differences, weights, seed=5, n_resamples=1000)
    assert first != bootstrap_interval(differences, weights, seed=6, n_resamples=1000)
    wider = bootstrap_interval(differences, weights, seed=5, n_resamples=1000, confidence=0.99)
    assert wider[0] < first[0]
    assert wider[1] > first[1]


def test_bootstrap_interval__more_queries_than_drawn_at_once(monkeypatch):
    monkeypatch.setattr("dranking.metrics.significance.DRAWS_AT_ONCE", 64)
    differences = np.random.default_rng(2).normal(size=100)
    low, high = bootstrap_interval(differences, np.ones(100), n_resamples=400)
    spread = 1.96 * differences.std() / 10
    assert low == pytest.approx(differences.mean() - spread, abs=0.06)
    assert high == pytest.approx(differences.mean() + spread, abs=0.06)


@pytest.mark.parametrize("differences", [np.zeros(5), np.full(5, 0.25), np.array([0.25])])
def test_bootstrap_interval__constant_differences(differences):
    expected = (differences[0], differences[0])
    assert bootstrap_interval(differences, np.ones(len(differences))) == expected


@pytest.mark.parametrize("n", [2, 3, 50, 784])
def test_paired_t_test__equals_scipy(n):
    rng = np.random.default_rng(n)
    a, b = rng.random(n), rng.random(n) + 0.05
    assert paired_t_test(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-10)


def test_paired_t_test__degenerate_cases():
    assert paired_t_test(np.zeros(10)) == 1.0
    assert paired_t_test(np.array([0.3])) == 1.0
    assert paired_t_test(np.full(4, 0.25)) == 0.0


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
