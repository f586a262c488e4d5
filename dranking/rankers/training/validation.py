"""Validation of a training after each epoch, and when it is over by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.errors import DataError, UsageError
from dranking.metrics.conventions import get_convention
from dranking.metrics.measures import get_measure, higher_is_better
from dranking.metrics.per_query import PerQuery
from dranking.rankers.linear.evaluation import measure_blocks
from dranking.rankers.linear.model import LinearModel, locate_features
from dranking.rankers.training.state import CurvePoint, Training


@dataclass(frozen=True)
class Validation:
    """What a model is measured by while it is trained.

    Attributes
    ----------
    dataset
        Judged queries; None means that nothing is measured.
    metric, convention
        What is measured.
    patience
        Epochs without a better value that end a training; None means that none do.
    first_epoch
        Where the training begins: earlier points of its curve do not count.
    """

    dataset: Dataset | None
    metric: str
    convention: str
    patience: int | None
    first_epoch: int

    def check(self, train: Dataset, n_epochs: int) -> None:
        """Raise an error if the data cannot tell how good a model of `train` is."""
        if self.dataset is None:
            if self.patience is not None and n_epochs > 1:
                raise UsageError(
                    "patience needs validation data; pass validation=, or patience=None."
                )
            return
        self.dataset.check_documents()
        locate_features(train.feature_names, train.transforms, self.dataset)

    def recorded(self, training: Training, model: LinearModel, executor: Executor) -> Training:
        """The training with the value of its model on the curve, and the model if it is best."""
        if self.dataset is None:
            return training
        measures, convention = [get_measure(self.metric).name], get_convention(self.convention)
        values = measure_blocks(model, self.dataset, measures, convention, executor)
        [value] = PerQuery.concatenate(values).summary().metrics.values()
        if np.isnan(value):
            raise DataError(f"no query of the validation data counts for {self.metric}.")
        *before, last = training.curve
        later = replace(training, curve=(*before, last._replace(validation=value)))
        return replace(later, best=later.model) if self._since_best(later.curve) == 0 else later

    def is_over(self, training: Training) -> bool:
        """Whether the last `patience` epochs did not validate better than those before."""
        return self.patience is not None and self._since_best(training.curve) >= self.patience

    def _since_best(self, curve: Sequence[CurvePoint]) -> int:
        """Epochs since the first of the best ones; 0 before any was measured."""
        sign = 1.0 if higher_is_better(self.metric) else -1.0
        values = [
            sign * p.validation for p in curve[self.first_epoch :] if p.validation is not None
        ]
        return len(values) - 1 - int(np.argmax(values)) if values else 0
