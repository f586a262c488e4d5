"""`tune` of the stochastic rankers, against a plain loop of fits."""

import json
import math
import re

import numpy as np
import pytest

import dranking as dr
from dranking.errors import DataError, DivergedError, TuningWarning, UsageError
from dranking.tuning import families
from dranking.tuning.curves import plot_curves
from dranking.tuning.folds import QueryKFold
from tests.models.problems import random_problem
from tests.reference import tuning as reference

LAMBDAS = [1e-3, 0.1]
STEPS = {"n_epochs": 2, "steps_per_epoch": 200}


def partly_labelled(seed=0, n_queries=24):
    """Every fourth query without labels, and every fifth document."""
    problem = random_problem(seed, n_queries, n_features=6)
    y = problem.y.copy()
    y[problem.qid % 4 == 3] = np.nan
    y[::5] = np.nan
    return problem._replace(y=y)


def part(problem, queries):
    """(X, y, query_ptr, weights) of some queries, for the references; no label is grade 0."""
    rows = queries[problem.qid]
    query_ptr = np.concatenate(([0], np.cumsum(problem.sizes[queries])))
    return problem.X[rows], np.nan_to_num(problem.y[rows]), query_ptr, problem.weights[queries]


def keys_of(result, *names):
    return [tuple(point[name] for name in names) for point in result.grid]


def lcra_of(point):
    """LCRA with the values of a point of the grid."""
    steps = {**STEPS, "eta0": point["eta0"]}
    return dr.LCRA(point["regularization"], point["mu"], sgd=steps, random_state=3)


def test_lcra_is_cross_validated_over_lambda_mu_and_eta0_by_labelled_queries():
    problem = partly_labelled()
    labelled = np.unique(problem.qid[~np.isnan(problem.y)])
    assert len(labelled) <= 18
    data = problem.dataset(max_documents=50)
    result = dr.tune(
        data,
        model="lcra",
        grid={"regularization": LAMBDAS, "mu": [0.5, 0.0], "eta0": [0.05, None, 0.05]},
        parameters={"sgd": STEPS, "random_state": 3},
        validation=dr.QueryKFold(3, 7),
        metric="map",
    )
    assert keys_of(result, "regularization", "mu", "eta0") == [
        (a, b, c) for a in LAMBDAS for b in (0.0, 0.5) for c in (None, 0.05)
    ]
    fold = QueryKFold(3, seed=7).assign(labelled.tolist())
    for point in result.grid:
        values, weights = [], []
        for index in range(3):
            validation = np.isin(np.arange(len(problem.sizes)), labelled[fold == index])
            test = part(problem, validation)
            coef = lcra_of(point).fit(data.select_queries(~validation)).coef_
            values += reference.query_values(test, range(6), coef, "map", "standard")
            weights += test[-1].tolist()
        mean, error = reference.mean_and_error(values, weights)
        assert point["score"] == pytest.approx(mean, rel=1e-12)
        assert point["standard_error"] == pytest.approx(error, rel=1e-9)
    best = max(point["score"] for point in result.grid)
    assert result.chosen["score"] == best
    final = lcra_of(result.chosen).fit(data).to_model()
    assert result.model.weights == final.weights
    tuning = result.model.provenance["tuning"]
    assert tuning["regularizations"] == LAMBDAS
    assert (tuning["mus"], tuning["eta0s"]) == ([0.0, 0.5], [None, 0.05])


@pytest.mark.filterwarnings("ignore:after .* steps the objective is")
def test_spd_is_chosen_on_validation_data():
    train, validation = random_problem(1, 30).dataset(), random_problem(2, 30).dataset()
    result = dr.tune(
        train,
        validation=validation,
        model="spd",
        grid={"regularization": LAMBDAS, "eta0": [0.01, math.inf]},
        parameters={"sgd": STEPS, "loss": "logistic"},
        metric="ndcg@5",
    )
    assert keys_of(result, "regularization", "eta0") == [
        (a, b) for a in LAMBDAS for b in (0.01, math.inf)
    ]
    assert [point["eta0"] for point in result.as_json()["grid"]] == [0.01, "inf", 0.01, "inf"]
    provenance = json.loads(result.model.to_json())["provenance"]
    assert provenance["tuning"]["eta0s"] == [0.01, "inf"]
    assert provenance["parameters"]["sgd"]["eta0"] == result.as_json()["chosen"]["eta0"]
    for point in result.grid:
        ranker = dr.SPD(point["regularization"], "logistic", sgd={**STEPS, "eta0": point["eta0"]})
        model = ranker.fit(train).to_model()
        score = dr.evaluate(model, validation, ["ndcg@5"]).metrics["ndcg@5"]
        assert point["score"] == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"loss": "ndcg", "tol": 1e-3},
        {"loss": "pairwise"},
        {"loss": "ap", "solver": dr.SGD(2, 100), "random_state": 3},
    ],
)
def test_max_margin_is_cross_validated_by_queries(parameters):
    problem = random_problem(1, 20, n_features=6)
    data = problem.dataset(max_documents=50)
    options = {"model": "max-margin", "parameters": parameters, "validation": QueryKFold(2, 7)}
    result = dr.tune(data, grid=LAMBDAS, metric="map", **options)
    fold = QueryKFold(2, seed=7).assign(range(20))
    for value, point in zip(LAMBDAS, result.grid, strict=True):
        values, weights = [], []
        for index in range(2):
            train, test = data.select_queries(fold != index), part(problem, fold == index)
            coef = dr.MaxMarginRanker(value, **parameters).fit(train).coef_
            values += reference.query_values(test, range(6), coef, "map", "standard")
            weights += test[-1].tolist()
        assert point["score"] == pytest.approx(reference.mean_and_error(values, weights)[0])
    final = dr.MaxMarginRanker(result.chosen["regularization"], **parameters).fit(data).to_model()
    assert result.model.weights == final.weights


def test_unlabelled_data_reaches_lcra():
    train, other = random_problem(1, 20).dataset(), random_problem(2, 30).dataset()
    result = dr.tune(
        train,
        model="lcra",
        grid={"regularization": [0.1], "mu": [1.0]},
        validation=random_problem(3, 20).dataset(),
        parameters={"sgd": STEPS, "unlabelled": other},
    )
    expected = dr.LCRA(0.1, 1.0, sgd=STEPS).fit(train, unlabelled=other)
    assert result.model.weights == expected.to_model().weights


@pytest.fixture(scope="module")
def with_diverged():
    """Training diverges with first steps of length 1e6, and does not with 0.01."""
    with pytest.warns(TuningWarning, match=r"diverged with regularization 0.001, eta0 1e\+06"):
        return dr.tune(
            random_problem(1, 30).dataset(),
            validation=3,
            model="spd",
            grid={"regularization": LAMBDAS, "eta0": [0.01, 1e6]},
            parameters={"sgd": STEPS, "loss": "squared"},
        )


def test_a_setting_that_diverges_is_worst_and_ends_nothing(with_diverged):
    scores = {
        key: point["score"]
        for key, point in zip(
            keys_of(with_diverged, "regularization", "eta0"), with_diverged.grid, strict=True
        )
    }
    assert [math.isnan(scores[value, 1e6]) for value in LAMBDAS] == [True, True]
    assert all(scores[value, 0.01] > 0 for value in LAMBDAS)
    assert with_diverged.chosen["eta0"] == 0.01
    content = json.loads(json.dumps(with_diverged.as_json(), allow_nan=False))
    assert [point["score"] is None for point in content["grid"]] == [False, True] * 2
    assert with_diverged.to_table().column_names[:2] == ["regularization", "eta0"]


def test_a_setting_that_diverges_is_a_gap_of_the_figure(with_diverged):
    [axes] = plot_curves(with_diverged).axes
    lines = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert np.isnan(lines["eta0 1e+06"]).all()
    assert np.isfinite(lines["eta0 0.01"]).all()
    assert "eta0 0.01, 12 features" in axes.get_title(loc="right")


@pytest.mark.parametrize("measure", ["map", "pairwise_error"])
def test_one_fold_that_diverges_is_enough(measure):
    problem = random_problem(1, 12)
    # One fold alone trains without it.
    problem.X[problem.qid == np.argmax(problem.sizes)] *= 1e4
    with pytest.warns(TuningWarning, match=r"regularization 0.01, eta0 0.01: not chosen"):
        result = dr.tune(
            problem.dataset(),
            validation=3,
            model="spd",
            grid={"regularization": [0.01], "eta0": [1e-10, 0.01]},
            parameters={"sgd": STEPS, "loss": "squared"},
            metric=measure,
        )
    assert result.chosen["eta0"] == 1e-10


def test_what_diverges_on_all_training_data_is_not_chosen_either(monkeypatch):
    fit = families.fit_on_all_features

    def diverging(fit_setting, train, setting, *others):
        if setting["regularization"] == best["regularization"]:
            raise DivergedError("too long")
        return fit(fit_setting, train, setting, *others)

    steps = {"sgd": STEPS}
    options = {"model": "spd", "grid": LAMBDAS, "validation": 2, "parameters": steps}
    data = random_problem(1, 30).dataset()
    best = dr.tune(data, **options).chosen
    monkeypatch.setattr(families, "fit_on_all_features", diverging)
    with pytest.warns(TuningWarning, match=f"regularization {best['regularization']:g}: not"):
        found = dr.tune(data, **options)
    assert {found.chosen["regularization"], best["regularization"]} == set(LAMBDAS)
    scores = {p["regularization"]: p["score"] for p in found.grid}
    assert math.isnan(scores[best["regularization"]])


def test_nothing_but_divergence_is_an_error():
    with pytest.raises(DivergedError, match=r"with every setting \(regularization 0.1, eta0 1e\+0"):
        dr.tune(
            random_problem(1, 30).dataset(),
            validation=2,
            model="spd",
            grid={"regularization": [0.1], "eta0": [1e6]},
            parameters={"sgd": STEPS, "loss": "squared"},
        )


def test_queries_without_relevant_documents_are_no_divergence():
    nothing = dr.from_arrays(np.ones((3, 12)), [0, 0, 0], [1, 1, 1])
    with pytest.raises(DataError, match="no validation query counts"):
        dr.tune(
            random_problem(1).dataset(),
            validation=nothing,
            model="spd",
            grid=[0.1],
            parameters={"sgd": STEPS},
        )


@pytest.mark.parametrize(
    ("options", "noun"),
    [
        ({"mu": [0.1]}, "mu"),
        ({"model": "ranksvm", "eta0": [0.1]}, "eta0"),
        ({"eta0": []}, "eta0"),
        ({"eta0": [0.0]}, "eta0"),
        ({"model": "lcra", "mu": [-1.0]}, "mu"),
        ({"model": "lcra", "mu": [math.inf]}, "mu"),
        ({"parameters": {"views": 2}}, "views"),
        ({"parameters": {"eta0": 0.1}}, "eta0"),
        ({"parameters": {"sgd": {"eta0": 0.1}}, "eta0": [0.1]}, "sgd"),
        ({"parameters": {"sgd": {"epochs": 1}}}, "epochs"),
        ({"model": "max-margin", "eta0": [0.1]}, "eta0"),
        ({"model": "max-margin", "parameters": {"loss": "auc"}}, "auc"),
        ({"parameters": {"checkpoint": "c"}}, "checkpoint"),
        ({"model": "rankrls", "parameters": {"seed": 1}}, "seed"),
        ({"parameters": {"unlabelled": random_problem().dataset()}}, "unlabelled"),
        ({"max_features": 2}, "all features"),
        ({"validation": "leave-query-out"}, "spd"),
    ],
)
def test_wrong_calls(options, noun):
    options = dict(options)
    axes = {name: options.pop(name) for name in ("mu", "eta0") if name in options}
    call = {"model": "spd", "grid": {"regularization": [0.1], **axes}, "validation": 2, **options}
    with pytest.raises(UsageError, match=rf"\b{re.escape(noun)}\b"):
        dr.tune(random_problem().dataset(), **call)
