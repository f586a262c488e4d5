"""Scores of all models of a grid: on validation data, on folds, or by leave-query-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.progress import report
from dranking.errors import DataError, UsageError
from dranking.metrics.comparison.significance import FEWEST_QUERIES
from dranking.metrics.measures.by_name import SQUARED_ERROR
from dranking.tuning.choice import GridPoint, Rule
from dranking.tuning.families import FAMILIES, Family, ModelName, lambdas_of, lqo_prediction_sums
from dranking.tuning.folds import QueryKFold, split_queries
from dranking.tuning.grid import (
    Array,
    Criterion,
    effective_queries,
    grid_points,
    validation_sums,
)
from dranking.tuning.settings import Setting

LEAVE_QUERY_OUT: Final = "leave-query-out"

Validation: TypeAlias = Dataset | QueryKFold | Literal["leave-query-out"]
"""The data on which models are measured: judged queries, folds, or leave-query-out predictions."""


@dataclass(frozen=True)
class SearchPlan:
    """The settings that a search tries, and the criterion by which it compares them.

    Attributes
    ----------
    model
        Kind of model.
    family
        Trains and scores models of this kind.
    settings
        The settings to try.
    size
        Largest number of features.
    criterion
        The measure, and its convention.
    validation
        How models are measured, as in `tune`.
    rule
        How a point of the grid is chosen; None means the default rule.
    executor
        Runs the tasks.
    """

    model: ModelName
    family: Family
    settings: Sequence[Setting]
    size: int
    criterion: Criterion
    validation: Validation
    rule: Rule | None
    executor: Executor

    def scores(self, train: Dataset) -> tuple[GridPoint, ...]:
        """Scores of all models that are trained on a data set.

        Raises
        ------
        UsageError
            If the kind of model has no such scores; or if the rule needs a standard error, and
            there is none, or fewer than 20 queries count for the measure.
        DataError
            If no validation query counts for the measure.
        """
        if isinstance(self.validation, Dataset):
            return score_validation(self, [(train, self.validation)])
        if isinstance(self.validation, QueryKFold):
            return score_validation(
                self, list(split_queries(train, self.validation, self.executor))
            )
        if self.criterion.measure == SQUARED_ERROR:
            return score_lqo_errors(self, train)
        return score_lqo_predictions(self, train)


def score_validation(
    plan: SearchPlan, splits: Sequence[tuple[Dataset, Dataset]]
) -> tuple[GridPoint, ...]:
    """Scores of the models of every split on the split's validation data."""
    parts: list[Array] = []
    for training, validation in splits:
        paths = plan.family.paths(training, plan.settings, plan.size, plan.executor)
        parts.append(validation_sums(paths, training, validation, plan.criterion, plan.executor))
        report("tune", len(parts), len(splits))
    total = np.sum(parts, axis=0)
    _check_scores(total, plan)
    return grid_points(paths, total)


def score_lqo_predictions(plan: SearchPlan, train: Dataset) -> tuple[GridPoint, ...]:
    """Scores of the leave-query-out predictions of every model."""
    if plan.model != "greedy-rankrls":
        raise UsageError(
            f"leave-query-out predictions exist for greedy-rankrls, not for {plan.model}; for "
            f"rankrls, use the measure {SQUARED_ERROR}."
        )
    lambdas = lambdas_of(plan.settings)
    paths, sums = lqo_prediction_sums(train, lambdas, plan.size, plan.criterion, plan.executor)
    _check_scores(sums, plan)
    return grid_points(paths, sums)


def score_lqo_errors(plan: SearchPlan, train: Dataset) -> tuple[GridPoint, ...]:
    """Squared leave-query-out errors of every model, without documents."""
    if plan.family.lqo_errors is None:
        known = " and ".join(FAMILIES)
        raise UsageError(
            f"the leave-query-out {SQUARED_ERROR} exists for {known}, not for {plan.model}."
        )
    if plan.rule == "one-standard-error":
        raise UsageError(
            f"rule {plan.rule!r} needs the standard error of a score, and of {SQUARED_ERROR} only "
            "the sum over queries is known. Take the rule 'best', or a feature penalty."
        )
    lambdas = lambdas_of(plan.settings)
    return tuple(plan.family.lqo_errors(train, lambdas, plan.size, plan.executor))


def _check_scores(sums: Array, plan: SearchPlan) -> None:
    """Raise an error if no query counts for the measure of a trained model, or too few do."""
    criterion, rule = plan.criterion, plan.rule
    if (sums[1] == 0).any():
        raise DataError(
            f"no validation query counts for {criterion.measure} under the "
            f"{criterion.convention.name} convention; it needs queries with relevant documents."
        )
    effective = np.nan_to_num(effective_queries(sums), nan=np.inf)
    fewest = int(np.argmin(effective))
    if rule == "one-standard-error" and effective[fewest] < FEWEST_QUERIES:
        n_queries = sums[0, fewest]
        weighed = f", as much as {effective[fewest]:.1f} of equal weight"
        raise UsageError(
            f"{n_queries:.0f} validation queries{weighed if effective[fewest] < n_queries else ''} "
            f"count for {criterion.measure}; the rule {rule!r} "
            f"needs at least {FEWEST_QUERIES}, as the standard error of fewer is too rough. Take "
            "the rule 'best', or a feature penalty."
        )
