"""Models of pipelines: they score raw columns as scikit-learn's own pipeline does."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import dranking as dr
from dranking.errors import ScalingWarning
from tests.models.problems import random_problem

NAMES = ["clicks", "age", "bm25", "length"]


@pytest.fixture(scope="module")
def raw():
    """Features of unlike units, labels and query ids."""
    problem = random_problem(3, n_features=4)
    return problem.X * [1, 30, 0.2, 5] + [0, 40, 0, -3], problem.y, problem.qid


def variances(X, y):
    return X.var(axis=0)


def fitted(raw, *steps, last=None):
    with sklearn.config_context(enable_metadata_routing=True):
        last = (last or dr.RankRLS()).set_fit_request(qid=True)
        return make_pipeline(*steps, last).fit(raw[0], raw[1], qid=raw[2])


@pytest.mark.parametrize(
    "steps",
    [
        (StandardScaler(),),
        (StandardScaler(with_mean=False),),
        (StandardScaler(with_std=False),),
        (MinMaxScaler((-2, 5)),),
        (MaxAbsScaler(),),
        (RobustScaler(),),
        (RobustScaler(with_centering=False, with_scaling=False),),
        (MinMaxScaler(), SelectKBest(variances, k=3), StandardScaler()),
        (SelectKBest(variances, k=2),),
        (make_pipeline("passthrough", StandardScaler()), SelectKBest(variances, k=3)),
        ("passthrough",),
        ("passthrough", RobustScaler()),
        (),
    ],
    ids=lambda steps: "-".join(type(step).__name__ for step in steps) or "nothing",
)
@pytest.mark.parametrize("last", [dr.RankRLS(normalize="log"), dr.GreedyRankRLS(2)], ids=repr)
def test_the_model_scores_raw_rows_as_the_pipeline_does(raw, steps, last, tmp_path):
    X, y, qid = raw
    pipeline = fitted((pd.DataFrame(X, columns=NAMES), y, qid), *steps, last=sklearn.clone(last))
    dr.to_model(pipeline).save(tmp_path / "m.json")
    model = dr.load_model(tmp_path / "m.json")
    assert set(model.feature_names) <= set(NAMES)
    scores = model.predict(pd.DataFrame(X, columns=NAMES))
    expected = pipeline.predict(pd.DataFrame(X, columns=NAMES))
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_columns_of_arrays_have_numbers(raw):
    pipeline = fitted(raw, SelectKBest(variances, k=2))
    assert dr.to_model(pipeline).feature_names == ("f2", "f4")


def test_steps_that_make_columns_are_refused(raw):
    for step in (PCA(2), MinMaxScaler(clip=True), SimpleImputer(fill_value=-1.0)):
        name = type(step).__name__
        refused = rf"^{name} makes columns of its own, or fills or limits.*normalize="
        for steps in (step, make_pipeline(step, StandardScaler())):
            with pytest.raises(dr.UsageError, match=refused):
                dr.to_model(fitted(raw, steps))
    with pytest.raises(dr.UsageError, match="the last step is Ridge"):
        dr.to_model(make_pipeline(StandardScaler(), Ridge()).fit(raw[0], raw[1]))
    with pytest.raises(dr.UsageError, match="Ridge is neither a linear ranker, nor a pipeline"):
        dr.to_model(Ridge())
    forms = dr.GreedyRankRLS(2, forms=("raw", "log"))
    with pytest.raises(dr.UsageError, match="forms of features"):
        dr.to_model(fitted(raw, StandardScaler(), last=forms))


@pytest.mark.parametrize("form", [np.asarray, lambda X: pd.DataFrame(X, columns=NAMES)])
def test_a_ranker_behind_a_scaler_warns_that_its_model_takes_scaled_columns(raw, form):
    pipeline = fitted((form(raw[0]), *raw[1:]), StandardScaler())
    with pytest.warns(ScalingWarning, match=r"mean 0 and variance 1.*dranking.to_model\(pipeline"):
        pipeline[-1].to_model()
    dr.to_model(pipeline)  # carries the scaling out, so there is nothing to warn of


def test_scaling_by_hand_is_seen_and_raw_columns_are_not(raw):
    X = pd.DataFrame(raw[0], columns=NAMES).assign(one=1.0)
    by_pandas = ((X - X.mean()) / X.std()).fillna(0.0)
    with pytest.warns(ScalingWarning, match="mean 0 and variance 1"):
        dr.RankRLS().fit(by_pandas, raw[1], qid=raw[2]).to_model()
    only_first = X.assign(clicks=by_pandas["clicks"])
    for columns in (X, only_first, X[["one"]]):
        dr.RankRLS().fit(columns, raw[1], qid=raw[2]).to_model()
    dr.RankRLS(normalize="standard").fit(X, raw[1], qid=raw[2]).to_model()
