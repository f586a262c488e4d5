"""Public signatures are short: what belongs together is one object, in scikit-learn's way."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

import dranking as dr
from dranking.metrics.scorers import ranking_scorer
from dranking.tuning.result import TuningResult

MOST_PARAMETERS = 16
MOST_OF_A_FUNCTION = 11
OPTIONS = [dr.Costs, dr.Forms, dr.Pairs, dr.Passes, dr.Rescore, dr.SGD, dr.Search]


def test_nobody_reads_more_than_a_few_parameters():
    public = {name: getattr(dr, name) for name in dr.__all__ if not name.startswith("_")}
    sizes = {name: len(inspect.signature(each).parameters) for name, each in public.items()}
    assert {name: size for name, size in sizes.items() if size > MOST_PARAMETERS} == {}


def test_ingest_takes_objects_of_columns_and_rows():
    names = list(inspect.signature(dr.ingest).parameters)
    assert len(names) <= MOST_OF_A_FUNCTION
    assert {"columns", "rows"} <= set(names)


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.__name__)
def test_options_are_cloned_and_documented(kind):
    names = list(inspect.signature(kind).parameters)
    options = clone(kind())
    assert options == kind.of(None) == kind()
    assert sorted(names) == sorted(options.get_params())
    documented = inspect.getdoc(kind).split("----------\n", 1)[1]
    assert [n for n in names if n not in documented] == []


def test_a_grid_reaches_the_parameters_of_options():
    ranker = dr.SPD(sgd=dr.SGD(n_epochs=2))
    grid = ParameterGrid({"sgd__eta0": [0.1, 1.0], "regularization": [0.5]})
    found = [clone(ranker).set_params(**each) for each in grid]
    assert [(each.sgd.eta0, each.sgd.n_epochs) for each in found] == [(0.1, 2), (1.0, 2)]
    assert ranker.sgd.eta0 is None


def test_parameters_of_a_short_form_can_be_set():
    ranker = dr.GreedyRankRLS(search="floating").set_params(search__patience=2, passes__prefetch=1)
    assert (ranker.search, ranker.passes) == (dr.Search("floating", patience=2), dr.Passes(1))
    assert dr.LCRA(sgd={"n_epochs": 3}).set_params(sgd__eta0=0.5).sgd == dr.SGD(3, eta0=0.5)
    with pytest.raises(ValueError, match="Invalid parameter 'epochs' for estimator SGD"):
        dr.SPD().set_params(sgd__epochs=3)


X = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.3], [2.0, 0.1]])
CALL = {"X": X, "y": [0, 1, 0, 1], "qid": [7, 7, 8, 8]}


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ({"search": "floating"}, {"search": dr.Search("floating")}),
        ({"search": {"kind": "backward"}}, {"search": dr.Search("backward")}),
        ({"rescore": "map"}, {"rescore": {"metric": "map", "n_candidates": 10}}),
        ({"feature_costs": {"f1": 1, "f2": 2}}, {"feature_costs": dr.Costs([1, 2])}),
        ({"forms": ("raw", "log")}, {"forms": dr.Forms(("raw", "log"), per_feature=1)}),
    ],
    ids=str,
)
def test_the_first_parameter_alone_or_a_mapping_stands_for_the_object(short, whole):
    fits = [dr.GreedyRankRLS(1, **options).fit(**CALL) for options in (short, whole)]
    assert fits[0].to_model().weights == fits[1].to_model().weights


def test_what_is_no_parameter_of_an_object_is_said():
    with pytest.raises(dr.UsageError, match=r"SGD .*epochs.*average, eta0"):
        dr.SPD(sgd={"epochs": 3}).fit(**CALL)
    with pytest.raises(dr.UsageError, match=r"solver is 'bfgs'.*auto, .*SGD"):
        dr.MaxMarginRanker(solver="bfgs").fit(**CALL)
    with pytest.raises(dr.UsageError, match="validation is 'folds'; give judged queries"):
        dr.tune(dr.from_arrays(**CALL), [1.0], validation="folds")
    with pytest.raises(dr.UsageError, match="the grid has no regularization"):
        dr.tune(dr.from_arrays(**CALL), {"normalize": ["log"]}, validation=2, model="rankrls")
    with pytest.raises(dr.UsageError, match=r"regularization is 1\.0"):
        dr.tune(dr.from_arrays(**CALL), {"regularization": 1.0}, validation=2)


def test_documents_have_no_weights_of_their_own():
    with pytest.raises(TypeError, match="sample_weight"):
        dr.RankRLS().fit(**CALL, sample_weight=np.ones(4))
    twice = dr.RankRLS().fit(**CALL, query_weights=[2.0, 1.0]).coef_
    rows = [0, 1, 0, 1, 2, 3]
    repeated = dr.RankRLS().fit(X[rows], [0, 1, 0, 1, 0, 1], qid=[1, 1, 2, 2, 3, 3]).coef_
    np.testing.assert_allclose(twice, repeated, rtol=1e-12)


def test_every_signature_says_metric_as_the_command_line_does():
    public = {name: getattr(dr, name) for name in dr.__all__ if not name.startswith("_")}
    public |= {"ranking_scorer": ranking_scorer, "TuningResult": TuningResult}
    names = {name: set(inspect.signature(each).parameters) for name, each in public.items()}
    assert {name for name, these in names.items() if these & {"measure", "measures"}} == set()
    of_metrics = {name for name, these in names.items() if these & {"metric", "metrics"}}
    assert {"evaluate", "evaluate_bilinear", "tune", "Rescore", "Validation"} <= of_metrics
