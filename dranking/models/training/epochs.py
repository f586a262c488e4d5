"""The loop over the epochs of a training."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Generic, TypeVar

from dranking.engine.progress import report
from dranking.models.training.checkpoint import TrainingCheckpoint
from dranking.models.training.learning_curve import CurvePoint
from dranking.models.training.state import TrainingState
from dranking.models.training.validation import EpochValidation

State = TypeVar("State", bound=TrainingState)


class TrainingPlan(ABC, Generic[State]):
    """Base of the plans of trainings: the epochs to run, and what one epoch does.

    Attributes
    ----------
    first_epoch, n_epochs
        Number of the first epoch (counted from 0 over all calls), and number of epochs.
    """

    first_epoch: int
    n_epochs: int

    @abstractmethod
    def run_epoch(self, state: State) -> tuple[State, CurvePoint]:
        """Train every shard from the weights of the state, and mix the results.

        Returns
        -------
        The state after the epoch with the curve unchanged, and the new point of the curve without
        seconds and validation.

        Raises
        ------
        UsageError
            If the steps diverge.
        """

    def progress(self, point: CurvePoint) -> dict[str, Any]:
        """Facts to report after an epoch, beside objective and validation."""
        return {}


def run_epochs(
    state: State,
    plan: TrainingPlan[State],
    validation: EpochValidation,
    checkpoint: TrainingCheckpoint,
    *,
    stage: str = "training",
) -> State:
    """Run the epochs that a state lacks; store, measure and report each epoch.

    Parameters
    ----------
    stage
        Name of the training in progress reports.
    """
    end = plan.first_epoch + plan.n_epochs
    while state.epoch < end and not validation.is_over(state.curve):
        started = time.perf_counter()
        later, point = plan.run_epoch(state)
        seconds = state.seconds + time.perf_counter() - started
        point = replace(point, seconds=seconds, validation=validation.measured(later))
        state = replace(later, curve=(*state.curve, point))
        if validation.is_best(state.curve):
            state = state.with_best_model()
        checkpoint.save(state.to_checkpoint)
        facts = {"objective": point.objective, "validation": point.validation}
        facts = {name: value for name, value in facts.items() if value is not None}
        n_done = state.epoch - plan.first_epoch
        report(stage, n_done, plan.n_epochs, **facts, **plan.progress(point))
    return state
