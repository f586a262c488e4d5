"""The same bits on threads and on worker processes, wherever the data is."""

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from tests.rankers.problems import random_problem

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning"),
]


@pytest.fixture(params=["memory", "stored", "sparse", "sparse stored"])
def dataset(request, tmp_path):
    layout = sparse.csr_array if "sparse" in request.param else np.asarray
    data = random_problem(2, n_queries=120, n_features=20, zeros=0.5).dataset(
        layout, max_documents=40
    )
    if "stored" not in request.param:
        return data
    return dr.write_dataset((data.block(b) for b in range(data.n_blocks)), tmp_path / "d")


def test_greedy_rankrls(dataset, client):
    ways = {"cluster": client, "one thread": ThreadExecutor(1), "three": ThreadExecutor(3)}
    fits = [dr.GreedyRankRLS(8, 2.0).fit(dataset, executor=way) for way in ways.values()]
    for fit in fits[1:]:
        assert fit.selected_ == fits[0].selected_
        np.testing.assert_array_equal(fit.lqo_error_, fits[0].lqo_error_)
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)


@pytest.mark.parametrize(
    "parameters",
    [
        {"search": "floating"},
        {"search": "backward"},
        {"fitting": "back"},
        {"rescore": "ndcg@5", "rescore_candidates": 3},
        {"feature_costs": np.arange(20) + 1.0, "budget": 30.0},
    ],
    ids=lambda parameters: " ".join(map(str, parameters.values()))[:20],
)
@pytest.mark.parametrize("dataset", ["sparse stored"], indirect=True)
def test_other_searches(parameters, dataset, client):
    here, there = (
        dr.GreedyRankRLS(5, 0.1, **parameters).fit(dataset, executor=way)
        for way in ("threads", client)
    )
    assert here.path_.kept == there.path_.kept
    np.testing.assert_array_equal(here.lqo_error_, there.lqo_error_)
    np.testing.assert_array_equal(here.coef_, there.coef_)


def test_rankrls(dataset, client):
    here, there = (dr.RankRLS(2.0).fit(dataset, executor=way) for way in ("threads", client))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    assert here.objective_ == there.objective_


def test_predictions_and_measures(dataset, client):
    model = dr.RankRLS(2.0).fit(dataset).to_model()
    np.testing.assert_array_equal(model.predict(dataset), model.predict(dataset, executor=client))
    here, there = (
        dr.evaluate(model, dataset, ["map", "ndcg@5"], executor=way) for way in (None, client)
    )
    assert here.metrics == there.metrics
