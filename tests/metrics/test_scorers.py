"""Measures as scorers of scikit-learn, against loops over the folds and scikit-learn's NDCG."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import Ridge
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

import dranking as dr
from dranking.metrics.scorers import ndcg_scorer, ranking_scorer

RNG = np.random.default_rng(0)
QID = np.repeat(np.arange(12), 8)
X = RNG.normal(size=(96, 4)).astype(np.float32)
Y = np.clip(np.round(X[:, 1] + 0.5 * X[:, 3] + RNG.normal(size=96)), 0, 2)
Y[::8] = 1  # every query has a relevant document
GRID = {"regularization": [0.1, 1000.0], "normalize": ["none", "rank"]}


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def mean_ndcg(scores, y, qid, k):
    return np.mean(
        [ndcg_score([2.0 ** y[qid == q] - 1], [scores[qid == q]], k=k) for q in set(qid.tolist())]
    )


def test_a_grid_search_over_folds_of_whole_queries():
    ranker = dr.GreedyRankRLS(n_features=2).set_fit_request(qid=True)
    search = GridSearchCV(ranker, GRID, scoring=ndcg_scorer(k=3), cv=GroupKFold(3))
    search.fit(X, Y, groups=QID, qid=QID)
    for parameters, found in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        values = []
        for train, test in GroupKFold(3).split(X, Y, QID):
            fold = dr.GreedyRankRLS(n_features=2, **parameters)
            scores = fold.fit(X[train], Y[train], qid=QID[train]).predict(X[test], qid=QID[test])
            values.append(mean_ndcg(scores, Y[test], QID[test], 3))
        assert found == pytest.approx(np.mean(values))
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


def test_several_scorers_of_a_pipeline_that_selects_for_a_regressor():
    selector = dr.GreedyRankRLS(2).set_fit_request(qid=True)
    scorers = {"ndcg": ndcg_scorer(), "error": ranking_scorer("pairwise_error")}
    search = GridSearchCV(
        make_pipeline(selector, Ridge()),
        {"greedyrankrls__n_features": [1, 2]},
        scoring=scorers,
        refit="ndcg",
        cv=GroupKFold(3),
    )
    search.fit(X, Y, groups=QID, qid=QID)
    best = search.best_estimator_
    chosen = X[:, best[0].get_support()]
    alone = Ridge().fit(chosen, Y).predict(chosen)
    np.testing.assert_array_equal(best.predict(X), alone)
    assert scorers["ndcg"](best, X, Y, qid=QID) == pytest.approx(mean_ndcg(alone, Y, QID, None))
    assert (search.cv_results_["mean_test_error"] < 0).all()


def test_cross_val_score_and_calls_without_queries():
    ranker = dr.RankRLS().set_fit_request(qid=True)
    scorer = pickle.loads(pickle.dumps(ranking_scorer("MAP", convention="letor4")))
    found = cross_val_score(
        ranker, X, Y, scoring=scorer, cv=GroupKFold(3), params={"groups": QID, "qid": QID}
    )
    assert found.shape == (3,)
    fitted = dr.RankRLS().fit(X, Y, qid=QID)
    expected = dr.evaluate(fitted, dr.from_arrays(X, Y, QID), ["map"], convention="letor4")
    assert scorer(fitted, X, Y, qid=QID) == pytest.approx(expected.metrics["map"])
    with pytest.raises(dr.UsageError, match="enable_metadata_routing"):
        scorer(fitted, X, Y)
    with pytest.raises(dr.DataError, match="no query counts for map"):
        ranking_scorer("map")(fitted, X, np.zeros(96), qid=QID)
    with pytest.raises(dr.UsageError, match="at least 1"):
        ndcg_scorer(0)
