"""The online study: users, learners against plain loops and `partial_fit`, and the script."""

import itertools
import json

import numpy as np
import pytest

import dranking as dr
from pipelines.reproduce.online import study as online
from pipelines.reproduce.online.learners import (
    DBGD,
    LEARNERS,
    PDGD,
    CoRegularised,
    Pairwise,
    pairs_not_shown,
    pdgd_slopes,
    preferences,
)
from pipelines.reproduce.online.users import (
    CUTOFF,
    USERS,
    browse,
    in_memory,
    ndcg_of_queries,
)
from tests.reference.metrics import ndcg_at


def made_up(n_queries=40, size=14, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), size)
    X = rng.random((len(qid), n_features)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] + 0.2 * rng.normal(size=len(X)), [1.3, 1.6]).astype(float)
    y[qid % 4 == 0] = 0
    return X, y, qid


@pytest.fixture(scope="module")
def queries():
    X, y, qid = made_up()
    dataset = dr.from_arrays(X, y, qid=qid)
    return in_memory(dataset, np.random.default_rng(0))


def test_the_offline_measure_is_the_reference_ndcg(queries):
    q, weights = queries, np.array([1.0, 0.5, 0.0, -0.2, 0.1, 0.0])
    found = ndcg_of_queries(q.features, q.grade, q.ptr, q.ideal, weights)
    for query, (start, end) in enumerate(itertools.pairwise(q.ptr)):
        order = start + np.argsort(-(q.features[start:end].astype(float) @ weights))
        expected = ndcg_at(q.grade[order].tolist(), 10, "standard")
        assert np.nan_to_num(found[query]) == pytest.approx(expected, abs=1e-12)
        assert np.isnan(found[query]) == (q.grade[start:end].max() == 0)


@pytest.mark.parametrize("name", USERS)
def test_users_click_and_leave_with_the_probabilities_of_the_table(name):
    """The probability of every pattern of clicks on a page of three, by hand, and its frequency."""
    click, stop = USERS[name]
    grades = np.array([1, 0, 2])
    expected = {}
    for pattern in itertools.product([False, True], repeat=3):
        # The user may leave after each click: sum over where, or nowhere.
        total = 0.0
        for leaves in [*np.flatnonzero(pattern), None]:
            if leaves is not None and any(pattern[leaves + 1 :]):
                continue
            read = 3 if leaves is None else leaves + 1
            p = 1.0
            for i in range(read):
                p *= click[grades[i]] if pattern[i] else 1 - click[grades[i]]
                if pattern[i]:
                    p *= stop[grades[i]] if i == leaves else 1 - stop[grades[i]]
            total += p
        expected[pattern] = total
    assert sum(expected.values()) == pytest.approx(1)
    n = 4_000
    luck = np.random.default_rng(3).random((n, 2, CUTOFF))
    found = [tuple(browse(grades, click, stop, each).tolist()) for each in luck]
    for pattern, p in expected.items():
        assert abs(found.count(pattern) - n * p) <= 5 * (n * p * (1 - p)) ** 0.5


def test_preferences_end_one_below_the_last_click():
    page = np.array([40, 30, 20, 10, 0])
    better, worse = preferences(page, np.array([False, True, False, False, False]))
    assert set(zip(better.tolist(), worse.tolist(), strict=True)) == {(30, 40), (30, 20)}
    assert len(preferences(page, np.zeros(5, dtype=bool))[0]) == 0
    assert len(preferences(page, np.ones(5, dtype=bool))[0]) == 0


def test_pairs_not_shown_are_all_pairs_of_hidden_documents():
    uniform = np.random.default_rng(0).random((2, 500))
    pairs = pairs_not_shown(np.array([5, 7]), 4, 9, uniform)
    found = set(map(tuple, pairs.T.tolist()))
    assert found == set(itertools.permutations([4, 6, 8], 2))


@pytest.mark.parametrize("mu", [None, 0.0, 1.0])
def test_steps_are_those_of_partial_fit(mu):
    """Queries of two shown documents (and two hidden ones): each call draws the only pair."""
    rng = np.random.default_rng(5)
    n_hidden = 0 if mu is None else 2
    steps = {"eta0": 0.1, "average": "none", "steps_per_epoch": 1}
    common = {"regularization": 1e-6, "sgd": steps}
    served = None
    for _ in range(6):
        X = rng.random((2 + n_hidden, 6)).astype(np.float32)
        y = np.append([1.0, 0.0], np.full(n_hidden, np.nan))
        queries = in_memory(dr.from_arrays(X, np.zeros(len(X)), qid=np.zeros(len(X))), rng)
        queries = queries._replace(features=X)
        if served is None:
            if mu is None:
                served = Pairwise(queries, 3, eta0=0.1)
                ranker = dr.SPD(**common)
            else:
                served = CoRegularised(queries, 3, eta0=0.1, mu=mu, n_unlabelled=1)
                views = [served.columns[:3].tolist(), served.columns[3:].tolist()]
                ranker = dr.LCRA(**common, mu=mu, views=views, n_unlabelled=1)
        elif mu is None:
            served.queries, served.rows = queries, type(served)(queries, 3).rows
        else:
            other = CoRegularised(queries, 3, mu=mu)
            served.queries, served.rows = other.queries, other.rows
        served.learn(0, np.array([0, 1]), np.array([True, False]))
        ranker.partial_fit(X, y, qid=np.zeros(len(X)))
    np.testing.assert_allclose(served.coef, ranker.coef_, rtol=1e-6, atol=1e-12)
    assert np.abs(served.coef).min() > 1e-4


def plackett_luce(scores, page):
    left, probability = list(range(len(scores))), 1.0
    for document in page:
        probability *= np.exp(scores[document]) / np.exp(scores[left]).sum()
        left.remove(document)
    return probability


def test_pdgd_weighs_pairs_by_the_probabilities_of_exchanged_pages():
    """Equations of Oosterhuis and de Rijke 2018, with the probabilities of whole pages."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=7)
    page = np.array([4, 1, 6, 0, 2])
    clicked = np.array([False, True, False, True, False])
    expected = np.zeros(5)
    for i, j in itertools.product([1, 3], [0, 2, 4]):
        exchanged = page.copy()
        exchanged[[i, j]] = page[[j, i]]
        p, other = plackett_luce(scores, page), plackett_luce(scores, exchanged)
        a, b = np.exp(scores[page[i]]), np.exp(scores[page[j]])
        expected[i] += other / (p + other) * a * b / (a + b) ** 2
        expected[j] -= other / (p + other) * a * b / (a + b) ** 2
    np.testing.assert_allclose(pdgd_slopes(scores, page, clicked), expected, rtol=1e-12)


def test_pages_of_pdgd_follow_plackett_luce(queries):
    small = queries._replace(ptr=np.array([0, 3]), ideal=queries.ideal[:1])
    learner = PDGD(small, 0)
    learner.weights = np.array([2.0, -1.0, 0.0, 1.0, 0.0, 0.0])
    n = 4_000
    pages = [tuple(learner.show(0).tolist()) for _ in range(n)]
    scores = queries.features[:3].astype(float) @ learner.weights
    for order in itertools.permutations(range(3)):
        p = plackett_luce(scores, order)
        assert abs(pages.count(order) - n * p) <= 5 * (n * p * (1 - p)) ** 0.5


def test_dbgd_moves_only_where_the_candidate_wins(queries):
    learner = DBGD(queries, 0, alpha=0.5)
    page = learner.show(1)
    shares = np.array(learner.page.shares)
    learner.learn(1, page, shares == 0.0)
    assert not learner.weights.any()
    learner.learn(1, page, shares == 1.0)
    assert np.linalg.norm(learner.weights) == pytest.approx(0.5)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_learns_from_perfect_users(name, queries):
    setting = {"alpha": 0.1} if name == "DBGD" else {}
    found = online.run(queries, queries, "perfect", (name, setting), [10, 1_500], 0)
    at_random = ndcg_of_queries(*queries, np.zeros(6))
    assert found.offline[-1].mean() > np.nanmean(at_random) + 0.15
    assert found.offline.shape == (2, np.isfinite(at_random).sum())


def test_the_script_prints_paired_differences(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        online, "GRIDS", {**{name: {} for name in LEARNERS}, "PDGD": {"eta": (0.1, 1.0)}}
    )
    folder = tmp_path / "MQ2008"
    folder.mkdir()
    X, y, qid = made_up(size=12, n_features=46)
    for part in range(5):
        with (folder / f"S{part + 1}.txt").open("w") as file:
            for row in np.flatnonzero(qid % 5 == part):
                values = " ".join(f"{i}:{v}" for i, v in enumerate(X[row], start=1))
                file.write(f"{y[row]:.0f} qid:{qid[row]} {values}\n")
    figure = tmp_path / "curves.svg"
    options = ["--seeds", "2", "--folds", "2", "--pages", "40", "--users", "perfect"]
    online.main([str(folder), *options, "--output", str(figure), "--json"])
    found = json.loads(capsys.readouterr().out)["users"]["perfect"]
    assert found["pages"][-1] == 40
    assert set(found["online"]) == set(LEARNERS)
    [first, *_] = found["differences"]
    gap = found["online"]["LCRA"] - found["online"]["SPD in both views"]
    assert first["online"]["mean"] == pytest.approx(gap)
    assert figure.read_text().lstrip().startswith("<?xml")
    online.main([str(folder), *options[:4], "--pages", "10", "--users", "navigational"])
    assert "navigational users" in capsys.readouterr().out


def test_parameters_are_those_that_do_best(monkeypatch, queries):
    monkeypatch.setattr(online, "GRIDS", {"PDGD": {"eta": (1e-9, 0.3, 1e-6)}})
    fold = online.Fold(queries, queries, queries)
    for criterion in ("online", "offline"):
        assert online.choose([fold], "perfect", "PDGD", 300, criterion) == {"eta": 0.3}
