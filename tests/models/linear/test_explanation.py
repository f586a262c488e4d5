"""Contributions of features to scores, against plain loops."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dranking as dr
from dranking.errors import UsageError
from dranking.metrics.prediction_files import write_predictions
from dranking.models.linear.explanation import explained_blocks, with_scores
from dranking.models.linear.model import LinearModel
from tests.reference.contributions import contributions_of

NAMES = ("a", "b", "c", "d")
QID = np.repeat([3, 1, 2], [4, 1, 3])


@pytest.fixture(scope="module", name="X")
def rows():
    X = np.random.default_rng(0).normal(size=(len(QID), 4)).astype(np.float32)
    X[2, 1] = X[5, 1] = 0.0
    return X


MODEL = LinearModel(feature_names=NAMES, weights=(0.5, -2.0, 0.0, 1 / 3))


@pytest.mark.parametrize(
    ("scaling", "layout"),
    [("none", np.asarray), ("none", sparse.csr_array), ("query-minmax", np.asarray)],
)
def test_contributions_are_those_of_plain_loops_and_add_up(scaling, layout, X):
    data = dr.from_arrays(layout(X), None, qid=QID, feature_names=NAMES)
    model = MODEL
    if scaling != "none":
        y = np.arange(len(QID)) % 2
        trained = dr.scaled(dr.from_arrays(X, y, qid=QID, feature_names=NAMES), scaling)
        model = MODEL.model_copy(update={"transforms": trained.transforms})
    found = model.explain(data)
    assert found.feature_names == ("a", "b", "d")
    expected = contributions_of(X.tolist(), QID.tolist(), model.weights, scaling == "query-minmax")
    np.testing.assert_allclose(found.contributions, np.delete(expected, 2, axis=1), rtol=1e-6)
    np.testing.assert_array_equal(found.scores, model.predict(data))
    in_order = np.zeros(len(QID))
    for column in found.contributions.T:
        in_order += column
    np.testing.assert_array_equal(found.scores, in_order)
    table = model.explain(pd.DataFrame(X, columns=NAMES), qid=QID)
    np.testing.assert_array_equal(table.contributions, found.contributions)


def test_a_difference_is_told_by_its_largest_parts(X):
    difference = MODEL.explain(X).difference(0, 3)
    products = {name: w * (float(x) - float(z)) for name, w, x, z in zip(
        NAMES, MODEL.weights, X[0], X[3], strict=True
    ) if w}  # fmt: skip
    told = difference.largest()
    assert [name for name, _ in told] == sorted(products, key=lambda name: -abs(products[name]))
    assert dict(told) == pytest.approx(products)
    assert difference.scores[0] == pytest.approx(sum(products.values()))
    assert list(difference.to_frame()) == ["a", "b", "d", "score"]


def test_one_document_is_a_mapping_or_a_series():
    row = {"a": 2.0, "b": 1.0, "c": "no number is needed", "d": 3.0, "url": "other"}
    for document in (row, pd.Series(row)):
        [told] = MODEL.explain(document).contributions.tolist()
        assert told == [1.0, -2.0, 1.0]
    assert str(MODEL.explain(row)).splitlines()[:2] == ["document 0: score 0", "  -2         b"]


def test_a_missing_value_contributes_what_training_filled(X):
    gaps = X.copy()
    gaps[1, 0] = np.nan
    y = np.arange(len(QID)) % 2
    ranker = dr.RankRLS().fit(gaps, y, qid=QID, null="mean")
    mean = np.nanmean(gaps[:, 0])
    [told] = dr.to_model(ranker).explain(gaps[1:2]).contributions
    assert told[0] == pytest.approx(ranker.coef_[0] * mean, rel=1e-6)


def test_a_model_without_weights_contributes_nothing(X, tmp_path):
    model = MODEL.model_copy(update={"weights": (0.0,) * 4})
    data = dr.from_arrays(X, None, qid=QID, feature_names=NAMES)
    for rows in (X, sparse.csr_array(X), pd.DataFrame(X, columns=NAMES), data):
        assert model.explain(rows).contributions.shape == (len(QID), 0)
        np.testing.assert_array_equal(model.predict(rows), np.zeros(len(QID)))
    predictions = ((block, with_scores(part)) for block, part in explained_blocks(model, data))
    write_predictions(tmp_path / "told.csv", "csv", predictions)
    assert pd.read_csv(tmp_path / "told.csv")["score"].tolist() == [0.0] * len(QID)


def test_scores_of_dask_are_not_explained():
    da = pytest.importorskip("dask.array")
    with pytest.raises(UsageError, match="not a Dask collection"):
        MODEL.explain(da.ones((4, 4)))
