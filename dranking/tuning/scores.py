"""Scores of all models of a grid: on validation data, on folds, or by leave-query-out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.progress import report
from dranking.errors import DataError, UsageError
from dranking.metrics.comparison.significance import FEWEST_QUERIES
from dranking.metrics.measures.by_name import SQUARED_ERROR
from dranking.tuning.choice import GridPoint, Rule
from dranking.tuning.families import FAMILIES, Family, lambdas_of, lqo_prediction_sums
from dranking.tuning.grid import Array, Criterion, grid_points, validation_sums
from dranking.tuning.settings import Setting


def score_validation(
    family: Family,
    splits: Sequence[tuple[Dataset, Dataset]],
    settings: Sequence[Setting],
    size: int,
    criterion: Criterion,
    rule: Rule | None,
    executor: Executor,
) -> tuple[GridPoint, ...]:
    """Scores of the models of every split on the split's held-out data.

    Raises
    ------
    UsageError
        If the rule needs a standard error, and fewer than 20 queries count for the measure.
    DataError
        If no held-out query counts for the measure.
    """
    parts: list[Array] = []
    for training, held_out in splits:
        paths = family.paths(training, settings, size, executor)
        parts.append(validation_sums(paths, training, held_out, criterion, executor))
        report("tune", len(parts), len(splits))
    total = np.sum(parts, axis=0)
    _check_scores(total, criterion, rule)
    return grid_points(paths, total)


def score_lqo_predictions(
    train: Dataset,
    model: str,
    settings: Sequence[Setting],
    size: int,
    criterion: Criterion,
    rule: Rule | None,
    executor: Executor,
) -> tuple[GridPoint, ...]:
    """Scores of the leave-query-out predictions of every model.

    Raises
    ------
    UsageError
        If the model is not greedy RankRLS; or if the rule needs a standard error, and fewer than
        20 queries count for the measure.
    DataError
        If no query counts for the measure.
    """
    if model != "greedy-rankrls":
        raise UsageError(
            f"leave-query-out predictions exist for greedy-rankrls, not for {model}; for rankrls, "
            f"use the measure {SQUARED_ERROR}."
        )
    paths, sums = lqo_prediction_sums(train, lambdas_of(settings), size, criterion, executor)
    _check_scores(sums, criterion, rule)
    return grid_points(paths, sums)


def score_lqo_errors(
    train: Dataset,
    model: str,
    family: Family,
    settings: Sequence[Setting],
    size: int,
    rule: Rule | None,
    executor: Executor,
) -> tuple[GridPoint, ...]:
    """Squared leave-query-out errors of every model, without documents.

    Raises
    ------
    UsageError
        If the kind of model has no such errors, or the rule needs a standard error.
    """
    if family.lqo_errors is None:
        known = " and ".join(FAMILIES)
        raise UsageError(
            f"the leave-query-out {SQUARED_ERROR} exists for {known}, not for {model}."
        )
    if rule == "one-standard-error":
        raise UsageError(
            f"rule {rule!r} needs the standard error of a score, and of {SQUARED_ERROR} only the "
            "sum over queries is known. Take the rule 'best', or a feature penalty."
        )
    return tuple(family.lqo_errors(train, lambdas_of(settings), size, executor))


def _check_scores(sums: Array, criterion: Criterion, rule: Rule | None) -> None:
    """Raise an error if no query counts for the measure of a trained model, or too few do."""
    if (sums[1] == 0).any():
        raise DataError(
            f"no validation query counts for {criterion.measure} under the "
            f"{criterion.convention.name} convention; it needs queries with relevant documents."
        )
    n_queries = np.nanmin(sums[0], initial=np.inf)
    if rule == "one-standard-error" and n_queries < FEWEST_QUERIES:
        raise UsageError(
            f"{n_queries:.0f} validation queries count for {criterion.measure}; the rule {rule!r} "
            f"needs at least {FEWEST_QUERIES}, as the standard error of fewer is too rough. Take "
            "the rule 'best', or a feature penalty."
        )
