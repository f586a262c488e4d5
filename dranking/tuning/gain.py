"""Gain of one model over another on the queries of the folds, with its paired error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from dranking.data.dataset import Dataset
from dranking.data.steps import restricted_steps
from dranking.metrics.comparison.significance import mean_and_error
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.per_query import PerQuery
from dranking.models.linear.model import LinearModel
from dranking.models.scorers import measure
from dranking.tuning.choice import GridPoint
from dranking.tuning.folds import QueryKFold
from dranking.tuning.preparation import Preparation
from dranking.tuning.scores import Part, SearchPlan, Split
from dranking.tuning.settings import Setting, setting_of


class Gain(NamedTuple):
    """The mean gain over the held-out queries, and its standard error of one repetition of folds.

    The error is that of differences paired by query; 0 for a single query.
    """

    mean: float
    error: float


def gain_over(
    point: GridPoint, other: GridPoint, plan: SearchPlan, train: Part, splits: Sequence[Split]
) -> Gain:
    """Gain of a model over another, both selected anew on the training data of each split."""
    differences, weights = [], []
    for part, held_out in splits:
        share = part.weight / train.weight
        ours, theirs = (
            _measured(_selected(each, share, plan, part), plan, held_out) for each in (point, other)
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


def _selected(point: GridPoint, share: float, plan: SearchPlan, part: Part) -> LinearModel:
    """The model of a point, selected on a part of the training data with a share of lambda."""
    prepared = part.prepared(Preparation.at(point))
    setting = cast(
        Setting, {**setting_of(point), "regularization": point["regularization"] * share}
    )
    [path] = plan.family.paths(prepared, [setting], point["n_features"], plan.executor)
    order = np.argsort(path.selected)
    used = path.selected[order]
    return LinearModel.of_steps(
        [prepared.feature_names[i] for i in used],
        path.weights[-1][order].tolist(),
        restricted_steps(prepared.preparation, used),
    )


def _measured(model: LinearModel, plan: SearchPlan, held_out: Dataset) -> PerQuery:
    """The values of the measure of a model on held-out queries."""
    names, convention = [plan.criterion.measure], plan.criterion.convention
    return PerQuery.concatenate(measure(model, held_out, names, convention, plan.executor))
