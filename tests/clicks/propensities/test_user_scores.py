"""Intervals of propensities where users come back with other queries."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dranking.cli.app import run as run_command
from dranking.clicks.counts import UserCounts
from dranking.clicks.propensities.contrasts import ContrastRules
from dranking.clicks.propensities.harvest import HarvestRules, harvest_propensities
from dranking.clicks.propensities.user_scores import drawn_errors, user_covariance
from dranking.clicks.store.source import CountsInMemory
from dranking.engine.executor import ThreadExecutor
from tests.clicks.made_visits import POSITIONS, by_user, counted, visits
from tests.reference.clicks import user_score_covariance

SWAPS = ContrastRules(randomised_arms=("",))
DEEP = (0.4, 1.6)


def source_of(rows, n_parts=1):
    """The counts of visits and those by user, in buckets of every n-th query."""
    parts = [rows[rows[:, 0] % n_parts == part] for part in range(n_parts)]
    return CountsInMemory(
        tuple(counted(part)[0] for part in parts), tuple(by_user(part) for part in parts)
    )


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize("without_id", [(), (2, 5)])
def test_users_add_the_products_of_their_scores(n_parts, without_id):
    rows = visits(0, 7, [0.5, 1.5], n_queries=6, below=DEEP)
    rows[np.isin(rows[:, 3], without_id), 3] = 0
    run = ThreadExecutor(2)
    found = user_covariance(source_of(rows, n_parts), SWAPS, np.log(POSITIONS), None, run)
    expected = user_score_covariance(rows.tolist(), POSITIONS)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert abs(expected).max() > 1


def test_contexts_have_users_of_their_own():
    rows = visits(3, 9, [1.0], n_queries=4, below=DEEP)
    users, n_half = by_user(rows), len(by_user(rows).user)
    desk, phone = (replace(users.counts, context=np.full(n_half, i)) for i in range(2))
    keys = ("query", "document", "context", "night", "arm", "position", "impressions", "clicks")
    both = {name: np.append(getattr(desk, name), getattr(phone, name)) for name in keys}
    user = np.append(users.user, users.user)
    order = np.lexsort([user, *(both[name] for name in keys[5::-1])])
    counts = replace(desk, contexts=("desk", "phone"), **{name: both[name][order] for name in keys})
    source = CountsInMemory((counts,), (UserCounts(counts, user[order]),))
    run = ThreadExecutor(1)
    found = user_covariance(source, SWAPS, np.log(POSITIONS), "phone", run)
    expected = user_score_covariance(rows.tolist(), POSITIONS)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_errors_are_drawn_with_the_sandwich_of_both_matrices():
    rng = np.random.default_rng(0)
    information, root = (rng.normal(size=(4, 4)) for _ in range(2))
    information, covariance = information @ information.T, root @ root.T
    drawn = drawn_errors(covariance, information, (200_000, 1))
    inverse = np.linalg.inv(information[1:, 1:])
    expected = inverse @ covariance[1:, 1:] @ inverse
    assert not drawn[:, 0].any()
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert abs(np.cov(drawn[:, 1:].T) - expected).max() < 0.02 * scale.max()
    assert not drawn_errors(-covariance, information, (5, 1)).any()


def test_buckets_and_threads_change_no_bit_of_intervals_with_users():
    rows = visits(5, 30, [1.0], n_queries=24, below=DEEP)
    rules = HarvestRules(randomised_arms=("",), n_replicates=20)
    runs = [
        harvest_propensities(source_of(rows, 4), rules, executor=ThreadExecutor(n)) for n in (1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0].by_user
    alone = harvest_propensities(source_of(rows, 4).parts, rules)
    assert not alone.by_user
    assert alone.curves[0].a == runs[0].curves[0].a
    assert alone.curves[0].a_intervals != runs[0].curves[0].a_intervals


def test_the_command_says_whether_intervals_know_users(tmp_path, capsys):
    rows = visits(6, 30, [1.0], n_queries=12, below=DEEP)
    names = ["query", "document", "position", "user", "clicked"]
    log = pd.DataFrame(rows, columns=names).astype({"user": str})
    log["session"], log["arm"] = np.arange(len(log)) // 3, "swaps"
    log["time"] = pd.Timestamp("2026-11-01", tz="UTC")
    log.to_parquet(tmp_path / "log.parquet")
    columns = ["--arm-column", "arm", "--user-column", "user"]
    for users, held in (([], "queries"), (["--users"], "queries and users")):
        place = str(tmp_path / f"store{len(users)}")
        build = ["clicks", "build", str(tmp_path / "log.parquet"), "--output", place]
        assert run_command([*build, *columns, *users]) == 0
        harvest = ["clicks", "propensities", place, "--randomised-arms", "swaps"]
        assert run_command([*harvest, "--output", f"{place}.json"]) == 0
        assert re.search(rf"intervals hold chance of +│ {held} +│", capsys.readouterr().out)


@pytest.mark.slow
def test_intervals_hold_where_users_look_at_different_depths():
    """Half of the users look at lower positions four times as often; 100 logs of 100 users."""
    covered, n_logs = np.zeros(2), 100
    for seed in range(n_logs):
        source = source_of(visits(seed, 100, [1.0], n_visits=60, below=DEEP))
        rules = HarvestRules(randomised_arms=("",), n_replicates=100, seed=seed)
        for kind, clicks in enumerate((source.parts, source)):
            low, high = np.array(harvest_propensities(clicks, rules).curves[0].a_intervals[1:]).T
            covered[kind] += np.mean((low <= POSITIONS[1:]) & (POSITIONS[1:] <= high))
    assert covered[0] / n_logs < 0.8
    assert covered[1] / n_logs > 0.95 - 3 * np.sqrt(0.05 * 0.95 / n_logs)
