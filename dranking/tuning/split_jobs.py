"""The jobs of a split of the training data, which run in any process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dranking.data.column_forms import ColumnForms, forms_of
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.errors import DataError
from dranking.tuning.families import Family
from dranking.tuning.grid import Criterion, validation_sums
from dranking.tuning.kept_outcomes import Outcome
from dranking.tuning.preparation import Preparation
from dranking.tuning.settings import Setting

SHORT_VALUES, LONG_VALUES = 2**18, 2**25
"""Least and most values, documents times columns, of training data whose folds the default search
trains on side by side: fewer take less time than new processes, and more keep all cores busy by
themselves."""


def fitted_forms(
    preparation: Preparation, queries: Dataset, executor: Executor
) -> ColumnForms | None:
    """The forms of a preparation, fitted to queries; None where it leaves them as they are."""
    prepared = preparation.of(queries, executor)
    return None if prepared is queries else forms_of(prepared.transforms)


class SplitJob(NamedTuple):
    """The models to train for a split, and the queries to measure them on.

    Attributes
    ----------
    family, settings, size, criterion
        Kind of model, the settings with lambda of this split, the largest number of features, and
        the measure.
    train, judged
        Prepared training queries, and raw queries to measure on.
    name
        Name of the split in errors.
    """

    family: Family
    settings: Sequence[Setting]
    size: int
    criterion: Criterion
    train: Dataset
    judged: Dataset
    name: str


def models_and_sums(job: SplitJob, executor: Executor) -> Outcome:
    """The models of a split, and their sums; an error of its data names the split."""
    try:
        paths = job.family.paths(job.train, job.settings, job.size, executor)
    except DataError as error:
        if job.name == "1 of 1":
            raise
        raise DataError(
            f"without the queries of fold {job.name}: {error} If too few queries have something to "
            "learn from, take other folds, or validation data."
        ) from error
    return paths, validation_sums(paths, job.train, job.judged, job.criterion, executor)
