"""The default search of greedy RankRLS, against refits by the public estimators."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import ThreadExecutor
from dranking.engine.side_by_side import run_side_by_side
from dranking.errors import DataError, SelectionWarning, UsageError
from dranking.rankrls.greedy import candidates
from dranking.tuning import automatic, scores, search
from dranking.tuning.folds import QueryKFold
from dranking.tuning.preparation import Preparation
from dranking.tuning.scores import Part, SearchPlan
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
    plain = {(forms, value) for forms, value in settings if not forms.endswith(",product")}
    assert {forms for forms, _ in plain} == set(automatic.FORMS)
    assert len(plain) >= 5 * len(automatic.FORMS) - 2  # three for hinges
    assert len(settings - plain) >= 3 or "product" in result.not_taken[-1]
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
    assert set(result.model.provenance["tuning"]["forms"]) >= set(automatic.FORMS)
    assert result.model.provenance["metrics"]["held_out"] == result.held_out._asdict()


def test_the_held_out_score_is_that_of_searches_without_the_queries(data, result):
    fold = QueryKFold(3, 1_000).assign(data.query_ids().to_pylist())
    values, weights = [], []
    for index in range(3):
        rest, held_out = data.select_queries(fold != index), data.select_queries(fold == index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            own = dr.tune(rest, validation=QueryKFold(3), **SEARCHED)
        found, of = query_values(own.model, held_out, "ndcg@5")
        values, weights = values + found, weights + of
    mean, error = reference.mean_and_error(values, weights)
    assert result.held_out.score == pytest.approx(mean, rel=1e-9)
    assert result.held_out.standard_error == pytest.approx(error, rel=1e-9)
    assert result.held_out.n_folds == 3


def test_on_noise_the_held_out_score_is_that_of_chance(monkeypatch):
    """The best of many models looks better than chance on the folds that chose it."""
    monkeypatch.setattr(automatic, "FORMS", ("raw", "raw,log,hinge"))
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(400, 8)), rng.integers(0, 2, size=400)
    data = dr.from_arrays(X, y, qid=np.repeat(np.arange(40), 10))
    result = dr.tune(data, metric="auc", max_features=4)
    assert abs(result.held_out.score - 0.5) < 3 * result.held_out.standard_error
    assert result.chosen["score"] > result.held_out.score


def test_sentences_say_what_was_found(result):
    first, *others = result.said
    score, error = result.held_out.score, result.held_out.standard_error
    assert f"held-out queries: {score:.4f} +- {error:.4f} (" in first
    size = result.chosen["n_features"]
    by_size = {point["n_features"]: point["score"] for point in result.chosen_path}
    if size > 1:
        lost = by_size[size] - by_size[size // 2]
        sentence = others[0]
        paired = result.paired_errors[size // 2 - 1]
        assert sentence.startswith("with 1 feature, half as many: ")
        assert f"{lost:.4f} +- {paired:.4f} worse" in sentence or "as good" in sentence


def test_a_broken_line_is_found_and_its_columns_counted():
    """The grades are a broken line of the first of three features."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 3)).astype(np.float32)
    y = np.clip(np.round(3 * np.abs(X[:, 0]) + rng.normal(0, 0.3, 800)), 0, 4)
    data = dr.from_arrays(X, y, qid=np.repeat(np.arange(80), 10))
    result = dr.tune(data, {"forms": ["raw,log", "raw,log,hinge"]}, max_features=2, validation=2)
    assert result.chosen["forms"] == "raw,log,hinge"
    assert all(re.fullmatch(r"max\(0, .*f1.*\)", name) for name in result.model.feature_names)
    assert result.said[-1] == "2 terms of 1 column of the data"


def test_a_column_may_have_more_terms_than_the_data_has_columns():
    """The grades are a W of the only feature; of four features, one has hinges."""
    rng = np.random.default_rng(1)
    x, qid = rng.normal(size=(600, 1)), np.repeat(np.arange(60), 10)
    grades = np.clip(np.round(2 + 1.5 * np.cos(3 * x[:, 0]) + rng.normal(0, 0.3, 600)), 0, 4)
    data = dr.from_arrays(x, grades, qid=qid)
    result = dr.tune(data, {"forms": ["raw", "raw,hinge"]}, validation=2, max_features=8)
    assert len(result.model.weights) > 2
    assert result.said[-1].endswith(" of 1 column of the data")
    [plain] = dr.tune(data, {"forms": ["raw"]}, validation=2).model.feature_names
    assert plain == "f1"

    three = np.column_stack([np.clip(np.round(x[:, 0]), -1, 1), *rng.integers(0, 2, (3, 600))])
    few = dr.from_arrays(three, grades, qid=qid)
    for grid in ({"forms": ["hinge"]}, {"forms": ["hinge"], "regularization": [1.0]}):
        found = dr.tune(few, grid, validation=2)
        assert {point["n_features"] for point in found.grid} == {1, 2}
    found = dr.tune(few, grid, validation="leave-query-out")
    assert {point["n_features"] for point in found.grid} == {1, 2}


def test_hinges_that_gain_less_than_their_paired_error_are_not_taken():
    rng = np.random.default_rng(2)
    X, qid = rng.normal(size=(240, 2)).astype(np.float32), np.repeat(np.arange(24), 10)
    data = dr.from_arrays(X, (X[:, 0] + rng.normal(0, 1, 240) > 0).astype(float), qid=qid)
    asked = {"max_features": 2, "validation": 2, "metric": "map"}
    result = dr.tune(data, {"forms": ["raw", "raw,hinge"]}, **asked)
    assert {point["forms"] for point in result.grid} == {"raw"}
    both = (
        dr.tune(data, {"forms": ["raw"]}, **asked),
        dr.tune(data, {"forms": ["raw,hinge"]}, **asked),
    )
    plain, bent = (
        max((p for p in each.grid if "rescore" not in p), key=lambda point: point["score"])
        for each in both
    )
    gains = []
    for seed in range(2):
        fold = QueryKFold(2, seed).assign(data.query_ids().to_pylist())
        for index in range(2):
            rest, held_out = data.select_queries(fold != index), data.select_queries(fold == index)
            share = rest.n_documents / data.n_documents
            values = (
                query_values(fitted(rest, point, share), held_out, "map")[0]
                for point in (bent, plain)
            )
            gains += [one - other for one, other in zip(*values, strict=True)]
    mean, error = reference.mean_and_error(gains, [1.0] * len(gains))
    error *= 2**0.5  # of one repetition
    assert 0.0 < mean <= error
    assert result.not_taken == (f"forms raw,hinge, which gain {mean:.4f} +- {error:.4f}",)
    assert f"not taken: {result.not_taken[0]}" in result.said


def test_forms_that_add_no_column_are_tried_once():
    rng = np.random.default_rng(2)
    X = (rng.random((120, 2)) < 0.5).astype(np.float32)  # two values have no hinges
    data = dr.from_arrays(X, X[:, 0] > 0, qid=np.repeat(np.arange(12), 10))
    forms = ["raw,log", "raw,log,hinge"]
    result = dr.tune(data, {"forms": forms}, max_features=1, validation=2)
    assert {point["forms"] for point in result.grid} == {"raw,log"}


def test_a_score_that_chose_the_model_is_called_optimistic(data):
    result = dr.tune(data, time_limit=1e-9, **SEARCHED)
    assert {p["forms"] for p in result.grid} == {"raw"}
    assert result.held_out is None
    assert "optimistic" in result.said[0]
    tried = [f"forms {forms}, for lack of time" for forms in automatic.FORMS[1:]]
    tried.append("products, for lack of time")
    assert list(result.left_out[: len(tried)]) == tried
    assert result.left_out[-1].startswith("a score on held-out queries of 3 of 3 folds")


def test_the_time_of_a_set_of_forms_is_estimated_by_its_columns(data, monkeypatch):
    """Each column takes a second; hinges take longer than the time that is left for them."""
    now, whole = [0.0], SearchPlan.scores

    def scores(plan, part, splits, preparation, settings):
        now[0] += part.prepared(preparation).n_features
        return whole(plan, part, splits, preparation, settings)

    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(SearchPlan, "scores", scores)
    monkeypatch.setattr(automatic, "time", clock)
    monkeypatch.setattr(search, "time", clock)
    result = dr.tune(data, validation=data, time_limit=170, **SEARCHED)
    late = ("forms raw,log,hinge", "products")
    assert result.left_out == tuple(f"{what}, for lack of time" for what in late)
    assert {point["forms"] for point in result.grid} == set(automatic.FORMS[:-1])


def test_hinges_of_much_data_are_tried_where_they_are_named(data, monkeypatch):
    whole, inner, prepare, prepared = automatic.default_search, [], Preparation.of, []

    def of(preparation, dataset, executor):
        prepared.append(preparation.forms)
        return prepare(preparation, dataset, executor)

    def noted(plan, train, forms, *others, is_bounded):
        if train is not data:
            inner.append((list(forms), is_bounded))
        return whole(plan, train, forms, *others, is_bounded=is_bounded)

    monkeypatch.setattr(Preparation, "of", of)
    monkeypatch.setattr(automatic, "MOST_VALUES", 1_000)
    monkeypatch.setattr(automatic, "FORMS", ("raw", "raw,hinge"))
    monkeypatch.setattr(automatic, "default_search", noted)
    asked = {**SEARCHED, "max_features": 1, "validation": 2}
    found = dr.tune(data, **asked)
    hinges, products = found.left_out
    assert re.match(r"forms raw,hinge, with up to 90 columns .*\(--forms raw,hinge\)", hinges)
    assert re.match(r"products, with up to 36 columns .*\(--forms raw,log,product\)", products)
    assert inner == [(["raw"], True)] * 3
    assert set(prepared) == {"raw"}  # no knots were fitted in vain
    assert found.held_out.n_folds == 3
    named = dr.tune(data, {"forms": ["raw,hinge"]}, **asked)
    assert named.left_out == ()
    assert {point["forms"] for point in named.grid} == {"raw,hinge"}
    assert inner[3:] == [(["raw,hinge"], False)] * 3


def test_what_inner_searches_leave_out_is_not_said_of_the_search(data, monkeypatch):
    """A fold has no score if its search is cut short, but one if the search has its bound."""
    whole, reasons = automatic.default_search, []

    def cut_short(plan, train, forms, clock, preference, *, is_bounded):
        if train is not data:
            clock.left_out.append("products, as they would be too many")
            if reasons and not clock.allows(np.inf, reasons[0]):
                return []
        return whole(plan, train, forms[:1], clock, preference, is_bounded=is_bounded)

    monkeypatch.setattr(automatic, "default_search", cut_short)
    asked = {**SEARCHED, "max_features": 1, "time_limit": 1e6}
    found = dr.tune(data, {"forms": ["raw"]}, **asked)
    assert found.held_out.n_folds == 3
    assert found.left_out == ()
    reasons.append("forms raw,log")
    found = dr.tune(data, {"forms": ["raw"]}, **asked)
    assert found.held_out is None
    [said] = found.left_out
    assert said.startswith("a score on held-out queries of 3 of 3 folds, for lack of time")


@pytest.mark.parametrize(
    ("n_queries", "options"), [(28, {"rule": "smaller"}), (4, {}), (6, {}), (2, {})]
)
def test_few_queries_give_a_model_and_no_error(n_queries, options):
    data = problem_of(5, n_queries=n_queries).dataset()
    result = dr.tune(data, max_features=2, **options)
    assert result.model.weights
    if n_queries < 6:
        assert result.held_out is None
        assert any("the search fails without some" in each for each in result.left_out)


def test_lambda_is_reduced_by_the_weights_of_the_documents():
    problem = problem_of(5, n_queries=12)
    weights = np.ones(12)
    weights[:3] = 100.0
    heavy = problem._replace(weights=weights).dataset()
    rest = heavy.select_queries(np.arange(12) >= 3)
    sizes = problem.sizes
    expected = sizes[3:].sum() / (sizes[3:].sum() + 100.0 * sizes[:3].sum())
    found = Part(rest, get_executor()).weight / Part(heavy, get_executor()).weight
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("grid", [{"regularisation": [1.0]}, {"mu": [1.0]}])
def test_what_is_not_searched_is_not_ignored(data, grid):
    with pytest.raises(UsageError, match="has no"):
        dr.tune(data, grid)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_time_that_is_none(data, seconds):
    with pytest.raises(UsageError, match="time_limit is"):
        dr.tune(data, time_limit=seconds)


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
    allowed = ("raw", "raw,log", "raw,log,quantile", "raw,log,hinge")
    assert automatic.possible_forms(filled) == allowed


def test_products_need_factors(data):
    for grid in ({"forms": ["product"]}, {"forms": ["raw", "product"], "regularization": [1.0]}):
        with pytest.raises(UsageError, match=r"forms are product; .* beside others"):
            dr.tune(data, grid)


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


def interactions(weight, n_queries=60, *, has_large=False):
    """Grades by two features, and by a product of them with a weight; two or three are noise."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(10 * n_queries, 4)).astype(np.float32)
    if has_large:
        large = 1e4 * rng.lognormal(size=(len(X), 2))
        X = np.column_stack([X[:, :3], large]).astype(np.float32)
    y = X[:, 0] + 0.5 * X[:, 1] + weight * X[:, 0] * X[:, 1] + rng.normal(0, 0.5, len(X))
    return dr.from_arrays(X, np.clip(np.round(y + 1), 0, 4), np.repeat(np.arange(n_queries), 10))


def test_the_default_search_takes_products_that_gain_and_no_others(monkeypatch):
    monkeypatch.setattr(automatic, "FORMS", ("raw",))
    asked = {"validation": 2, "max_features": 4}
    found = dr.tune(interactions(1.0), **asked)
    assert found.chosen["forms"] == "raw,product"
    assert "f1 * f2" in found.model.feature_names
    assert found.held_out.n_folds == 3
    assert found.not_taken == ()
    plain = dr.tune(interactions(0.0), **asked)
    assert not any("*" in name for name in plain.model.feature_names)
    assert (
        found.held_out.score - 0.02
        > dr.tune(interactions(1.0), {"forms": ["raw"]}, **asked).held_out.score
    )


def test_products_of_features_far_larger_than_others_hide_none(monkeypatch):
    """In units of the products, which are 1e8 times larger, lambda would leave no others."""
    monkeypatch.setattr(automatic, "FORMS", ("raw",))
    monkeypatch.setattr(search, "held_out_score", lambda *_, **__: None)
    found = dr.tune(interactions(1.0, has_large=True), validation=2, max_features=3)
    assert "f1 * f2" in found.model.feature_names


def test_a_product_that_the_data_has_is_no_candidate(monkeypatch):
    monkeypatch.setattr(automatic, "FORMS", ("raw",))
    data = interactions(1.0, n_queries=20)
    block = data.block(0)
    features = np.column_stack([block.features, block.features[:, 0] * block.features[:, 1]])
    qid = np.repeat(np.arange(block.n_queries), np.diff(block.query_ptr))
    names = [*data.feature_names, "f1 * f2"]
    own = dr.from_arrays(features, block.relevance, qid, feature_names=names)
    found = dr.tune(own, validation=2, max_features=3)
    assert "f1 * f2" in found.model.feature_names
    assert any("product" in point["forms"] for point in found.grid) or found.not_taken
    assert found.held_out.n_folds == 3


def test_products_are_selected_anew_in_each_fold(monkeypatch):
    """The factors of a fold are those of its own training queries, here one of two."""
    monkeypatch.setattr(candidates, "N_MULTIPLIED", 1)
    data = interactions(1.0, n_queries=16)
    grid = {"forms": ["raw,product"], "regularization": [2.0]}
    result = dr.tune(data, grid, validation=2, max_features=3)
    fold = QueryKFold(2).assign(data.query_ids().to_pylist())
    values, weights = [], []
    for index in range(2):
        rest, held_out = data.select_queries(fold != index), data.select_queries(fold == index)
        own = {**result.grid[-1], "forms": "raw,product"}
        found, of = query_values(fitted(rest, own, rest.n_documents / data.n_documents), held_out,
                                 "ndcg@10")  # fmt: skip
        values, weights = values + found, weights + of
    assert result.grid[-1]["score"] == pytest.approx(reference.mean_and_error(values, weights)[0])


def test_each_preparation_is_fitted_once_to_each_part(data, monkeypatch):
    whole, made = Preparation.of, []

    def noted(preparation, dataset, executor):
        made.append((preparation, id(dataset)))
        return whole(preparation, dataset, executor)

    monkeypatch.setattr(Preparation, "of", noted)
    grid = {"forms": ["raw", "log"], "regularization": [1.0, 4.0]}
    result = dr.tune(data, grid, validation=2, max_features=2)
    assert len(made) == 2 * 3 + 1  # and once for the model
    made.clear()
    found = dr.tune(data, {"forms": ["log"]}, validation=data, max_features=2)
    assert {point["forms"] for point in result.grid} == {"raw", "log"}
    assert found.model.feature_names
    assert len(made) == 2


@pytest.mark.slow
def test_folds_side_by_side_give_the_same_bits(monkeypatch):
    """Models, scores, choices of forms and warnings, from processes as from this one."""
    monkeypatch.setattr(automatic, "FORMS", ("raw,hinge",))
    threads, asked = ThreadExecutor(2), {"validation": 2, "max_features": 3}
    expected = dr.tune(interactions(1.0), executor=threads, **asked)
    monkeypatch.setattr(scores, "SHORT_VALUES", 0)
    used = []
    monkeypatch.setattr(
        scores,
        "run_side_by_side",
        lambda *args, are_short: (
            used.append(are_short) or run_side_by_side(*args, are_short=are_short)
        ),
    )
    found = dr.tune(interactions(1.0), executor=threads, **asked)
    assert all(used)
    assert found.as_json() == expected.as_json()
    assert found.model == expected.model


@pytest.mark.cluster
@pytest.mark.slow
def test_worker_processes_give_the_same_bits(data, tmp_path, client):
    stored = dr.write_dataset((data.block(b) for b in range(data.n_blocks)), tmp_path / "d.zarr")
    options = {"grid": {"forms": ["raw,hinge,product"]}, "validation": stored, "max_features": 2}
    expected = dr.tune(stored, executor="threads", **options)
    found = dr.tune(stored, executor=client, **options)
    assert found.as_json() == expected.as_json()
    assert found.model == expected.model
