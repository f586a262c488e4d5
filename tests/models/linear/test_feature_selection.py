"""Rankers that select features, as selectors of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ndcg_score
from sklearn.pipeline import make_pipeline

import dranking as dr
from tests.models.problems import random_problem

NAMES = ["clicks", "age", "bm25", "length"]
PROBLEM = random_problem(1, n_features=4)
# The last column is the most useful one, so that features are not picked in the order of columns.
PROBLEM = PROBLEM._replace(X=np.ascontiguousarray(PROBLEM.X[:, ::-1]))
FRAME = pd.DataFrame(PROBLEM.X, columns=NAMES)


@pytest.fixture(scope="module")
def ranker():
    return dr.GreedyRankRLS(n_features=2, regularization=0.5).fit(FRAME, PROBLEM.y, qid=PROBLEM.qid)


def test_support_and_names(ranker):
    assert ranker.selected_ == [3, 2]
    mask = np.array([False, False, True, True])
    np.testing.assert_array_equal(ranker.get_support(), mask)
    assert ranker.get_support(indices=True).tolist() == [2, 3]
    assert ranker.n_features_in_ == 4
    assert ranker.feature_names_in_.tolist() == NAMES
    assert ranker.get_feature_names_out().tolist() == FRAME.columns[mask].tolist()
    with pytest.raises(NotFittedError):
        dr.GreedyRankRLS().get_support()


def test_set_output(ranker):
    wanted = dr.GreedyRankRLS(n_features=2, regularization=0.5).set_output(transform="pandas")
    frame = FRAME.set_index(np.arange(len(FRAME)) + 7)
    found = wanted.fit(frame, PROBLEM.y, qid=PROBLEM.qid).transform(frame)
    pd.testing.assert_frame_equal(found, frame[ranker.get_feature_names_out().tolist()])
    np.testing.assert_array_equal(wanted.fit_transform(frame, PROBLEM.y, qid=PROBLEM.qid), found)


def test_the_score_is_the_mean_ndcg(ranker):
    """Against scikit-learn; the grades are made positive, so that all queries count."""
    y = np.round(PROBLEM.y - PROBLEM.y.min()) + 1
    scores = ranker.predict(FRAME)
    queries = [PROBLEM.qid == query for query in dict.fromkeys(PROBLEM.qid.tolist())]
    expected = [  # scikit-learn takes no query of one document, whose NDCG is 1
        ndcg_score([2.0 ** y[rows] - 1], [scores[rows]]) if rows.sum() > 1 else 1.0
        for rows in queries
    ]
    assert ranker.score(FRAME, y, qid=PROBLEM.qid) == pytest.approx(np.mean(expected))
    table = FRAME.assign(qid=PROBLEM.qid, relevance=y)
    assert ranker.score(table) == ranker.score(FRAME, y, qid=PROBLEM.qid)
    assert ranker.score(PROBLEM.X, y, qid=PROBLEM.qid) == ranker.score(table)
    frame = pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=2)
    assert ranker.score(frame) == ranker.score(table)


def test_a_pipeline_in_front_of_a_booster():
    lightgbm = pytest.importorskip("lightgbm")
    rows = np.argsort(PROBLEM.qid, kind="stable")
    X, qid = FRAME.iloc[rows], PROBLEM.qid[rows]
    y = np.round(PROBLEM.y[rows] - PROBLEM.y.min()).astype(int)
    sizes = np.unique(qid, return_counts=True)[1]
    with sklearn.config_context(enable_metadata_routing=True):
        selector = dr.GreedyRankRLS(2).set_fit_request(qid=True)
        selector.set_output(transform="pandas")
        booster = lightgbm.LGBMRanker(n_estimators=3, min_child_samples=2, verbose=-1, n_jobs=1)
        model = make_pipeline(selector, booster.set_fit_request(group=True))
        model.fit(X, y, qid=qid, group=sizes)
        chosen = X.iloc[:, np.sort(selector.selected_)]
        alone = lightgbm.LGBMRanker(n_estimators=3, min_child_samples=2, verbose=-1, n_jobs=1)
        alone.fit(chosen, y, group=sizes)
        np.testing.assert_array_equal(model.predict(X), alone.predict(chosen))
