"""The end of a training step by step, compared with zero weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sklearn.exceptions import ConvergenceWarning

from dranking.errors import warn_user

WORSE = 1.1
"""If any training ends at an objective above WORSE times that of zero weights, a warning is given.
Where the features predict nothing, the last steps alone leave it some percent above."""


class TrainingEnd(NamedTuple):
    """The objective after the steps of a training, and the objective of zero weights.

    Attributes
    ----------
    n_steps
        Number of steps.
    objective, zeros
        Objective of the model, and of zero weights.
    standard_error
        Standard error of `objective`; 0 where it is no estimate.
    """

    n_steps: int
    objective: float
    zeros: float
    standard_error: float = 0.0

    def __str__(self) -> str:
        return (
            f"after {self.n_steps:,} steps the objective is {self.objective:.3g}, and "
            f"{self.zeros:.3g} without any weights"
        )


def warn_if_worse(end: TrainingEnd, remedy: Callable[[], str]) -> None:
    """Give a `ConvergenceWarning` with a remedy if zero weights have a smaller objective."""
    if not end.objective - end.standard_error <= WORSE * end.zeros:
        warn_user(f"{end}: the model is worse than none. {remedy()}", ConvergenceWarning)
