"""The same bits on threads and on worker processes, wherever the data is."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import dranking as dr
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import ThreadExecutor
from dranking.engine.progress import reporting
from dranking.pairwise import hinge
from dranking.rankrls.leave_query_out.memory_plan import Needs
from tests.models.problems import random_problem

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning"),
]


@pytest.fixture(params=["memory", "stored", "sparse", "sparse stored"])
def dataset(request, tmp_path):
    layout = sparse.csr_array if "sparse" in request.param else np.asarray
    data = random_problem(2, n_queries=60, n_features=12, zeros=0.5).dataset(
        layout, max_documents=40
    )
    if "stored" not in request.param:
        return data
    return dr.write_dataset((data.block(b) for b in range(data.n_blocks)), tmp_path / "d")


@pytest.fixture
def stored(tmp_path):
    data = random_problem(2, n_queries=60, n_features=12).dataset(max_documents=40)
    return dr.write_dataset((data.block(b) for b in range(data.n_blocks)), tmp_path / "d")


def test_greedy_rankrls(dataset, client):
    ways = {"cluster": client, "one thread": ThreadExecutor(1), "three": ThreadExecutor(3)}
    fits = [dr.GreedyRankRLS(5, 2.0).fit(dataset, executor=way) for way in ways.values()]
    for fit in fits[1:]:
        assert fit.selected_ == fits[0].selected_
        np.testing.assert_array_equal(fit.lqo_error_, fits[0].lqo_error_)
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)
        assert fit.to_model() == fits[0].to_model()  # with the checksum of its training queries


@pytest.mark.parametrize(
    "parameters",
    [
        {"search": "floating"},
        {"search": "backward"},
        {"search": {"fitting": "back"}},
        {"rescore": dr.Rescore("ndcg@5", n_candidates=3)},
        {"feature_costs": dr.Costs(np.arange(12) + 1.0, budget=15.0)},
    ],
    ids=lambda parameters: " ".join(map(str, parameters.values()))[:20],
)
@pytest.mark.parametrize("dataset", ["sparse stored"], indirect=True)
def test_other_searches(parameters, dataset, client):
    here, there = (
        dr.GreedyRankRLS(4, 0.1, **parameters).fit(dataset, executor=way)
        for way in ("threads", client)
    )
    assert here.path_.kept == there.path_.kept
    np.testing.assert_array_equal(here.lqo_error_, there.lqo_error_)
    np.testing.assert_array_equal(here.coef_, there.coef_)


@pytest.mark.parametrize("keep_rows", [True, False])
def test_feature_blocks(stored, client, keep_rows):
    """Also if rows are not kept, and blocks are streamed."""
    expected = dr.GreedyRankRLS(4, 2.0).fit(stored, executor=ThreadExecutor(2))
    for parts in (1, 3):
        needs = Needs(stored, 4, get_executor(client), parts)
        limit = needs.total(keep_rows, keep_rows, 1)
        ranker = dr.GreedyRankRLS(
            4, 2.0, passes=dr.Passes(feature_blocks=parts), memory_limit=limit
        )
        ranker.fit(stored, executor=client)
        assert ranker.selected_ == expected.selected_
        np.testing.assert_array_equal(ranker.lqo_error_, expected.lqo_error_)
        np.testing.assert_array_equal(ranker.coef_, expected.coef_)


def test_rankrls(dataset, client):
    here, there = (dr.RankRLS(2.0).fit(dataset, executor=way) for way in ("threads", client))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    assert here.objective_ == there.objective_


@pytest.mark.parametrize(
    ("loss", "solver", "dataset"),
    [
        ("ap", "cutting-planes", "memory"),
        ("ndcg", "cutting-planes", "sparse stored"),
        ("pairwise", "newton", "stored"),
        ("ndcg", "sgd", "memory"),
        ("pairwise", "sgd", "sparse stored"),
    ],
    indirect=["dataset"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_max_margin(loss, solver, dataset, client, monkeypatch):
    """With few steps or rounds, since each has the overhead of a cluster."""
    monkeypatch.setattr(hinge, "HINGE_WIDTHS", (0.25,))
    if solver == "sgd":
        ranker = dr.MaxMarginRanker(0.1, loss, solver=dr.SGD(2, 400, n_shards=2))
    else:
        rounds = 2 if solver == "newton" else 10
        ranker = dr.MaxMarginRanker(0.1, loss, solver=solver, tol=0.2, max_iter=rounds)
    here, there = (clone(ranker).fit(dataset, executor=way) for way in ("threads", client))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    assert here.objective_ == there.objective_
    assert here.n_iter_ == there.n_iter_


@pytest.mark.parametrize("loss", ["ap", "pairwise"])
@pytest.mark.parametrize("dataset", ["stored"], indirect=True)
def test_max_margin_goes_on_elsewhere(loss, dataset, client, tmp_path):
    """A training with validation begins on threads and ends on worker processes."""
    ranker = dr.MaxMarginRanker(
        0.1, loss, solver=dr.SGD(n_epochs=3, steps_per_epoch=300, n_shards=2)
    )
    whole = clone(ranker).fit(dataset, validation=dataset, executor="threads")
    ranker.set_params(checkpoint=tmp_path / "c")
    with reporting(stop_after_an_epoch), pytest.raises(KeyboardInterrupt):
        ranker.fit(dataset, validation=dataset, executor="threads")
    ranker.fit(dataset, validation=dataset, executor=client)
    np.testing.assert_array_equal(ranker.coef_, whole.coef_)
    measured = [[p.validation for p in r.learning_curve_] for r in (ranker, whole)]
    assert measured[0] == measured[1]
    assert len(measured[0]) == 3


def stop_after_an_epoch(stage, done, total, facts):
    if stage == "training":
        raise KeyboardInterrupt


def test_predictions_and_measures(dataset, client):
    model = dr.RankRLS(2.0).fit(dataset).to_model()
    np.testing.assert_array_equal(model.predict(dataset), model.predict(dataset, executor=client))
    here, there = (
        dr.evaluate(model, dataset, ["map", "ndcg@5"], executor=way) for way in (None, client)
    )
    assert here.metrics == there.metrics
