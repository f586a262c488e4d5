"""The kinds of linear models whose lambda, size and other parameters can be tuned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.progress import report
from dranking.errors import DivergedError, UsageError
from dranking.max_margin.estimator import MaxMarginRanker
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention
from dranking.models.linear.checks import check_training_data
from dranking.models.linear.estimator import LinearRanker
from dranking.models.linear.model import LinearModel
from dranking.models.linear.query_record import unrecorded
from dranking.pairwise.lcra import LCRA
from dranking.pairwise.options import SGD
from dranking.pairwise.ranksvm import RankLogistic, RankSVM
from dranking.pairwise.spd import SPD
from dranking.rankrls import checked_weights
from dranking.rankrls.checked_weights import CheckedRidge
from dranking.rankrls.estimator import RankRLS
from dranking.rankrls.greedy.estimator import GreedyRankRLS, warn_of_rounding
from dranking.rankrls.greedy.options import Rescore
from dranking.rankrls.greedy.path import Selection, SelectionRules
from dranking.rankrls.greedy.rescoring import Rescoring
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.grid_errors import leave_query_out
from dranking.rankrls.leave_query_out.predictions import with_exact_ties
from dranking.rankrls.normal_equations import normal_equations_of
from dranking.tuning.choice import GridPoint, ModelPath
from dranking.tuning.grid import Array, Criterion, score_sums
from dranking.tuning.settings import Setting

ModelName: TypeAlias = Literal[
    "greedy-rankrls", "rankrls", "ranksvm", "ranksvm-hinge", "ranklogistic", "max-margin", "spd",
    "lcra",
]  # fmt: skip
N_RESCORED = 5
"""Number of candidates that a round of a selection scores again."""

GridPoints: TypeAlias = Sequence[Sequence[GridPoint]]
Fit: TypeAlias = Callable[[Dataset, Setting, Executor], LinearRanker]


class Family(NamedTuple):
    """The functions of a kind of model that a search calls.

    Attributes
    ----------
    paths
        Function from data, settings and a largest number of features to the models to try.
    fit
        Function from data, the chosen setting and number of features to the final model and the
        indices of its features.
    lqo_errors
        Function from data, lambdas and a largest number of features to the squared leave-query-out
        errors of the models of each lambda, summed over queries; None for a kind of model that
        would need refits.
    """

    paths: Callable[[Dataset, Sequence[Setting], int, Executor], list[ModelPath]]
    fit: Callable[[Dataset, Setting, int, Executor], tuple[LinearModel, Sequence[int]]]
    lqo_errors: Callable[[Dataset, Sequence[float], int, Executor], GridPoints] | None = None


def family_of(
    model: str,
    parameters: Mapping[str, Any],
    unlabelled: Dataset | None = None,
    tuned: Iterable[str] = ("regularization",),
) -> Family:
    """The functions of the kind of model with this name.

    Parameters
    ----------
    model
        A `ModelName`.
    parameters
        Further parameters of the estimator, equal in all fits.
    unlabelled
        For ``lcra``: data on whose pairs the views shall agree.
    tuned
        The parameters that the search chooses.

    Raises
    ------
    UsageError
        If there is no such model, or the model does not take a parameter or unlabelled data.
    """
    if model not in get_args(ModelName):
        known = ", ".join(get_args(ModelName))
        raise UsageError(f"there is no model {model!r} to tune; choose from {known}.")
    if unlabelled is not None and model != "lcra":
        raise UsageError(f"{model} does not learn from unlabelled data; omit the unlabelled data.")
    _check_parameters(model, parameters, set(tuned))
    if model in FAMILIES:
        return FAMILIES[model]
    data = {} if unlabelled is None else {"unlabelled": unlabelled}
    fit = partial(fitted_ranker, RANKERS[model], parameters, data)
    return Family(partial(refitted_paths, fit), partial(fit_on_all_features, fit))


def greedy_family(convention: str | Convention = DEFAULT_CONVENTION) -> Family:
    """Greedy RankRLS; picks that the search has rescored are rescored under the convention."""
    return Family(partial(greedy_paths, convention), partial(fit_greedy, convention), greedy_errors)


def greedy_paths(
    convention: str | Convention,
    train: Dataset,
    settings: Sequence[Setting],
    size: int,
    executor: Executor,
) -> list[ModelPath]:
    """Greedy selections of up to `size` features; lambdas with the same rescoring in lockstep."""
    paths = []
    for measure, alike in groupby(settings, key=lambda setting: setting.get("rescore")):
        group = list(alike)
        rules = SelectionRules(size, rescoring=Rescoring.of(measure, N_RESCORED, convention))
        found = select_paths(train, lambdas_of(group), rules, executor=executor)
        _warn_of_worst(found, train)
        named = zip(_model_paths(found), group, strict=True)
        paths += [path._replace(setting=setting) for path, setting in named]
    return paths


def lqo_prediction_sums(
    train: Dataset, lambdas: Sequence[float], size: int, criterion: Criterion, executor: Executor
) -> tuple[list[ModelPath], Array]:
    """Greedy selections, and the sums of their leave-query-out predictions; see `query_sums`."""
    found = select_paths(
        train,
        lambdas,
        SelectionRules(size),
        measure=partial(prediction_sums, criterion),
        executor=executor,
    )
    _warn_of_worst(found, train)
    return _model_paths(found), np.concatenate([path.measured for path in found.paths], axis=1)


def prediction_sums(criterion: Criterion, block: QueryBlock, scores: Array) -> Array:
    """Sums over the queries of a block with (n_models, n_documents) scores; see `query_sums`."""
    tied = np.array([with_exact_ties(block, row) for row in scores])
    return score_sums(block, tied, criterion, len(scores))


def fit_greedy(
    convention: str | Convention, train: Dataset, setting: Setting, size: int, executor: Executor
) -> tuple[LinearModel, Sequence[int]]:
    """Greedy RankRLS with the chosen setting and number of features."""
    rescore = Rescore(setting.get("rescore"), N_RESCORED, convention)
    ranker = GreedyRankRLS(
        n_features=size, regularization=setting["regularization"], rescore=rescore
    )
    ranker.fit(train, executor=executor)
    return ranker.to_model(), ranker.selected_


def greedy_errors(
    train: Dataset, lambdas: Sequence[float], size: int, executor: Executor
) -> GridPoints:
    """Squared leave-query-out errors of greedy selections of up to `size` features."""
    found = select_paths(train, lambdas, SelectionRules(size), executor=executor)
    _warn_of_worst(found, train)
    return [
        [
            _error_point(train, path.regularization, k, error)
            for k, error in enumerate(path.lqo_error, start=1)
        ]
        for path in found.paths
    ]


def rankrls_errors(
    train: Dataset, lambdas: Sequence[float], size: int, executor: Executor
) -> GridPoints:
    """Squared leave-query-out errors of RankRLS on all features."""
    check_training_data(train)
    errors = leave_query_out(train, lambdas, executor).lqo_error.tolist()
    return [
        [_error_point(train, value, size, error)]
        for value, error in zip(lambdas, errors, strict=True)
    ]


def rankrls_paths(
    train: Dataset, settings: Sequence[Setting], size: int, executor: Executor
) -> list[ModelPath]:
    """RankRLS on all features: one model for each lambda, each checked as `RankRLS` checks its own.

    One pass over the data serves all lambdas, and two more passes those with which A loses digits.
    """
    ridge = CheckedRidge(train, normal_equations_of(train, "auto", executor), executor)
    found = [ridge.fit(value) for value in lambdas_of(settings)]
    worst = max(found, key=lambda each: each.relative_rounding)
    checked_weights.warn_of_rounding(worst, train.feature_names)
    everything = np.arange(size, dtype=np.intp)
    return [
        ModelPath(setting, everything, [each.weights])
        for setting, each in zip(settings, found, strict=True)
    ]


def refitted_paths(
    fit: Fit, train: Dataset, settings: Sequence[Setting], size: int, executor: Executor
) -> list[ModelPath]:
    """A ranker on all features, fitted for each setting; weights are NaN if training diverges."""
    everything = np.arange(size, dtype=np.intp)
    paths = []
    for setting in settings:
        try:
            with unrecorded():
                coef = fit(train, setting, executor).coef_
        except DivergedError:
            coef = np.full(size, np.nan)
        paths.append(ModelPath(setting, everything, [coef]))
        report("settings", len(paths), len(settings))
    return paths


def fit_on_all_features(
    fit: Fit, train: Dataset, setting: Setting, size: int, executor: Executor
) -> tuple[LinearModel, Sequence[int]]:
    """A ranker on all features with the chosen setting."""
    return fit(train, setting, executor).to_model(), range(size)


def fitted_ranker(
    make: Callable[..., Any],
    parameters: Mapping[str, Any],
    data: Mapping[str, Dataset],
    train: Dataset,
    setting: Setting,
    executor: Executor,
) -> LinearRanker:
    """A ranker with a setting, fitted to `train`.

    Parameters
    ----------
    make
        The kind of ranker.
    parameters
        Parameters that are equal in all fits.
    data
        More arguments of fit.
    train, setting, executor
        Data to fit to, the parameters that the search chose, and the executor.
    """
    chosen: dict[str, Any] = {**parameters, **setting}
    if "eta0" in setting:
        steps = SGD.of(parameters.get("sgd"))
        chosen["sgd"] = replace(steps, eta0=chosen.pop("eta0"))
    ranker: LinearRanker = make(**chosen).fit(train, **data, executor=executor)
    return ranker


def lambdas_of(settings: Sequence[Setting]) -> list[float]:
    """The regularization of each setting."""
    return [setting["regularization"] for setting in settings]


def _warn_of_worst(found: Selection, train: Dataset) -> None:
    """Give an `AccuracyWarning` if the errors of some lambda are in doubt."""
    worst = max(found.paths, key=lambda path: path.relative_rounding)
    warn_of_rounding(worst, train.feature_names)


def _model_paths(found: Selection) -> list[ModelPath]:
    return [
        ModelPath(
            Setting(regularization=path.regularization),
            np.array(path.selected, dtype=np.intp),
            path.weights,
        )
        for path in found.paths
    ]


def _error_point(train: Dataset, regularization: float, size: int, error: float) -> GridPoint:
    return GridPoint(
        regularization=regularization,
        n_features=size,
        score=error,
        standard_error=math.nan,
        n_queries=train.n_queries,
        n_effective=math.nan,
    )


def _check_parameters(model: str, parameters: Mapping[str, Any], tuned: set[str]) -> None:
    """Raise UsageError if the estimator has no such parameter, or the search chooses it."""
    known: set[str] = set()
    if model in RANKERS:
        chosen = {"checkpoint", "warm_start", "normalize", *tunable_of(model)}
        known = set(RANKERS[model]().get_params()) - chosen
    if "eta0" in tuned and SGD.of(parameters.get("sgd")).eta0 is not None:
        raise UsageError("eta0 is a parameter of sgd, and there are values of it to try; omit one.")
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise UsageError(
            f"{model} takes no {', '.join(unknown)} while it is tuned; "
            + (f"choose from {', '.join(sorted(known))}." if known else "it takes no parameter.")
        )


def tunable_of(model: str) -> tuple[str, ...]:
    """The parameters that a search can choose, besides the number of features."""
    return ("regularization", *TUNABLE.get(model, ()))


FAMILIES: dict[str, Family] = {
    "greedy-rankrls": greedy_family(),
    "rankrls": Family(
        rankrls_paths,
        partial(fit_on_all_features, partial(fitted_ranker, RankRLS, {}, {})),
        rankrls_errors,
    ),
}
"""Kinds of models whose settings share work."""

SUMMED = tuple(FAMILIES)
"""Kinds of models whose lambda is that of a sum over documents, and grows with the data."""

RANKERS: dict[str, Callable[..., LinearRanker]] = {
    "ranksvm": RankSVM,
    "ranksvm-hinge": partial(RankSVM, loss="hinge"),
    "ranklogistic": RankLogistic,
    "max-margin": MaxMarginRanker,
    "spd": SPD,
    "lcra": LCRA,
}
"""Kinds of models that are fitted anew for each setting."""

TUNABLE: dict[str, tuple[str, ...]] = {"spd": ("eta0",), "lcra": ("mu", "eta0")}
"""Parameters other than lambda that a search can choose."""
