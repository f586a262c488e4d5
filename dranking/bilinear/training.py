"""The training of a bilinear ranker: epochs of steps on shards of the queries, mixed after each.

State, learning curve, checkpoint and the loop over epochs come from `dranking.models.training`;
a sparse W adds the stage of the training, its density and its sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt
from scipy import sparse

from dranking.bilinear.kernels.shrinkage import Groups
from dranking.bilinear.kernels.sparse_weights import SparseWeights
from dranking.bilinear.kernels.steps import BilinearRun, Steps, frequent_first
from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.texts.preferences import Preferences
from dranking.bilinear.tuples import tuple_sampler
from dranking.engine.executor import Executor, Task
from dranking.engine.shard_sums import sum_shards, summed_shard
from dranking.errors import UsageError
from dranking.files.folders.array_folder import csr_of
from dranking.models.training.checkpoint import Arrays, Facts
from dranking.models.training.epochs import TrainingPlan
from dranking.models.training.learning_curve import CurvePoint
from dranking.models.training.state import ShardResult, StoredFacts, TrainingState

DRAWN_AT_ONCE = 10_000

Stage = Literal["train", "refit"]


@dataclass(frozen=True, kw_only=True)
class BilinearPoint(CurvePoint):
    """The state of the training of a sparse W after an epoch, for its learning curve.

    The objective is the mean hinge loss of the epoch's tuples, each before its step. The validation
    is the share of the validation tuples in the wrong order, ties included. Epochs are counted
    within the stage.

    Attributes
    ----------
    stage
        "train", or "refit" on the support that the training found.
    n_stored, density
        Number of stored entries of W, and their share of all entries.
    peak_bytes
        Largest size of W so far on one shard, in bytes.
    """

    stage: Stage
    n_stored: int
    density: float
    peak_bytes: int


class BilinearFacts(StoredFacts):
    """The values of a `BilinearState` that a checkpoint stores beside W."""

    curve: tuple[BilinearPoint, ...]
    stage: Stage
    shape: tuple[NonNegativeInt, NonNegativeInt]


@dataclass(frozen=True, eq=False, kw_only=True)
class BilinearState(TrainingState):
    """The state of the training of a sparse W; t and epoch are counted within the stage.

    Attributes
    ----------
    weights
        W, a `csr_array`; while a support is given, zeros on the support are stored.
    stage
        "train" or "refit".
    """

    stage: Stage = "train"
    curve: tuple[BilinearPoint, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """(n_query_words, n_words), the shape of W."""
        return cast("tuple[int, int]", self.weights.shape)

    def to_checkpoint(self) -> tuple[Facts, Arrays]:
        """The facts and the arrays that a checkpoint stores."""
        arrays = {name: getattr(self.weights, name) for name in ("indptr", "indices", "data")}
        return BilinearFacts.model_validate(self).model_dump(), arrays

    @classmethod
    def from_checkpoint(cls, facts: Facts, arrays: Arrays, shape: tuple[int, int]) -> BilinearState:
        """The state with these facts and arrays.

        Raises
        ------
        KeyError, TypeError, ValueError, OverflowError
            If the facts or the arrays do not describe a training of a W of this shape.
        """
        checked: dict[str, Any] = dict(BilinearFacts.model_validate(facts))
        if checked.pop("shape") != shape:
            raise ValueError(f"W is not of shape {shape}")
        return cls(weights=csr_of(arrays, shape), **checked)


class TrainingData(NamedTuple):
    """Queries, documents, and the preferences of the queries over the documents."""

    queries: Collection
    documents: Collection
    preferences: Preferences


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseShardResult(ShardResult):
    """The result of a shard that trained a sparse W.

    Attributes
    ----------
    threshold
        Mean threshold of the shard's shrinkages of W.
    peak_bytes
        Largest size of W, in bytes.
    """

    threshold: float
    peak_bytes: int


class SparseShardFacts(NamedTuple):
    """Numbers about the epoch of a shard, as in `SparseShardResult`."""

    losses: float
    n_steps: int
    threshold: float
    peak_bytes: int


@dataclass(frozen=True, kw_only=True)
class BilinearPlan(TrainingPlan[BilinearState]):
    """The epochs of one stage of the training of a sparse W.

    Attributes
    ----------
    ends
        Number of steps that each shard has taken at the end of each epoch, ascending.
    steps, groups
        The parameters of the steps, and the entries that are shrunk together.
    n_shards, shares
        Number of shards, and the share of the queries in each (n_shards,).
    seed
        Seed of all draws.
    data
        The queries, documents and preferences, as a task.
    executor
        The executor that runs the shards.
    """

    first_epoch: int
    n_epochs: int
    ends: Sequence[int]
    steps: Steps
    groups: Groups
    n_shards: int
    shares: NDArray[np.float64]
    seed: int
    data: Task
    executor: Executor

    def run_epoch(self, state: BilinearState) -> tuple[BilinearState, BilinearPoint]:
        """Train every shard from the same W, and mix the results."""
        place = state.epoch - self.first_epoch
        n_steps = self.ends[place] - (self.ends[place - 1] if place else 0)
        weights = self.executor.submit(_same, state.weights, name="weights")
        key = (self.seed, state.epoch)
        tasks = [
            self.executor.submit(
                summed_shard(train_shard, partial(to_mix, self.steps.grows), shard, share),
                self.data,
                weights,
                (shard, self.n_shards),
                self.steps,
                self.groups,
                state.t,
                n_steps,
                key,
                name="bilinear-epoch",
            )
            for shard, share in enumerate(self.shares.tolist())
        ]
        mixed, facts = sum_shards(self.executor, tasks, state.shape[1], "bilinear")
        losses = sum(each.losses for each in facts)
        W = self._mean(state.weights, mixed, facts)
        if not (np.isfinite(losses) and np.isfinite(W.data).all()):
            remedy = shorter_steps(self.steps.learning_rate)
            raise UsageError(f"training diverged in epoch {place + 1}. {remedy}")
        n_taken = sum(each.n_steps for each in facts)
        last = state.curve[-1] if state.curve else None
        point = BilinearPoint(
            epoch=state.epoch + 1,
            n_steps=state.n_steps + n_taken,
            objective=losses / n_taken,
            stage=state.stage,
            n_stored=W.nnz,
            density=float(W.nnz / np.prod(W.shape, dtype=float)),
            peak_bytes=max(*(each.peak_bytes for each in facts), last.peak_bytes if last else 0),
        )
        return replace(state, weights=W, t=state.t + n_steps, epoch=state.epoch + 1), point

    def _mean(self, before: Any, mixed: Any, facts: Sequence[SparseShardFacts]) -> Any:
        """W after an epoch, from the sum over shards: entries below the mean threshold are dropped.

        Without the threshold, W would keep every entry of any shard. Where W does not grow (on a
        given support, and in a refit) all entries are kept, in the places of W before the epoch.
        """
        if not self.steps.grows:
            return sparse.csr_array((mixed, before.indices, before.indptr), shape=before.shape)
        weights = sparse.csr_array(mixed)
        if self.n_shards > 1:
            threshold = float(np.mean([each.threshold for each in facts]))
            weights.data[np.abs(weights.data) < threshold] = 0.0
            weights.eliminate_zeros()
            weights.sort_indices()
        return weights

    def progress(self, point: CurvePoint) -> dict[str, Any]:
        """Density of W."""
        return {"density": cast(BilinearPoint, point).density}


def query_shares(preferences: Preferences, n_shards: int) -> NDArray[np.float64]:
    """Share of the queries in each shard."""
    sizes = np.array(
        [len(tuple_sampler(preferences, shard, n_shards).queries) for shard in range(n_shards)]
    )
    if not sizes.all():
        raise UsageError(f"n_shards is {n_shards}, but {sizes.sum()} queries have tuples.")
    return np.asarray(sizes / sizes.sum())


def train_shard(
    data: TrainingData,
    weights: Any,
    shard: tuple[int, int],
    steps: Steps,
    groups: Groups,
    t: int,
    n_steps: int,
    key: tuple[int, ...],
) -> SparseShardResult:
    """Take the steps of an epoch on one shard of the queries.

    Parameters
    ----------
    weights
        W to start from, a `csr_array`.
    shard
        Number of the shard, and number of shards.
    t
        Number of steps taken before.
    key
        Seed and epoch, from which the tuples are drawn.
    """
    sampler = tuple_sampler(data.preferences, *shard)
    queries, documents = data.queries.vectors, data.documents.vectors
    trained = SparseWeights(weights, order=frequent_first(documents))
    run = BilinearRun(trained, steps, groups, t)
    rng = np.random.default_rng((*key, shard[0]))
    for first in range(0, n_steps, DRAWN_AT_ONCE):
        run.take(queries, documents, sampler.draw(rng, min(DRAWN_AT_ONCE, n_steps - first)))
    run.finish()
    return SparseShardResult(
        weights=trained.to_csr(),
        losses=run.loss,
        n_steps=n_steps,
        threshold=run.mean_threshold,
        peak_bytes=trained.peak_bytes,
    )


def to_mix(grows: bool, result: SparseShardResult, share: float) -> tuple[Any, SparseShardFacts]:
    """The values to sum over the shards, and the facts about a shard; see `shard_sums.Split`.

    The entries of a W that does not grow lie in the same places on all shards.
    """
    weights = result.weights if grows else result.weights.data
    facts = SparseShardFacts(result.losses, result.n_steps, result.threshold, result.peak_bytes)
    return weights * weights.dtype.type(share), facts


def shorter_steps(learning_rate: float) -> str:
    """What to do about steps that are too long."""
    return f"Lower learning_rate (it is {learning_rate:.3g}), or scale the vectors to length 1."


def _same(weights: Any) -> Any:
    return weights


def refit_from(state: BilinearState) -> BilinearState:
    """Begin the refit of a trained W on its support."""
    return replace(state, t=0, stage="refit", epoch=0)


def epoch_ends(n_steps: int, n_epochs: int, period: int) -> Sequence[int]:
    """Steps of a shard at the end of each epoch: whole periods, except for the last epoch."""
    ends = np.rint(np.arange(1, n_epochs + 1) * n_steps / n_epochs / period).astype(int) * period
    ends[-1] = n_steps
    return [int(end) for end in np.unique(np.minimum(ends, n_steps)) if end > 0]
