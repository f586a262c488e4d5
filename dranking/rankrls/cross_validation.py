"""RankRLS with lambda chosen by the exact leave-query-out error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.errors import STATED_ACCURACY
from dranking.models.linear.checks import check_positive, values_to_try
from dranking.models.linear.estimator import LinearRanker
from dranking.rankrls.checked_weights import warn_of_rounding
from dranking.rankrls.grid_errors import leave_query_out

DEFAULT_GRID = tuple(2.0**e for e in range(-15, 16))


@dataclass(eq=False, repr=False)
class RankRLSCV(LinearRanker):
    """RankRLS that chooses lambda by its exact leave-query-out error, without refitting.

    The errors follow from sums with 32 digits, in two passes over the data, so that they hold for
    raw features of any units, and for features that nearly depend on each other. A statistics store
    gives fewer digits; a warning is given where the digits do not suffice. Ties go to the smallest
    lambda.

    Parameters
    ----------
    regularizations
        Values of lambda > 0 to try.
    normalize
        Scaling of the features that `fit` fits and the model carries out, as in `GreedyRankRLS`.

    Attributes
    ----------
    regularization_ : float
        The chosen lambda.
    lqo_error_ : (n_lambdas,) float64
        Leave-query-out error of each lambda in the order of `regularizations`, a sum over queries.
    lqo_rounding_ : (n_lambdas,) float64
        Estimated relative error of each of `lqo_error_` by rounding, from documents measured on
        their features; above 1e-6 a warning is given.
    relative_rounding_ : float
        The largest of `lqo_rounding_` and of the relative error of predictions and of `objective_`
        that `RankRLS` estimates for the chosen lambda; a warning is given of these too.
    coef_ : (n_features_in_,) float64
        Weights for the chosen lambda.
    objective_ : float
        Minimum of RankRLS's objective for the chosen lambda.

    References
    ----------
    Pahikkala, Airola, Naula, Salakoski (2010), equations 3 to 6 and the leave-query-out criterion
    of section 3, here for all features at once.

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3)).astype(np.float32)
    >>> y = X[:, 0] + 0.1 * rng.normal(size=80)
    >>> ranker = dr.RankRLSCV([0.01, 1000.0]).fit(X, y, qid=np.repeat(np.arange(10), 8))
    >>> ranker.regularization_
    0.01
    """

    regularization_: float = field(init=False)
    lqo_error_: NDArray[np.float64] = field(init=False)
    lqo_rounding_: NDArray[np.float64] = field(init=False)
    relative_rounding_: float = field(init=False)
    objective_: float = field(init=False)

    regularizations: Sequence[float] = DEFAULT_GRID

    def _check_parameters(self) -> None:
        for value in values_to_try("regularizations", self.regularizations):
            check_positive("regularizations", value)

    def _fit(self, dataset: Dataset, executor: Executor) -> NDArray[np.float64]:
        lambdas = [float(value) for value in self.regularizations]
        found = leave_query_out(dataset, lambdas, executor)
        self.lqo_error_, self.lqo_rounding_ = found.lqo_error, found.lqo_rounding
        self.regularization_ = min(zip(self.lqo_error_.tolist(), lambdas, strict=True))[1]
        chosen = found.solve(self.regularization_)
        if self.lqo_rounding_[lambdas.index(self.regularization_)] <= STATED_ACCURACY:
            warn_of_rounding(chosen, dataset.feature_names)  # otherwise warned of before
        self.objective_ = chosen.objective
        self.relative_rounding_ = max(float(self.lqo_rounding_.max()), chosen.relative_rounding)
        return chosen.weights

    def ridge(self) -> tuple[list[int], float]:
        """All features, and lambda."""
        self._check_fitted()
        return list(range(len(self.coef_))), self.regularization_

    def _fit_facts(self) -> dict[str, Any]:
        return {
            "objective": self.objective_,
            "regularization": self.regularization_,
            "lqo_error": self.lqo_error_.tolist(),
            "lqo_rounding": self.lqo_rounding_.tolist(),
            "relative_rounding": self.relative_rounding_,
        }
