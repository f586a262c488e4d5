"""Arguments of `fit` as LightGBM and XGBoost name them."""

import json

import numpy as np
import pytest

import dranking as dr
from dranking.engine import shown_progress
from dranking.errors import DataError, UsageError
from tests.bilinear.test_estimator import topics
from tests.reference.metrics import file_order, ndcg_at

SIZES = [4, 1, 7, 3]
QID = np.repeat(np.arange(4), SIZES)
FEW = dr.SGD(n_epochs=2)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(len(QID), 3)).astype(np.float32)
    return features, rng.integers(0, 3, len(QID))


def mean_ndcg(scores, grades, sizes):
    """Mean NDCG@10 over the queries with a relevant document."""
    found, start = [], 0
    for size in sizes:
        own = slice(start, start + size)
        order = file_order(scores[own].tolist())
        if any(grades[own]):
            found.append(ndcg_at([float(grades[own][i]) for i in order], 10, "standard"))
        start += size
    return sum(found) / len(found)


@pytest.mark.parametrize(
    "ranker", [dr.RankRLS(), dr.SPD(sgd=FEW), dr.MaxMarginRanker()], ids=lambda r: type(r).__name__
)
def test_sizes_of_queries_and_evaluation_sets(ranker, rows):
    X, y = rows
    expected = ranker.fit(X, y, qid=QID).coef_
    later = (X[::-1], y[::-1])
    ranker.fit(X, y, group=SIZES, eval_set=[rows, later], eval_group=[SIZES, SIZES[::-1]])
    np.testing.assert_array_equal(ranker.coef_, expected)
    for i, (features, grades) in enumerate((rows, later)):
        value = mean_ndcg(ranker.predict(features), grades, SIZES[:: 1 - 2 * i])
        assert ranker.evals_result_[f"valid_{i}"]["ndcg@10"] == [pytest.approx(value)]
    steps = [1, 2] if isinstance(ranker, dr.SPD) else []
    assert [point.epoch for point in getattr(ranker, "learning_curve_", ())] == steps
    ranker.fit(X, y, qid=QID, eval_set=rows, eval_qid=QID)
    assert ranker.evals_result_["valid_0"]["ndcg@10"] == [
        pytest.approx(mean_ndcg(ranker.predict(X), y, SIZES))
    ]
    assert not hasattr(ranker.fit(X, y, qid=QID), "evals_result_")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"group": SIZES[:-1]}, DataError, "group has 12 rows in all, and there are 15"),
        ({"group": [0.5] * 30}, UsageError, "whole numbers above 0"),
        ({"group": SIZES, "qid": QID}, UsageError, "group and qid both say"),
        ({"qid": QID, "eval_set": 2}, UsageError, "eval_set has no queries"),
        ({"qid": QID, "eval_set": 2, "eval_qid": [QID, QID]}, UsageError, "has 1 sets, .* 2 ent"),
        ({"qid": QID, "eval_set": 3, "eval_qid": [QID]}, UsageError, "entry 0 of .* 3 parts"),
        ({"qid": QID, "eval_metric": "map"}, TypeError, "no eval_metric: evals_result_ has NDCG"),
        ({"qid": QID, "early_stopping_rounds": 3}, TypeError, "no early_stopping_rounds: choose"),
    ],
)
def test_what_does_not_fit_together(arguments, error, words, rows):
    if "eval_set" in arguments:
        arguments = {**arguments, "eval_set": [(*rows, QID)[: arguments["eval_set"]]]}
    with pytest.raises(error, match=words):
        dr.RankRLS().fit(*rows, **arguments)


def test_progress_is_shown_where_it_is_asked_for(rows, capsys, monkeypatch):
    monkeypatch.setattr(shown_progress, "LOG_SECONDS", 0.0)
    for verbose in (None, False):
        dr.SPD(sgd=FEW).fit(*rows, qid=QID, verbose=verbose)
        assert capsys.readouterr().err == ""
    dr.SPD(sgd=FEW).fit(*rows, qid=QID, verbose=True)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["done"] for line in lines if line["stage"] == "training"} >= {1, 2}
    dr.BilinearRanker(n_steps=64).fit(topics(), verbose=True)
    assert '"stage": "train"' in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")
def test_a_search_reports_forms_folds_and_time(rows, capsys, monkeypatch):
    monkeypatch.setattr(shown_progress, "LOG_SECONDS", 0.0)
    data, grid = dr.from_arrays(*rows, qid=QID), {"regularization": [1.0], "forms": "raw,log"}
    silent = dr.tune(data, {**grid, "forms": ["raw,log"]}, validation=3, max_features=1)
    assert capsys.readouterr().err == ""
    assert dr.tune(data, grid, validation=3, max_features=1, verbose=True).grid == silent.grid
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    lines = [line for line in lines if line["stage"] == "tune"]
    assert [(line["done"], line["total"]) for line in lines] == [(1, 3), (2, 3), (3, 3)]
    assert {line["forms"] for line in lines} == {"raw,log"}
    assert all(line["seconds"] >= 0.0 for line in lines)
