"""Gain of one model over another on the queries of the folds, with its paired error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dranking.data.dataset import Dataset
from dranking.data.steps import restricted_steps
from dranking.metrics.comparison.significance import mean_and_error
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.per_query import PerQuery
from dranking.models.linear.model import LinearModel
from dranking.models.scorers import measure
from dranking.tuning.choice import GridPoint, ModelPath, ScoredPath, path_of
from dranking.tuning.folds import QueryKFold
from dranking.tuning.preparation import Preparation
from dranking.tuning.scores import Part, SearchPlan, Split


class Gain(NamedTuple):
    """The mean gain over the held-out queries, and its standard error of one repetition of folds.

    The error is that of differences paired by query; 0 for a single query.
    """

    mean: float
    error: float


def gain_over(
    point: GridPoint,
    other: GridPoint,
    paths: Sequence[ScoredPath],
    plan: SearchPlan,
    splits: Sequence[Split],
) -> Gain:
    """Gain of a model over another, both as they were trained on each split."""
    differences, weights = [], []
    for number, (part, held_out) in enumerate(splits):
        ours, theirs = (
            _measured(_model(each, path_of(each, paths).of_splits[number], part), plan, held_out)
            for each in (point, other)
        )
        name = plan.criterion.measure
        paired = PerQuery(
            ours.query_ids, {name: ours.values[name] - theirs.values[name]}, ours.weights
        )
        found, counting = paired.counting(name)
        differences.append(found)
        weights.append(counting)
    mean, error = mean_and_error(np.concatenate(differences), np.concatenate(weights))
    n_repeats = plan.validation.n_repeats if isinstance(plan.validation, QueryKFold) else 1
    sign = 1.0 if higher_is_better(plan.criterion.measure) else -1.0
    return Gain(sign * mean, error * n_repeats**0.5)


def _model(point: GridPoint, path: ModelPath, part: Part) -> LinearModel:
    """The model of a point, from the models that were trained on a part of the training data."""
    prepared, n_features = part.prepared(Preparation.at(point)), point["n_features"]
    order = np.argsort(path.selected[:n_features])
    used = path.selected[order]
    return LinearModel.of_steps(
        [prepared.feature_names[i] for i in used],
        path.weights[n_features - 1][order].tolist(),
        restricted_steps(prepared.preparation, used),
    )


def _measured(model: LinearModel, plan: SearchPlan, held_out: Dataset) -> PerQuery:
    """The values of the measure of a model on held-out queries."""
    names, convention = [plan.criterion.measure], plan.criterion.convention
    return PerQuery.concatenate(measure(model, held_out, names, convention, plan.executor))
