"""Pairs: the tables say exactly the distribution of the listed pairs, and draws follow them."""

import sys

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import stats

import dranking as dr
from dranking.pairwise.kernels.alias_table import build_alias_table
from dranking.pairwise.pairs import (
    PairRule,
    PairStreams,
    labelled_pairs,
    squared_differences,
    unlabelled_pairs,
)
from tests.kernels.compiled import COMPILED
from tests.models.problems import random_problem, ranking_problems
from tests.reference import pairs as reference

RULES = [PairRule(b, p) for b in ("pairs", "queries") for p in ("equal", "dcg")]


def slot_probabilities(accept, alias):
    """What drawing a slot uniformly, then it or its alias, gives each slot."""
    n, accept = len(accept), np.minimum(accept, 1.0)
    probabilities = np.zeros(n)
    for slot in range(n):
        probabilities[slot] += accept[slot] / n
        probabilities[alias[slot]] += (1 - accept[slot]) / n
    return probabilities


def pair_probabilities(table):
    """{(first, partner): probability}, read off the table."""
    found = {}
    slots = slot_probabilities(table.accept, table.alias)
    for i, probability in enumerate(slots):
        for j in range(table.first[i], table.last[i]):
            pair = int(table.rows[table.slots[i]]), int(table.rows[j])
            found[pair] = probability / (table.last[i] - table.first[i])
    return found


def assert_same_distribution(found, expected):
    assert found.keys() == expected.keys()
    for pair, probability in expected.items():
        assert found[pair] == pytest.approx(probability, rel=1e-9, abs=1e-14)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60))
def test_alias_table_holds_the_distribution(masses):
    masses = np.array(masses)
    accept, alias = np.empty(len(masses)), np.empty(len(masses), dtype=np.int64)
    build_alias_table(masses, accept, alias)
    assert (accept >= 0).all()
    np.testing.assert_allclose(
        slot_probabilities(accept, alias), masses / masses.sum(), rtol=1e-9, atol=1e-14
    )


@given(problem=ranking_problems(max_documents=7), rule=st.sampled_from(RULES))
def test_labelled_pairs_have_their_distribution(problem, rule):
    block = problem.dataset().block(0)
    expected = reference.labelled_pairs(
        block.relevance.tolist(), block.query_ptr.tolist(), problem.weights.tolist(), *rule
    )
    table = labelled_pairs(block, rule)
    assert_same_distribution(pair_probabilities(table), expected)
    first, partner, masses = table.all_pairs()
    listed = zip(first.tolist(), partner.tolist(), masses / table.mass, strict=True)
    assert_same_distribution({(a, b): mass for a, b, mass in listed}, expected)
    assert table.n_pairs == len(expected) == len(masses)
    difference = block.relevance[first] - block.relevance[partner]
    assert squared_differences(table, block.relevance) == pytest.approx(
        masses @ difference**2, rel=1e-9, abs=1e-9
    )


def test_a_grade_ends_with_its_query():
    """The lowest grade of the first query is the highest of the second."""
    y, weights = [2.0, 1.0, 1.0, 1.0, 0.0], [1.0, 1.0]
    block = dr.from_arrays(np.ones((5, 1)), y, [1, 1, 2, 2, 2]).block(0)
    for rule in RULES:
        expected = reference.labelled_pairs(y, [0, 2, 5], weights, *rule)
        assert_same_distribution(pair_probabilities(labelled_pairs(block, rule)), expected)


@given(
    problem=ranking_problems(max_documents=7),
    balance=st.sampled_from(["pairs", "queries"]),
    ignore_labels=st.booleans(),
)
def test_unlabelled_pairs_have_their_distribution(problem, balance, ignore_labels):
    block = problem.dataset().block(0)
    arguments = block.relevance.tolist(), block.query_ptr.tolist(), problem.weights.tolist()
    expected = reference.unlabelled_pairs(*arguments, balance, ignore_labels)
    table = unlabelled_pairs(block, PairRule(balance), ignore_labels=ignore_labels)
    assert_same_distribution(pair_probabilities(table), expected)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_draws_follow_the_distribution(rule):
    problem = random_problem(3, n_queries=9)
    block = problem.dataset().block(0)
    expected = reference.labelled_pairs(
        block.relevance.tolist(), block.query_ptr.tolist(), problem.weights.tolist(), *rule
    )
    assert_draws_follow(labelled_pairs(block, rule), expected)


def test_unlabelled_draws_follow_the_distribution():
    block = random_problem(4, n_queries=6).dataset().block(0)
    expected = reference.unlabelled_pairs(
        block.relevance.tolist(), block.query_ptr.tolist(), block.weights.tolist(), "pairs", True
    )
    assert_draws_follow(unlabelled_pairs(block, ignore_labels=True), expected)


def assert_draws_follow(table, expected):
    """A chi-square test of many draws, and of the pairs of successive draws."""
    n_draws = 200_000 if COMPILED else 20_000
    first, partner = table.draw(np.random.default_rng(7), n_draws)
    number = {pair: i for i, pair in enumerate(expected)}
    drawn = np.array([number[pair] for pair in zip(first.tolist(), partner.tolist(), strict=True)])
    counts = np.bincount(drawn, minlength=len(expected))
    probabilities = np.array(list(expected.values()))
    assert stats.chisquare(counts, n_draws * probabilities).pvalue > 0.01
    in_half = np.cumsum(probabilities)[drawn] < 0.5
    both = np.bincount(2 * in_half[::2] + in_half[1::2], minlength=4)
    share = probabilities[np.cumsum(probabilities) < 0.5].sum()
    by_chance = np.array([(1 - share) ** 2, (1 - share) * share, share * (1 - share), share**2])
    assert stats.chisquare(both, n_draws / 2 * by_chance).pvalue > 0.01


def test_masses_are_weighted_numbers_of_pairs_and_queries():
    """Queries with 0, 2 and 5 pairs (sizes 2, 3 and 4), of weights 1, 3 and 0.5."""
    y = [1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0, 0.0]
    qid = [1, 1, 2, 2, 2, 3, 3, 3, 3]
    data = dr.from_arrays(np.ones((9, 1)), y, qid, query_weights=[1.0, 3.0, 0.5])
    block = data.block(0)
    assert labelled_pairs(block).mass == 3 * 2 + 0.5 * 5
    assert labelled_pairs(block, PairRule("queries")).mass == 3.5
    assert unlabelled_pairs(block, ignore_labels=True).mass == 1 + 3 * 3 + 0.5 * 6
    assert unlabelled_pairs(block).mass == 0


def test_a_block_without_pairs_has_no_mass_and_refuses_to_draw():
    table = labelled_pairs(dr.from_arrays(np.ones((3, 1)), [1, 1, 1], [1, 1, 1]).block(0))
    assert table.mass == 0
    with pytest.raises(ValueError, match="no pair to draw"):
        table.draw(np.random.default_rng(0), 1)


def test_streams_depend_on_seed_epoch_block_and_kind():
    keys = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
    drawn = {
        tuple(PairStreams(seed, epoch, kind)[block].integers(2**60, size=2).tolist())
        for seed, epoch, block, kind in keys
    }
    assert len(drawn) == len(keys)


def test_a_stream_goes_on_whatever_other_blocks_draw():
    streams = PairStreams(3, 1)
    first, _, second = streams[4].random(), streams[5].random(), streams[4].random()
    np.testing.assert_array_equal(PairStreams(3, 1)[4].random(2), [first, second])


@pytest.mark.skipif(COMPILED, reason="counts lines of kernels as plain Python")
def test_a_draw_costs_the_same_from_a_hundred_times_the_documents():
    """In lines that are run; a scan of the pairs would run a hundred times as many."""
    lines = []
    for n_documents in (1_000, 100_000):
        y = np.random.default_rng(0).integers(0, 3, n_documents)
        qid = np.repeat(np.arange(n_documents // 50), 50)
        data = dr.from_arrays(np.zeros((n_documents, 1)), y, qid, max_documents=n_documents)
        table = labelled_pairs(data.block(0))
        lines.append(lines_run(lambda table=table: table.draw(np.random.default_rng(0), 100)))
    assert 100 < lines[1] < 1.5 * lines[0]


def lines_run(call):
    """Number of lines of Python that a call runs."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (PairRule("documents"), "sampling is 'documents'; choose pairs or queries"),
        (PairRule("pairs", "top"), "position_weights is 'top'; choose equal or dcg"),
    ],
)
def test_unknown_rules_are_refused(rule, message):
    with pytest.raises(dr.UsageError, match=message):
        rule.check()
