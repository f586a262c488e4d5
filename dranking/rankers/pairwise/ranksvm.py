"""RankSVM and RankLogistic: the minimum of a regularised loss over all pairs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dranking.data.scaling import Normalize
from dranking.engine.executor import get_executor
from dranking.errors import UsageError
from dranking.losses.pairwise import SQUARED_HINGE, Logistic, PairLoss, smoothed_hinge
from dranking.rankers.linear.estimator import (
    LinearRanker,
    check_positive,
    check_training_data,
    check_whole,
)
from dranking.rankers.pairwise.minimise import minimise, share_above_minimum
from dranking.rankers.pairwise.objective import PairwiseObjective

Array = NDArray[np.float64]

HINGE_WIDTHS = (1.0, 0.25, 0.05, 0.01, 0.002)
"""Widths over which the corner of the hinge is rounded; each solution is the start of the next."""


class PairwiseRanker(LinearRanker):
    """Base of the rankers that minimise ``mean over P of loss + lambda / 2 |w|^2``.

    P holds the pairs of documents of one query with different relevance, weighted with the
    query's weight.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        Weights.
    objective_ : float
        The objective at the weights found.
    gap_ : float
        The duality gap, ``|gradient|^2 / (2 lambda)``: the objective is at most so far above its
        minimum, but for the rounding of the gradient. In columns with huge values the rounding of
        the gradient alone may keep the gap large; scale such columns. For the loss "hinge", also by
        how much its rounded corner lies below the hinge itself, some 1e-3 of the objective, without
        a warning.
    relative_rounding_ : float
        `gap_` as a share of `objective_`: how far rounding, and an end before the minimum, left the
        objective above its minimum. Weights may be off by more, where the objective is flat.
    n_iter_ : int
        Steps of the trust-region Newton method.
    n_pairs_ : float
        Weighted number of pairs.
    """

    objective_: float
    gap_: float
    relative_rounding_: float
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
            If the minimum is not reached in `max_iter` steps.
        """
        check_positive("regularization", self.regularization)
        check_positive("tol", self.tol)
        check_whole("max_iter", self.max_iter)
        losses = self._losses()
        run = get_executor(executor)
        dataset = self._training_data(X, y, qid, query_weights, run)
        check_training_data(dataset)
        objective = PairwiseObjective(dataset, self.regularization, run)
        weights, self.n_iter_ = np.zeros(dataset.n_features), 0
        for loss in losses:
            found = minimise(objective, loss, weights, self.tol, self.max_iter)
            weights = found.weights
            self.n_iter_ += found.n_iter
        self.n_pairs_ = objective.n_pairs
        self.objective_ = self._value(objective, weights)
        self.gap_ = found.gap_of_hinge(self.objective_)
        self.relative_rounding_ = share_above_minimum(self.gap_, self.objective_)
        self._set_weights(dataset, weights)
        return self

    def _losses(self) -> list[PairLoss]:
        """The losses to minimise in turn, each from the solution of the loss before."""
        raise NotImplementedError

    def _value(self, objective: PairwiseObjective, weights: Array) -> float:
        return objective.at(self._losses()[-1], weights).value

    def _fit_facts(self) -> dict[str, Any]:
        return {
            "objective": self.objective_,
            "gap": self.gap_,
            "relative_rounding": self.relative_rounding_,
            "n_iter": self.n_iter_,
            "n_pairs": self.n_pairs_,
        }


class RankSVM(PairwiseRanker):
    """Linear ranking support vector machine over all pairs, O(l log l) for a query of l documents.

    Parameters
    ----------
    regularization
        lambda > 0, of the mean over pairs; the C of a sum over pairs is 1 / (lambda n_pairs).
    loss
        "squared-hinge"; or "hinge", whose corner is rounded over the last of `HINGE_WIDTHS` for the
        solver (`objective_` is the objective with the hinge itself).
    tol
        The solver ends where `gap_` is at most `tol` times the objective, or where rounding keeps
        `gap_` above that and no step lowers the objective. Columns are scaled inside the solver:
        the steps do not depend on the units of the features.
    max_iter
        Largest number of steps for each rounding of the loss.
    normalize
        Scaling of the features that `fit` fits and the model carries out, as in `GreedyRankRLS`.

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
        tol: float = 1e-9,
        max_iter: int = 200,
        *,
        normalize: Normalize = "none",
    ) -> None:
        self.regularization = regularization
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.normalize = normalize

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
    regularization, tol, max_iter, normalize
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
        self,
        regularization: float = 1e-3,
        tol: float = 1e-9,
        max_iter: int = 200,
        *,
        normalize: Normalize = "none",
    ) -> None:
        self.regularization = regularization
        self.tol = tol
        self.max_iter = max_iter
        self.normalize = normalize

    def _losses(self) -> list[PairLoss]:
        return [Logistic()]
