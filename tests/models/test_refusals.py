"""Parameters that a ranker refuses when it is fitted: the error says which, in whatever words."""

import re
from functools import partial

import numpy as np
import pytest

import dranking as dr
from dranking.bilinear.estimator import BilinearRanker
from tests.bilinear.test_estimator import topics
from tests.models.problems import random_problem

COSTS, GREEDY = dr.Costs, partial(dr.GreedyRankRLS, n_features=2)

REFUSED = [
    *((dr.RankRLS, {"regularization": v}, "regularization")
      for v in (0.0, -1, np.nan, np.inf, "1", None, True)),
    (dr.RankRLS, {"solver": "lu"}, "cg"),
    (dr.RankRLS, {"normalize": "cube"}, "cube"),
    (dr.RankRLS, {"non_negative": "f1"}, "non_negative"),
    (dr.RankRLS, {"non_negative": [3]}, "features 0 to 2"),
    (dr.RankRLS, {"non_negative": ["f1"], "solver": "cg"}, "direct"),
    *((dr.RankRLSCV, {"regularizations": v}, "regularizations")
      for v in ([], [0.0], [1.0, -1.0], [np.nan])),
    *((GREEDY, {"regularization": v}, "regularization") for v in (0.0, -1.0, np.nan, np.inf, "1")),
    *((GREEDY, {"n_features": v}, "n_features") for v in (0, 4, 2.5)),
    (GREEDY, {"passes": {"prefetch": 0}}, "prefetch"),
    (partial(dr.GreedyRankRLSCV, 2), {"regularizations": []}, "regularizations"),
    (GREEDY, {"search": "sideways"}, "sideways"),
    (GREEDY, {"search": "floating", "rescore": "map"}, "rescore"),
    (GREEDY, {"search": "backward", "feature_costs": [1.0] * 3}, "feature_costs"),
    (GREEDY, {"search": {"kind": "backward", "fitting": "back"}}, "fitting"),
    (GREEDY, {"search": {"fitting": "post"}}, "fitting"),
    (GREEDY, {"rescore": "mapp"}, "mapp"),
    *((GREEDY, {"rescore": dr.Rescore("map", v)}, "candidates") for v in (0, 1.5)),
    (GREEDY, {"rescore": dr.Rescore("map", convention="mine")}, "mine"),
    (GREEDY, {"rescore": "map", "feature_costs": [1.0] * 3}, "rescore"),
    (GREEDY, {"feature_costs": [1, 2]}, "feature_costs"),
    (GREEDY, {"feature_costs": {"f1": 1}}, "f2, f3"),
    (GREEDY, {"feature_costs": {"f9": 1}}, "f9"),
    *((GREEDY, {"feature_costs": [1, v, 2]}, "f2") for v in (-1, np.nan, "x")),
    (GREEDY, {"feature_costs": COSTS(groups=["a", "a", "b"])}, "feature_costs"),
    (GREEDY, {"feature_costs": COSTS(budget=3.0)}, "feature_costs"),
    (GREEDY, {"feature_costs": COSTS([1, 1, 1], budget=0.0)}, "budget"),
    (GREEDY, {"feature_costs": COSTS([3, 2, 4], budget=1.0)}, "cheapest"),
    (GREEDY, {"feature_costs": COSTS([3, 2, 4], budget=1.0), "start": ["f2"]}, "start"),
    (GREEDY, {"feature_costs": COSTS([1, 2, 3], ["a", None, "a"])}, "f1 and f3"),
    (dr.RankSVM, {"regularization": 0.0}, "regularization"),
    (dr.RankSVM, {"loss": "absolute"}, "squared-hinge"),
    (dr.RankSVM, {"tol": -1.0}, "tol"),
    (dr.RankSVM, {"max_iter": 2.5}, "max_iter"),
    (dr.SPD, {"regularization": 0}, "regularization"),
    (dr.SPD, {"loss": "huber"}, "huber"),
    (dr.SPD, {"pairs": {"label": "gap"}}, "label"),
    (dr.SPD, {"pairs": {"sampling": "rows"}}, "sampling"),
    (dr.SPD, {"pairs": {"position_weights": "rows"}}, "position_weights"),
    (dr.SPD, {"sgd": {"average": "tail"}}, "average"),
    (dr.SPD, {"sgd": {"eta0": -1.0}}, "eta0"),
    (dr.SPD, {"sgd": {"n_epochs": 0}}, "n_epochs"),
    (dr.SPD, {"sgd": {"steps_per_epoch": 1.5}}, "steps_per_epoch"),
    (dr.SPD, {"sgd": {"n_shards": None}}, "n_shards"),
    (dr.SPD, {"random_state": -1}, "random_state"),
    (dr.SPD, {"memory_limit": "much"}, "memory_limit"),
    (dr.LCRA, {"mu": -1.0}, "mu"),
    (dr.LCRA, {"n_labelled": 0}, "n_labelled"),
    (dr.LCRA, {"n_unlabelled": -1}, "n_unlabelled"),
    (dr.LCRA, {"views": 1}, "views"),
    (dr.LCRA, {"views": "two"}, "views"),
    (dr.LCRA, {"views": [[0, 1, 2]]}, "groups"),
    (dr.LCRA, {"views": [[0, 1, 2], []]}, "groups"),
    (dr.LCRA, {"views": [[0, 1], [1]]}, "f3"),
    (dr.LCRA, {"views": [[0, 1], [2, 9]]}, "9"),
    (dr.MaxMarginRanker, {"regularization": 0.0}, "regularization"),
    (dr.MaxMarginRanker, {"loss": "auc"}, "auc"),
    (dr.MaxMarginRanker, {"solver": "smo"}, "smo"),
    (dr.MaxMarginRanker, {"solver": "newton"}, "pairs"),
    (dr.MaxMarginRanker, {"loss": "pairwise", "form": "sum"}, "lists"),
    (dr.MaxMarginRanker, {"margins": "all"}, "ranks"),
    (dr.MaxMarginRanker, {"n_levels": 1}, "n_levels"),
    (dr.MaxMarginRanker, {"tol": 0.0}, "tol"),
    (dr.MaxMarginRanker, {"max_iter": 2.5}, "max_iter"),
    (dr.MaxMarginRanker, {"convention": "letor5"}, "letor5"),
    (dr.MaxMarginRanker, {"solver": {"average": "some"}}, "average"),
    (BilinearRanker, {"regularization": -1.0}, "regularization"),
    (BilinearRanker, {"learning_rate": 0.0}, "learning_rate"),
    (BilinearRanker, {"period": 0}, "period"),
    (BilinearRanker, {"n_steps": 1.5}, "n_steps"),
    (BilinearRanker, {"start": "cosine"}, "cosine"),
    (BilinearRanker, {"support": "band"}, "band"),
    (BilinearRanker, {"schedule": "x"}, "decaying"),
    (BilinearRanker, {"penalty": "x"}, "rows"),
    (BilinearRanker, {"n_shards": 1_000}, "n_shards"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("ranker", "parameters", "noun"),
    REFUSED,
    ids=lambda value: getattr(value, "__name__", str(value)[:60]),
)
def test_the_parameter_is_named(ranker, parameters, noun):
    with pytest.raises(dr.UsageError, match=rf"\b{re.escape(noun)}\b"):
        ranker(**parameters).fit(data_for(ranker))


def data_for(ranker):
    if ranker is BilinearRanker:
        return topics()
    return random_problem(n_features=3).dataset()


@pytest.mark.parametrize(
    ("parameters", "noun"),
    [({"patience": 0}, "patience"), ({"metric": "accuracy"}, "accuracy"),
     ({"convention": "letor5"}, "letor5")],
)  # fmt: skip
def test_the_wrong_part_of_a_validation_is_named(parameters, noun):
    data = random_problem(n_features=3).dataset()
    with pytest.raises(dr.UsageError, match=rf"\b{re.escape(noun)}\b"):
        dr.SPD(sgd={"n_epochs": 1, "steps_per_epoch": 10}).fit(
            data, validation=dr.Validation(data, **parameters)
        )
