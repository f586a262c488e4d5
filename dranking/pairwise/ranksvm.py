"""RankSVM and RankLogistic: the minimum of a regularised loss over all pairs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.errors import UsageError
from dranking.models.linear.checks import check_positive, check_whole
from dranking.models.linear.estimator import LinearRanker
from dranking.pairwise.hinge import minimise_hinge
from dranking.pairwise.losses import SQUARED_HINGE, Logistic, PairLoss
from dranking.pairwise.minimise import Minimum, minimise, warn_of_gap
from dranking.pairwise.objective import PairwiseObjective

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
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
        A gap: the objective is at most this much above its minimum, with its own rounding, but for
        that of the gradient. ``|gradient|^2 / (2 lambda)`` for a smooth loss; for hinges, where
        columns with huge values would keep that large, a bound by their curvature. Scale such
        columns where the gap is large.
    relative_rounding_ : float
        `gap_` as a share of `objective_`: how far rounding, and an end before the minimum, left the
        objective above its minimum. Weights may be off by more, where the objective is flat. A
        warning says so where this is above both 1e-6 and `tol`.
    n_iter_ : int
        Steps of the trust-region Newton method.
    n_pairs_ : float
        Weighted number of pairs.
    """

    objective_: float = field(init=False)
    gap_: float = field(init=False)
    relative_rounding_: float = field(init=False)
    n_iter_: int = field(init=False)
    n_pairs_: float = field(init=False)

    regularization: float = 1e-3
    _: KW_ONLY
    tol: float = 1e-9
    max_iter: int = 200

    def _check_parameters(self) -> None:
        check_positive("regularization", self.regularization)
        check_positive("tol", self.tol)
        check_whole("max_iter", self.max_iter)

    def _fit(self, dataset: Dataset, executor: Executor) -> Array:
        objective = PairwiseObjective(dataset, self.regularization, executor)
        found = self._minimum(objective, np.zeros(dataset.n_features))
        warn_of_gap(found, self.max_iter)
        self.n_pairs_, self.n_iter_ = objective.n_pairs, found.n_iter
        self.objective_, self.gap_ = found.value, found.gap
        self.relative_rounding_ = found.share
        return found.weights

    def _loss(self) -> PairLoss:
        """The smooth loss to minimise."""
        raise NotImplementedError

    def _minimum(self, objective: PairwiseObjective, start: Array) -> Minimum:
        return minimise(objective, self._loss(), start, self.tol, self.max_iter)

    def _fit_facts(self) -> dict[str, Any]:
        return {
            "objective": self.objective_,
            "gap": self.gap_,
            "relative_rounding": self.relative_rounding_,
            "n_iter": self.n_iter_,
            "n_pairs": self.n_pairs_,
        }


@dataclass(eq=False, repr=False)
class RankSVM(PairwiseRanker):
    """Linear ranking support vector machine over all pairs, O(l log l) for a query of l documents.

    Parameters
    ----------
    regularization
        lambda > 0, of the mean over pairs; the C of a sum over pairs is 1 / (lambda n_pairs).
    loss
        "squared-hinge"; or "hinge", whose corner is rounded for the solver, over ever smaller
        widths down to the last of `HINGE_WIDTHS`. `objective_` and `gap_` are those of the hinge
        itself.
    tol
        The solver ends where `gap_` is at most `tol` times the objective (for "hinge": 1e-6 times,
        if `tol` is smaller), or where rounding keeps `gap_` above that and no step lowers the
        objective. Columns are scaled inside the solver: the steps do not depend on the units of the
        features.
    max_iter
        Largest number of steps; for "hinge", for each width.
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

    loss: Literal["squared-hinge", "hinge"] = "squared-hinge"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.loss not in ("squared-hinge", "hinge"):
            raise UsageError(f"loss is {self.loss!r}; choose squared-hinge or hinge.")

    def _loss(self) -> PairLoss:
        return SQUARED_HINGE

    def _minimum(self, objective: PairwiseObjective, start: Array) -> Minimum:
        if self.loss == "hinge":
            return minimise_hinge(objective, 1.0, start, self.tol, self.max_iter)
        return super()._minimum(objective, start)


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

    def _loss(self) -> PairLoss:
        return Logistic()
