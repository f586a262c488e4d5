"""Prefetched rows change no bit, fit into their slots, and are as many as is fastest."""

from types import SimpleNamespace

import numpy as np
import pytest

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from dranking.rankrls.gram.rows import GramRows
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.greedy import certificate, prefetch
from dranking.rankrls.greedy.certificate import verify_sets
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.prefetch import PassCosts, rows_to_fetch
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out import memory_plan as memory
from tests.models.problems import random_problem
from tests.rankrls.greedy.selections import assert_same_bits, assert_same_paths

LAMBDAS = (0.01, 1.0, 300.0)
SIZE = 12


@pytest.fixture(scope="module")
def dataset():
    """Features that nearly copy each other, which makes predictions of picks wrong."""
    problem = random_problem(5, n_queries=60, n_features=20)
    rng = np.random.default_rng(0)
    copies = problem.X + 0.1 * rng.normal(size=problem.X.shape).astype(np.float32)
    X = np.hstack([problem.X, copies, 3.0 * problem.X + copies]).astype(np.float32)
    return problem._replace(X=X).dataset(max_documents=30)


@pytest.fixture(scope="module")
def expected(dataset):
    return select_paths(dataset, LAMBDAS, SelectionRules(SIZE, prefetch=1)).paths


@pytest.mark.parametrize("n_rows", [2, 5, 13, 60, None])
def test_the_result_is_the_same_in_every_bit(dataset, expected, n_rows):
    rules = SelectionRules(SIZE, prefetch=n_rows)
    assert_same_paths(select_paths(dataset, LAMBDAS, rules).paths, expected)
    for path, other in zip(
        (select_paths(dataset, [v], rules).paths[0] for v in LAMBDAS), expected, strict=True
    ):
        assert_same_bits(path, other)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("form", ["memory", "stored", "statistics", "no rows"])
def test_no_clock_changes_a_bit(dataset, expected, form, seed, tmp_path, monkeypatch):
    """Passes seem to take random times, so that the number of rows differs from pass to pass."""
    ticks = np.random.default_rng(seed).exponential(size=1000).cumsum()
    clock = SimpleNamespace(perf_counter=iter(ticks.tolist()).__next__)
    monkeypatch.setattr(prefetch, "time", clock)
    asked = []
    best = PassCosts.best_rows.fget
    monkeypatch.setattr(
        PassCosts, "best_rows", property(lambda costs: asked.append(best(costs)) or asked[-1])
    )
    monkeypatch.setattr("dranking.rankrls.gram.moments.sample_of", lambda tiles: None)
    data, options = dataset, {}
    if form == "stored":
        data = dr.open_dataset(written(dataset, tmp_path))
        needs = memory.Needs(data, SIZE, ThreadExecutor(1))
        streamed, resident = (needs.total(stays, True, 1) for stays in (False, True))
        assert streamed < resident
        options = {"memory_limit": streamed, "executor": ThreadExecutor(1)}
    elif form == "statistics":
        data = build_statistics(dataset, tmp_path / "s")
    elif form == "no rows":
        least = memory.Needs(dataset, SIZE, ThreadExecutor(1)).total(True, False, 1)
        options = {"memory_limit": least, "executor": ThreadExecutor(1)}
    assert_same_paths(select_paths(data, LAMBDAS, SelectionRules(SIZE), **options).paths, expected)
    assert len(set(asked)) > 1


def written(dataset, tmp_path):
    blocks = (dataset.block(b) for b in range(dataset.n_blocks))
    return dr.write_dataset(blocks, tmp_path / "data").path


@pytest.mark.parametrize("n_rows", [1, 4, 8, 60])
@pytest.mark.parametrize("n_paths", [1, 3])
def test_no_more_rows_are_kept_than_there_is_room_for(dataset, n_rows, n_paths, monkeypatch):
    kept = []
    fetch = GramRows.fetch

    def watched(gram, features):
        fetch(gram, features)
        assert len(set(gram._slots.values())) == len(gram._slots) == gram.capacity - gram.n_free
        kept.append(len(gram._slots))

    checks = []

    def counted(*arguments):
        checks.append(arguments)
        return verify_sets(*arguments)

    monkeypatch.setattr(GramRows, "fetch", watched)
    monkeypatch.setattr(certificate, "verify_sets", counted)
    rules = SelectionRules(SIZE, prefetch=n_rows)
    found = select_paths(dataset, LAMBDAS[:n_paths], rules)
    assert max(kept) <= n_paths * SIZE + memory.SURPLUS_ROWS
    assert memory.SURPLUS_ROWS <= 8
    assert not checks
    assert found.n_passes == 1 + len(kept) + 2  # the factor of all features, and its rows


def test_the_last_pick_has_room_for_runners_up(dataset):
    """Rows of wrong predictions are dropped, so that slots stay free for other rows."""
    passes = {
        n_rows: select_paths(dataset, [1.0], SelectionRules(30, prefetch=n_rows)).n_passes
        for n_rows in (1, 8)
    }
    assert passes[1] == 31
    assert passes[8] <= 10  # k / 3


class TestRowsToFetch:
    def gram(self, *there, capacity=10):
        return SimpleNamespace(holds=there.__contains__, capacity=capacity)

    def search(self, upcoming, selected=(), size=5, done=False, candidates=()):
        return SimpleNamespace(
            path=SimpleNamespace(selected=list(selected)),
            picks=upcoming[:1],
            upcoming=upcoming,
            candidates=candidates,
            n_picks_left=size - len(selected),
            done=done,
        )

    def test_nothing_while_every_pick_has_its_row(self):
        searches = [self.search([3, 4]), self.search([9], done=True)]
        assert rows_to_fetch(self.gram(3), searches, 8) == []

    def test_best_first_all_paths_in_turn(self):
        searches = [self.search([1, 2, 3, 4]), self.search([1, 5, 2, 6])]
        assert rows_to_fetch(self.gram(2), searches, 4) == [1, 3, 5, 4]

    def test_candidates_come_after_upcoming_picks(self):
        searches = [self.search([1, 2], candidates=[3, 2, 4, 5])]
        assert rows_to_fetch(self.gram(2), searches, 3) == [1, 3, 4]

    def test_picks_come_before_runners_up(self):
        searches = [self.search([f, 10 + f, 20 + f]) for f in (1, 2, 3)]
        assert rows_to_fetch(self.gram(), searches, 2) == [1, 2, 3]
        assert rows_to_fetch(self.gram(2), searches, 1) == [1, 3]

    def test_rows_selected_and_about_to_be_keep_their_room(self):
        searches = [
            self.search([1, 2, 3, 4], selected=[7, 8]),
            self.search([9, 2, 5], selected=[7, 6]),
            self.search([0], selected=[5], done=True),
        ]
        gram = self.gram(7, 8, 6, 5, 9, capacity=7)  # all of these are taken
        assert rows_to_fetch(gram, searches, 8) == [1, 2]

    def test_no_more_than_picks_to_come(self):
        assert rows_to_fetch(self.gram(), [self.search([1, 2, 3, 4], [5], 3)], 8) == [1, 2]


class TestPassCosts:
    def best(self, **seconds):
        costs = PassCosts()
        for n_rows, value in seconds.items():
            costs.note(int(n_rows.removeprefix("j")), value)
        return costs.best_rows

    def test_not_known(self):
        assert self.best() == prefetch.ROWS
        assert self.best(j8=3.0) == 2 * prefetch.ROWS  # to know both costs

    @pytest.mark.parametrize(
        ("reading", "per_row", "best"),
        [(10.0, 1.0, 15), (4.0, 0.5, 12), (1.0, 1.0, 4), (5.0, 0.1, 32), (1.0, 0.0, 32)],
    )
    def test_a_straight_line_gives_its_optimum(self, reading, per_row, best):
        seconds = {f"j{n}": reading + per_row * n for n in (4, 8, 16)}
        assert abs(self.best(**seconds) - best) <= 1  # rounding
        if 4 < best < 32:
            cost = [(reading + per_row * n) / n**0.6 for n in range(1, 33)]
            assert int(np.argmin(cost)) + 1 == best

    def test_what_is_over_at_once_is_not_worth_a_change(self):
        assert self.best(j4=3.0, j8=0.4) == prefetch.ROWS

    def test_the_fastest_counts(self):
        costs = PassCosts()
        for n_rows, seconds in ((8, 9.0), (8, 1.8), (8, 5.0), (4, 1.4)):
            costs.note(n_rows, seconds)
        assert costs.best_rows == 15  # 1 + 0.1 J
