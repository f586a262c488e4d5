"""Bilinear ranker: millions of word-pair weights, learned from preferences and kept sparse."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import dranking
from dranking.data.texts.collection import Collection, check_same_words
from dranking.data.texts.preferences import Preferences, check_rows, same_class
from dranking.engine.executor import Executor, get_executor
from dranking.errors import DataError, UsageError
from dranking.files.checksums import checksum
from dranking.files.commit import AnyPath
from dranking.kernels.bilinear.shrinkage import Groups, entrywise, normwise
from dranking.kernels.bilinear.steps import Steps
from dranking.rankers.bilinear.model import BilinearModel
from dranking.rankers.bilinear.training import (
    BilinearPlan,
    BilinearPoint,
    BilinearState,
    TrainingData,
    epoch_ends,
    query_shares,
    refit_from,
    tuple_error,
)
from dranking.rankers.linear.estimator import check_positive, check_whole
from dranking.rankers.training.checkpoint import TrainingCheckpoint
from dranking.rankers.training.epochs import run_epochs
from dranking.rankers.training.validation import Validation

Start: TypeAlias = Literal["identity", "zero"]
Schedule: TypeAlias = Literal["decaying", "constant"]
Penalty: TypeAlias = Literal["entries", "rows"] | tuple[Sequence[int], Sequence[int]]


class Sides(NamedTuple):
    """The collections that a training is on."""

    queries: Collection
    documents: Collection


class BilinearRanker(BaseEstimator):  # type: ignore[misc]
    """Ranker that scores a document d for a query q by ``q' W d``, W sparse.

    Step t draws a query, a document that it prefers, and another. Where their scores differ by
    less than 1, ``eta_t q (d+ - d-)'`` is added to W; after every T steps the entries of W are
    brought nearer to zero by lambda times the sum of the last step lengths. W is never stored but
    for its entries.

    Parameters
    ----------
    regularization
        lambda, at least 0.
    rate
        C: step t is of length ``C / sqrt(t)``, or C where the schedule is constant.
    schedule
        "decaying" or "constant".
    period
        T, steps between two shrinkages of W.
    n_steps
        Steps of `fit`, over all shards; the refit takes as many again.
    start
        "identity", the cosine similarity, which needs the words of queries and documents to be
        the same; or "zero".
    support
        Which entries W may have: None for all, "diagonal", or a sparse matrix whose stored entries
        say which, such as a band.
    penalty
        What is shrunk: the "entries", or the norms of "rows", or those of blocks, given by two
        sequences of whole numbers: the group of each row, and of each column.
    refit
        Train once more on the entries that are left, without lambda: from W, with the same tuples
        and t from 1.
    shards
        Parts of the queries that are trained on their own in each epoch, and averaged after it by
        their numbers of queries. The result depends on the number of shards, and not on workers.
    n_epochs
        Parts of `n_steps`: after each shards are mixed, a point of the curve and a checkpoint
        written.
    seed
        Of all random draws.
    checkpoint
        Directory that holds the training after each epoch of `fit`. A fit that finds it goes on
        from there, to the identical result; with `refit`, also from one that ended without.

    Attributes
    ----------
    weights_ : csr_array of float32
        W, (n_query_words, n_words).
    learning_curve_ : tuple of BilinearPoint
        A point for each epoch: steps, seconds, density, loss, validation error.

    References
    ----------
    Chen, Bai, Qi, Lin, Carbonell: Learning preferences with millions of parameters by enforcing
    sparsity, ICDM 2010.
    """

    weights_: Any
    learning_curve_: tuple[BilinearPoint, ...]

    def __init__(  # noqa: PLR0913 - scikit-learn's way: one argument per parameter
        self,
        regularization: float = 1e-5,
        *,
        rate: float = 200.0,
        schedule: Schedule = "decaying",
        period: int = 100,
        n_steps: int = 100_000,
        start: Start = "identity",
        support: Any = None,
        penalty: Penalty = "entries",
        refit: bool = False,
        shards: int = 1,
        n_epochs: int = 10,
        seed: int = 0,
        checkpoint: AnyPath | None = None,
    ) -> None:
        self.regularization = regularization
        self.rate = rate
        self.schedule = schedule
        self.period = period
        self.n_steps = n_steps
        self.start = start
        self.support = support
        self.penalty = penalty
        self.refit = refit
        self.shards = shards
        self.n_epochs = n_epochs
        self.seed = seed
        self.checkpoint = checkpoint

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

        Parameters
        ----------
        documents
            The documents.
        preferences
            Over them; None takes the rule of the documents' classes.
        queries
            The queries; None means the documents are the queries.
        validation
            Documents that are also queries, and preferences over them, whose error is written
            into the curve.
        executor
            "threads" or a `distributed.Client`; None means the current client, else threads.

        Raises
        ------
        UsageError
            If a parameter is wrong, or the checkpoint is of another training.
        DataError
            If the words of queries and documents differ with an identity start, those of validation
            documents differ from both, or preferences are none or of other collections.
        """
        self._check_parameters()
        sides = self._checked_sides(documents, queries)
        data = self._data(sides, preferences)
        held_out = self._held_out(sides, validation)
        store = TrainingCheckpoint(self.checkpoint, self._job(data, held_out))
        shape = (sides.queries.n_words, sides.documents.n_words)
        state = store.load(partial(BilinearState.from_checkpoint, shape=shape))
        if state is None:
            state = BilinearState(weights=self._first_weights(sides))
        runner = get_executor(executor)
        if state.stage == "refit" and not self.refit:
            raise UsageError(
                f"{self.checkpoint}: the checkpoint is of a refit, and refit is False; remove it, "
                "or name another directory."
            )
        if state.stage == "train":
            state = self._run(state, data, held_out, runner, store)
        if self.refit:
            if state.stage == "train":
                state = refit_from(state)
            state = self._run(state, data, held_out, runner, store)
        return self._finish(state, sides, data.preferences)

    def partial_fit(
        self,
        documents: Collection,
        preferences: Preferences | None = None,
        *,
        queries: Collection | None = None,
        n_steps: int | None = None,
        executor: Any = None,
    ) -> Self:
        """Go on with preferences that have arrived: `n_steps` more steps, t where it was.

        Documents may be others than before, of the same words. What was refitted stays on its
        support. Parameters are those of `fit`.
        """
        self._check_parameters()
        sides = self._checked_sides(documents, queries)
        data = self._data(sides, preferences)
        if not hasattr(self, "_state"):
            state = BilinearState(weights=self._first_weights(sides))
        else:
            check_same_words(sides.documents, self._sides.documents)
            check_same_words(sides.queries, self._sides.queries)
            state = self._state
        ranker = (
            self if n_steps is None else type(self)(**{**self.get_params(), "n_steps": n_steps})
        )
        store = TrainingCheckpoint(None, {})
        # What was trained before is behind: epochs count on, for draws that are new.
        state = ranker._run(
            state, data, None, get_executor(executor), store, first_epoch=state.epoch
        )
        return self._finish(state, sides, data.preferences)

    def predict(self, queries: Any, documents: Any) -> NDArray[np.float32]:
        """Scores of all documents for each query, (n_queries, n_documents); see `BilinearModel`."""
        return self.to_model().scores(queries, documents)

    def to_model(self) -> BilinearModel:
        """The trained ranker as a `BilinearModel`."""
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
                "density": last.density,
                "data": {
                    "n_queries": queries.n_documents,
                    "n_documents": documents.n_documents,
                    "n_left_out": self._n_left_out,
                },
                "versions": {
                    "dranking": dranking.__version__,
                    "numpy": np.__version__,
                    "python": platform.python_version(),
                },
            },
        )

    def _run(
        self,
        state: BilinearState,
        data: TrainingData,
        held_out: TrainingData | None,
        executor: Executor,
        store: TrainingCheckpoint,
        *,
        first_epoch: int = 0,
    ) -> BilinearState:
        """The epochs of a stage that are not done yet."""
        grows = self.support is None and state.stage == "train"
        lam = 0.0 if state.stage == "refit" else float(self.regularization)
        ends = epoch_ends(-(-self.n_steps // self.shards), self.n_epochs, self.period)
        plan = BilinearPlan(
            first_epoch=first_epoch,
            n_epochs=len(ends),
            ends=ends,
            steps=Steps(float(self.rate), self.schedule == "constant", lam, self.period, grows),
            groups=self._groups(*state.weights.shape),
            n_shards=self.shards,
            shares=query_shares(data.preferences, self.shards),
            seed=self.seed,
            data=executor.submit(TrainingData, *data, name="load"),
            executor=executor,
        )
        measure = None if held_out is None else partial(tuple_error, held_out, seed=self.seed)
        return run_epochs(state, plan, Validation(measure), store, stage=state.stage)

    def _finish(self, state: BilinearState, sides: Sides, preferences: Preferences) -> Self:
        self._state, self._sides, self._n_left_out = state, sides, preferences.n_left_out
        weights = state.weights.copy()
        weights.eliminate_zeros()
        self.weights_ = weights
        self.learning_curve_ = state.curve
        self.n_features_in_ = weights.shape[1]
        return self

    def _first_weights(self, sides: Sides) -> Any:
        shape = (sides.queries.n_words, sides.documents.n_words)
        diagonal = sparse.eye_array(shape[0], shape[1], dtype=np.float32, format="csr")
        support = self._support(shape)
        if support is None:
            if self.start == "zero":
                return sparse.csr_array(shape, dtype=np.float32)
            return diagonal
        # Stored zeros: the entries that W may have, and the ones that it starts from.
        support.data[:] = 0.0
        if self.start == "identity":
            rows = np.repeat(np.arange(shape[0]), np.diff(support.indptr))
            support.data[rows == support.indices] = 1.0
        return support

    def _support(self, shape: tuple[int, int]) -> Any:
        if self.support is None:
            return None
        if isinstance(self.support, str):
            return sparse.eye_array(*shape, dtype=np.float32, format="csr")
        support = sparse.csr_array(self.support, dtype=np.float32, copy=True)
        support.sort_indices()
        if support.shape != shape:
            raise UsageError(
                f"support is of shape {support.shape}, but W is {shape}: words of queries and of "
                "documents."
            )
        return support

    def _groups(self, n_rows: int, n_columns: int) -> Groups:
        if isinstance(self.penalty, str):
            if self.penalty == "entries":
                return entrywise(n_rows)
            return normwise(np.arange(n_rows), np.zeros(n_columns, dtype=np.int64))
        rows, columns = (np.asarray(groups, dtype=np.int64) for groups in self.penalty)
        if len(rows) != n_rows or len(columns) != n_columns or min(rows.min(), columns.min()) < 0:
            raise UsageError(
                f"penalty groups {len(rows)} rows and {len(columns)} columns; W has {n_rows} and "
                f"{n_columns}, and groups count from 0."
            )
        return normwise(rows, columns)

    def _checked_sides(self, documents: Collection, queries: Collection | None) -> Sides:
        sides = Sides(documents if queries is None else queries, documents)
        if self.start == "identity":
            check_same_words(*sides)
        return sides

    def _data(self, sides: Sides, preferences: Preferences | None) -> TrainingData:
        if preferences is None:
            if sides.queries is not sides.documents:
                raise DataError("queries need judgments (qrels) or a table of tuples.")
            preferences = same_class(sides.documents)
        check_rows(preferences, *sides)
        return TrainingData(*sides, preferences)

    def _held_out(
        self, sides: Sides, validation: tuple[Collection, Preferences] | None
    ) -> TrainingData | None:
        if validation is None:
            return None
        documents, preferences = validation
        if any(not documents.has_words_of(side) for side in sides):
            raise DataError(
                "the words of the validation documents are not those of the training: vectorise "
                "both with one vectorizer."
            )
        check_rows(preferences, documents, documents)
        return TrainingData(documents, documents, preferences)

    def _job(self, data: TrainingData, held_out: TrainingData | None) -> dict[str, Any]:
        # Not the refit: it begins where a training without it ends.
        elsewhere = {"checkpoint", "refit"}
        parameters = {k: v for k, v in self._plain_parameters().items() if k not in elsewhere}
        return {
            **parameters,
            "data": _fingerprint(data),
            "validation": None if held_out is None else _fingerprint(held_out),
        }

    def _plain_parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for name, value in self.get_params().items():
            if sparse.issparse(value):
                value = f"{value.nnz} entries, {_digest(value.tocsr().indices)}"
            elif name == "penalty" and not isinstance(value, str):
                value = [np.asarray(groups).tolist() for groups in value]
            elif isinstance(value, np.generic):
                value = value.item()
            parameters[name] = value if name != "checkpoint" or value is None else str(value)
        return dict(json.loads(json.dumps(parameters)))

    def _check_parameters(self) -> None:
        check_positive("rate", self.rate)
        if self.regularization != 0:
            check_positive("regularization", self.regularization)
        for name in ("period", "n_steps", "shards", "n_epochs"):
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


def _fingerprint(data: TrainingData) -> str:
    """Digest of vectors and preferences."""
    queries, documents, preferences = data
    matrices = queries.vectors, documents.vectors
    arrays = [getattr(m, n) for m in matrices for n in ("indptr", "indices", "data")]
    arrays += [v for v in vars(preferences).values() if isinstance(v, np.ndarray)]
    return "".join(_digest(array) for array in arrays)


def _digest(array: NDArray[Any]) -> str:
    return checksum(np.ascontiguousarray(array).view(np.uint8))
