"""The training of a bilinear ranker: epochs of steps on shards of the queries, mixed after each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt
from scipy import sparse

from dranking.data.texts.collection import Collection
from dranking.data.texts.preferences import Preferences
from dranking.engine.executor import Executor, Task
from dranking.engine.progress import report
from dranking.engine.tree_sum import tree_sum
from dranking.errors import DataError, UsageError
from dranking.files.array_folder import csr_of, read_arrays, write_arrays
from dranking.files.commit import AnyPath
from dranking.kernels.bilinear.shrinkage import Groups
from dranking.kernels.bilinear.sparse_weights import SparseWeights
from dranking.kernels.bilinear.steps import BilinearRun, Steps, frequent_first, margins_of
from dranking.rankers.training.job import check_same_job
from dranking.rankers.training.state import Count
from dranking.sampling.tuples import TupleSampler, tuple_sampler

CHECKPOINT = "bilinear-checkpoint"
DRAWN_AT_ONCE = 10_000
VALIDATION_TUPLES = 10_000


class BilinearPoint(NamedTuple):
    """How far a training was after an epoch.

    Attributes
    ----------
    stage
        "train", or "refit" on the support that it found.
    epoch, n_steps
        Since the training began, over all shards.
    seconds
        Spent on training so far.
    n_stored, density
        Entries of W, and their share.
    peak_bytes
        Largest size of W so far, on one shard.
    loss
        Mean hinge loss of the epoch's tuples, each before its step.
    error
        Share of the validation tuples in the wrong order, ties included; None without.
    """

    stage: str
    epoch: int
    n_steps: int
    seconds: float
    n_stored: int
    density: float
    peak_bytes: int
    loss: float
    error: float | None


@dataclass(frozen=True, eq=False)
class BilinearState:
    """All that the rest of a training follows from.

    Attributes
    ----------
    weights
        W, a `csr_array`; while a support is given, its zeros are stored.
    t
        Steps that the longest shard has taken in this stage, which set the length of the next.
    stage
        "train" or "refit".
    epoch
        Epochs done in this stage.
    curve
        A point for each epoch of all stages.
    """

    weights: Any
    t: int = 0
    stage: str = "train"
    epoch: int = 0
    curve: tuple[BilinearPoint, ...] = ()

    def advanced(
        self, mixed: ShardOutcome, t: int, n_steps: int, seconds: float, error: float | None
    ) -> BilinearState:
        """The training after an epoch of t steps of each shard, n_steps of all."""
        last = self.curve[-1] if self.curve else None
        point = BilinearPoint(
            stage=self.stage,
            epoch=self.epoch + 1,
            n_steps=n_steps + (last.n_steps if last else 0),
            seconds=seconds + (last.seconds if last else 0.0),
            n_stored=mixed.weights.nnz,
            density=float(mixed.weights.nnz / np.prod(mixed.weights.shape, dtype=float)),
            peak_bytes=max(mixed.peak_bytes, last.peak_bytes if last else 0),
            loss=mixed.loss / n_steps,
            error=error,
        )
        return replace(
            self,
            weights=mixed.weights,
            t=self.t + t,
            epoch=self.epoch + 1,
            curve=(*self.curve, point),
        )


class TrainingData(NamedTuple):
    """Queries and documents, and preferences over them."""

    queries: Collection
    documents: Collection
    preferences: Preferences


class Plan(NamedTuple):
    """A stage of a training.

    Attributes
    ----------
    steps, groups
        What the steps are, and what is shrunk together.
    n_steps, n_epochs
        Steps over all shards, and epochs that they are divided into.
    shards
        Number of shards.
    seed
        Of all draws.
    first_epoch
        Number of the first of these epochs: what its tuples are drawn from.
    """

    steps: Steps
    groups: Groups
    n_steps: int
    n_epochs: int
    shards: int
    seed: int
    first_epoch: int


class ShardOutcome(NamedTuple):
    """W after the steps of a shard; their losses, thresholds and the largest size of W."""

    weights: Any
    loss: float
    threshold: float
    peak_bytes: int


def run_epochs(
    state: BilinearState,
    data: TrainingData,
    held_out: TrainingData | None,
    plan: Plan,
    executor: Executor,
    store: BilinearCheckpoint,
) -> BilinearState:
    """Run the epochs of a stage that are not done yet.

    Raises
    ------
    UsageError
        If there are more shards than queries with tuples, or the training diverges.
    """
    shares = query_shares(data.preferences, plan.shards)
    held = executor.submit(TrainingData, *data, name="load")
    ends = [0, *epoch_ends(-(-plan.n_steps // plan.shards), plan.n_epochs, plan.steps.period)]
    for epoch in range(state.epoch - plan.first_epoch, len(ends) - 1):
        started = time.perf_counter()
        n_steps = ends[epoch + 1] - ends[epoch]
        mixed = run_epoch(state, held, plan, shares, n_steps, executor)
        if not np.isfinite(mixed.loss):
            raise UsageError(
                f"training diverged in epoch {epoch + 1}; lower learning_rate (it is "
                f"{plan.steps.learning_rate:.3g})."
            )
        seconds = time.perf_counter() - started
        error = None if held_out is None else tuple_error(held_out, mixed.weights, plan.seed)
        state = state.advanced(mixed, n_steps, n_steps * plan.shards, seconds, error)
        store.save(state)
        point = state.curve[-1]
        facts = {"density": point.density, "loss": point.loss, "error": point.error}
        report(state.stage, epoch + 1, len(ends) - 1, **facts)
    return state


def run_epoch(
    state: BilinearState,
    held: Task,
    plan: Plan,
    shares: NDArray[np.float64],
    n_steps: int,
    executor: Executor,
) -> ShardOutcome:
    """Train every shard from the same W for so many steps, and mix what comes out."""
    weights = executor.submit(_same, state.weights, name="weights")
    key = (plan.seed, state.epoch)
    tasks = [
        executor.submit(
            train_shard,
            held,
            weights,
            (shard, plan.shards),
            plan.steps,
            plan.groups,
            state.t,
            n_steps,
            key,
            name="bilinear-epoch",
        )
        for shard in range(plan.shards)
    ]
    [mixed] = executor.gather([executor.submit(mix, shares, plan.steps.grows, *tasks, name="mix")])
    return cast(ShardOutcome, mixed)


def query_shares(preferences: Preferences, n_shards: int) -> NDArray[np.float64]:
    """Share of the queries in each shard."""
    sizes = np.array(
        [len(tuple_sampler(preferences, shard, n_shards).queries) for shard in range(n_shards)]
    )
    if not sizes.all():
        raise UsageError(f"shards is {n_shards}, but {sizes.sum()} queries have tuples.")
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
) -> ShardOutcome:
    """Take the steps of an epoch on one shard of the queries.

    Parameters
    ----------
    weights
        W to start from, a `csr_array`.
    shard
        Which one, and of how many.
    t
        Steps taken before.
    key
        What the tuples are drawn from.
    """
    sampler = tuple_sampler(data.preferences, *shard)
    queries, documents = data.queries.vectors, data.documents.vectors
    trained = SparseWeights(weights, order=frequent_first(documents))
    run = BilinearRun(trained, steps, groups, t)
    rng = np.random.default_rng((*key, shard[0]))
    for first in range(0, n_steps, DRAWN_AT_ONCE):
        run.take(queries, documents, sampler.draw(rng, min(DRAWN_AT_ONCE, n_steps - first)))
    run.finish()
    return ShardOutcome(trained.to_csr(), run.loss, run.mean_threshold, trained.peak_bytes)


def mix(shares: NDArray[np.float64], grows: bool, *outcomes: ShardOutcome) -> ShardOutcome:
    """Mean of the shards' W by their shares; entries below the mean threshold are dropped.

    Without that, W would keep what any of the shards has. On a given support all is kept.
    """
    losses = sum(outcome.loss for outcome in outcomes)
    peak = max(outcome.peak_bytes for outcome in outcomes)
    threshold = float(np.mean([outcome.threshold for outcome in outcomes]))
    if len(outcomes) == 1:
        return outcomes[0]
    each = list(zip(shares.tolist(), (outcome.weights for outcome in outcomes), strict=True))
    if not grows:
        weights = each[0][1].copy()
        weights.data = tree_sum(np.float32(share) * w.data for share, w in each)
        return ShardOutcome(weights, losses, threshold, peak)
    weights = sparse.csr_array(tree_sum(w * np.float32(share) for share, w in each))
    weights.data[np.abs(weights.data) < threshold] = 0.0
    weights.eliminate_zeros()
    weights.sort_indices()
    return ShardOutcome(weights, losses, threshold, peak)


def tuple_error(data: TrainingData, weights: Any, seed: int) -> float:
    """Share of drawn tuples in the wrong order, ``q' W d+ <= q' W d-``."""
    sampler: TupleSampler = tuple_sampler(data.preferences)
    tuples = sampler.draw(np.random.default_rng(seed), VALIDATION_TUPLES)
    queries, documents = data.queries.vectors, data.documents.vectors
    return float(np.mean(margins_of(SparseWeights(weights), queries, documents, tuples) <= 0.0))


class _Facts(BaseModel):
    """What stands in the manifest of a checkpoint beside its arrays."""

    model_config = ConfigDict(extra="forbid")
    job: dict[str, Any]
    shape: tuple[NonNegativeInt, NonNegativeInt]
    t: Count
    stage: Literal["train", "refit"]
    epoch: Count
    curve: tuple[BilinearPoint, ...]


class BilinearCheckpoint:
    """A directory that holds a training after each epoch.

    Parameters
    ----------
    path
        The directory; None means there is none.
    job
        What is trained, as JSON has it: a training is only taken up by the same.
    """

    def __init__(self, path: AnyPath | None, job: dict[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self._job = job

    def load(self, shape: tuple[int, int]) -> BilinearState | None:
        """The training so far; None if there is no directory.

        Parameters
        ----------
        shape
            Of W.

        Raises
        ------
        UsageError
            If it is of another training.
        DataError
            If it is no checkpoint, or damaged.
        """
        if self._path is None or not self._path.exists():
            return None
        stored, arrays = read_arrays(self._path, CHECKPOINT)
        try:
            facts = _Facts.model_validate(stored)
            weights = csr_of({name: np.array(a) for name, a in arrays.items()}, facts.shape)
            state = BilinearState(weights, facts.t, facts.stage, facts.epoch, facts.curve)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{self._path}: this is no checkpoint of a training; remove it to start anew."
            ) from error
        check_same_job(self._path, self._job, facts.job, "a training")
        if facts.shape != shape:
            raise DataError(f"{self._path}: damaged, W has other words; remove it to start anew.")
        return state

    def save(self, state: BilinearState) -> None:
        """Replace the directory with this training."""
        if self._path is None:
            return
        arrays = {name: getattr(state.weights, name) for name in ("indptr", "indices", "data")}
        facts = {
            "job": self._job,
            "shape": state.weights.shape,
            "t": state.t,
            "stage": state.stage,
            "epoch": state.epoch,
            "curve": state.curve,
        }
        write_arrays(self._path, CHECKPOINT, facts, arrays, overwrite=True)


def _same(weights: Any) -> Any:
    return weights


def refit_from(state: BilinearState) -> BilinearState:
    """Begin the refit of a trained W on its support."""
    return replace(state, t=0, stage="refit", epoch=0)


def epoch_ends(n_steps: int, n_epochs: int, period: int) -> Sequence[int]:
    """After how many of a shard's steps each epoch ends: whole periods, but for the last."""
    ends = np.rint(np.arange(1, n_epochs + 1) * n_steps / n_epochs / period).astype(int) * period
    ends[-1] = n_steps
    return [int(end) for end in np.unique(np.minimum(ends, n_steps)) if end > 0]
