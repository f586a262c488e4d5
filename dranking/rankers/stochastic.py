"""What the stochastic pairwise rankers share: the loop over epochs, and what surrounds it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.atomic import AnyPath
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.memory import parse_memory
from dranking.engine.mixing import Shards, Source, mixed
from dranking.engine.progress import report
from dranking.engine.stream import map_blocks
from dranking.engine.tiles import tree_sum
from dranking.errors import DataError, DivergedError, UsageError
from dranking.kernels import sgd
from dranking.kernels.sgd import Steps
from dranking.metrics.measures import get_measure, higher_is_better
from dranking.metrics.per_query import PerQuery
from dranking.rankers.estimator import (
    LinearRanker,
    check_positive,
    check_training_data,
    check_whole,
)
from dranking.rankers.linear import LinearModel
from dranking.rankers.pair_blocks import (
    Label,
    PairBlock,
    Problem,
    ShardResult,
    pair_mass,
    sampled_norm,
    summed_losses,
)
from dranking.rankers.training import CurvePoint, Training, TrainingCheckpoint
from dranking.sampling.pairs import Balance, PairRule, Positions

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

Loss: TypeAlias = Literal["hinge", "squared-hinge", "logistic", "squared"]
Average: TypeAlias = Literal["second-half", "all", "none"]

LOSSES: dict[str, int] = {
    "hinge": sgd.HINGE,
    "squared-hinge": sgd.SQUARED_HINGE,
    "logistic": sgd.LOGISTIC,
    "squared": sgd.SQUARED,
}

CURVATURE = {"hinge": 1.0, "squared-hinge": 2.0, "logistic": 1.0, "squared": 1.0}
"""Steps of length 1 / (curvature |p|^2) do not take the loss of a pair past its minimum."""

MIN_STEPS_PER_EPOCH = 100_000

ESTIMATE_DRAWS = 250_000
"""Draws for the final objective, at most; smaller data gives all its pairs."""

NEVER = 2**62
"""A step that is not reached."""

UNBOUNDED = ("squared-hinge", "squared")
"""Losses of which a step too long makes the next one longer still."""

FAILED = 10.0
"""With these, an objective so many times that of a model without weights is no result."""


class StochasticRanker(LinearRanker):
    """Base of the rankers that learn from sampled pairs, step by step.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        Weights.
    objective_ : float
        Mean loss of the model over the pairs plus lambda / 2 |coef_|^2; estimated from drawn pairs
        where there are very many.
    eta0_ : float
        First step length.
    n_steps_ : int
        Steps taken, over all shards and calls.
    learning_curve_ : tuple of CurvePoint
        Objective and validation metric after each epoch; `plot_learning_curve` draws it.
    """

    objective_: float
    eta0_: float
    n_steps_: int
    learning_curve_: tuple[CurvePoint, ...]

    regularization: float
    loss: Loss
    label: Label
    eta0: float | None
    average: Average
    n_epochs: int
    steps_per_epoch: int | None
    sampling: Balance
    position_weights: Positions
    shards: int
    patience: int | None
    metric: str
    convention: str
    warm_start: bool
    seed: int
    memory_limit: int | str | None
    checkpoint: AnyPath | None

    def _shard_epoch(self, problem: Problem, steps: Steps) -> Callable[..., ShardResult]:
        """What a shard does in an epoch, ``f(segments, weights, t, epoch)``; can be pickled."""
        raise NotImplementedError

    def _radius(self, problem: Problem) -> float:
        """Radius of the ball that the weights stay in."""
        return np.inf

    def _train(
        self,
        problem: Problem,
        executor: Executor,
        n_epochs: int,
        *,
        start: Training | None,
        validation: Dataset | None,
        checkpoint: AnyPath | None = None,
    ) -> Self:
        """Train for some epochs, from where an earlier training ended if there is one."""
        if self.patience is not None and validation is None and n_epochs > 1:
            raise UsageError("patience needs validation data; pass validation=, or patience=None.")
        start = self._untrained(problem) if start is None else start.restarted()
        shards = Shards(
            problem.sources, self.shards, executor, resident=self._fits(problem, executor)
        )
        n_steps = self._n_steps(problem.dataset)
        longest = int(shards.steps_of_shards(n_steps).max())
        steps = Steps(
            loss=LOSSES[self.loss],
            regularization=self.regularization,
            inverse_eta0=1.0 / start.eta0,
            radius=self._radius(problem),
            average_from=self._average_from(start.t, longest * n_epochs),
        )
        shard_epoch = self._shard_epoch(problem, steps)
        stored = TrainingCheckpoint(
            checkpoint, self._job(problem, start, validation) if checkpoint is not None else {}
        )
        training = stored.load() or start
        while training.epoch < start.epoch + n_epochs and not self._is_over(training, start):
            begun = time.perf_counter()
            weights = executor.submit(np.asarray, training.weights, name="weights")
            results: list[ShardResult] = shards.run(
                shard_epoch,
                n_steps,
                (self.seed, training.epoch),
                weights,
                training.t,
                training.epoch,
                name="epoch",
            )
            self._check_finite(results, training)
            training = advanced(training, results, shards.shares, longest)
            loss = float(shards.shares @ [r.loss for r in results])
            penalty = self.regularization / 2 * float(training.weights @ training.weights)
            point = CurvePoint(
                epoch=training.epoch,
                n_steps=start.n_steps + (training.epoch - start.epoch) * n_steps,
                seconds=training.seconds + time.perf_counter() - begun,
                objective=loss + penalty / problem.n_views,
                validation=self._validate(problem, training, validation, executor),
            )
            training = self._recorded(training, start, point)
            stored.save(training)
            done = training.epoch - start.epoch
            report("training", done, n_epochs, objective=point.objective)
        n_draws = min(n_epochs * n_steps, ESTIMATE_DRAWS)
        return self._finish(problem, training, shards, n_draws)

    def _check(self, dataset: Dataset) -> None:
        """Raise an error if parameters are out of range or there is nothing to learn from."""
        check_positive("regularization", self.regularization)
        if self.eta0 is not None and self.eta0 != np.inf:
            check_positive("eta0", self.eta0)
        for name, choices in (
            ("loss", tuple(LOSSES)),
            ("label", ("sign", "difference")),
            ("average", ("second-half", "all", "none")),
        ):
            if getattr(self, name) not in choices:
                raise UsageError(
                    f"{name} is {getattr(self, name)!r}; choose from {', '.join(choices)}."
                )
        for name in ("n_epochs", "steps_per_epoch", "shards", "patience"):
            check_count(name, getattr(self, name), optional=name in ("steps_per_epoch", "patience"))
        check_count("seed", self.seed, least=0)
        self._rule.check()
        get_measure(self.metric)
        check_training_data(dataset)

    @property
    def _rule(self) -> PairRule:
        return PairRule(self.sampling, self.position_weights)

    @property
    def _pairs_per_step(self) -> int:
        """Labelled pairs whose slopes add up in a step."""
        return 1

    def _labelled_source(
        self, dataset: Dataset, executor: Executor, prepare: Callable[..., PairBlock]
    ) -> tuple[Source, float]:
        """The labelled pairs of a data set, and the mean square of their label difference."""
        masses = np.array(map_labels(pair_mass, dataset, executor, self._rule))
        total, squares = masses.sum(axis=0)
        if not total > 0:
            raise DataError(
                "no query has two documents of different relevance and a weight above 0: there "
                "is no pair to learn from."
            )
        return Source(dataset, prepare, masses[:, 0]), float(squares / total)

    def _previous(self, problem: Problem) -> Training | None:
        """The training to go on from, if there is one."""
        dataset = problem.dataset
        training: Training | None = getattr(self, "_training", None)
        if training is not None and dataset.feature_names != self.feature_names_:
            raise DataError(
                f"X has {dataset.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: those it was trained on so far."
            )
        return training

    def _untrained(self, problem: Problem) -> Training:
        n = len(problem.columns)
        eta0 = self.eta0
        if eta0 is None:
            source = problem.sources[0]
            first = source.dataset.block(int(np.flatnonzero(source.mass)[0]))
            norm = sampled_norm(source.prepare(first), problem.view_ptr, self.seed)
            # Pairs that do not differ move nothing, with any length of step.
            eta0 = 1.0 / (CURVATURE[self.loss] * norm * self._pairs_per_step) if norm else 1.0
        return Training(np.zeros(n), np.zeros(n), n_averaged=0, t=0, epoch=0, eta0=float(eta0))

    def _n_steps(self, dataset: Dataset) -> int:
        if self.steps_per_epoch is not None:
            return self.steps_per_epoch
        return max(MIN_STEPS_PER_EPOCH, dataset.n_documents - dataset.n_unlabelled)

    def _average_from(self, t: int, n_steps: int) -> int:
        return {"all": t, "second-half": t + n_steps // 2, "none": NEVER}[self.average]

    def _fits(self, problem: Problem, executor: Executor) -> bool:
        """Whether all blocks may stay in memory, which takes about twice their size to load."""
        stored = [source for source in problem.sources if not source.dataset.in_memory]
        if self.memory_limit is None and all(source.is_small for source in stored):
            return True  # on every machine: the order of steps depends on it
        limit = self.memory_limit
        available = executor.memory_bytes if limit is None else parse_memory(limit)
        return 2 * sum(source.n_bytes for source in stored) <= available

    def _job(self, problem: Problem, start: Training, validation: Dataset | None) -> dict[str, Any]:
        elsewhere = {"checkpoint", "warm_start"}
        parameters = {k: v for k, v in self.get_params().items() if k not in elsewhere}
        return {
            **parameters,
            "ranker": type(self).__name__,
            "data": [source.dataset.fingerprint for source in problem.sources],
            "validation": None if validation is None else validation.fingerprint,
            "first epoch": start.epoch,
        }

    def _is_over(self, training: Training, start: Training) -> bool:
        """Whether the last `patience` epochs did not validate better than those before."""
        scores = self._signed_scores(training.curve[start.epoch :])
        if self.patience is None or not scores:
            return False
        return len(scores) - 1 - int(np.argmax(scores)) >= self.patience

    def _signed_scores(self, curve: tuple[CurvePoint, ...]) -> list[float]:
        sign = 1.0 if higher_is_better(self.metric) else -1.0
        return [sign * p.validation for p in curve if p.validation is not None]

    def _validate(
        self,
        problem: Problem,
        training: Training,
        validation: Dataset | None,
        executor: Executor,
    ) -> float | None:
        """The metric of the model so far, by blocks; None without validation data."""
        if validation is None:
            return None
        data = problem.dataset
        model = LinearModel(
            feature_names=data.feature_names,
            weights=tuple(problem.coef(training.model).tolist()),
            transforms=data.transforms,
        )
        parts = [
            PerQuery.of_block(block, scores, [self.metric], self.convention)
            for block, scores in model.predict_blocks(validation, executor=executor)
        ]
        [value] = PerQuery.concatenate(parts).summary().metrics.values()
        if np.isnan(value):
            raise DataError(f"no query of the validation data counts for {self.metric}.")
        return value

    def _recorded(self, training: Training, start: Training, point: CurvePoint) -> Training:
        """The training with another point on its curve, and its model if that is the best."""
        curve = (*training.curve, point)
        scores = self._signed_scores(curve[start.epoch :])
        is_best = bool(scores) and int(np.argmax(scores)) == len(scores) - 1
        return replace(training, curve=curve, best=training.model if is_best else training.best)

    def _finish(self, problem: Problem, training: Training, shards: Shards, n_draws: int) -> Self:
        """Keep the model: the best validated one with `patience`, else the last."""
        weights = training.model
        if self.patience is not None and training.best is not None:
            weights = training.best
        coef = problem.coef(weights)
        losses, without, mass = tree_sum(
            shards.run(
                summed_losses,
                n_draws,
                (self.seed, training.epoch),
                coef[problem.columns],
                LOSSES[self.loss],
                self.label,
                (self.seed, training.epoch),
                n_sources=1,
                n_rounds=1,
                name="objective",
            )
        )
        objective = float(losses / mass + self.regularization / 2 * (coef @ coef))
        most = FAILED * without / mass if self.loss in UNBOUNDED else np.finfo(float).max
        if not objective <= most:
            raise self._diverged(
                f"after {training.n_steps:,} steps the objective is {objective:.3g}, and "
                f"{without / mass:.3g} without any weights",
                training.eta0,
            )
        self.objective_ = objective
        self.eta0_, self.n_steps_ = training.eta0, training.n_steps
        self.learning_curve_ = training.curve
        self._training = training
        return self._set_weights(problem.dataset, coef)

    def _check_finite(self, results: list[ShardResult], training: Training) -> None:
        sizes = [
            (r.loss, self.regularization * float(r.weights @ r.weights), float(r.total @ r.total))
            for r in results
        ]
        if not np.isfinite(sizes).all():
            raise self._diverged(
                f"the steps of epoch {training.epoch + 1} grew without limit", training.eta0
            )

    def _diverged(self, what: str, eta0: float) -> DivergedError:
        return DivergedError(
            f"training diverged: {what}. Lower eta0 (it is {eta0:.3g}; by default it follows from "
            f"the data), or raise regularization ({self.regularization:.3g}); if values of the "
            "features are very large, scale them."
        )

    def _fit_facts(self) -> dict[str, Any]:
        return {
            "objective": self.objective_,
            "eta0": self.eta0_,
            "n_steps": self.n_steps_,
            "learning_curve": [point._asdict() for point in self.learning_curve_],
        }


def advanced(
    training: Training, results: list[ShardResult], shares: Array, n_steps: int
) -> Training:
    """The training after an epoch: shards mixed by their shares, and n_steps later."""
    return replace(
        training,
        weights=mixed([r.weights for r in results], shares),
        total=training.total + tree_sum(r.total for r in results),
        n_averaged=training.n_averaged + sum(r.n_averaged for r in results),
        t=training.t + n_steps,
        epoch=training.epoch + 1,
    )


def map_labels(
    function: Callable[..., Any], dataset: Dataset, executor: Executor, *args: Any
) -> list[Any]:
    """Run `function(block, *args)` on all blocks without reading their features."""
    columns = np.empty(0, dtype=np.intp)
    return list(map_blocks(function, dataset, executor, *args, columns=columns, name="pairs"))


def check_count(name: str, value: Any, *, least: int = 1, optional: bool = False) -> None:
    """Raise UsageError unless `value` is a whole number of at least `least`, or None if it may."""
    if optional and value is None:
        return
    check_whole(name, value)
    if value < least:
        raise UsageError(f"{name} is {value}; it must be at least {least}.")
