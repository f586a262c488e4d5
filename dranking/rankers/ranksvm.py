"""RankSVM and logistic ranking: regularised losses over all pairs, minimised to the end."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from dranking.data.dataset import Dataset
from dranking.engine.collections import as_dataset
from dranking.engine.executor import Executor, Task, get_executor
from dranking.engine.progress import report
from dranking.engine.tiles import Literal as Same
from dranking.engine.tiles import Tiles
from dranking.errors import DataError, UsageError
from dranking.losses.pairwise import (
    SQUARED_HINGE,
    Logistic,
    PairLoss,
    curvature_of_model,
    hinge_of_pairs,
    loss_of_model,
    pair_targets,
    smoothed_hinge,
)
from dranking.rankers.estimator import (
    LinearRanker,
    check_positive,
    check_training_data,
    check_whole,
)

Array = NDArray[np.float64]

HINGE_WIDTHS = (1.0, 0.25, 0.05, 0.01, 0.002)
"""Widths over which the hinge's corner is rounded, each solution the start of the next."""


class PairwiseRanker(LinearRanker):
    """Base of the rankers that minimise ``mean over P of loss + lambda / 2 |w|^2``.

    P holds the pairs of documents of one query with different relevance, weighted with the
    query's weight.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        Weights.
    objective_ : float
        The minimum found.
    n_iter_ : int
        Steps of the trust-region Newton method.
    n_pairs_ : float
        Weighted number of pairs.
    """

    objective_: float
    n_iter_: int
    n_pairs_: float
    regularization: float
    tol: float
    max_iter: int

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        executor: Any = None,
    ) -> PairwiseRanker:
        """Fit the weights; arguments and errors as in `GreedyRankRLS.fit`.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` steps do not suffice.
        """
        check_positive("regularization", self.regularization)
        check_positive("tol", self.tol)
        check_whole("max_iter", self.max_iter)
        losses = self._losses()
        dataset = as_dataset(X, y, qid=qid, query_weights=query_weights)
        check_training_data(dataset)
        objective = PairwiseObjective(dataset, self.regularization, get_executor(executor))
        weights = np.zeros(dataset.n_features)
        self.n_iter_ = 0
        for loss in losses:
            weights, n_steps = objective.minimise(loss, weights, self.tol, self.max_iter)
            self.n_iter_ += n_steps
        self.n_pairs_ = objective.n_pairs
        self.objective_ = self._value(objective, weights)
        self._set_weights(dataset, weights)
        return self

    def _losses(self) -> list[PairLoss]:
        """The losses to minimise, each from the solution of the one before."""
        raise NotImplementedError

    def _value(self, objective: PairwiseObjective, weights: Array) -> float:
        return objective.value(self._losses()[-1], weights)

    def _fit_facts(self) -> dict[str, Any]:
        return {"objective": self.objective_, "n_iter": self.n_iter_, "n_pairs": self.n_pairs_}


class RankSVM(PairwiseRanker):
    """Linear ranking support vector machine over all pairs, O(l log l) for a query of l documents.

    Parameters
    ----------
    regularization
        lambda > 0, of the mean over pairs; the C of a sum over pairs is 1 / (lambda n_pairs).
    loss
        "squared-hinge"; or "hinge", whose corner is rounded over the last of `HINGE_WIDTHS` for
        the solver (the objective stated is that of the hinge itself).
    tol
        Ends where the norm of the gradient is below `tol` times that at zero weights.
    max_iter
        Steps at most, for each loss minimised.

    References
    ----------
    Joachims (2002); Lee and Lin (2014), Large-scale linear RankSVM; Airola, Pahikkala and
    Salakoski (2011).

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> X = np.array([[0.0], [1.0], [0.0], [2.0]], dtype=np.float32)
    >>> dr.RankSVM(regularization=1.0).fit(X, [0, 1, 0, 2], qid=[7, 7, 8, 8]).coef_.round(4)
    array([0.5])
    """

    def __init__(
        self,
        regularization: float = 1e-3,
        loss: Literal["squared-hinge", "hinge"] = "squared-hinge",
        tol: float = 1e-5,
        max_iter: int = 200,
    ) -> None:
        self.regularization = regularization
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter

    def _losses(self) -> list[PairLoss]:
        if self.loss == "squared-hinge":
            return [SQUARED_HINGE]
        if self.loss == "hinge":
            return [smoothed_hinge(width) for width in HINGE_WIDTHS]
        raise UsageError(f"loss is {self.loss!r}; choose squared-hinge or hinge.")

    def _value(self, objective: PairwiseObjective, weights: Array) -> float:
        if self.loss == "hinge":
            return objective.hinge(weights)
        return super()._value(objective, weights)


class RankLogistic(PairwiseRanker):
    """Linear ranker with the logistic loss over all pairs, O(pairs) for a query.

    Parameters
    ----------
    regularization, tol, max_iter
        As in `RankSVM`.

    References
    ----------
    Burges et al. (2005), RankNet's loss, eq. 3, for a linear model.

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> X = np.array([[0.0], [1.0]], dtype=np.float32)
    >>> [w] = dr.RankLogistic(regularization=0.25).fit(X, [0, 1], qid=[7, 7]).coef_
    >>> bool(np.isclose(1 / (1 + np.exp(w)), 0.25 * w, rtol=1e-4))
    True
    """

    def __init__(
        self, regularization: float = 1e-3, tol: float = 1e-5, max_iter: int = 200
    ) -> None:
        self.regularization = regularization
        self.tol = tol
        self.max_iter = max_iter

    def _losses(self) -> list[PairLoss]:
        return [Logistic()]


class PairwiseObjective:
    """``mean over P of loss + lambda / 2 |w|^2`` and its derivatives, summed over blocks.

    Parameters
    ----------
    dataset
        Labelled queries.
    regularization
        lambda > 0.
    executor
        Where blocks are.

    Raises
    ------
    DataError
        If no two documents of a query differ in relevance.
    """

    def __init__(self, dataset: Dataset, regularization: float, executor: Executor) -> None:
        bytes_there = 8 * sum(block.n_values for block in dataset.blocks)
        self._tiles = Tiles(dataset, executor, resident=bytes_there <= executor.memory_bytes)
        self._targets = self._tiles.map_blocks(pair_targets, name="pairs")
        self._lambda = regularization
        self.n_pairs = float(self._tiles.sum(self._targets, count_of, "pairs"))
        if not self.n_pairs > 0:
            raise DataError(
                "no two documents of a query differ in relevance: there is no pair to learn from."
            )

    def value(self, loss: PairLoss, weights: Array) -> float:
        """The objective."""
        return self.at(loss, weights)[0]

    def hinge(self, weights: Array) -> float:
        """The objective with the plain hinge."""
        parts = self._tiles.map_blocks(hinge_of_pairs, self._targets, Same(weights), name="hinge")
        total = float(self._tiles.sum(parts, np.float64, "hinge"))
        return total / self.n_pairs + 0.5 * self._lambda * float(weights @ weights)

    def at(self, loss: PairLoss, weights: Array) -> tuple[float, Array, list[Task]]:
        """Value, gradient, and the tangents of all blocks."""
        points = self._tiles.map_blocks(
            loss_of_model, self._targets, Same(weights), Same(loss), name="loss"
        )
        value, gradient = self._tiles.sum(points, value_and_gradient, "loss")
        return (
            float(value) / self.n_pairs + 0.5 * self._lambda * float(weights @ weights),
            gradient / self.n_pairs + self._lambda * weights,
            self._tiles.map_values(tangent_of, points, name="tangent"),
        )

    def curvature(self, loss: PairLoss, tangents: list[Task], direction: Array) -> Array:
        """The second derivative times a direction."""
        parts = self._tiles.map_blocks(
            curvature_of_model,
            self._targets,
            tangents,
            Same(direction),
            Same(loss),
            name="curvature",
        )
        total: Array = self._tiles.sum(parts, np.asarray, "curvature")
        return total / self.n_pairs + self._lambda * direction

    def minimise(
        self, loss: PairLoss, start: Array, tol: float, max_iter: int
    ) -> tuple[Array, int]:
        """Weights at the minimum, and the steps it took: Newton's method in a trust region."""
        tangents: dict[bytes, list[Task]] = {}
        scale = float(np.linalg.norm(self.at(loss, np.zeros(len(start)))[1]))
        if scale == 0.0:
            return start, 0

        def evaluate(weights: Array) -> tuple[float, Array]:
            value, gradient, found = self.at(loss, weights)
            if len(tangents) == 2:  # the point where the solver is, and the one that it tries
                del tangents[next(iter(tangents))]
            tangents[weights.tobytes()] = found
            return value, gradient

        def multiply(weights: Array, direction: Array) -> Array:
            key = weights.tobytes()
            if key not in tangents:
                evaluate(weights)
            return self.curvature(loss, tangents[key], direction)

        n_steps = 0

        def count(weights: Array) -> None:
            nonlocal n_steps
            n_steps += 1
            report("newton", n_steps, None)

        found = minimize(
            evaluate,
            start,
            jac=True,
            hessp=multiply,
            method="trust-ncg",
            callback=count,
            options={"gtol": tol * scale, "maxiter": max_iter, "initial_trust_radius": 1.0,
                     "max_trust_radius": 1e6},
        )  # fmt: skip
        # Where rounding hides any further descent, the solver stops as well (status 2).
        if found.status == 1:
            warnings.warn(
                f"not at the minimum after {max_iter} steps; scale the features, or raise "
                "max_iter, tol or regularization.",
                ConvergenceWarning,
                stacklevel=4,
            )
        weights: Array = found.x
        return weights, n_steps


def count_of(targets: Any) -> np.float64:
    """Weighted number of pairs of a block."""
    return np.float64(targets.n_pairs)


def value_and_gradient(point: Any) -> tuple[np.float64, Array]:
    """What is summed of `loss_of_model`."""
    value, gradient, _ = point
    return np.float64(value), gradient


def tangent_of(point: Any) -> Any:
    """What stays of `loss_of_model` where the block is."""
    return point[2]
