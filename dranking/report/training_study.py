"""A study of the training data: the ranker of a model trained again with other settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dranking.data.column_forms import forms_of
from dranking.data.dataset import Dataset
from dranking.data.named_columns import NamedColumns
from dranking.data.steps import restricted_steps
from dranking.engine.executor import Executor
from dranking.errors import DataError, UsageError
from dranking.metrics.conventions import get_convention
from dranking.metrics.measures.by_name import get_measure
from dranking.models.linear.model import LinearModel
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.grid_errors import leave_query_out
from dranking.tuning.choice import GridPoint, ModelPath
from dranking.tuning.families import FAMILIES
from dranking.tuning.folds import QueryKFold, split_queries
from dranking.tuning.grid import Criterion, grid_points, validation_sums
from dranking.tuning.settings import Setting

Array = NDArray[np.float64]

MOST_IMPORTANT = 50
"""Most features of which each is left out, at two passes over the data each."""

N_FOLDS = 5
KINDS = {"GreedyRankRLS": "greedy-rankrls", "RankRLS": "rankrls"}
"""Rankers that are trained again for a report: ranker in the provenance -> name in `tune`."""
OTHER_SCALING = (
    "The model was not trained again with other settings, since the training data that was given "
    "has not the scaling or the forms of its features. In Python, scaled and with_forms make such "
    "data for write_report."
)

SIGNS = "The model was not trained again with other settings, since its weights have constraints."


@dataclass(frozen=True)
class Training:
    """A study of the training data: models of the same kind with other settings.

    Attributes
    ----------
    sizes
        The metric on the judged data for greedy selections of every size; empty for RankRLS.
    lambdas, weights
        lambdas, and (n_lambdas, n_features) weights of the model's features at each lambda.
    stability
        Share of the folds in which a feature is selected and lowers the leave-query-out error, by
        name; empty for RankRLS, and where the labelled queries are too few for the folds.
    importance
        Leave-query-out error of RankRLS on the other features of the model, as a share of the error
        on all of them, by name; empty for one feature, more than `MOST_IMPORTANT`, and statistics.
    """

    sizes: Sequence[GridPoint]
    lambdas: Sequence[float]
    weights: Array
    stability: Mapping[str, float]
    importance: Mapping[str, float]


def study_training(
    model: LinearModel,
    train: Dataset,
    judged: Dataset,
    *,
    metric: str,
    convention: str,
    lambdas: Sequence[float],
    executor: Executor,
) -> Training | str:
    """Train the model's ranker again: with other sizes and lambdas, and without each fold.

    Text that says why there is no study, if the scaling of the model differs from the scaling of
    the training data, as the weights are not comparable then; no text if the ranker is neither
    greedy RankRLS nor RankRLS.
    """
    kind = KINDS.get(str(model.provenance.get("ranker")))
    parameters = model.provenance.get("parameters", {})
    if kind is None or "regularization" not in parameters:
        return ""
    if parameters.get("non_negative"):
        return SIGNS
    if forms_of(model.transforms) is not None and forms_of(train.transforms) is None:
        return OTHER_SCALING
    features = train.columns_of(model.feature_names)
    if restricted_steps(train.transforms, features) != model.transforms:
        return OTHER_SCALING
    value = float(parameters["regularization"])
    family, is_greedy = FAMILIES[kind], kind == "greedy-rankrls"
    size = len(model.weights) if is_greedy else train.n_features
    around = sorted({*lambdas, value})
    if len(around) == 1:
        around = [value * 4.0**exponent for exponent in range(-3, 4)]
    settings = [Setting(regularization=each) for each in around]
    paths = family.paths(train, settings, size, executor)
    sizes: Sequence[GridPoint] = ()
    stability: Mapping[str, float] = {}
    if is_greedy:
        own = [path for path in paths if path.setting["regularization"] == value]
        criterion = Criterion(get_measure(metric).name, get_convention(convention))
        sizes = grid_points(own, validation_sums(own, train, judged, criterion, executor))
        with suppress(UsageError, DataError):  # too few queries for folds, or to learn from
            stability = _stability(train, value, size, executor)
    weights = np.array([_weights_of(path, features) for path in paths])
    importance = leave_feature_out(train, model.feature_names, value, executor)
    return Training(sizes, around, weights, stability, importance)


def leave_feature_out(
    train: Dataset, names: Sequence[str], value: float, executor: Executor
) -> dict[str, float]:
    """Errors without each feature, the largest first; see `Training.importance`."""
    if not (train.has_documents and 2 <= len(names) <= MOST_IMPORTANT):
        return {}

    def error_on(kept: Sequence[str]) -> float:
        found = leave_query_out(NamedColumns(train, kept), [value], executor)
        return float(found.lqo_error[0])

    error = error_on(names)
    if not error:
        return {}
    shares = {name: error_on([n for n in names if n != name]) / error for name in names}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _weights_of(path: ModelPath, features: NDArray[np.intp]) -> Array:
    """Weights of some features in the largest model of a path; 0 for features not selected."""
    weights = dict(zip(path.selected.tolist(), path.weights[-1].tolist(), strict=True))
    return np.array([weights.get(feature, 0.0) for feature in features.tolist()])


def _stability(train: Dataset, value: float, size: int, executor: Executor) -> dict[str, float]:
    """Share of folds without which a feature is selected and lowers the error, where any is."""
    counts: dict[str, int] = {}
    for rest, _ in split_queries(train, QueryKFold(N_FOLDS), executor):
        [path] = select_paths(rest, [value], SelectionRules(size), executor=executor).paths
        # Constant columns and noise are picked last, where nothing else is left.
        vain = {path.kept[round_][-1] for round_ in path.without_gain}
        for feature in path.selected:
            if feature in vain:
                continue
            name = train.feature_names[feature]
            counts[name] = counts.get(name, 0) + 1
    by_share = sorted(counts.items(), key=lambda item: -item[1])
    return {name: count / N_FOLDS for name, count in by_share}
