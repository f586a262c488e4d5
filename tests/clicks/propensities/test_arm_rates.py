"""Rates of arms in the same cells: the sums, what is refused, and what is warned of."""

import math
import tracemalloc
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from dranking.clicks.counts import ClickCounts, UserCounts
from dranking.clicks.propensities.arm_rates import arm_sums, check_rates, user_parts
from dranking.clicks.propensities.contrasts import ContrastRules
from dranking.clicks.propensities.harvest import HarvestRules, harvest_propensities
from dranking.clicks.propensities.user_scores import excess_of_users, squares_of_users
from dranking.clicks.store.source import CountsInMemory, user_tasks
from dranking.engine.executor import ThreadExecutor
from dranking.errors import ClickWarning, DataError, UsageError
from tests.clicks.made import counts_of, simulated_rows
from tests.clicks.made_visits import visits
from tests.reference.clicks import (
    arm_comparison,
    best_propensities,
    contrast_groups,
    fair_cells,
    user_excess_of_arm,
)

RUN = ThreadExecutor(2)
FEW = HarvestRules(n_replicates=20)


def drawn_rows(seed, ratio=1.0, n=60, n_queries=6):
    """Arms 0 (without a name) to 3 show documents near their own position; arm 2 clicks more."""
    rng = np.random.default_rng(seed)
    rows = {}
    for q, d, x, night, arm in np.ndindex(n_queries, 4, 2, 2, 4):
        for _ in range(1 + (rng.random() < 0.1)):
            k = 1 + (d + rng.integers(0, 2)) % 3
            clicks = rng.binomial(n, 0.3 * (ratio if arm == 2 and k > 1 else 1))
            rows[q, d, x, night, arm, k] = (q, d, x, night, arm, k, n, int(clicks))
    return list(rows.values())


def source_of(rows, n_parts=1):
    parts = [[row for row in rows if row[0] % n_parts == part] for part in range(n_parts)]
    names = {"contexts": ("", "x"), "arms": ("", "a", "b", "c"), "n_nights": 2}
    return CountsInMemory(tuple(counts_of(part, **names) for part in parts))


@pytest.mark.parametrize("n_parts", [1, 3])
def test_sums_over_cells_are_those_of_plain_loops(n_parts):
    rows = drawn_rows(0)
    rules = ContrastRules(randomised_arms=("c",))
    found = arm_sums(source_of(rows, n_parts), rules, ("a", "b", "c"), 3, RUN)
    cells = fair_cells(rows, randomised=(3,), unnamed=(0,))
    for arm in range(3):
        for position in range(4):
            at = (position,) if position else (2, 3)
            expected = arm_comparison(cells, arm + 1, at)
            np.testing.assert_allclose([each[arm, position] for each in found], expected)
    assert (found.information[:, 1:] > 0).all()


@pytest.mark.parametrize(
    ("ratio", "refused", "warned"),
    [(0.75, 1, 1), (0.89, 0, 1), (1.0, 0, 0), (1.1, 0, 1), (1.4, 1, 1)],
)
def test_arms_are_refused_beyond_a_tenth_and_a_99_percent_interval(ratio, refused, warned):
    rows = drawn_rows(1, ratio, n=300, n_queries=16)
    cells = fair_cells(rows, unnamed=(0,))
    kinds = [(arm, at) for arm in (1, 2, 3) for at in ((1,), (2,), (3,), (2, 3))]
    critical = NormalDist().inv_cdf(1 - 0.005 / len(kinds))

    def largest(rho):
        """The largest and the smallest standardised difference from a ratio of rho."""
        scores = []
        for arm, at in kinds:
            r, s, rr, rs, ss, m = arm_comparison(cells, arm, at)
            variance = max(rr - 2 * rho * rs + rho * rho * ss, rho * m)
            scores.append((r - rho * s) / math.sqrt(variance))
        return max(scores), min(scores)

    assert refused == (largest(1.1)[0] > critical or largest(1 / 1.1)[1] < -critical)
    assert warned == (max(largest(1.0)[0], -largest(1.0)[1]) > critical)
    arguments = (source_of(rows, 2), ContrastRules(), ["c", "b", "a"], 3, RUN)
    if refused:
        with pytest.raises(DataError, match=r"arm 'b' gets .*not assigned to arms .* cascades"):
            check_rates(*arguments)
    else:
        found = check_rates(*arguments)
        assert len(found) == warned
        assert not warned or "'b'" in found[0]


def test_patient_users_in_one_arm_are_refused():
    """Arm b looks at position k with probability k^-.5 and not 1 / k."""
    rows, _ = simulated_rows(1, 1 / np.arange(1, 6), n_arms=2, sessions=400)
    patient = [(*row[:4], 2, *row[5:7], round(row[7] * row[5] ** 0.5)) for row in rows if row[4]]
    rows += patient
    with pytest.raises(DataError, match=r"arm '[bc]' gets .*patient users, for example.*--table"):
        harvest_propensities(counts_of(rows, arms=("a", "b", "c")), FEW)


def test_smaller_differences_are_warned_of():
    """600 clicks of 10,000 and 640 of 10,000 at position 2, in each of 40 queries."""
    both = [(q, arm) for q in range(40) for arm in range(2)]
    rows = [(q, 0, 0, 0, arm, 2, 10_000, 600 + 40 * arm) for q, arm in both]
    rows += [(q, 1, 0, 0, arm, 1 + arm, 1000, 100 // (1 + arm)) for q, arm in both]
    with pytest.warns(ClickWarning, match=r"arm 'a' gets 0.938 times .* below position 1: .*stop"):
        found = harvest_propensities(counts_of(rows), FEW)
    assert found.curves[0].a == pytest.approx((1.0, 0.5))


def test_a_randomised_arm_without_a_name_is_compared_too():
    """Rows without an arm are no arm, unless the caller says that they swap at random."""
    rows = [(q, 0, 0, 0, arm, 1, 1000, 100 + 50 * arm) for q in range(40) for arm in range(2)]
    rows += [(q, 1, 0, 0, 0, k, 900, 90) for q in range(40) for k in (1, 2)]
    counts = counts_of(rows, arms=("", "a"))
    with pytest.raises(DataError, match=r"arm '' gets 0.667 times .* at position 1"):
        harvest_propensities(counts, replace(FEW, randomised_arms=("",)))
    with pytest.raises(UsageError, match="there is no arm 'b'; there are a"):
        harvest_propensities(counts, replace(FEW, randomised_arms=("b",)))


def test_few_clicks_say_nothing_of_arms():
    rows = [(q, 0, 0, 0, arm, 1, 100, arm) for q in range(38) for arm in range(2)]
    assert check_rates(source_of(rows), ContrastRules(), ["", "a"], 1, RUN) == []
    assert check_rates(source_of(rows), ContrastRules(), ["a"], 1, RUN) == []


def counts_by(keys, clicked):
    """Counts of impressions with these keys: query, document, arm, position, and perhaps user."""
    cells, row = np.unique(keys, axis=0, return_inverse=True)
    n = np.bincount(row.ravel())
    zeros = np.zeros(len(n), np.int64)
    names = ("query", "document", "arm", "position")
    return ClickCounts(
        query_ids=np.array([f"q{i:05d}" for i in range(keys[:, 0].max() + 1)]),
        document_ids=np.array([f"d{i:05d}" for i in range(keys[:, 1].max() + 1)]),
        contexts=("",),
        arms=("a", "b"),
        nights=np.array(["2026-01-01"], "datetime64[D]"),
        context=zeros,
        night=zeros,
        impressions=n,
        clicks=np.bincount(row.ravel(), clicked).astype(np.int64),
        **{name: np.ascontiguousarray(cells[:, i]) for i, name in enumerate(names)},
    ), cells[:, -1].astype(np.uint64)


def with_users(keys, clicked, n_parts=1):
    """The counts of impressions, and those by user, in buckets of every n-th query."""
    chosen = [keys[:, 0] % n_parts == part for part in range(n_parts)]
    return CountsInMemory(
        tuple(counts_by(keys[rows, :4], clicked[rows])[0] for rows in chosen),
        tuple(UserCounts(*counts_by(keys[rows], clicked[rows])) for rows in chosen),
    )


@pytest.mark.parametrize("n_parts", [1, 2])
def test_users_who_come_back_add_the_products_of_their_parts(n_parts):
    rng = np.random.default_rng(3)
    keys = rng.integers(0, [7, 3, 2, 1, 6], (3_000, 5))  # user 0 has no id
    keys[:, 3] = 1 + (keys[:, 1] + keys[:, 2] * (keys[:, 0] % 2)) % 3  # one position an arm
    clicked = rng.random(len(keys)) < 0.1 * keys[:, 4]
    source = with_users(keys, clicked, n_parts)
    tasks = user_tasks(user_parts, source, RUN, ContrastRules(), ("a", "b"), 3, name="users")
    found = excess_of_users(tasks, squares_of_users, RUN).reshape(2, 4)
    listed = np.column_stack([keys, np.ones(len(keys), int), clicked]).tolist()
    for arm in range(2):
        for position in range(4):
            at = (position,) if position else (2, 3)
            expected = user_excess_of_arm(listed, arm, at)
            assert found[arm, position] == pytest.approx(expected, abs=1e-9)
    assert np.abs(found).max() > 1


def test_memory_does_not_grow_with_pairs_of_queries_and_users_times_positions():
    """An array of pairs x arms x positions took 4.4 MB here, and 530 MB for a million pairs."""
    rng, n = np.random.default_rng(4), 4_000
    query, user = np.arange(n) // 10, 1 + np.arange(n) % 10
    keys = np.column_stack([query, *rng.integers(0, 2, (2, n)), rng.integers(1, 3, n), user])
    (users,) = with_users(keys, rng.random(n) < 0.3).by_user
    user_parts(users, ContrastRules(), ("a", "b"), 100)
    tracemalloc.start()
    user_parts(users, ContrastRules(), ("a", "b"), 100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6


def test_arms_assigned_by_user_may_differ_by_chance_and_users_tell():
    """100 users, half of whom click three times as often, at other depths; 10 logs."""
    rules, found = ContrastRules(randomised_arms=("a", "b")), ([], [])
    for seed in range(10):
        rows = visits(seed, 100, [0.5, 1.5], n_visits=60, below=(0.4, 1.6))
        arm = np.random.default_rng([seed, 9]).integers(0, 2, 101)[rows[:, 3]]
        source = with_users(np.insert(rows[:, :4], 2, arm, axis=1), rows[:, 4])
        for kind, clicks in enumerate((CountsInMemory(source.parts), source)):
            try:
                found[kind].extend(check_rates(clicks, rules, ["a", "b"], 3, RUN))
            except DataError as error:
                found[kind].append(str(error))
    assert len(found[0]) >= 2
    assert all("can also differ by chance" in message for message in found[0])
    assert not found[1]


def test_rows_without_an_arm_are_no_arm():
    rows, _ = simulated_rows(4, [1.0, 0.5, 0.3], n_queries=40, n_arms=3)
    found = harvest_propensities(counts_of(rows, arms=("", "a", "b")), FEW).curves[0]
    named = [row for row in rows if row[4]]
    np.testing.assert_allclose(found.a, best_propensities(contrast_groups(named), 3), rtol=1e-5)
    two = [row for row in rows if row[4] < 2]
    with pytest.raises(UsageError, match="the clicks have one arm"):
        harvest_propensities(counts_of(two, arms=("", "a")), FEW)
    with pytest.raises(UsageError, match="the clicks have no arm"):
        harvest_propensities(counts_of([row for row in rows if not row[4]], arms=("",)), FEW)
    nights = [(*row[:3], row[4], 0, *row[5:]) for row in rows]
    with pytest.warns(ClickWarning, match="nights are compared"):
        found = harvest_propensities(
            counts_of(nights, arms=("",), n_nights=3), replace(FEW, nights_are_arms=True)
        )
    expected = best_propensities(contrast_groups(nights, nights_are_arms=True), 3)
    np.testing.assert_allclose(found.curves[0].a, expected, rtol=1e-5)
