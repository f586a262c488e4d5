"""Scaling that a model carries out: fitted by `fit`, and applied by `predict` and the model."""

import json

import numpy as np
import pandas as pd
import pytest

import dranking as dr
from tests.models.problems import random_problem

NAMES = ["clicks", "age", "bm25", "length"]
SCALINGS = ["query-minmax", "standard", "minmax", "log", "rank", "quantile"]


@pytest.fixture(scope="module")
def raw():
    """A frame of raw features of unlike units, with grades and adjacent rows of each query."""
    problem = random_problem(5, n_features=4)
    rows = np.argsort(problem.qid, kind="stable")
    X = (problem.X[rows] * [1, 30, 0.2, 5] + [0, 40, 0, -3]).astype(np.float32)
    y = np.round(problem.y[rows] - problem.y.min())
    return pd.DataFrame(X, columns=NAMES).assign(qid=problem.qid[rows], relevance=y)


@pytest.mark.parametrize("normalize", SCALINGS)
def test_a_fit_equals_the_fit_to_data_that_was_ingested_with_the_scaling(normalize, raw, tmp_path):
    raw.to_parquet(tmp_path / "raw.parquet")
    dr.ingest(tmp_path / "raw.parquet", tmp_path / "d.zarr", normalize=normalize)
    expected = dr.GreedyRankRLS(n_features=2).fit(dr.open_dataset(tmp_path / "d.zarr"))
    found = dr.GreedyRankRLS(n_features=2, normalize=normalize)
    found.fit(raw[NAMES], raw["relevance"], qid=raw["qid"])
    assert found.selected_ == expected.selected_
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    assert found.to_model().transforms == expected.to_model().transforms != ()
    assert found.feature_names_in_.tolist() == NAMES
    scores = found.predict(raw[NAMES], qid=raw["qid"])
    np.testing.assert_allclose(scores, expected.predict(raw[NAMES], qid=raw["qid"]), rtol=1e-9)


@pytest.mark.parametrize(
    "ranker",
    [
        dr.GreedyRankRLS(n_features=2),
        dr.GreedyRankRLSCV(n_features=2, regularizations=[1.0, 8.0]),
        dr.RankRLS(),
        dr.RankRLSCV(regularizations=[1.0, 8.0]),
        dr.RankSVM(),
        dr.RankLogistic(),
        dr.MaxMarginRanker(),
        dr.SPD(sgd=dr.SGD(n_epochs=2, steps_per_epoch=500)),
        dr.LCRA(mu=0.0, sgd=dr.SGD(n_epochs=2, steps_per_epoch=500)),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_every_linear_ranker_scales_to_mean_0_and_deviation_1(ranker, raw, tmp_path):
    X, y, qid = raw[NAMES].to_numpy(), raw["relevance"], raw["qid"]
    by_hand = ((X - X.mean(axis=0, dtype=float)) / X.std(axis=0, dtype=float)).astype(np.float32)
    expected = ranker.fit(by_hand, y, qid=qid)
    weights, scores = expected.coef_.copy(), expected.predict(by_hand)
    found = ranker.set_params(normalize="standard").fit(X, y, qid=qid)
    np.testing.assert_allclose(found.coef_, weights, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.predict(X), scores, rtol=1e-3, atol=1e-5)
    found.to_model().save(tmp_path / "m.json")
    again = dr.load_model(tmp_path / "m.json").predict(dr.from_arrays(X, y, qid))
    np.testing.assert_array_equal(again, found.predict(X))
    assert (
        json.loads((tmp_path / "m.json").read_text())["provenance"]["parameters"]["normalize"]
        == "standard"
    )


def test_later_data_takes_the_scaling_of_the_first(raw):
    first, later = raw[raw["qid"] < 5], raw[raw["qid"] >= 5]
    steps = dr.SGD(n_epochs=1, steps_per_epoch=200)
    parts = dr.SPD(sgd=steps, normalize="standard")
    X = raw[NAMES].to_numpy()
    known = (raw["qid"] < 5).to_numpy()
    by_hand = ((X - X[known].mean(axis=0, dtype=float)) / X[known].std(axis=0, dtype=float)).astype(
        np.float32
    )
    expected = dr.SPD(sgd=steps)
    for part, rows in ((first, known), (later, ~known)):
        parts.partial_fit(part[NAMES], part["relevance"], qid=part["qid"])
        expected.partial_fit(by_hand[rows], part["relevance"], qid=part["qid"])
    np.testing.assert_allclose(parts.coef_, expected.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(parts.predict(X), expected.predict(by_hand), rtol=1e-3, atol=1e-4)


def test_wrong_scalings_are_refused(raw):
    X, y, qid = raw[NAMES], raw["relevance"], raw["qid"]
    with pytest.raises(dr.DataError, match="a ranker with normalize='none'"):
        dr.GreedyRankRLS(2, forms=("raw", "log"), normalize="log").fit(X, y, qid=qid)
    with pytest.raises(dr.UsageError, match="takes no normalize while it is tuned"):
        dr.tune(
            dr.from_arrays(X, y, qid),
            validation=2,
            model="ranksvm",
            grid=[1.0],
            parameters={"normalize": "log"},
        )
