"""Propensities from contrasts: the maximum, what is refused, contexts, trust bias."""

import math
import tracemalloc
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from dranking.clicks.hashes import query_keys
from dranking.clicks.propensities import conditional_poisson
from dranking.clicks.propensities.contrasts import ContrastRules, contrasts_of
from dranking.clicks.propensities.harvest import HarvestRules, harvest_propensities
from dranking.clicks.propensities.propensities import given_propensities
from dranking.clicks.propensities.resampling import times_drawn
from dranking.clicks.store.source import CountsInMemory
from dranking.engine.executor import ThreadExecutor
from dranking.errors import ClickWarning, DataError, UsageError
from tests.clicks.made import counts_of, simulated_rows
from tests.reference.clicks import best_propensities, contrast_groups, drawn_propensities

FEW = {"n_replicates": 20}
ARMS = ("a", "b", "c", "d")


def test_propensities_maximise_the_conditional_likelihood():
    rows, _ = simulated_rows(1, [1.0, 0.5, 0.4, 0.1], n_queries=20, sessions=60)
    found = harvest_propensities(counts_of(rows, arms=ARMS), HarvestRules(**FEW)).curves[0]
    best = best_propensities(contrast_groups(rows), 4)
    np.testing.assert_allclose(found.a, best, rtol=1e-5)
    assert found.n_clicks == sum(c for g in contrast_groups(rows).values() for _, c in g.values())


def test_replicates_are_newton_steps_of_queries_drawn_anew(monkeypatch):
    monkeypatch.setattr(conditional_poisson, "TOGETHER", 7)
    rows, _ = simulated_rows(1, [1.0, 0.5, 0.4, 0.1], n_queries=20, sessions=60)
    parts = [counts_of([r for r in rows if r[0] % 2 == i], arms=ARMS) for i in range(2)]
    found = harvest_propensities(parts, HarvestRules(**FEW)).curves[0]
    keys = query_keys(np.array([f"q{i:05d}" for i in range(20)]))
    drawn = [
        drawn_propensities(contrast_groups(rows), found.a, times)
        for times in times_drawn(keys, (20, 0))
    ]
    np.testing.assert_allclose(found.a_replicates, drawn, rtol=2e-5)  # they have five digits
    # Of 20 replicates, the smallest is the percentile 1/21, the nearest to 2.5 %. Student's t of 19
    # degrees of freedom is 2.093024.
    wider = 2.093024 / 1.959964 * math.sqrt(20 / 19)
    ends = [np.log(find(drawn, axis=0) / found.a) for find in (np.min, np.max)]
    expected = np.array(found.a) * np.exp(wider * np.array(ends))
    np.testing.assert_allclose(np.transpose(found.a_intervals), expected, rtol=1e-5)


def test_single_arms_compare_nothing_unless_they_are_randomised():
    rows, _ = simulated_rows(2, [1.0, 0.6, 0.3], n_queries=60, n_arms=4, sessions=60)
    swapping = [(*row[:4], max(row[4], 2), *row[5:]) for row in rows]  # arms 2 and 3 are one
    swapping = list({row[:6]: row for row in swapping}.values())
    counts = counts_of(swapping, arms=ARMS)
    for randomised in ((), ("c",)):
        rules = HarvestRules(randomised_arms=randomised, **FEW)
        groups = contrast_groups(swapping, randomised=[ARMS.index(arm) for arm in randomised])
        best = best_propensities(groups, 3)
        np.testing.assert_allclose(harvest_propensities(counts, rules).curves[0].a, best, rtol=1e-5)


def test_nights_are_compared_with_a_warning_only_if_asked():
    rows, _ = simulated_rows(3, [1.0, 0.5], n_queries=100, n_arms=2)
    nights = [(*row[:3], row[4], 0, *row[5:]) for row in rows]
    counts = counts_of(nights, arms=("all",), n_nights=2)
    with pytest.raises(UsageError, match=r"have one arm.*--nights-are-arms"):
        harvest_propensities(counts, HarvestRules(**FEW))
    with pytest.warns(ClickWarning, match="Rankers that learn from clicks"):
        found = harvest_propensities(counts, HarvestRules(nights_are_arms=True, **FEW))
    best = best_propensities(contrast_groups(nights, nights_are_arms=True), 2)
    np.testing.assert_allclose(found.curves[0].a, best, rtol=1e-6)
    assert found.nights_are_arms


def test_one_deep_position_asks_for_no_table_as_wide_as_it():
    """A document far below all others is compared with none, and has no row among the contrasts."""
    rows, _ = simulated_rows(3, [1.0, 0.5], n_queries=120, n_arms=2)
    shown = counts_of(rows, arms=("a", "b"))
    deep = 2_000_000_000
    counts = counts_of([*rows, (0, 99, 0, 0, 0, deep, 1, 0)], arms=("a", "b"))
    assert counts.position.max() == deep
    without = replace(counts, sessions=None)
    np.testing.assert_array_equal(without.traffic, replace(shown, sessions=None).traffic)
    with pytest.raises(DataError, match="nothing was shown at position 3 of 2,000,000,000"):
        harvest_propensities(counts, HarvestRules(**FEW))
    found = harvest_propensities(counts, HarvestRules(depth=2, **FEW))
    assert found == harvest_propensities(shown, HarvestRules(**FEW))


def test_contrasts_take_memory_for_documents_that_are_compared():
    """One document of 1,000 was shown at two positions: one row of 10,000, not 1,000 rows."""
    rows = [(0, n, 0, 0, 0, n % 10_000 + 1, 5, 1) for n in range(1_000)]
    rows.append((0, 7, 0, 0, 1, 4_000, 5, 2))
    counts = counts_of(rows, arms=("a", "b"))
    tracemalloc.start()
    found = contrasts_of(counts, ContrastRules(), 10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.impressions.shape == (1, 10_000)
    assert peak < 20e6


@pytest.mark.parametrize("position", [0, -1, 1 << 32, (1 << 32) + 1])
def test_positions_that_no_list_has_are_refused(position):
    """Beyond 32 bits, a position would be read as one of another context."""
    rows, _ = simulated_rows(3, [1.0, 0.5], n_queries=20, n_arms=2)
    counts = counts_of(rows, arms=("a", "b"))
    wrong = counts.position.copy()
    wrong[7] = position
    with pytest.raises(DataError, match=f"row 7 of the counts has position {position}; .* is 1"):
        harvest_propensities(replace(counts, position=wrong), HarvestRules(**FEW))


def test_a_gap_between_positions_is_refused_by_name():
    rows = [
        *[(q, 0, 0, 0, arm, 1 + arm, 50, 20) for q in range(20) for arm in range(2)],
        *[(q, 1, 0, 0, arm, 3 + arm, 50, 10) for q in range(20) for arm in range(2)],
    ]
    with pytest.raises(DataError, match="both at positions 1 to 2 and at positions 3 to 4"):
        harvest_propensities(counts_of(rows), HarvestRules(**FEW))
    rules = HarvestRules(depth=2, **FEW)
    assert harvest_propensities(counts_of(rows), rules).curves[0].a == pytest.approx((1.0, 1.0))


def test_a_position_without_clicks_is_refused_by_name():
    rows = [(q, 0, 0, 0, arm, 1 + arm, 50, 20 * (arm == 0)) for q in range(3) for arm in range(2)]
    with pytest.raises(DataError, match="too few clicks at position 2 "):
        harvest_propensities(counts_of(rows), HarvestRules(**FEW))


def test_contexts_have_curves_of_their_own_where_clicks_are_many():
    desk, _ = simulated_rows(4, [1.0, 0.8, 0.6], n_queries=40, sessions=400)
    phone, _ = simulated_rows(5, [1.0, 0.3, 0.1], n_queries=40, sessions=400)
    thin, _ = simulated_rows(6, [1.0, 0.5, 0.5], n_queries=2, sessions=50)
    rows = [
        (*row[:2], context, *row[3:])
        for context, some in enumerate((desk, phone, thin))
        for row in some
    ]
    counts = counts_of(rows, contexts=("desk", "phone", "tv"), arms=ARMS)
    with pytest.warns(ClickWarning, match=r"curve of all contexts: 'tv' \(\d+ clicks in its con"):
        found = harvest_propensities(counts, HarvestRules(**FEW))
    assert [curve.context for curve in found.curves] == [None, "desk", "phone"]
    for curve, own in zip(found.curves[1:], (desk, phone), strict=True):
        np.testing.assert_allclose(curve.a, best_propensities(contrast_groups(own), 3), rtol=1e-5)
    a, b = found.affine(("tv", "phone"), np.array([0, 1, 1]), np.array([2, 2, 4]))
    np.testing.assert_array_equal(a, [found.curves[0].a[1], found.curves[2].a[1], np.nan])
    np.testing.assert_array_equal(b, [0, 0, np.nan])


@pytest.mark.parametrize("trust_bias", [False, True])
def test_contexts_have_curves_as_deep_as_their_own_positions(trust_bias):
    """A phone shows three positions, a watch one, and a desk five."""
    slopes = ([1.0, 0.5, 0.3, 0.2, 0.2], [1.0, 0.8, 0.7], [1.0])
    parts = [
        simulated_rows(seed, a, n_queries=60, sessions=2000)[0] for seed, a in enumerate(slopes)
    ]
    rows = [(*row[:2], x, *row[3:]) for x, some in enumerate(parts) for row in some]
    counts = counts_of(rows, contexts=("desk", "phone", "watch"), arms=ARMS)
    rules = HarvestRules(trust_bias=trust_bias, **FEW)
    found = harvest_propensities(counts, rules)
    assert [(curve.context, len(curve.a)) for curve in found.curves] == [
        (None, 5),
        ("desk", 5),
        ("phone", 3),
    ]
    phone = found.curves[2]
    if trust_bias:
        assert phone.a == pytest.approx(slopes[1], abs=0.05)
    else:
        best = best_propensities(contrast_groups(parts[1]), 3)
        np.testing.assert_allclose(phone.a, best, rtol=1e-5)
    cut = harvest_propensities(counts, HarvestRules(depth=2, contexts=False, **FEW))
    assert [len(curve.a) for curve in cut.curves] == [2]


def test_contexts_that_join_no_positions_are_named():
    """On the phone, documents stand at positions 1 and 2 or at 3 and 4, always."""
    desk, _ = simulated_rows(4, [1.0, 0.8, 0.6, 0.5], n_queries=40, sessions=400)
    phone = [
        (q, d, 1, 0, arm, 2 * d + 1 + arm, 100, 40)
        for q in range(40)
        for d in range(2)
        for arm in range(2)
    ]
    counts = counts_of(desk + phone, contexts=("desk", "phone"), arms=ARMS)
    with pytest.warns(ClickWarning, match=r"'phone' \(no document .* 1 to 2 and at positions 3"):
        found = harvest_propensities(counts, HarvestRules(**FEW))
    assert [curve.context for curve in found.curves] == [None, "desk"]


def test_buckets_and_threads_change_no_bit():
    rows, _ = simulated_rows(7, [1.0, 0.5, 0.3], n_queries=30)
    split = [counts_of([r for r in rows if r[0] % 4 == i], arms=ARMS) for i in range(4)]
    runs = [
        harvest_propensities(split, HarvestRules(**FEW), executor=ThreadExecutor(n)) for n in (1, 2)
    ]
    assert runs[0] == runs[1]
    whole = harvest_propensities(CountsInMemory((counts_of(rows, arms=ARMS),)), HarvestRules(**FEW))
    np.testing.assert_allclose(whole.curves[0].a, runs[0].curves[0].a, rtol=1e-9)


def test_a_pair_without_spread_in_a_replicate_says_nothing_there():
    """In some of 400 replicates of this small log, noise takes all spread of a pair."""
    rng, slopes, trust = np.random.default_rng(2), (1.0, 0.6, 0.4), (0.0, 0.05, 0.1)
    relevance = rng.choice([0.05, 0.6], (30, 3))
    rows = [
        (q, d, 0, 0, arm, k + 1, 8, rng.binomial(8, slopes[k] * relevance[q, d] + trust[k]))
        for q in range(30)
        for arm in range(3)
        for k, d in enumerate(rng.permutation(3))
    ]
    counts = counts_of(rows, arms=ARMS[:3])
    found = harvest_propensities(counts, HarvestRules(trust_bias=True)).curves[0]
    replicates = np.array(found.a_replicates)
    assert replicates.shape == (400, 3)
    assert np.log(replicates).std(axis=0).max() < 2


def test_one_position_is_looked_at_and_trusted_as_itself():
    rows, _ = simulated_rows(9, [1.0, 0.5], n_queries=20, n_arms=2)
    rules = HarvestRules(trust_bias=True, depth=1, n_replicates=3)
    found = harvest_propensities(counts_of(rows), rules).curves[0]
    assert (found.a, found.b) == ((1.0,), (0.0,))
    assert (found.a_intervals, found.b_intervals) == (((1.0, 1.0),), ((0.0, 0.0),))
    assert (found.a_replicates, found.b_replicates) == (((1.0,),) * 3, ((0.0,),) * 3)


@pytest.mark.parametrize("n_queries", [19, 20])
def test_few_queries_are_said(n_queries):
    """Queries without clicks, or of another context with enough of its own, do not count."""
    rows = [
        (q, 0, 0, 0, arm, 1 + arm, 90, 60 // (1 + arm)) for q in range(n_queries) for arm in (0, 1)
    ]
    rows += [(n_queries, 0, 0, 0, arm, 1 + arm, 9, 0) for arm in range(2)]
    few = n_queries < 20
    context = pytest.warns(ClickWarning, match="of all contexts rest on 19 queries")
    with context if few else nullcontext():
        harvest_propensities(counts_of(rows, arms=ARMS), HarvestRules(**FEW))
    phone = [(q + more, d, 1, *rest) for more in (21, 42) for q, d, _, *rest in rows]
    context = pytest.warns(ClickWarning, match="of context 'desk' rest on 19 queries")
    with context if few else nullcontext():
        counts = counts_of(rows + phone, contexts=("desk", "phone"), arms=ARMS)
        harvest_propensities(counts, HarvestRules(**FEW))


def test_trust_bias_is_found_where_relevance_differs():
    slopes, trust = np.array([0.9, 0.5, 0.3]), np.array([0.1, 0.06, 0.01])
    rows, _ = simulated_rows(8, slopes, b=trust, n_queries=300, n_documents=4, sessions=2000)
    rules = HarvestRules(trust_bias=True, n_replicates=100)
    found = harvest_propensities(counts_of(rows, arms=ARMS), rules).curves[0]
    true = given_propensities(slopes, trust).curves[0]
    for name in ("a", "b"):
        for value, expected, (low, high) in zip(
            getattr(found, name),
            getattr(true, name),
            getattr(found, f"{name}_intervals"),
            strict=True,
        ):
            assert low - 0.004 <= expected <= high + 0.004
            assert value == pytest.approx(expected, abs=0.02)
    alike = [(*row[:6], 100, 30 // row[5]) for row in rows]
    with pytest.raises(DataError, match="trust bias at position 2"):
        harvest_propensities(counts_of(alike, arms=ARMS), rules)


@pytest.mark.exhaustive
def test_intervals_hold_the_propensities_as_often_as_they_say():
    true = 1 / np.arange(1, 6)
    held = []
    for seed in range(2_000):
        rows, _ = simulated_rows(seed, true, sessions=70)
        rules = HarvestRules(seed=seed)
        curve = harvest_propensities(counts_of(rows, arms=ARMS), rules).curves[0]
        low, high = np.array(curve.a_intervals).T
        held.append((low <= true)[1:] & (true <= high)[1:])
    assert 0.93 <= np.mean(held) <= 0.97
