"""Validation of a training after each epoch, and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dranking.models.training.learning_curve import CurvePoint


@dataclass(frozen=True)
class EpochValidation:
    """The measurement of a model after each epoch, and the rule by which values end the training.

    Attributes
    ----------
    measure
        From a state to the value of its model; None means that no model is measured.
    higher_is_better
        Whether a higher value is better.
    patience
        The training ends after so many epochs without a better value; None means never.
    first_epoch
        Number of the training's first epoch: earlier points of the curve do not count.
    """

    measure: Callable[[Any], float] | None = None
    higher_is_better: bool = False
    patience: int | None = None
    first_epoch: int = 0

    def measured(self, state: Any) -> float | None:
        """The value of the state's model; None if no model is measured."""
        return None if self.measure is None else self.measure(state)

    def is_best(self, curve: Sequence[CurvePoint]) -> bool:
        """Whether the last epoch has the best value, and no earlier epoch has an equal value."""
        return self.measure is not None and self._epochs_since_best(curve) == 0

    def is_over(self, curve: Sequence[CurvePoint]) -> bool:
        """Whether the last `patience` epochs did not validate better than the epochs before."""
        return self.patience is not None and self._epochs_since_best(curve) >= self.patience

    def _epochs_since_best(self, curve: Sequence[CurvePoint]) -> int:
        """Epochs after the first epoch with the best value; 0 before the first measurement."""
        sign = 1.0 if self.higher_is_better else -1.0
        values = [
            sign * p.validation for p in curve[self.first_epoch :] if p.validation is not None
        ]
        return len(values) - 1 - int(np.argmax(values)) if values else 0
