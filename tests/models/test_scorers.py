"""Evaluation of whatever scores documents."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dranking as dr
from dranking.errors import DataError, UsageError
from tests.models.problems import random_problem

NAMES = ("a", "b", "c", "d")
PROBLEM = random_problem(4, n_features=4)


@pytest.fixture(scope="module")
def data():
    return PROBLEM.dataset(feature_names=NAMES)


@pytest.fixture(scope="module")
def frame(data):
    """The rows of the data set as a table with its own column names."""
    return pd.DataFrame(PROBLEM.X, columns=NAMES).assign(qid=PROBLEM.qid, relevance=PROBLEM.y)


def of_scores(scores, frame, measures=("ndcg@10", "map")):
    """Measures of scores by way of a model with one feature, the score."""
    table = frame[["qid", "relevance"]].assign(s=np.asarray(scores, np.float32))
    model = dr.LinearModel(feature_names=("s",), weights=(1.0,))
    return dr.evaluate(model, dr.from_table(table), measures).metrics


def measured(scorer, data):
    return dr.evaluate(scorer, data, ("ndcg@10", "map")).metrics


def test_an_estimator_and_a_data_frame(frame):
    ranker = dr.RankRLS().fit(frame)
    expected = measured(ranker.to_model(), dr.from_table(frame))
    with_others = frame.assign(title="text")
    assert measured(ranker, frame) == expected
    assert measured(ranker, with_others) == measured(ranker.to_model(), with_others) == expected
    assert measured(ranker, pa.Table.from_pandas(with_others)) == expected


def test_one_measure_is_a_text(frame):
    expected = dr.evaluate("c", frame, ["ndcg@10"]).metrics
    assert dr.evaluate("c", frame, "ndcg@10").metrics == expected
    assert list(expected) == ["ndcg@10"]


def test_paths_are_data(frame, tmp_path):
    frame.assign(title="text").to_parquet(tmp_path / "a.parquet")
    ranker = dr.RankRLS().fit(frame)
    assert measured(ranker, tmp_path / "a.parquet") == measured(ranker, frame)


@pytest.mark.parametrize("as_given", [np.asarray, list, pd.Series, pa.array])
def test_arrays_of_scores(as_given, frame):
    scores = np.random.default_rng(0).normal(size=len(frame)).astype(np.float32)
    assert measured(as_given(scores), frame) == of_scores(scores, frame)
    with pytest.raises(DataError, match=rf"{len(scores) - 1} scores for {len(scores)} documents"):
        measured(as_given(scores[1:]), frame)


def test_a_column_of_the_data(frame, data):
    assert measured("c", frame.assign(title="text")) == of_scores(frame.c, frame)
    with pytest.raises(DataError, match=r"no score column 'bm25'\. .* 'a', 'b', 'c', 'd'\."):
        dr.evaluate("bm25", data)
    with pytest.raises(DataError, match=r"no score column 'bm25'\. .* 'a', 'b', 'c', 'd'\."):
        dr.evaluate("bm25", frame.assign(title="text"))


class OnlyPredicts:
    """A fitted object that knows nothing of names."""

    def predict(self, X):
        return X @ np.array([1.0, 0.0, -2.0, 0.5], dtype=np.float32)


def test_any_object_that_predicts(frame):
    from sklearn.linear_model import LinearRegression
    from sklearn.tree import DecisionTreeRegressor

    assert measured(OnlyPredicts(), frame) == of_scores(OnlyPredicts().predict(PROBLEM.X), frame)
    named = LinearRegression().fit(frame[["c", "a"]], frame.a - frame.c)
    expected = of_scores(named.predict(frame[["c", "a"]]), frame)
    assert measured(named, frame.assign(title="text")) == expected
    bare = DecisionTreeRegressor(max_depth=3, random_state=0).fit(PROBLEM.X, frame.b)
    assert measured(bare, frame) == of_scores(bare.predict(PROBLEM.X), frame)
    with pytest.raises(DataError, match=r"trained on 4 features without names, .* has 3"):
        measured(bare, frame.drop(columns="a"))


def test_boosters(frame):
    lightgbm = pytest.importorskip("lightgbm")
    options = {"verbose": -1, "min_data_in_leaf": 2, "num_threads": 1}
    features = frame[list(NAMES)]
    for X in (features, features.to_numpy()):
        booster = lightgbm.train(options, lightgbm.Dataset(X, frame.relevance), 5)
        assert measured(booster, frame) == of_scores(booster.predict(X), frame)
        ranker = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, **options)
        ranker.fit(X, frame.relevance)
        assert measured(ranker, frame) == of_scores(ranker.predict(X), frame)


@pytest.mark.parametrize("as_regressor", [False, True])
def test_boosters_on_columns_with_spaces(frame, tmp_path, as_regressor):
    """LightGBM replaces spaces by underscores in what it remembers of the names."""
    lightgbm = pytest.importorskip("lightgbm")
    options = {"verbose": -1, "min_data_in_leaf": 2}
    spaced = frame.rename(columns={"a": "bm25 of title", "c": "c_d e", "d": "the_last"})
    features = spaced[["c_d e", "b", "bm25 of title", "the_last"]]
    if as_regressor:
        model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, **options)
        model.fit(features, frame.relevance)
    else:
        data = lightgbm.Dataset(features, frame.relevance)
        model = lightgbm.train({**options, "num_threads": 1}, data, 5)
    expected = of_scores(model.predict(features), frame)
    spaced.assign(title="text").to_parquet(tmp_path / "a.parquet")
    for judged in (spaced, dr.from_table(spaced), tmp_path / "a.parquet"):
        assert measured(model, judged) == expected
    underscored = spaced.rename(columns=lambda name: name.replace(" ", "_"))
    assert measured(model, underscored) == expected
    twice = spaced.assign(**{"c_d_e": 1.0})
    with pytest.raises(DataError, match="'c_d e' and 'c_d_e' have one name in LightGBM"):
        measured(model, twice)
    with pytest.raises(DataError, match="lacks 1 of the 4 features needed: bm25_of_title"):
        measured(model, spaced.drop(columns="bm25 of title"))


def test_boosters_of_xgboost(frame):
    xgboost = pytest.importorskip("xgboost")
    features = frame[["d", "b"]]
    matrix = xgboost.DMatrix(features, frame.relevance)
    booster = xgboost.train({"max_depth": 2, "nthread": 1}, matrix, 5)
    assert measured(booster, frame) == of_scores(booster.predict(matrix), frame)
    regressor = xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(features, frame.relevance)
    assert measured(regressor, frame) == of_scores(regressor.predict(features), frame)


@pytest.mark.parametrize("scorer", [None, 3, {"a": 1}, np.ones((2, 2)), object()])
def test_what_scores_nothing_is_refused_with_what_to_do(scorer, data):
    with pytest.raises(UsageError, match=r"scores no documents\. Give a model"):
        dr.evaluate(scorer, data)


def test_wrong_predictions_are_refused(frame):
    class Wide:
        def predict(self, X):
            return np.ones((len(X), 2))

    with pytest.raises(UsageError, match=r"predict of Wide gives an array of shape \(\d+, 2\)"):
        measured(Wide(), frame)


def test_data_without_labels(frame):
    with pytest.raises(DataError, match="no labelled document"):
        measured("a", dr.from_table(frame, dr.Columns(relevance=None)))


def test_comparisons(frame):
    a, b = dr.evaluate("a", frame), dr.evaluate("b", frame)
    assert dr.compare(a, b).metrics == dr.compare(a.per_query, b.per_query).metrics
    with pytest.raises(UsageError, match=r"give judged data .* dranking\.compare\(a, b, data\)"):
        dr.compare("a", b)
    with pytest.raises(UsageError, match="a RankRLS holds no values of queries"):
        dr.compare(a, dr.RankRLS())
