"""The state of a training between two epochs, and what a shard returns after an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from dranking.models.training.checkpoint import Arrays, Count, Facts
from dranking.models.training.learning_curve import CurvePoint


class StoredFacts(BaseModel):
    """The values of a `TrainingState` that a checkpoint stores beside its arrays."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)
    t: Count
    epoch: Count
    curve: tuple[CurvePoint, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingState:
    """Base of the states of trainings; the rest of a training follows from its state.

    Attributes
    ----------
    weights
        Current weights: an array, or a `csr_array`.
    t
        Steps taken by the shard with the most steps; t sets the length of the next step.
    epoch
        Epochs completed, over all calls.
    curve
        The learning curve, a point for each epoch.
    """

    weights: Any
    t: int = 0
    epoch: int = 0
    curve: tuple[CurvePoint, ...] = ()

    @property
    def n_steps(self) -> int:
        """Steps taken so far, over all shards."""
        return self.curve[-1].n_steps if self.curve else 0

    @property
    def seconds(self) -> float:
        """Seconds spent in epochs so far."""
        return self.curve[-1].seconds if self.curve else 0.0

    def with_best_model(self) -> Self:
        """Keep the present model as the best model; a state without best model does nothing."""
        return self

    def to_checkpoint(self) -> tuple[Facts, Arrays]:
        """The facts and the arrays that a checkpoint stores."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardResult:
    """Base of the results of a shard after an epoch.

    Attributes
    ----------
    weights
        Weights after the shard's last step.
    losses
        Sum of the losses met by the steps, each before its step; NaN if the steps diverged.
    n_steps
        Steps taken.
    """

    weights: Any
    losses: float
    n_steps: int
