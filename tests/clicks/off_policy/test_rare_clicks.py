"""Lower ends of values with rare clicks: plain loops, all outcomes, and logs of equal rankers."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dranking.clicks.off_policy.off_policy import query_values
from dranking.clicks.off_policy.off_policy_value import off_policy_value
from dranking.clicks.off_policy.rare_clicks import end_of_bets, lower_end
from dranking.clicks.off_policy.rewards import parse_reward
from dranking.clicks.propensities.propensities import given_propensities
from tests.clicks.made import counts_of
from tests.clicks.off_policy.test_off_policy import BIASED, A, B, pages_of, rows_of_query
from tests.reference import off_policy as plain

LEVEL = 0.05
DOCUMENTS = st.lists(
    st.tuples(
        st.floats(-20, 20),
        st.integers(0, 40),
        st.floats(0, 5),
        st.floats(1, 100),
    ),
    min_size=1,
    max_size=5,
)


@given(documents=DOCUMENTS, constant=st.floats(-50, 50), level=st.floats(1e-6, 0.5))
def test_the_end_is_where_plain_capital_is_that_of_the_level(documents, constant, level):
    per_click, clicks, by_trust, examined = (
        np.array(each) for each in zip(*documents, strict=True)
    )
    found = end_of_bets(per_click, clicks, by_trust, examined, constant, 100.0, level)
    expected = plain.end_of_bets(documents, constant, 100.0, level)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)
    both = np.stack([clicks, clicks + 1])
    again = end_of_bets(per_click, both, by_trust, examined, constant, 100.0, level)
    assert again[0] == pytest.approx(float(found), rel=1e-12)


@pytest.mark.parametrize("relevance", [(0.5, 0.5), (0.04, 0.04), (0.01, 0.01), (1.0, 1.0)])
def test_no_more_than_the_level_of_all_outcomes_lie_above_the_mean(relevance):
    """Two documents: one shown 30 times at position 1, and one 30 times where 1 in 10 looks."""
    n, looks, per_click = 30, (1.0, 0.1), np.array([0.9, -9.0])
    outcomes = np.array(list(product(range(n + 1), repeat=2)))
    chances = np.prod(
        [stats.binom.pmf(outcomes[:, i], n, looks[i] * relevance[i]) for i in range(2)], axis=0
    )
    examined = n * np.array(looks)
    ends = end_of_bets(per_click, outcomes, np.zeros(2), examined, 0.0, float(n), LEVEL)
    mean = 0.9 * (relevance[0] - relevance[1])
    assert chances @ (ends > mean) <= LEVEL
    capital = [
        plain.capital_against(
            mean, [(w, c, 0.0, e) for w, c, e in zip(per_click, row, examined, strict=True)], 0.0, n
        )
        for row in outcomes
    ]
    assert chances @ capital <= 1.0 + 1e-12


def test_a_click_that_leaves_a_tenth_is_bet_on():
    """1 - .9 lies below .1 in floating point."""
    rest = np.array([2]), np.zeros(1), np.array([50.0]), 0.0, 100.0, LEVEL
    exact, beside = (float(end_of_bets(np.array([w]), *rest)) for w in (-1.0, 1e-12 - 1.0))
    assert exact == pytest.approx(beside, abs=1e-9)


@pytest.mark.parametrize(("reward", "n_rankers"), [("dcg@3", 2), ("clicks@3", 2), ("clicks@3", 1)])
def test_the_end_has_every_document_that_differs(reward, n_rankers):
    """Trust bias, and a document that is not covered, against plain loops over documents.

    Clicks by trust on the pages of one ranker are the part of its value that no click enters.
    """
    rng = np.random.default_rng(2)
    orders = [[rng.permutation(7).tolist() for _ in range(25)] for _ in range(2)]
    rows = [
        (q, d, 0, 0, 0, k + 1, n, rng.binomial(n, 0.3 * A[k] + B[k]))
        for q in range(25)
        for k, d in enumerate(rng.permutation(6)[:4])
        for n in [int(rng.integers(5, 60))]
    ]
    pages = [pages_of(each) for each in orders[:n_rankers]]
    found = query_values(counts_of(rows), BIASED, parse_reward(reward), *pages)
    values = A[:3] if reward == "clicks@3" else [1 / np.log2(i + 2) for i in range(3)]
    documents, total, by_trust = [], 0.0, 0.0
    for query, (page, other) in enumerate(zip(*orders, strict=True)):
        own = rows_of_query(rows, query)
        traffic = max(n for _, _, n, _ in own)
        pair = page[:3], other[:3] if n_rankers == 2 else [], own, A, B, values
        total += traffic * plain.ends_of_difference(*pair)[0]
        documents += plain.documents_of_difference(*pair, traffic)
        by_trust += traffic * sum(B[:3]) * (n_rankers == 1)
    constant = total - sum(w * (c - b) for w, c, b, _ in documents) + by_trust
    assert len(found.per_click) == len(documents) > 40
    value = off_policy_value(found, BIASED, "x", confidence=0.9, least_covered=0.0)
    expected = plain.end_of_bets(documents, constant, float(found.traffic.sum()), LEVEL)
    of_clicks = sum(w * w * c for w, c, _, _ in documents) / found.traffic.sum() ** 2
    others = (value.lower - value.interval[0]) * np.sqrt(
        max(1 - of_clicks / value.standard_error**2, 0)
    )
    assert lower_end(found, value, LEVEL) == pytest.approx(
        value.lower - np.hypot(value.lower - expected, others)
    )


def test_rare_clicks_for_the_champion_hold_the_level():
    """Equal rankers; what the champion shows first was seen where one user in ten looks.

    The interval over queries breaks its level, since most logs have no click there.
    """
    known, reward = given_propensities([1.0, 0.1]), parse_reward("clicks@1")
    pages = [pages_of([order] * 40, 1) for order in ([0], [1])]
    rng, above = np.random.default_rng(0), np.zeros(2)
    for _ in range(200):
        clicks = rng.binomial(100, np.array([0.005, 0.0005]), size=(40, 2))
        rows = [(q, d, 0, 0, 0, d + 1, 100, clicks[q, d]) for q in range(40) for d in (0, 1)]
        found = query_values(counts_of(rows), known, reward, *pages)
        value = off_policy_value(found, known, "x", confidence=1 - 2 * LEVEL, n_resamples=200)
        above += [value.interval[0] > 0, lower_end(found, value, LEVEL) > 0]
    assert above[1] <= LEVEL * 200 < 2 * LEVEL * 200 < above[0]
