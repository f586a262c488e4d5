"""`tune` by leave-query-out predictions and errors, against plain loops of refits."""

import shutil

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.errors import DataError, UsageError
from dranking.rankrls.gram.statistics_store import build_statistics
from tests.reference.greedy import (
    centred_queries,
    held_out_error,
    naive_scores,
    ridge_weights,
)
from tests.reference.metrics import evaluate
from tests.tuning.searches import LAMBDAS, SIZE, problem_of

pytestmark = pytest.mark.usefixtures("picks_without_gain_are_fine")


def test_leave_query_out_scores_are_those_of_refits():
    problem = problem_of(4)
    result = dr.tune(
        problem.dataset(),
        grid=LAMBDAS,
        max_features=SIZE,
        validation="leave-query-out",
        metric="map",
        convention="letor4",
    )
    X, y, query_ptr, weights = problem.labelled()
    queries = centred_queries(X, y, query_ptr, weights)
    for point in result.grid:
        value, size = point["regularization"], point["n_features"]
        selected = dr.GreedyRankRLS(size, value).fit(problem.dataset()).selected_
        total = 0.0
        for q in range(len(queries)):
            rows = slice(query_ptr[q], query_ptr[q + 1])
            refit = ridge_weights(queries[:q] + queries[q + 1 :], selected, value)
            scores = X[rows][:, selected].astype(float) @ refit
            total += weights[q] * evaluate("map", y[rows], scores, "letor4")
        assert point["score"] == pytest.approx(total / weights.sum(), rel=1e-12)
    assert result.model.provenance["metrics"]["data"] == "leave-query-out predictions"


def test_leave_query_out_is_for_greedy_rankrls():
    with pytest.raises(UsageError, match="not for rankrls"):
        dr.tune(problem_of().dataset(), grid=[1.0], validation="leave-query-out", model="rankrls")


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_squared_error_is_that_of_refits_and_needs_no_documents(tmp_path, layout):
    problem = problem_of(4)
    dataset = problem.dataset(layout, max_documents=20)
    store = build_statistics(dataset, tmp_path / "store")
    options = {"grid": LAMBDAS, "validation": "leave-query-out", "metric": "squared_error"}
    result = dr.tune(store, max_features=SIZE, **options)
    queries = centred_queries(*problem.labelled())
    errors = {}
    for value in LAMBDAS:
        chosen: list[int] = []
        for size in range(1, SIZE + 1):
            scores = naive_scores(queries, chosen, value)
            chosen.append(min(scores, key=lambda i: (scores[i], i)))
            errors[value, size] = scores[chosen[-1]]
    found = {(p["regularization"], p["n_features"]): p["score"] for p in result.grid}
    assert found == pytest.approx(errors, rel=1e-9)
    best = min(errors, key=errors.__getitem__)
    assert (result.chosen["regularization"], result.chosen["n_features"]) == best
    of_data = dr.tune(dataset, max_features=SIZE, **options)
    assert of_data.selected == result.selected
    if layout is np.asarray:
        assert of_data.as_json() == result.as_json()
    else:  # without a state kept for each query and feature, sums run in another order
        scores = [point["score"] for point in result.grid]
        assert [point["score"] for point in of_data.grid] == pytest.approx(scores, rel=1e-12)
    metrics = result.model.provenance["metrics"]
    assert metrics["sums"] == {"squared_error": result.chosen["score"]}
    assert metrics["data"] == "leave-query-out predictions"

    rankrls = dr.tune(store, model="rankrls", **options)
    for point in rankrls.grid:
        expected = held_out_error(queries, range(6), point["regularization"])
        assert point["score"] == pytest.approx(expected, rel=1e-8)
    assert rankrls.chosen["score"] == min(point["score"] for point in rankrls.grid)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"validation": 2},
            "measures leave-query-out predictions",
        ),
        ({"rule": "smaller"}, "needs the standard error of a score"),
        ({"model": "ranksvm"}, "exists for greedy-rankrls and rankrls, not for ranksvm"),
    ],
)
def test_what_squared_error_cannot_choose(options, message):
    call = {"grid": [1.0], "validation": "leave-query-out", "metric": "squared_error"}
    with pytest.raises(UsageError, match=message):
        dr.tune(problem_of().dataset(), **(call | options))


@pytest.mark.parametrize("validation", [2, "leave-query-out"])
def test_rankings_of_a_statistics_store_are_refused_before_it_is_read(tmp_path, validation):
    store = build_statistics(problem_of().dataset(), tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "blocks")
    with pytest.raises(DataError, match=r"hold no documents.*lqo-squared_error"):
        dr.tune(store, [1.0], validation=validation)


def test_a_statistics_store_is_validated_on_documents(tmp_path):
    dataset, validation = problem_of(1).dataset(), problem_of(2).dataset()
    store = build_statistics(dataset, tmp_path / "store")
    options = {"validation": validation, "grid": LAMBDAS, "max_features": SIZE}
    found, expected = (dr.tune(data, **options).as_json() for data in (store, dataset))
    # The ids are equal, and a store knows nothing of the documents.
    assert found.pop("trained_on")["n_trained_on"] == 14
    assert expected.pop("trained_on")["n_other_documents"] == 14
    assert found == expected
    with pytest.raises(DataError, match="hold no documents"):
        dr.tune(dataset, **(options | {"validation": store}))
