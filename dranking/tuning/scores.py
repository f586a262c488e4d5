"""Scores of all models of a grid: on validation data, on folds, or by leave-query-out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from dranking.data.blocks import QueryBlock
from dranking.data.column_forms import ColumnForms
from dranking.data.dataset import Dataset
from dranking.data.forms_dataset import FormsDataset
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_labels
from dranking.engine.progress import report
from dranking.engine.side_by_side import run_side_by_side
from dranking.errors import DataError, UsageError
from dranking.metrics.comparison.significance import FEWEST_QUERIES
from dranking.metrics.measures.by_name import SQUARED_ERROR, higher_is_better
from dranking.tuning.choice import GridPoint, Preference, Rule, ScoredPath
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
    effective_queries,
    scored_paths,
)
from dranking.tuning.kept_outcomes import NOTHING_KEPT, KeptOutcomes, Outcome, queries_digest
from dranking.tuning.preparation import Preparation
from dranking.tuning.settings import Setting
from dranking.tuning.sizes import size_within
from dranking.tuning.split_jobs import (
    LONG_VALUES,
    SHORT_VALUES,
    SplitJob,
    fitted_forms,
    models_and_sums,
)

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

    def has(self, preparation: Preparation) -> bool:
        """Whether the preparation was fitted already."""
        return preparation in self._prepared

    def take(self, preparation: Preparation, forms: ColumnForms | None) -> None:
        """Take over the forms that were fitted to the queries; None means that they stay raw."""
        view = self.queries if forms is None else FormsDataset(self.queries, forms)
        self._prepared[preparation] = view

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
    is_default
        Whether it is the default search, which lasts so long that new processes are worth while.
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
    is_default: bool = False
    stage: str = STAGE

    @property
    def preference(self) -> Preference:
        """The rule by which a model is chosen, and the better end of the measure."""
        return Preference(self.rule, higher_is_better(self.criterion.measure))

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
    n_values = train.queries.n_documents * train.prepared(preparation).n_features
    are_short = plan.is_default and SHORT_VALUES <= n_values <= LONG_VALUES
    if preparation.forms is not None:  # the chosen model is selected on all training data
        parts = [part for part, _ in splits]
        fit_forms(preparation, parts, plan, are_short=are_short)
        every = [part.prepared(preparation) for part in (train, *parts)]
        plan = replace(plan, size=size_within(plan.size, every))

    def job(number: int, split: Split) -> SplitJob:
        part = split.train
        share = part.weight / train.weight if is_summed else 1.0
        own = [
            cast(Setting, {**setting, "regularization": setting["regularization"] * share})
            for setting in settings
        ]
        return SplitJob(
            family=plan.family,
            settings=own,
            size=plan.size,
            criterion=plan.criterion,
            train=part.prepared(preparation),
            judged=split.judged,
            name=f"{number} of {len(splits)}",
        )

    jobs = [job(number, split) for number, split in enumerate(splits, start=1)]

    def compute(numbers: Sequence[int]) -> Iterator[Outcome]:
        missing = [jobs[number] for number in numbers]
        return run_side_by_side(models_and_sums, missing, plan.executor, are_short=are_short)

    def key(number: int) -> dict[str, Any]:
        return {
            "train": splits[number].train.digest,
            "judged": queries_digest(splits[number].judged),
            "preparation": preparation.facts,
            "settings": jobs[number].settings,
            "size": plan.size,
        }

    keys = [partial(key, number) for number in range(len(splits))]
    named = [preparation.added_to(setting) for setting in settings]
    for outcome in plan.kept.through(keys, named, compute):
        outcomes.append(outcome)
        report(plan.stage, len(outcomes), len(splits), **preparation.facts, models=len(settings))
    n_repeats = plan.validation.n_repeats if isinstance(plan.validation, QueryKFold) else 1
    total = np.sum([sums for _, sums in outcomes], axis=0) / n_repeats
    _check_scores(total, plan)
    of_splits = [paths for paths, _ in outcomes]
    return scored_paths(of_splits[-1], total, of_splits)


def fit_forms(
    preparation: Preparation, parts: Sequence[Part], plan: SearchPlan, *, are_short: bool
) -> None:
    """Fit the forms of a preparation to the queries of each part that does not have them yet."""
    new = [part for part in parts if not part.has(preparation)]

    def compute(numbers: Sequence[int]) -> Iterator[ColumnForms | None]:
        data = [new[number].queries for number in numbers]
        fit = partial(fitted_forms, preparation)
        return run_side_by_side(fit, data, plan.executor, are_short=are_short)

    def key(part: Part) -> dict[str, Any]:
        return {"forms of": part.digest, "preparation": preparation.facts}

    for part, forms in zip(
        new, plan.kept.forms([partial(key, part) for part in new], compute), strict=True
    ):
        part.take(preparation, forms)


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
