"""Bounds against values by hand, against each other, and where factorials overflow."""

import math
from dataclasses import replace

import pytest

from dranking.max_margin.bounds.formulas import (
    BoundConstants,
    ListCase,
    PairCase,
    largest_map_norm,
    list_bound,
    pair_bound,
)
from dranking.max_margin.bounds.sizes import log_choose

# n = 800 and delta = 2 / e^4 make the square root sqrt(8 * 4 / 800) = 0.2.
CONSTANTS = BoundConstants(n_queries=800, delta=2 / math.e**4, norm=2.0, feature_norm=0.5)
ROOT = math.sqrt(800)

FULL = PairCase("theorem 3", "full pairwise", n_pairs=6, largest_margin=3, total_margin=13)
TWO_LEVELS = PairCase("corollary 1", "multipartite", 6, 1, 6)
BIPARTITE = PairCase("corollary 2", "bipartite", 6, 1, 6)
LISTS = ListCase("theorem 4", "listwise", "1 - AP", lengths=(2, 4), log_classes=math.log(24))
CLASSES = ListCase("corollary 3", "listwise AP", "1 - AP", (2, 4), math.log(6))


def exp_of(bound):
    return math.exp(bound.log_complexity), math.exp(bound.log_deviation)


def test_theorem_3_by_hand():
    """m = 4: N = 6, K = 3; 6 * 4 * 2 * 0.5 / sqrt(800), 6 * (3 + 2) * 0.2."""
    printed = pair_bound(FULL, 1.25, CONSTANTS, "printed")
    assert exp_of(printed) == pytest.approx((24 / ROOT, 6.0))
    assert printed.value == pytest.approx(1.25 + 24 / ROOT + 6.0)
    assert printed.is_vacuous  # 8.1 is not below the six pairs there are
    weighted = pair_bound(FULL, 1.25, CONSTANTS, "weighted")
    assert weighted.value == printed.value
    assert not weighted.is_vacuous  # but below the margins' sum, 13
    assert weighted.risk != printed.risk
    scaled = pair_bound(FULL, 1.25, CONSTANTS, "scaled")
    assert scaled.value == pytest.approx(3 * printed.value)


def test_bipartite_is_multipartite_with_two_levels():
    for version in ("printed", "weighted", "scaled"):
        a, b = (pair_bound(case, 2.0, CONSTANTS, version) for case in (TWO_LEVELS, BIPARTITE))
        assert replace(a, statement="", case="") == replace(b, statement="", case="")
        # Margins are all 1: the three versions say the same.
        assert a.value == pair_bound(BIPARTITE, 2.0, CONSTANTS, "printed").value


def test_theorem_4_and_corollary_3_by_hand():
    """m = 4 documents, 2 relevant: m! = 24, C = 6; lists of 2 have c = 2."""
    printed = list_bound(LISTS, 0.75, CONSTANTS, "printed")
    assert exp_of(printed) == pytest.approx((24 * 4 / ROOT, 24 * (1 + 2) * 0.2))
    corrected = list_bound(LISTS, 0.75, CONSTANTS, "corrected")
    assert exp_of(corrected) == pytest.approx((24 * 8 / ROOT, 24 * (1 + 4) * 0.2))
    printed = list_bound(CLASSES, 0.75, CONSTANTS, "printed")
    assert exp_of(printed) == pytest.approx((6 * 4 / ROOT, 6 * (1 + 2) * 0.2))
    corrected = list_bound(CLASSES, 0.75, CONSTANTS, "corrected")
    assert exp_of(corrected) == pytest.approx((24 * 8 / ROOT, 6 * (1 + 4) * 0.2))
    assert corrected.is_vacuous
    assert corrected.value == pytest.approx(0.75 + 192 / ROOT + 6)


def test_argmax_form_by_hand():
    union = list_bound(LISTS, 0.5, CONSTANTS, "union")
    assert exp_of(union) == pytest.approx((24 * 8 / ROOT, (1 + 4) * 0.2))
    contraction = list_bound(LISTS, 0.5, CONSTANTS, "contraction")
    # The slope for lists of 2 is sqrt(16 * 3 / 3) = 4: 2 sqrt(2) * 2 * 0.5 * 4 = 8 sqrt(2).
    assert exp_of(contraction) == pytest.approx((8 * math.sqrt(2) / ROOT, 1.0))
    assert contraction.value == pytest.approx(0.5 + 0.4 + 1.0)


@pytest.mark.parametrize(
    ("least", "expected"), [(2, 2.0), (3, 4 / 3), (4, 4 / 3), (5, 6 / 5), (10_000, 10_000 / 9_999)]
)
def test_norm_of_the_joint_map(least, expected):
    assert largest_map_norm(least) == pytest.approx(expected)


@pytest.mark.parametrize("n", range(2, 9))
def test_norm_of_the_joint_map_is_reached(n):
    """phi_i = +-M, best at the top: 2/(n(n-1)) sum |n + 1 - 2 rank| M; no longer list exceeds it.

    Neither is the slope of the contraction exceeded: the largest |y - pi| is that of a reversal.
    """
    norms = [
        2 / (m * (m - 1)) * sum(abs(m + 1 - 2 * rank) for rank in range(1, m + 1))
        for m in range(n, 40)
    ]
    assert max(norms) == pytest.approx(largest_map_norm(n))
    slopes = []
    for m in range(n, 40):
        reversal = math.sqrt(sum((m + 1 - 2 * rank) ** 2 for rank in range(1, m + 1)))
        slopes.append(4 / (m * (m - 1)) * reversal * math.sqrt(m))
    term = math.exp(BoundConstants(1, 0.5, 1.0, 1.0).log_contraction(n))
    assert 2 * math.sqrt(2) * max(slopes) == pytest.approx(term)


def test_ten_thousand_documents_are_finite():
    lists = replace(LISTS, lengths=(10_000, 10_000), log_classes=math.lgamma(10_001))
    classes = replace(lists, log_classes=log_choose(10_000, 300))
    for bound in (
        list_bound(lists, None, CONSTANTS, "corrected"),
        list_bound(lists, None, CONSTANTS, "printed"),
        list_bound(classes, None, CONSTANTS, "corrected"),
        list_bound(lists, 0.5, CONSTANTS, "union"),
    ):
        assert math.isfinite(bound.log_value)
        assert bound.is_vacuous
        assert bound.value == math.inf
        assert bound.as_json()["log10_value"] > 300
    # Stirling: log10 of 10,000! is 35,659.45.
    assert list_bound(lists, None, CONSTANTS, "corrected").log_terms / math.log(
        10
    ) == pytest.approx(35_659.45, 1e-6)
    contraction = list_bound(lists, 0.5, CONSTANTS, "contraction")
    assert contraction.value < 3
    big = PairCase("theorem 3", "full pairwise", 10_000 * 9_999 / 2, 9_999.0, 1e9)
    assert math.isfinite(pair_bound(big, 1e6, CONSTANTS, "scaled").value)


@pytest.mark.parametrize(
    "bound",
    [
        pair_bound(FULL, 1.25, CONSTANTS, "printed"),
        pair_bound(FULL, 1.25, CONSTANTS, "weighted"),
        pair_bound(FULL, 0.25, CONSTANTS, "scaled"),
        list_bound(CLASSES, 0.5, CONSTANTS, "corrected"),
        list_bound(LISTS, 0.45, CONSTANTS, "contraction"),
    ],
    ids=lambda bound: f"{bound.case} {bound.version}",
)
def test_queries_needed_is_where_it_stops_being_vacuous(bound):
    needed = bound.queries_needed
    for n, vacuous in ((needed - 1, True), (needed, False)):
        shift = 0.5 * (math.log(CONSTANTS.n_queries) - math.log(n))
        there = replace(
            bound,
            log_complexity=bound.log_complexity + shift,
            log_deviation=bound.log_deviation + shift,
        )
        assert there.is_vacuous == vacuous


def test_no_number_of_queries_is_enough():
    assert pair_bound(FULL, 6.0, CONSTANTS, "printed").queries_needed is None
    assert pair_bound(FULL, 2.0, CONSTANTS, "scaled").queries_needed is None
    assert list_bound(LISTS, None, CONSTANTS, "corrected").queries_needed is None
    assert list_bound(LISTS, None, CONSTANTS, "corrected").as_json()["value"] is None


def test_a_model_of_zeros_has_no_complexity():
    bound = pair_bound(BIPARTITE, 6.0, replace(CONSTANTS, norm=0.0), "weighted")
    assert bound.log_complexity == -math.inf
    assert bound.value == pytest.approx(6.0 + 6 * 1 * 0.2)
