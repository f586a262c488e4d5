"""What intervals of values add for users who come back, and for errors of propensities."""

import numpy as np
import pytest
from scipy import stats

from dranking.clicks.hashes import query_keys
from dranking.clicks.off_policy.off_policy import query_values
from dranking.clicks.off_policy.off_policy_value import off_policy_value
from dranking.clicks.off_policy.rewards import parse_reward
from dranking.clicks.off_policy.value_errors import propensity_variance, user_variance
from dranking.clicks.propensities.harvest import HarvestRules, harvest_propensities
from dranking.clicks.propensities.propensities import Curve, Propensities, given_propensities
from dranking.clicks.propensities.resampling import times_drawn
from dranking.clicks.store.source import CountsInMemory, sum_of_buckets
from dranking.engine.executor import ThreadExecutor
from tests.clicks.made import counts_of, simulated_rows
from tests.clicks.made_visits import POSITIONS as A
from tests.clicks.made_visits import by_user, counted, visits
from tests.clicks.off_policy.test_off_policy import pages_of
from tests.reference.off_policy import variance_of_users

KNOWN = given_propensities(A)
REWARD = parse_reward("clicks@3")
PAGE = [2, 0, 1]


@pytest.mark.parametrize("without_id", [(), (2, 5)])
def test_users_add_the_products_of_their_own_parts(without_id):
    rows = visits(0, 7, [0.5, 1.5], n_queries=6)
    rows[np.isin(rows[:, 3], without_id), 3] = 0
    counts, users = counted(rows)[0], by_user(rows)
    values = query_values(counts, KNOWN, REWARD, pages_of([PAGE] * 6, 3), users=users)
    expected = variance_of_users(rows.tolist(), PAGE, A)
    assert user_variance(values, values.lower) == pytest.approx(max(expected, 0.0), rel=1e-9)
    assert expected > 0
    assert values.user_traffic.sum() == pytest.approx(values.traffic.sum())
    assert np.bincount(values.user_query, values.user_noise) == pytest.approx(np.zeros(6), abs=1e-9)
    halves = [rows[rows[:, 0] % 2 == part] for part in range(2)]
    source = CountsInMemory(
        tuple(counted(half)[0] for half in halves), tuple(by_user(half) for half in halves)
    )
    again = sum_of_buckets(
        query_values, source, ThreadExecutor(1), KNOWN, REWARD, pages_of([PAGE] * 6, 3), name="x"
    )
    keep = again.traffic > 0  # each half numbers the queries of the other half, too
    assert user_variance(again, np.where(keep, again.lower, 0.0)) == pytest.approx(expected)


@pytest.mark.slow
def test_intervals_cover_where_users_come_back():
    """Half of the users never click, the others twice as often; 150 logs of 100 users."""
    covered, n_logs = np.zeros(2), 150
    pages = pages_of([PAGE] * 60, 3)
    for seed in range(n_logs):
        rows = visits(seed, 100, [0.0, 2.0])
        for kind, users in enumerate((None, by_user(rows))):
            values = query_values(counted(rows)[0], KNOWN, REWARD, pages, users=users)
            low, high = off_policy_value(values, KNOWN, "", n_resamples=500).interval
            covered[kind] += low <= 0.25 * sum(A) <= high
    assert covered[0] / n_logs < 0.8
    assert covered[1] / n_logs > 0.95 - 3 * np.sqrt(0.05 * 0.95 / n_logs)


def test_draws_follow_from_the_ids_of_queries():
    keys = query_keys(np.array([f"q{i}" for i in range(20_000)]))
    drawn = list(times_drawn(keys, (3, 5)))
    expected = stats.poisson.pmf(np.arange(6), 1.0)
    for times in drawn:
        share = np.bincount(times.astype(int), minlength=6)[:6] / len(times)
        assert np.abs(share - expected).max() < 4 * np.sqrt(0.25 / len(times))
    assert abs(np.corrcoef(drawn)[np.triu_indices(3, 1)]).max() < 4 / np.sqrt(len(keys))
    for times, some in zip(drawn, times_drawn(keys[::-7], (3, 5)), strict=True):
        assert times[::-7].tolist() == some.tolist()


def harvested(replicates):
    return Propensities(
        origin="harvested",
        curves=(Curve(a=A, b=(0.0,) * 3, a_replicates=tuple(map(tuple, replicates.tolist()))),),
    )


def test_propensities_add_the_variance_of_their_replicates():
    """Independent of the queries, errors add what the derivatives and their covariance say."""
    rows, _ = simulated_rows(1, A, n_queries=400, n_documents=3, sessions=20)
    values = query_values(counts_of(rows, arms="abc"), KNOWN, REWARD, pages_of([PAGE] * 400, 3))
    covariance = np.array([[0, 0, 0], [0, 0.04, 0.03], [0, 0.03, 0.05]]) / 4
    rng = np.random.default_rng(0)
    errors = rng.multivariate_normal(np.zeros(3), covariance, 4_000)
    slopes = values.slopes[0, 0, 0] / values.traffic.sum()
    found = propensity_variance(values, 0, harvested(np.array(A) * np.exp(errors)))
    assert found == pytest.approx(slopes @ covariance @ slopes, rel=0.15)
    wide = off_policy_value(values, harvested(np.array(A) * np.exp(errors)), "")
    narrow = off_policy_value(values, KNOWN, "")
    assert wide.propensity_error == pytest.approx(np.sqrt(found))
    assert wide.standard_error == pytest.approx(np.hypot(narrow.standard_error, np.sqrt(found)))
    assert wide.interval[0] < narrow.interval[0]
    assert narrow.propensity_error == 0.0


@pytest.mark.slow
def test_errors_of_propensities_of_the_same_clicks_are_carried_along():
    """Over 150 logs, the standard error is the spread of the values with harvested propensities.

    All documents are alike, so that queries differ by their clicks only.
    """
    rng, found = np.random.default_rng(0), []
    dcg = parse_reward("dcg@3")
    for _ in range(150):
        rows = [
            (q, d, 0, 0, arm, k + 1, 12, rng.binomial(12, 0.5 * A[k]))
            for q in range(40)
            for arm in range(3)
            for k, d in enumerate(rng.permutation(3))
        ]
        counts = counts_of(rows, arms="abc")
        propensities = harvest_propensities(counts, HarvestRules(n_replicates=60))
        values = query_values(counts, propensities, dcg, pages_of([PAGE] * 40, 3))
        value = off_policy_value(values, propensities, "", n_resamples=100)
        found.append((value.lower, value.standard_error, value.propensity_error))
    means, errors, added = np.array(found).T
    assert np.sqrt((errors**2).mean()) == pytest.approx(means.std(ddof=1), rel=0.15)
    assert np.sqrt((errors**2 - added**2).mean()) < 0.8 * means.std(ddof=1)
