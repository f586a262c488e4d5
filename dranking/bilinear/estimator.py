"""The estimator of bilinear rankers: sparse weights of word pairs, learned from preferences."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from dranking.bilinear.drawn_tuples import training_end, tuple_error
from dranking.bilinear.first_weights import Penalty, Start, first_weights, groups_of
from dranking.bilinear.inputs import (
    Sides,
    digest,
    fingerprint,
    training_data,
    validation_data,
)
from dranking.bilinear.kernels.steps import Steps
from dranking.bilinear.model import BilinearModel
from dranking.bilinear.query_record import trained_queries
from dranking.bilinear.texts.collection import Collection, check_same_words
from dranking.bilinear.texts.preferences import Preferences
from dranking.bilinear.training import (
    BilinearPlan,
    BilinearPoint,
    BilinearState,
    TrainingData,
    epoch_ends,
    query_shares,
    refit_from,
    shorter_steps,
)
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.shown_progress import with_progress
from dranking.errors import UsageError
from dranking.files.places import AnyPlace
from dranking.models.linear.checks import check_positive, check_whole
from dranking.models.linear.model import versions
from dranking.models.trained_queries import TrainedQueries
from dranking.models.training.checkpoint import TrainingCheckpoint
from dranking.models.training.epochs import run_epochs
from dranking.models.training.validation import EpochValidation
from dranking.models.training.zero_weights import warn_if_worse

Schedule: TypeAlias = Literal["decaying", "constant"]


@dataclass(eq=False, repr=False)
class BilinearRanker(BaseEstimator):  # type: ignore[misc]
    """Ranker that scores a document d for a query q by ``q' W d`` with a sparse matrix W.

    Step t draws a query q, a document d+ that the query prefers, and another document d-. If the
    scores of d+ and d- differ by less than 1, the step adds ``eta_t q (d+ - d-)'`` to W. After
    every T steps, W is soft-thresholded by lambda times the sum of the last T step lengths. W is
    sparse at all times. The formulas are in ``THEORY.md`` of this package.

    Parameters
    ----------
    regularization
        lambda, at least 0.
    learning_rate
        C: step t has length eta_t = ``C / sqrt(t)``, or C with a constant schedule.
    schedule
        "decaying" or "constant".
    period
        T, the number of steps between two shrinkages of W.
    n_steps
        Number of steps of `fit` over all shards; the refit takes as many steps again.
    start
        First W: "identity" (cosine similarity; queries and documents must have the same words) or
        "zero".
    support
        Entries that W may have: None for all entries, "diagonal", or a sparse matrix whose stored
        entries are the support, such as a band.
    penalty
        "entries" shrinks every entry, "rows" shrinks the norm of every row, and two sequences of
        whole numbers (group of each row, group of each column) shrink the norms of blocks.
    refit
        Whether to train a second time on the remaining entries with lambda = 0: from W, with the
        same tuples and t from 1.
    n_shards
        Number of parts of the queries. In each epoch every part is trained on its own; after the
        epoch W is the mean of the W of all parts, weighted by their numbers of queries. The result
        depends on this number, but not on the number of workers.
    n_epochs
        Number of parts of `n_steps`. Each part ends with the mean over shards, a point of the
        learning curve and a checkpoint.
    random_state
        Seed of all random draws.
    checkpoint
        Directory that holds the training after each epoch of `fit`. A fit that finds this directory
        continues from there to the identical result; a fit with `refit` also continues the
        checkpoint of a finished training without `refit`.

    Attributes
    ----------
    weights_ : csr_array of float32
        W, (n_query_words, n_words).
    learning_curve_ : tuple of BilinearPoint
        A point for each epoch: steps, seconds, density, loss, validation error.

    Notes
    -----
    Unlike other rankers, this one has no numerical certificate (`relative_rounding` is null in the
    model's facts): its steps claim no minimum whose distance could be stated. The validation error
    tells whether more steps help.

    References
    ----------
    Chen, Bai, Qi, Lin, Carbonell: Learning Preferences with Millions of Parameters by Enforcing
    Sparsity, ICDM 2010.
    """

    weights_: Any = field(init=False)
    learning_curve_: tuple[BilinearPoint, ...] = field(init=False)

    regularization: float = 1e-5
    _: KW_ONLY
    learning_rate: float = 200.0
    schedule: Schedule = "decaying"
    period: int = 100
    n_steps: int = 100_000
    start: Start = "identity"
    support: Any = None
    penalty: Penalty = "entries"
    refit: bool = False
    n_shards: int = 1
    n_epochs: int = 10
    random_state: int = 0
    checkpoint: AnyPlace | None = None

    @with_progress
    def fit(
        self,
        documents: Collection,
        preferences: Preferences | None = None,
        *,
        queries: Collection | None = None,
        validation: tuple[Collection, Preferences] | None = None,
        executor: Any = None,
    ) -> Self:
        """Train on preferences.

        With ``verbose=True``, and on a terminal, progress is shown on stderr.

        Parameters
        ----------
        documents
            The documents.
        preferences
            Preferences between the documents; None stands for `same_class(documents)`.
        queries
            The queries; None if the documents are the queries.
        validation
            Documents, which are also the queries, and their preferences: the learning curve shows
            the share of their tuples in the wrong order.
        executor
            "threads" or a `distributed.Client`; None takes the current client, else threads.

        Raises
        ------
        UsageError
            If a parameter is wrong, or the checkpoint belongs to another training.
        DataError
            If queries and documents have different words with an identity start, if the validation
            documents have other words, or if preferences are missing or of other collections.

        Warns
        -----
        ConvergenceWarning
            If the mean hinge of drawn training tuples is above 1.1 times that under zero weights,
            and not by chance.
        """
        self._check_parameters()
        sides = self._checked_sides(documents, queries)
        data = training_data(sides, preferences)
        validation_set = validation_data(sides, validation)
        store = TrainingCheckpoint(self.checkpoint, self._job(data, validation_set))
        state = store.load(partial(BilinearState.from_checkpoint, shape=sides.shape))
        if state is None:
            state = BilinearState(weights=first_weights(self.start, self.support, sides.shape))
        runner = get_executor(executor)
        if state.stage == "refit" and not self.refit:
            raise UsageError(
                f"{self.checkpoint}: the checkpoint belongs to a refit, but refit is False; remove "
                "the checkpoint, or name another directory."
            )
        if state.stage == "train":
            state = self._run(state, data, validation_set, runner, store)
        if self.refit:
            if state.stage == "train":
                state = refit_from(state)
            state = self._run(state, data, validation_set, runner, store)
        end = training_end(data, state, self.random_state)
        warn_if_worse(end, partial(shorter_steps, self.learning_rate))
        return self._finish(state, sides, data)

    def partial_fit(
        self,
        documents: Collection,
        preferences: Preferences | None = None,
        *,
        queries: Collection | None = None,
        n_steps: int | None = None,
        executor: Any = None,
    ) -> Self:
        """Take `n_steps` more steps on new preferences, with t continued.

        The documents may be new, but must have the same words. A refitted W keeps its support.
        If `n_steps` is None, the estimator's `n_steps` is taken; the other parameters are as in
        `fit`.
        """
        self._check_parameters()
        sides = self._checked_sides(documents, queries)
        data = training_data(sides, preferences)
        earlier = None
        if not hasattr(self, "_state"):
            state = BilinearState(weights=first_weights(self.start, self.support, sides.shape))
        else:
            check_same_words(sides.documents, self._sides.documents)
            check_same_words(sides.queries, self._sides.queries)
            state, earlier = self._state, self._queries
        ranker = (
            self if n_steps is None else type(self)(**{**self.get_params(), "n_steps": n_steps})
        )
        store = TrainingCheckpoint(None, {})
        # Epochs are counted on, so that the draws are new.
        state = ranker._run(
            state, data, None, get_executor(executor), store, first_epoch=state.epoch
        )
        return self._finish(state, sides, data, earlier)

    def predict(self, queries: Any, documents: Any) -> NDArray[np.float64]:
        """Return scores (n_queries, n_documents) of all documents; see `BilinearModel.scores`."""
        return self.to_model().scores(queries, documents)

    def to_model(self) -> BilinearModel:
        """Return the trained ranker as a `BilinearModel`."""
        if not hasattr(self, "weights_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")
        queries, documents = self._sides
        last = self.learning_curve_[-1]
        return BilinearModel(
            self.weights_,
            queries.words,
            documents.words,
            documents.vectorizer,
            queries.vectorizer,
            {
                "ranker": type(self).__name__,
                "parameters": self._plain_parameters(),
                "n_steps": last.n_steps,
                "loss": last.objective,
                "relative_rounding": None,  # steps claim no minimum, so that nothing is certified
                "density": last.density,
                "data": {
                    "n_queries": queries.n_documents,
                    "n_documents": documents.n_documents,
                    "n_excluded": self._n_excluded,
                },
                "versions": versions(),
            },
            self._queries,
        )

    def _run(
        self,
        state: BilinearState,
        data: TrainingData,
        validation: TrainingData | None,
        executor: Executor,
        store: TrainingCheckpoint,
        *,
        first_epoch: int = 0,
    ) -> BilinearState:
        """Run the remaining epochs of a stage."""
        grows = self.support is None and state.stage == "train"
        lam = 0.0 if state.stage == "refit" else float(self.regularization)
        ends = epoch_ends(-(-self.n_steps // self.n_shards), self.n_epochs, self.period)
        plan = BilinearPlan(
            first_epoch=first_epoch,
            n_epochs=len(ends),
            ends=ends,
            steps=Steps(
                float(self.learning_rate), self.schedule == "constant", lam, self.period, grows
            ),
            groups=groups_of(self.penalty, *state.weights.shape),
            n_shards=self.n_shards,
            shares=query_shares(data.preferences, self.n_shards),
            seed=self.random_state,
            data=executor.submit(TrainingData, *data, name="load"),
            executor=executor,
        )
        measure = (
            None if validation is None else partial(tuple_error, validation, seed=self.random_state)
        )
        return run_epochs(state, plan, EpochValidation(measure), store, stage=state.stage)

    def _finish(
        self,
        state: BilinearState,
        sides: Sides,
        data: TrainingData,
        earlier: TrainedQueries | None = None,
    ) -> Self:
        self._state, self._sides, self._n_excluded = state, sides, data.preferences.n_excluded
        self._queries = trained_queries(data, earlier)
        weights = state.weights.copy()
        weights.eliminate_zeros()
        self.weights_ = weights
        self.learning_curve_ = state.curve
        self.n_features_in_ = weights.shape[1]
        return self

    def _checked_sides(self, documents: Collection, queries: Collection | None) -> Sides:
        sides = Sides(documents if queries is None else queries, documents)
        if self.start == "identity":
            check_same_words(*sides)
        return sides

    def _job(self, data: TrainingData, validation: TrainingData | None) -> dict[str, Any]:
        # A refit continues a training without refit, so `refit` may differ.
        elsewhere = {"checkpoint", "refit"}
        parameters = {k: v for k, v in self._plain_parameters().items() if k not in elsewhere}
        return {
            **parameters,
            "data": fingerprint(data),
            "validation": None if validation is None else fingerprint(validation),
        }

    def _plain_parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for name, value in self.get_params().items():
            if sparse.issparse(value):
                value = f"{value.nnz} entries, {digest(value.tocsr().indices)}"
            elif name == "penalty" and not isinstance(value, str):
                value = [np.asarray(groups).tolist() for groups in value]
            elif isinstance(value, np.generic):
                value = value.item()
            parameters[name] = value if name != "checkpoint" or value is None else str(value)
        return dict(json.loads(json.dumps(parameters)))

    def _check_parameters(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        if self.regularization != 0:
            check_positive("regularization", self.regularization)
        for name in ("period", "n_steps", "n_shards", "n_epochs"):
            check_whole(name, getattr(self, name))
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        choices: dict[str, tuple[str, ...]] = {
            "start": ("identity", "zero"),
            "schedule": ("decaying", "constant"),
            "support": ("diagonal",),
            "penalty": ("entries", "rows"),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if isinstance(value, str) and value not in allowed:
                raise UsageError(f"{name} is {value!r}; choose {' or '.join(allowed)}.")
