"""Scores of all models of a grid: on validation data, on folds, or by leave-query-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_labels
from dranking.engine.progress import report
from dranking.errors import DataError, UsageError
from dranking.metrics.comparison.significance import FEWEST_QUERIES
from dranking.metrics.measures.by_name import SQUARED_ERROR
from dranking.tuning.choice import GridPoint, Rule, ScoredPath
from dranking.tuning.families import (
    FAMILIES,
    SUMMED,
    Family,
    ModelName,
    lambdas_of,
    lqo_prediction_sums,
)
from dranking.tuning.folds import QueryKFold, split_queries
from dranking.tuning.grid import (
    Array,
    Criterion,
    ModelPath,
    effective_queries,
    scored_paths,
    validation_sums,
)
from dranking.tuning.kept_outcomes import NOTHING_KEPT, KeptOutcomes, Outcome, queries_digest
from dranking.tuning.preparation import Preparation
from dranking.tuning.settings import Setting
from dranking.tuning.sizes import size_within

LEAVE_QUERY_OUT: Final = "leave-query-out"

STAGE: Final = "tune"
"""Name of a search in reports of progress."""

Validation: TypeAlias = Dataset | QueryKFold | Literal["leave-query-out"]
"""The data on which models are measured: judged queries, folds, or leave-query-out predictions."""


class Part:
    """Training queries, with the preparations that were fitted to them, each of them once."""

    def __init__(self, queries: Dataset, executor: Executor) -> None:
        self.queries = queries
        self._executor = executor
        self._prepared: dict[Preparation, Dataset] = {}

    def prepared(self, preparation: Preparation) -> Dataset:
        """The prepared features of the queries."""
        if preparation not in self._prepared:
            self._prepared[preparation] = preparation.of(self.queries, self._executor)
        return self._prepared[preparation]

    @cached_property
    def digest(self) -> str:
        """Digest of the ids of the queries."""
        return queries_digest(self.queries)

    @cached_property
    def weight(self) -> float:
        """Sum of the query weights of all labelled documents, with which a summed lambda grows."""
        return float(sum(map_labels(_block_weight, self.queries, self._executor)))


class Split(NamedTuple):
    """Training queries, and the queries on which their models are measured."""

    train: Part
    judged: Dataset


@dataclass(frozen=True)
class SearchPlan:
    """The models that a search tries, and the criterion by which it compares them.

    Attributes
    ----------
    model
        Kind of model.
    family
        Trains and scores models of this kind.
    size
        Largest number of features.
    criterion
        The measure, and its convention.
    validation
        How models are measured, as in `tune`.
    rule
        How a model is chosen.
    executor
        Runs the tasks.
    kept
        Keeps the outcomes of the splits.
    stage
        Name of the search in reports of progress.
    """

    model: ModelName
    family: Family
    size: int
    criterion: Criterion
    validation: Validation
    rule: Rule
    executor: Executor
    kept: KeptOutcomes = NOTHING_KEPT
    stage: str = STAGE

    def splits(self, train: Part) -> list[Split] | None:
        """Training data with the queries to measure on; None with leave-query-out predictions."""
        if isinstance(self.validation, Dataset):
            return [Split(train, self.validation)]
        if isinstance(self.validation, QueryKFold):
            pairs = split_queries(train.queries, self.validation, self.executor)
            return [Split(Part(rest, self.executor), held_out) for rest, held_out in pairs]
        return None

    def scores(
        self,
        train: Part,
        splits: Sequence[Split] | None,
        preparation: Preparation,
        settings: Sequence[Setting],
    ) -> list[ScoredPath]:
        """Scores of the models with some settings.

        Parameters
        ----------
        train
            All training data.
        splits
            As `splits` returns them.
        preparation
            Preparation of the features, which is fitted to the training queries of every split.
        settings
            The settings; lambda is that of all training data.

        Raises
        ------
        UsageError
            If the kind of model has no such scores; or if the rule needs a standard error, and
            there is none, or fewer than 20 queries count for the measure.
        DataError
            If no validation query counts for the measure.
        """
        if splits is not None:
            return score_splits(self, train, splits, preparation, settings)
        prepared = train.prepared(preparation)
        if preparation.forms is not None:
            self = replace(self, size=size_within(self.size, [prepared]))
        settings = [preparation.added_to(setting) for setting in settings]
        if self.criterion.measure == SQUARED_ERROR:
            return score_lqo_errors(self, prepared, settings)
        return score_lqo_predictions(self, prepared, settings)


def score_splits(
    plan: SearchPlan,
    train: Part,
    splits: Sequence[Split],
    preparation: Preparation,
    settings: Sequence[Setting],
) -> list[ScoredPath]:
    """Scores of the models of every split on the split's validation data."""
    outcomes: list[Outcome] = []
    is_summed = plan.model in SUMMED and any(part is not train for part, _ in splits)
    if preparation.forms is not None:  # the chosen model is selected on all training data
        every = [part.prepared(preparation) for part in (train, *(part for part, _ in splits))]
        plan = replace(plan, size=size_within(plan.size, every))

    def own_settings(part: Part) -> list[Setting]:
        share = part.weight / train.weight if is_summed else 1.0
        return [
            cast(Setting, {**setting, "regularization": setting["regularization"] * share})
            for setting in settings
        ]

    def models_and_sums(number: int) -> Outcome:
        part, validation = splits[number]
        prepared = part.prepared(preparation)
        own = own_settings(part)
        paths = _paths(plan, prepared, own, f"{number + 1} of {len(splits)}")
        return paths, validation_sums(paths, prepared, validation, plan.criterion, plan.executor)

    def key(split: Split) -> dict[str, Any]:
        return {
            "train": split.train.digest,
            "judged": queries_digest(split.judged),
            "preparation": preparation.facts,
            "settings": own_settings(split.train),
            "size": plan.size,
        }

    keys = [partial(key, split) for split in splits]
    named = [preparation.added_to(setting) for setting in settings]
    for outcome in plan.kept.through(keys, named, partial(map, models_and_sums)):
        outcomes.append(outcome)
        report(plan.stage, len(outcomes), len(splits), **preparation.facts, models=len(settings))
    n_repeats = plan.validation.n_repeats if isinstance(plan.validation, QueryKFold) else 1
    total = np.sum([sums for _, sums in outcomes], axis=0) / n_repeats
    _check_scores(total, plan)
    return scored_paths(outcomes[-1][0], total)


def _paths(
    plan: SearchPlan, train: Dataset, settings: Sequence[Setting], split: str
) -> list[ModelPath]:
    """The models of a split; an error of its data names the split."""
    try:
        return plan.family.paths(train, settings, plan.size, plan.executor)
    except DataError as error:
        if split == "1 of 1":
            raise
        raise DataError(
            f"without the queries of fold {split}: {error} If too few queries have something to "
            "learn from, take other folds, or validation data."
        ) from error


def _block_weight(block: QueryBlock) -> float:
    return float(block.weights @ block.labelled_sizes)


def score_lqo_predictions(
    plan: SearchPlan, train: Dataset, settings: Sequence[Setting]
) -> list[ScoredPath]:
    """Scores of the leave-query-out predictions of every model."""
    if plan.model != "greedy-rankrls":
        raise UsageError(
            f"leave-query-out predictions exist for greedy-rankrls, not for {plan.model}; for "
            f"rankrls, use the measure {SQUARED_ERROR}."
        )
    lambdas = lambdas_of(settings)
    paths, sums = lqo_prediction_sums(train, lambdas, plan.size, plan.criterion, plan.executor)
    _check_scores(sums, plan)
    named = [path._replace(setting=s) for path, s in zip(paths, settings, strict=True)]
    return scored_paths(named, sums)


def score_lqo_errors(
    plan: SearchPlan, train: Dataset, settings: Sequence[Setting]
) -> list[ScoredPath]:
    """Squared leave-query-out errors of every model, without documents."""
    if plan.family.lqo_errors is None:
        known = " and ".join(FAMILIES)
        raise UsageError(
            f"the leave-query-out {SQUARED_ERROR} exists for {known}, not for {plan.model}."
        )
    if plan.rule == "smaller":
        raise UsageError(
            f"rule {plan.rule!r} needs the standard error of a score, and of {SQUARED_ERROR} only "
            "the sum over queries is known. Take the rule 'best'."
        )
    found = []
    by_lambda = plan.family.lqo_errors(train, lambdas_of(settings), plan.size, plan.executor)
    for points, setting in zip(by_lambda, settings, strict=True):
        named = tuple(cast(GridPoint, {**point, **setting}) for point in points)
        found.append(ScoredPath(named, np.full((len(named), len(named)), np.nan)))
    return found


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
    if rule == "smaller" and effective[fewest] < FEWEST_QUERIES:
        n_queries = sums[0, fewest]
        weighed = f", as much as {effective[fewest]:.1f} of equal weight"
        raise UsageError(
            f"{n_queries:.0f} validation queries{weighed if effective[fewest] < n_queries else ''} "
            f"count for {criterion.measure}; the rule {rule!r} "
            f"needs at least {FEWEST_QUERIES}, as the standard error of fewer is too rough. Take "
            "the rule 'best'."
        )
