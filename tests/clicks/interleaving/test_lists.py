"""Interleaving against exact enumeration, and what the papers prove and show."""

import subprocess
import sys
from collections import defaultdict
from itertools import chain, combinations, product
from random import Random

import pytest

from dranking.clicks.interleaving.lists import preference, probabilistic, team_draft
from dranking.errors import UsageError
from tests.reference.interleaving import (
    outcome_given_page,
    probabilistic_pages,
    team_draft_pages,
)

LISTS = [
    ("abcd", "bcda"),
    ("abcd", "abdc"),
    ("abcd", "abcd"),
    ("abcd", "dcba"),
]


class EveryDraw:
    """A generator whose draws follow one path of all paths, with the path's probability."""

    def __init__(self, path):
        self.path, self.probability, self.options = path, 1.0, []

    def _take(self, weights):
        branch = self.path[len(self.options)] if len(self.options) < len(self.path) else 0
        self.options.append(len(weights))
        self.probability *= weights[branch] / sum(weights)
        return branch

    def random(self):
        return (0.25, 0.75)[self._take([1, 1])]

    def choices(self, population, weights):
        return [population[self._take(weights)]]


def every_page(interleave):
    """Probability of every page that a function of a generator returns."""
    pages, paths = defaultdict(float), [[]]
    while paths:
        path = paths.pop()
        rng = EveryDraw(path)
        pages[interleave(rng)] += rng.probability
        for depth in range(len(path), len(rng.options)):
            first = [*path, *([0] * (depth - len(path)))]
            paths += [[*first, branch] for branch in range(1, rng.options[depth])]
    return dict(pages)


def by_teams(pages):
    found = defaultdict(float)
    for page, probability in pages.items():
        found[page.documents, page.teams] += probability
    return found


@pytest.mark.parametrize(
    ("a", "b"), [*LISTS, ("ab", "bcd"), ("a", "bcd"), ("", "ab"), ("abc", "def")]
)
@pytest.mark.parametrize("length", [1, 3, 6])
def test_team_draft_has_the_distribution_of_the_paper(a, b, length):
    found = by_teams(every_page(lambda rng: team_draft(a, b, length, rng)))
    assert found == pytest.approx(team_draft_pages(a, b, length), abs=1e-15)


@pytest.mark.parametrize(("a", "b"), LISTS)
@pytest.mark.parametrize("length", [2, 4])
def test_probabilistic_has_the_distribution_of_the_paper(a, b, length):
    found = by_teams(every_page(lambda rng: probabilistic(a, b, length, rng)))
    assert found == pytest.approx(probabilistic_pages(a, b, length, 3), abs=1e-15)


@pytest.mark.parametrize(("a", "b"), LISTS)
def test_the_preference_is_marginalised_over_the_assignments(a, b):
    exact = probabilistic_pages(a, b, 3, 3)
    for page in every_page(lambda rng: probabilistic(a, b, 3, rng)):
        for clicked in subsets(3):
            expected = outcome_given_page(exact, page.documents, clicked)
            assert preference(page.shares, clicked) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6])
def test_clicks_on_fixed_positions_prefer_neither_for_lists_of_any_lengths(length):
    """Every pair of lists of up to three documents, some in both, after renaming."""
    lists = ["", "x", "y", "xy", "yx", "xp", "px", "xyp", "pyx", "xyz", "yzx", "zpq", "abc"]
    for a, b in product(lists, lists):
        pages = every_page(lambda rng, a=a, b=b: team_draft(a, b, length, rng))
        [n_shown] = {len(page.documents) for page in pages}
        for clicked in subsets(n_shown):
            mean = sum(p * preference(page.shares, clicked) for page, p in pages.items())
            assert mean == 0.5, (a, b, clicked)


def test_as_many_positions_count_as_the_shorter_list_is_long():
    for length, n_counted in ((2, 2), (3, 3), (6, 3)):
        page = team_draft("abc", "bdefg", length, Random(1))
        assert [share is not None for share in page.shares[:n_counted]] == [True] * n_counted
        assert page.shares[n_counted:] == (None,) * (len(page.documents) - n_counted)
    page = team_draft("abc", "cab", 6, Random(1))
    assert None not in page.shares


@pytest.mark.parametrize("interleave", [team_draft, probabilistic])
@pytest.mark.parametrize(("a", "b"), [*LISTS, ("abc", "bcd"), ("abc", "def")])
def test_clicks_on_fixed_positions_prefer_neither(interleave, a, b):
    pages = every_page(lambda rng: interleave(a, b, 3, rng))
    for clicked in subsets(3):
        mean = sum(p * preference(page.shares, clicked) for page, p in pages.items())
        assert mean == pytest.approx(0.5, abs=1e-12)


def test_team_draft_misses_what_the_probabilistic_method_finds():
    """Section 3 of Hofmann et al. 2011: document 3 alone is relevant, and b ranks it higher."""
    means = {}
    for interleave in (team_draft, probabilistic):
        pages = every_page(lambda rng, method=interleave: method("123", "231", 3, rng))
        means[interleave] = sum(
            probability * preference(page.shares, {page.documents.index("3")})
            for page, probability in pages.items()
        )
    assert means[team_draft] == pytest.approx(0.5, abs=1e-12)
    exact = probabilistic_pages("123", "231", 3, 3)
    expected = sum(
        probability * outcome_given_page(exact, documents, {documents.index("3")})
        for (documents, _), probability in exact.items()
    )
    assert means[probabilistic] == pytest.approx(expected, abs=1e-12)
    assert expected > 0.55


@pytest.mark.parametrize("interleave", [team_draft, probabilistic])
def test_a_seed_repeats_a_page_without_repeated_documents(interleave):
    a, b = list(range(30)), [*range(20, 40), *range(10)]
    page = interleave(a, b, 25, Random(7))
    assert page == interleave(a, b, 25, Random(7)) != interleave(a, b, 25, Random(8))
    assert len(set(page.documents)) == 25


@pytest.mark.parametrize("interleave", [team_draft, probabilistic])
def test_the_coin_is_fair(interleave):
    """Of 4,000 first positions each ranker has half, within five standard deviations."""
    rng = Random(1)
    n_of_b = sum(interleave("a", "b", 1, rng).teams == ("b",) for _ in range(4_000))
    assert abs(n_of_b - 2_000) < 5 * 4_000**0.5 / 2


def test_a_longer_page_than_all_documents_has_all_documents():
    assert len(team_draft("abc", "cd", 9, Random(7)).documents) == 4
    assert len(probabilistic("abc", "cba", 9, Random(7)).documents) == 3


def test_documents_without_a_rival_count_for_neither():
    page = team_draft("a", "bcd", 4, Random(0))
    assert page.teams[2:] == (None, None)
    assert preference(page.shares, {2, 3}) == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: team_draft("aa", "b", 2, Random(0)), "list a names a document twice"),
        (lambda: probabilistic("a", "bb", 2, Random(0)), "list b names a document twice"),
        (lambda: team_draft("a", "b", 0, Random(0)), "length is 0"),
        (lambda: probabilistic("a", "b", 1, Random(0), tau=0.0), "tau is 0.0"),
        (lambda: probabilistic("ab", "bcd", 3, Random(0)), "2 and 3 documents"),
        (lambda: preference([0.5], {1}), "position 1 is not on the page of 1"),
        (lambda: preference([1.5], {0}), "share at position 0 is 1.5"),
    ],
)
def test_wrong_calls_are_refused(call, message):
    with pytest.raises(UsageError, match=message):
        call()


def test_the_serving_side_imports_nothing_heavy():
    code = (
        "import sys, dranking.clicks.interleaving.lists\n"
        "print([n for n in ('numpy', 'dask', 'numba', 'pandas', 'pyarrow') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def subsets(n):
    return chain.from_iterable(combinations(range(n), k) for k in range(n + 1))
