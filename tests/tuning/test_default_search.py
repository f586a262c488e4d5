"""The default search of greedy RankRLS, against refits by the public estimators."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.errors import DataError, SelectionWarning
from dranking.tuning import automatic
from dranking.tuning.folds import QueryKFold
from tests.reference import tuning as reference
from tests.tuning.searches import problem_of, query_values

pytestmark = pytest.mark.usefixtures("picks_without_gain_are_fine")

SEARCHED = {"metric": "ndcg@5", "max_features": 3}


@pytest.fixture(scope="module")
def data():
    problem = problem_of(3, n_queries=30)
    raw = np.exp(problem.X.astype(np.float64) * np.arange(1, 7)).astype(np.float32)
    return problem._replace(X=raw).dataset()


@pytest.fixture(scope="module")
def result(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return dr.tune(data, **SEARCHED)


def fitted(train, point, share=1.0):
    """The model of a point, selected by the estimator on its own."""
    rescore = {"metric": point.get("rescore"), "n_candidates": 5}
    ranker = dr.GreedyRankRLS(
        point["n_features"],
        point["regularization"] * share,
        forms=point["forms"].split(","),
        rescore=rescore,
    )
    return ranker.fit(train)


def test_it_tries_forms_lambdas_sizes_and_rescoring(result):
    settings = {(p["forms"], p["regularization"]) for p in result.grid if "rescore" not in p}
    assert {forms for forms, _ in settings} == set(automatic.FORMS)
    assert len(settings) >= 5 * len(automatic.FORMS)
    assert {p["n_features"] for p in result.grid} == {1, 2, 3}
    rescored = [p for p in result.grid if "rescore" in p]
    assert {p["rescore"] for p in rescored} == {"ndcg@5"}
    assert len({(p["forms"], p["regularization"]) for p in rescored}) == 1
    assert result.chosen["score"] == pytest.approx(max(p["score"] for p in result.grid))


def test_every_score_is_that_of_selections_without_the_queries_held_out(data, result):
    points = [p for p in result.grid if p["n_features"] == 2]
    asked = [p for p in points if "rescore" in p] + points[:: len(points) // 3]
    for point in asked:
        means = []
        for seed in range(2):
            fold = QueryKFold(5, seed).assign(data.query_ids().to_pylist())
            values, weights = [], []
            for index in range(5):
                rest = data.select_queries(fold != index)
                held_out = data.select_queries(fold == index)
                ranker = fitted(rest, point, rest.n_documents / data.n_documents)
                found, own = query_values(ranker, held_out, "ndcg@5")
                values, weights = values + found, weights + own
            means.append(reference.mean_and_error(values, weights)[0])
        assert point["score"] == pytest.approx(np.mean(means), rel=1e-10)


def test_the_model_is_that_of_the_chosen_point_on_all_data(data, result):
    model = fitted(data, result.chosen).to_model()
    assert result.model.feature_names == model.feature_names
    assert result.model.weights == pytest.approx(model.weights, rel=1e-12)
    assert result.model.transforms == model.transforms
    assert result.model.provenance["tuning"]["forms"] == list(automatic.FORMS)
    assert result.model.provenance["metrics"]["held_out"] == result.held_out._asdict()


def test_the_held_out_score_is_that_of_searches_without_the_queries(data, result):
    fold = QueryKFold(3, 1_000).assign(data.query_ids().to_pylist())
    values, weights = [], []
    for index in range(3):
        rest, held_out = data.select_queries(fold != index), data.select_queries(fold == index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            own = dr.tune(rest, validation=3, **SEARCHED)
        found, of = query_values(own.model, held_out, "ndcg@5")
        values, weights = values + found, weights + of
    mean, error = reference.mean_and_error(values, weights)
    assert result.held_out.score == pytest.approx(mean, rel=1e-9)
    assert result.held_out.standard_error == pytest.approx(error, rel=1e-9)
    assert result.held_out.n_folds == 3


def test_on_noise_the_held_out_score_is_that_of_chance():
    """The best of many models looks better than chance on the folds that chose it."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(400, 8)), rng.integers(0, 2, size=400)
    data = dr.from_arrays(X, y, qid=np.repeat(np.arange(40), 10))
    result = dr.tune(data, metric="auc", max_features=4)
    assert abs(result.held_out.score - 0.5) < 3 * result.held_out.standard_error
    assert result.chosen["score"] > result.held_out.score


def test_sentences_say_what_was_found(data, result):
    first, *others = result.said
    assert f"{result.held_out.score:.4f} +- {result.held_out.standard_error:.4f}" in first
    half = result.chosen["n_features"] // 2
    assert bool(others) == (half > 0)


def test_it_ends_with_its_time(data):
    result = dr.tune(data, time_limit=1e-9, **SEARCHED)
    assert {p["forms"] for p in result.grid} == {"raw"}
    assert result.held_out is None
    assert [f"forms {forms}" for forms in automatic.FORMS[1:]] == list(result.left_out[:3])
    assert any("held-out" in left_out for left_out in result.left_out)


def test_validation_data_takes_the_place_of_folds(data):
    judged = problem_of(4, n_queries=30)
    raw = np.exp(judged.X.astype(np.float64) * np.arange(1, 7)).astype(np.float32)
    validation = judged._replace(X=raw).dataset()
    result = dr.tune(data, validation=validation, **SEARCHED)
    point = result.chosen
    score = dr.evaluate(fitted(data, point), validation, ["ndcg@5"]).metrics["ndcg@5"]
    assert point["score"] == pytest.approx(score, rel=1e-10)
    assert result.held_out is None


def test_forms_that_the_data_does_not_allow_are_not_tried(data):
    block = data.block(0)
    X, y = sparse.csr_array(block.features * (block.features > 1)), block.relevance
    qid = np.repeat(np.arange(block.n_queries), np.diff(block.query_ptr))
    assert automatic.possible_forms(dr.from_arrays(X, y, qid)) == ("raw", "raw,log")
    assert automatic.possible_forms(dr.scaled(data, "log")) == ("raw",)
    missing = block.features.copy()
    missing[::7, 2] = np.nan
    filled = dr.from_arrays(missing, y, qid, null="mean")
    assert automatic.possible_forms(filled) == ("raw", "raw,log", "raw,log,quantile")


def test_given_forms_are_the_only_ones(data):
    result = dr.tune(data, {"forms": ["log"]}, validation=3, **SEARCHED)
    assert {p["forms"] for p in result.grid} == {"log"}


def test_statistics_have_no_documents_to_measure_on(data, tmp_path):
    store = dr.build_statistics(data, tmp_path / "s.stats")
    with pytest.raises(DataError, match="documents"):
        dr.tune(store)


def test_lambda_does_not_depend_on_units():
    problem = problem_of(6, n_queries=20)
    lambdas = []
    for scale in (1.0, 2.0**10):
        data = problem._replace(X=problem.X * np.float32(scale)).dataset()
        found = dr.tune(data, {"forms": ["raw"]}, validation=2, max_features=2)
        lambdas.append(np.unique([p["regularization"] for p in found.grid]) / scale**2)
    np.testing.assert_array_equal(*lambdas)


@pytest.mark.cluster
@pytest.mark.slow
def test_worker_processes_give_the_same_bits(data, tmp_path, client):
    stored = dr.write_dataset((data.block(b) for b in range(data.n_blocks)), tmp_path / "d.zarr")
    options = {"grid": {"forms": ["raw,quantile"]}, "validation": stored, "max_features": 2}
    expected = dr.tune(stored, executor="threads", **options)
    found = dr.tune(stored, executor=client, **options)
    assert found.as_json() == expected.as_json()
    assert found.model == expected.model
