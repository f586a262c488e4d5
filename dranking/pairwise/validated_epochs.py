"""Measurement of a model that is trained from sampled pairs, after each epoch, on judged data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.data.steps import origins_by_column
from dranking.engine.executor import Executor
from dranking.ingestion.dask_collections import as_dataset
from dranking.metrics.measures.by_name import higher_is_better
from dranking.models.linear.evaluation import mean_metric
from dranking.models.linear.model import LinearModel
from dranking.models.linear.scoring import locate_features
from dranking.models.training.validation import EpochValidation
from dranking.pairwise.epochs import AveragedState
from dranking.pairwise.options import Validation
from dranking.pairwise.pair_blocks import PairProblem


def checked_validation(given: Any, executor: Executor, train: Dataset) -> Validation | None:
    """The validation that a user gives to `fit`, checked, with its data read as the training's."""
    judged = Validation.of(given)
    if judged is None:
        return None
    judged.check()
    origins = origins_by_column(train.feature_names, train.preparation)
    data = as_dataset(
        judged.data,
        nullable=train.constants is not None,
        origins=origins,
        no_index=source_names(train.feature_names, train.preparation),
        executor=executor,
    )
    return replace(judged, data=data)


def epoch_validation(
    judged: Validation | None, problem: PairProblem, executor: Executor, first_epoch: int
) -> EpochValidation:
    """The measurement of the model after each epoch; checks the data before any epoch."""
    if judged is None:
        return EpochValidation(None)
    train, data = problem.dataset, judged.data
    data.check_documents()
    locate_features(train.feature_names, train.preparation, data)

    def measure(state: AveragedState) -> float:
        model = LinearModel(
            feature_names=train.feature_names,
            weights=tuple(problem.coef(state.model).tolist()),
            constants=train.constants,
            transforms=train.transforms,
        )
        return mean_metric(model, data, judged.metric, judged.convention, executor)

    better = higher_is_better(judged.metric)
    return EpochValidation(measure, better, judged.patience, first_epoch)


def validation_facts(judged: Validation | None) -> dict[str, Any] | None:
    """Facts of the validation that a resumed training must have in common with the stored one."""
    if judged is None:
        return None
    return {
        "data": judged.data.fingerprint,
        "metric": judged.metric,
        "convention": judged.convention,
        "patience": judged.patience,
    }
