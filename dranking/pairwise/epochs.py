"""Epochs of steps on sampled pairs: what one shard does, and the mean of the shards' weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dranking.engine.executor import Executor
from dranking.errors import SCALE, DivergedError
from dranking.models.training.checkpoint import Arrays, Count, Facts, check_vectors
from dranking.models.training.epochs import TrainingPlan
from dranking.models.training.learning_curve import CurvePoint
from dranking.models.training.state import ShardResult, StoredFacts, TrainingState
from dranking.pairwise.kernels.differences import Rows, as_rows
from dranking.pairwise.kernels.sgd import Batch, Iterate, Steps
from dranking.pairwise.mixing import Segment, Shards
from dranking.pairwise.pair_blocks import (
    DRAWS,
    LABELLED,
    UNLABELLED,
    Label,
    PairBlock,
    PairProblem,
    drawn_differences,
    portions,
)
from dranking.pairwise.pairs import PairStreams

Array = NDArray[np.float64]


class AveragedFacts(StoredFacts):
    """The values of an `AveragedState` that a checkpoint stores beside its arrays."""

    n_averaged: Count


@dataclass(frozen=True, eq=False, kw_only=True)
class AveragedState(TrainingState):
    """The state of a training whose model is the mean of iterates.

    Attributes
    ----------
    total, n_averaged
        (n_weights,) sum of the iterates that count for the average, and their number.
    eta0
        First step length.
    best
        (n_weights,) weights of the model that validated best; None if no model was validated.
    """

    weights: Array
    total: Array
    n_averaged: int = 0
    eta0: float
    best: Array | None = None

    @property
    def model(self) -> Array:
        """(n_weights,) mean of the iterates that count; the current weights while none counts."""
        return self.total / self.n_averaged if self.n_averaged else self.weights

    def with_best_model(self) -> Self:
        """Keep the present model as the best model."""
        return replace(self, best=self.model)

    def with_new_average(self) -> Self:
        """Begin a new average, and forget the best model."""
        return replace(self, total=np.zeros_like(self.total), n_averaged=0, best=None)

    def to_checkpoint(self) -> tuple[Facts, Arrays]:
        """The facts and the arrays that a checkpoint stores."""
        arrays = {"weights": self.weights, "total": self.total}
        if self.best is not None:
            arrays["best"] = self.best
        return AveragedFacts.model_validate(self).model_dump(), arrays

    @classmethod
    def from_checkpoint(
        cls, facts: Facts, arrays: Arrays, n_weights: int, eta0: float
    ) -> AveragedState:
        """The state with these facts and arrays; `eta0` follows from the settings.

        Raises
        ------
        TypeError, ValueError
            If the facts or the arrays do not describe a training of `n_weights` weights.
        """
        check_vectors(arrays, n_weights)
        values: dict[str, Any] = {
            **dict(AveragedFacts.model_validate(facts)),
            **arrays,
            "eta0": eta0,
        }
        return cls(**values)


@dataclass(frozen=True, eq=False, kw_only=True)
class AveragedResult(ShardResult):
    """The result of a shard whose iterates are averaged.

    Attributes
    ----------
    total, n_averaged
        (n_weights,) sum of the shard's iterates that count for the average, and their number.
    """

    weights: Array
    total: Array
    n_averaged: int

    @property
    def loss(self) -> float:
        """Mean loss of the steps; 0 without steps."""
        return self.losses / max(self.n_steps, 1)


class ShardFacts(NamedTuple):
    """Numbers about the epoch of a shard.

    Attributes
    ----------
    loss
        Mean loss of the steps.
    weights, total
        Squared norms of the weights, and of the sum of iterates.
    """

    loss: float
    weights: float
    total: float


class SampledBlock(NamedTuple):
    """A block from which steps draw pairs.

    Attributes
    ----------
    block
        Its documents, and the distribution of their pairs.
    rows
        Its features in the form that kernels take.
    rng
        Random generator of the block.
    """

    block: PairBlock
    rows: Rows
    rng: np.random.Generator

    def draw(self, n_draws: int, label: Label) -> Batch:
        """Draw pairs with labels."""
        return self.block.draw(self.rng, n_draws, label)


@dataclass(frozen=True)
class ShardEpoch(ABC):
    """Base of what a shard does in an epoch; a ranker defines its sampling and its steps.

    Attributes
    ----------
    steps
        Loss and lengths of the steps.
    label
        The margin that the difference of the scores of a pair is compared with.
    seed
        Seed of the draws.
    """

    steps: Steps
    label: Label
    seed: int

    @abstractmethod
    def __call__(
        self, segments: Iterator[Segment], weights: Array, t: int, epoch: int
    ) -> AveragedResult:
        """Take steps t + 1, t + 2, ... on the blocks of the shard, from the weights given."""

    def _portions(
        self, segments: Iterator[Segment], epoch: int, pairs_per_step: int
    ) -> Iterator[tuple[list[SampledBlock], int]]:
        """Divide the epoch into portions whose draws fit into memory.

        Parameters
        ----------
        pairs_per_step
            Pairs that a step draws from one block, at most.

        Yields
        ------
        A block of each source (the labelled block first), and the number of steps to take.
        """
        streams = [PairStreams(self.seed, epoch, kind) for kind in (LABELLED, UNLABELLED)]
        for segment in segments:
            blocks = [
                SampledBlock(block, as_rows(block.features), of_source[index])
                for block, of_source, index in zip(
                    segment.blocks, streams, segment.indices, strict=False
                )
            ]
            for n_steps in portions(segment.n_steps, max(1, DRAWS // pairs_per_step)):
                yield blocks, n_steps

    def _result(self, iterate: Iterate, losses: float, first: int, t: int) -> AveragedResult:
        """The result after steps first + 1 to t."""
        return AveragedResult(
            weights=iterate.weights,
            total=iterate.total,
            n_averaged=max(0, t - max(first, self.steps.average_from)),
            losses=losses,
            n_steps=t - first,
        )


@dataclass(frozen=True, kw_only=True)
class PairPlan(TrainingPlan[AveragedState]):
    """The epochs of a ranker that learns from sampled pairs.

    Attributes
    ----------
    problem
        The data to train on.
    shards
        The blocks of the problem, divided into shards.
    shard_epoch
        The work of a shard in an epoch; it can be pickled.
    n_steps
        Steps of an epoch, over all shards.
    regularization
        lambda.
    seed
        Seed of the order of the blocks.
    executor
        The executor that runs the shards.
    name
        Name of the tasks.
    """

    first_epoch: int
    n_epochs: int
    problem: PairProblem
    shards: Shards
    shard_epoch: ShardEpoch
    n_steps: int
    regularization: float
    seed: int
    executor: Executor
    name: str

    def run_epoch(self, state: AveragedState) -> tuple[AveragedState, CurvePoint]:
        """Train every shard from the weights of the state; take the mean of the weights."""
        weights = self.executor.submit(np.asarray, state.weights, name="weights")
        (mixed, total, n_averaged), facts = self.shards.mix(
            self.shard_epoch,
            to_mix,
            self.n_steps,
            (self.seed, state.epoch),
            weights,
            state.t,
            state.epoch,
            name=self.name,
        )
        self._check_finite(facts, state)
        later = replace(
            state,
            weights=mixed,
            total=state.total + total,
            n_averaged=state.n_averaged + n_averaged,
            t=state.t + self.shards.most_steps(self.n_steps),
            epoch=state.epoch + 1,
        )
        loss = float(self.shards.shares @ [each.loss for each in facts])
        penalty = self.regularization / 2 * float(later.weights @ later.weights)
        return later, CurvePoint(
            epoch=later.epoch,
            n_steps=state.n_steps + self.n_steps,
            objective=loss + penalty / self.problem.n_views,
        )

    def progress(self, point: CurvePoint) -> dict[str, Any]:
        """Steps taken, and bytes read from storage."""
        return {"steps": point.n_steps, "bytes_read": self.shards.bytes_read}

    def _check_finite(self, facts: list[ShardFacts], state: AveragedState) -> None:
        lam = self.regularization
        sizes = [(each.loss, lam * each.weights, each.total) for each in facts]
        if not np.isfinite(sizes).all():
            what = f"the steps of epoch {state.epoch + 1} grew without limit"
            raise diverged(what, self.problem, self.seed, state.eta0, lam)


def to_mix(result: AveragedResult, share: float) -> tuple[Any, ShardFacts]:
    """The values to sum over the shards, and the facts about a shard; see `Shards.mix`."""
    with np.errstate(over="ignore"):
        weights, total = float(result.weights @ result.weights), float(result.total @ result.total)
        mixed = result.weights * result.weights.dtype.type(share)
    return (mixed, result.total, result.n_averaged), ShardFacts(result.loss, weights, total)


def diverged(
    what: str, problem: PairProblem, seed: int, eta0: float, regularization: float
) -> DivergedError:
    """The error for steps that are too long; it names the column with the longest differences."""
    remedy = shorter_steps(problem, seed, eta0, regularization)
    return DivergedError(f"training diverged: {what}. {remedy}")


def shorter_steps(problem: PairProblem, seed: int, eta0: float, regularization: float) -> str:
    """What to do about steps that are too long, and the column with the longest differences."""
    largest = drawn_differences(problem, seed).largest
    column = int(np.argmax(largest))
    return (
        f"Lower eta0 (it is {eta0:.3g}; by default it follows from "
        f"the data), raise regularization ({regularization:.3g}), or scale the features ({SCALE}): "
        f"documents of a query differ by up to {largest[column]:.2g} in "
        f"{problem.dataset.feature_names[column]}."
    )
