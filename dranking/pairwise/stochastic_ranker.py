"""Base of the rankers that learn from sampled pairs: parameters, epochs, and the final model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.column_constants import ValueRule, check_permitted, joined_constants
from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.data.filling import with_steps_of
from dranking.data.steps import origins_by_column
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_labels
from dranking.engine.memory import parse_memory
from dranking.errors import STATED_ACCURACY, DataError, DataWarning, UsageError, warn_user
from dranking.files.places import AnyPlace
from dranking.ingestion.dask_collections import as_dataset
from dranking.kernels.machine.floats import EPSILON
from dranking.models.linear.checks import check_count, check_positive, check_training_data
from dranking.models.linear.estimator import LinearRanker
from dranking.models.linear.options import Options, json_ready
from dranking.models.linear.pairs_to_learn import no_pair
from dranking.models.training.checkpoint import TrainingCheckpoint
from dranking.models.training.epochs import run_epochs
from dranking.models.training.learning_curve import CurvePoint, curve_facts
from dranking.models.training.zero_weights import TrainingEnd, warn_if_worse
from dranking.pairwise.epochs import (
    AveragedState,
    PairPlan,
    ShardEpoch,
    diverged,
    shorter_steps,
)
from dranking.pairwise.kernels import sgd
from dranking.pairwise.kernels.sgd import Steps
from dranking.pairwise.mixing import Shards, Source
from dranking.pairwise.options import SGD, Pairs, Validation
from dranking.pairwise.pair_blocks import (
    PairBlock,
    PairProblem,
    drawn_differences,
    pair_mass,
    sampled_norm,
    summed_losses,
    warn_of_scales,
)
from dranking.pairwise.rounding import MeanLosses, rounded_share, warn_of_rounding
from dranking.pairwise.validated_epochs import (
    checked_validation,
    epoch_validation,
    validation_facts,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

Loss: TypeAlias = Literal["hinge", "squared-hinge", "logistic", "squared"]

LOSSES: dict[str, int] = {
    "hinge": sgd.HINGE,
    "squared-hinge": sgd.SQUARED_HINGE,
    "logistic": sgd.LOGISTIC,
    "squared": sgd.SQUARED,
}

CURVATURE = {"hinge": 1.0, "squared-hinge": 2.0, "logistic": 1.0, "squared": 1.0}
"""Curvature by loss: a step of 1 / (curvature |p|^2) does not pass the minimum for its pair."""

MIN_STEPS_PER_EPOCH = 100_000

ESTIMATE_DRAWS = 250_000
"""Largest number of draws for the final objective; smaller data contributes all pairs."""

NEVER = 2**62
"""Number of a step that no training reaches."""

UNBOUNDED = ("squared-hinge", "squared")
"""Losses with unbounded slopes: a step that is too long makes the next step even longer."""

FAILED = 10.0
"""If training with such a loss ends at an objective above FAILED times the objective of zero
weights, `fit` raises an error."""


@dataclass(eq=False, repr=False, kw_only=True)
class StochasticRanker(LinearRanker):
    """Base of the rankers that learn from sampled pairs, step by step.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        Weights.
    objective_ : float
        Mean loss of the model over the pairs plus lambda / 2 |coef_|^2; estimated from drawn pairs
        if there are very many pairs.
    objective_standard_error_ : float
        Standard error of `objective_` by these draws; 0 where all pairs count.
    relative_rounding_ : float
        By which share rounding moved `objective_` from the objective of `coef_` on the same pairs:
        a running bound; an estimate of it from evenly spaced pairs, where there are many pairs. The
        weights are those after a number of steps, and no minimum is claimed: `learning_curve_`
        shows the objective as it falls. A warning that names columns is given above 1e-6.
    eta0_ : float
        First step length.
    n_steps_ : int
        Steps taken, over all shards and calls.
    learning_curve_ : tuple of CurvePoint
        Objective and validation metric after each epoch; `plot_learning_curve` draws the curve. The
        objective is an estimate from the pairs of the epoch, and the mean over views.
    """

    objective_: float = field(init=False)
    objective_standard_error_: float = field(init=False)
    relative_rounding_: float = field(init=False)
    eta0_: float = field(init=False)
    n_steps_: int = field(init=False)
    learning_curve_: tuple[CurvePoint, ...] = field(init=False)

    _options: ClassVar[Mapping[str, type[Options]]] = {"sgd": SGD, "pairs": Pairs}

    regularization: float = 1e-4
    loss: Loss = "hinge"
    pairs: Pairs | Mapping[str, Any] | None = None
    sgd: SGD | Mapping[str, Any] | None = None
    warm_start: bool = False
    random_state: int = 0
    memory_limit: int | str | None = None
    checkpoint: AnyPlace | None = None

    @property
    def _steps(self) -> SGD:
        return SGD.of(self.sgd)

    @property
    def _pairs(self) -> Pairs:
        return Pairs.of(self.pairs)

    def _shard_epoch(self, problem: PairProblem, steps: Steps) -> ShardEpoch:
        """The function that a shard runs in an epoch; can be pickled."""
        raise NotImplementedError

    def _radius(self, problem: PairProblem) -> float:
        """Radius of the ball onto which the weights are projected."""
        return np.inf

    def _more_data(
        self, X: Any, y: Any, qid: Any, query_weights: Any, null: ValueRule, executor: Executor
    ) -> Dataset:
        """The arguments of `partial_fit` as a data set, with the steps that `fit` would fit.

        Later data takes the steps of the first: new ones would change what the weights mean.
        """
        if not hasattr(self, "coef_"):
            return self._training_data(X, y, qid, query_weights, null, executor)
        nullable, weights = self._constants is not None, query_weights
        check_permitted(null, self._constants, "the first data")
        needed = self._needed_steps
        columns = tuple(dict.fromkeys(source_names(self.feature_names_, needed)))
        origins = origins_by_column(self.feature_names_, needed)
        if null.shift == "auto" and not origins and not isinstance(X, Dataset):
            warn_user(
                "shift: nothing was subtracted from the columns of the first data, and later data "
                "is read as the first data was. To find origins, begin anew with all of the data.",
                DataWarning,
            )
        dataset = as_dataset(
            X,
            y,
            qid=qid,
            query_weights=weights,
            nullable=nullable,
            origins=origins,
            no_index=columns,
            executor=executor,
        )
        if dataset.feature_names not in (self.feature_names_, columns):
            return dataset  # `_previous` refuses it
        return with_steps_of(dataset, self.feature_names_, needed, permits=null.permits)

    def _fit_all_epochs(self, problem: PairProblem, executor: Executor, validation: Any) -> Self:
        """Train for all epochs: a new model, or with `warm_start` the present model."""
        start = self._previous(problem) if self.warm_start else None
        return self._train(
            problem, executor, self._steps.n_epochs, start, validation, checkpoint=self.checkpoint
        )

    def _fit_one_epoch(self, problem: PairProblem, executor: Executor, validation: Any) -> Self:
        """Train the present model, or a new model, for one epoch."""
        return self._train(problem, executor, 1, self._previous(problem), validation)

    def _train(
        self,
        problem: PairProblem,
        executor: Executor,
        n_epochs: int,
        start: AveragedState | None,
        validation: Any,
        *,
        checkpoint: AnyPlace | None = None,
    ) -> Self:
        """Train for some epochs, from the state of an earlier training if there is one."""
        earlier = None if start is None else self._trained
        judged = checked_validation(validation, executor, problem.dataset)
        start = self._untrained(problem) if start is None else start.with_new_average()
        validated = epoch_validation(judged, problem, executor, start.epoch)
        plan = self._plan(problem, executor, n_epochs, start)
        settings = self._settings(problem, start, judged) if checkpoint is not None else {}
        stored = TrainingCheckpoint(checkpoint, settings)
        n, eta0 = len(start.weights), start.eta0
        restore = partial(AveragedState.from_checkpoint, n_weights=n, eta0=eta0)
        state = run_epochs(stored.load(restore) or start, plan, validated, stored)
        n_draws = min(n_epochs * plan.n_steps, ESTIMATE_DRAWS)
        best = state.best if validated.patience is not None else None
        weights = state.model if best is None else best
        is_batch = start.epoch > 0 and n_epochs == 1  # of `partial_fit`: a few queries tell little
        self._finish(problem, state, weights, plan.shards, n_draws, warns=not is_batch)
        # Unlabelled queries on which views were made to agree count as trained on, too.
        used = {id(s.dataset): (s.dataset, number > 0) for number, s in enumerate(problem.sources)}
        return self._record(list(used.values()), executor, earlier)

    def _plan(
        self, problem: PairProblem, executor: Executor, n_epochs: int, start: AveragedState
    ) -> PairPlan:
        """The epochs to run."""
        shards = Shards(
            problem.sources, self._steps.n_shards, executor, resident=self._fits(problem, executor)
        )
        n_steps = self._n_steps(problem.dataset)
        steps = Steps(
            loss=self._loss_code,
            regularization=self.regularization,
            inverse_eta0=1.0 / start.eta0,
            radius=self._radius(problem),
            average_from=self._average_from(start.t, shards.most_steps(n_steps) * n_epochs),
        )
        return PairPlan(
            first_epoch=start.epoch,
            n_epochs=n_epochs,
            problem=problem,
            shards=shards,
            shard_epoch=self._shard_epoch(problem, steps),
            n_steps=n_steps,
            regularization=self.regularization,
            seed=self.random_state,
            executor=executor,
            name=f"{type(self).__name__.lower()}-epoch",
        )

    def _check(self, dataset: Dataset) -> None:
        """Raise an error if a parameter is out of range or the data has nothing to learn from."""
        check_positive("regularization", self.regularization)
        if self.loss not in LOSSES:
            raise UsageError(f"loss is {self.loss!r}; choose from {', '.join(LOSSES)}.")
        check_count("random_state", self.random_state, least=0)
        self._steps.check()
        self._pairs.check()
        check_training_data(dataset)

    @property
    def _loss_code(self) -> int:
        """Number of the loss in kernels."""
        return LOSSES[self.loss]

    @property
    def _pairs_per_step(self) -> int:
        """Labelled pairs whose slopes add up in a step."""
        return 1

    def _labelled_source(
        self, dataset: Dataset, executor: Executor, prepare: Callable[..., PairBlock]
    ) -> tuple[Source, float]:
        """The labelled pairs of a data set, and the mean square of their labels."""
        masses = np.array(map_labels(pair_mass, dataset, executor, self._pairs.rule))
        total, squares = masses.sum(axis=0)
        if not total > 0:
            raise no_pair(dataset)
        squared_label = float(squares / total) if self._pairs.label == "difference" else 1.0
        return Source(dataset, prepare, masses[:, 0]), squared_label

    def _previous(self, problem: PairProblem) -> AveragedState | None:
        """The state of the last training; None before the first."""
        dataset = problem.dataset
        state: AveragedState | None = getattr(self, "_state", None)
        if state is not None and dataset.feature_names != self.feature_names_:
            raise DataError(
                f"X has {dataset.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input, as in the data of its training so far."
            )
        if state is not None and dataset.transforms != self._transforms:
            raise DataError(
                "X is scaled in another way than the data that the model was trained on so far; "
                "scale both in the same way."
            )
        if state is not None:
            joined_constants(
                (self._constants, dataset.constants), self.feature_names_, "the data so far and X"
            )
        return state

    def _untrained(self, problem: PairProblem) -> AveragedState:
        n = len(problem.columns)
        eta0 = self._steps.eta0
        warn_of_scales(problem, self.random_state)
        if eta0 is None:
            norm = self._largest_norm(problem)
            # If the documents of every pair are equal, no step moves the weights.
            eta0 = 1.0 / (CURVATURE[self.loss] * norm * self._pairs_per_step) if norm else 1.0
        return AveragedState(weights=np.zeros(n), total=np.zeros(n), eta0=float(eta0))

    def _largest_norm(self, problem: PairProblem) -> float:
        """Estimate of the largest squared norm of a vector that a step adds to the weights."""
        source = problem.sources[0]
        first = source.dataset.block(int(np.flatnonzero(source.mass)[0]))
        return sampled_norm(source.prepare(first), problem.view_ptr, self.random_state)

    def _n_steps(self, dataset: Dataset) -> int:
        if self._steps.steps_per_epoch is not None:
            return self._steps.steps_per_epoch
        return max(MIN_STEPS_PER_EPOCH, dataset.n_documents - dataset.n_unlabelled)

    def _average_from(self, t: int, n_steps: int) -> int:
        return {"all": t, "second-half": t + n_steps // 2, "none": NEVER}[self._steps.average]

    def _fits(self, problem: PairProblem, executor: Executor) -> bool:
        """Whether all blocks may stay in memory; to load blocks takes about twice their size."""
        stored = [source for source in problem.sources if not source.dataset.in_memory]
        if self.memory_limit is None and all(source.is_small for source in stored):
            return True  # on every machine, because the order of the steps depends on the answer
        limit = self.memory_limit
        available = executor.memory_bytes if limit is None else parse_memory(limit)
        return 2 * sum(source.n_bytes for source in stored) <= available

    def _settings(
        self, problem: PairProblem, start: AveragedState, judged: Validation | None
    ) -> dict[str, Any]:
        elsewhere = {"checkpoint", "warm_start"}
        grouped = {"sgd": self._steps, "pairs": self._pairs}
        parameters = {**self.get_params(deep=False), **grouped}
        return {
            **{name: json_ready(v) for name, v in parameters.items() if name not in elsewhere},
            "ranker": type(self).__name__,
            "data": [source.dataset.fingerprint for source in problem.sources],
            "validation": validation_facts(judged),
            "first epoch": start.epoch,
        }

    def _finish(
        self,
        problem: PairProblem,
        state: AveragedState,
        weights: Array,
        shards: Shards,
        n_draws: int,
        *,
        warns: bool,
    ) -> Self:
        """Keep the model with some weights: the last, or those that validated best.

        `warns` says whether a model that is worse on this data than no model is worth a warning.
        """
        coef = problem.coef(weights)
        losses = self._mean_losses(problem, state, coef, shards, n_draws)
        objective = losses.model + self.regularization / 2 * float(coef @ coef)
        end = TrainingEnd(state.n_steps, objective, losses.zeros, losses.standard_error)
        how = problem, self.random_state, state.eta0, self.regularization
        if self.loss in UNBOUNDED and not objective <= FAILED * losses.zeros:
            raise diverged(str(end), *how)
        if warns:
            warn_if_worse(end, partial(shorter_steps, *how))
        n_sums = len(coef) + problem.dataset.n_blocks + 8
        share = rounded_share(losses.rounding + n_sums * EPSILON * objective, objective)
        if share > STATED_ACCURACY:
            warn_of_rounding(share, self._sizes(problem) * np.abs(coef), problem.dataset)
        self.objective_, self.relative_rounding_ = objective, share
        self.objective_standard_error_ = losses.standard_error
        self.eta0_, self.n_steps_ = state.eta0, state.n_steps
        self.learning_curve_ = state.curve
        self._state = state
        return self._set_weights(problem.dataset, coef)

    def _mean_losses(
        self, problem: PairProblem, state: AveragedState, coef: Array, shards: Shards, n_draws: int
    ) -> MeanLosses:
        """Mean losses over all pairs, or over drawn pairs if there are many pairs."""
        (losses, without, rounding, mass, variance), _ = shards.mix(
            summed_losses,
            without_facts,
            n_draws,
            (self.random_state, state.epoch),
            coef[problem.columns],
            self._loss_code,
            self._pairs.label,
            (self.random_state, state.epoch),
            n_sources=1,
            n_rounds=1,
            name="objective",
        )
        sums = (losses, without, rounding, math.sqrt(variance))
        return MeanLosses(*(float(value / mass) for value in sums))

    def _sizes(self, problem: PairProblem) -> Array:
        """(n_features,) size of the numbers whose products with the weights are rounded."""
        return drawn_differences(problem, self.random_state).spread

    def _fit_facts(self) -> dict[str, Any]:
        return {
            "objective": self.objective_,
            "objective_standard_error": self.objective_standard_error_,
            "relative_rounding": self.relative_rounding_,
            "eta0": json_ready(self.eta0_),
            "n_steps": self.n_steps_,
            "learning_curve": curve_facts(self.learning_curve_),
        }


def without_facts(losses: tuple[Any, ...], share: float) -> tuple[tuple[Any, ...], None]:
    """Losses of a shard as `Shards.mix` sums them."""
    return losses, None
