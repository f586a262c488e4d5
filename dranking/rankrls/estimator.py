"""RankRLS: ridge regression on data that is centred within each query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.models.linear.checks import check_positive
from dranking.models.linear.estimator import LinearRanker
from dranking.rankrls.checked_weights import CheckedRidge, warn_of_rounding
from dranking.rankrls.normal_equations import Solver, normal_equations_of

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class RankRLS(LinearRanker):
    """Linear ranker that minimises the regularised pairwise squared loss over all features.

    The weights minimise ``sum_q |y_q - X_q w|^2 + lambda |w|^2`` with features and relevance
    centred within each query. A term of the sum equals the squared error of the difference of two
    documents, summed over the query's document pairs and divided by the number of its documents.

    Parameters
    ----------
    regularization
        lambda > 0, beside a sum of squared errors: for twice the data, twice lambda is as strong.
    solver
        "direct" forms the (n_features, n_features) matrix A in one pass over the data; "cg" runs
        conjugate gradients without A, one pass for each step; "auto" takes "cg" above
        `MAX_DIRECT_FEATURES` features.
    normalize
        Scaling of the features that `fit` fits and the model carries out, as in `GreedyRankRLS`.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        Weights.
    objective_ : float
        Minimum of the objective.
    relative_rounding_ : float
        Estimated relative error of predictions of the training documents, and of `objective_`, by
        rounding and by the end of conjugate gradients. Where A loses more than 1e-6, two more
        passes find the weights from sums with 32 digits, as in `RankRLSCV`, if the documents have
        at most 256 features, or 1,024 with 16 documents for each; else a warning names the
        features.

    References
    ----------
    Pahikkala, Airola, Naula, Salakoski (2010), equations 3 to 6.

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> X = np.array([[0.0], [1.0], [0.0], [2.0]], dtype=np.float32)
    >>> dr.RankRLS(regularization=0.5).fit(X, [0, 1, 0, 2], qid=[7, 7, 8, 8]).coef_.round(4)
    array([0.8333])
    """

    objective_: float = field(init=False)
    relative_rounding_: float = field(init=False)

    regularization: float = 1.0
    solver: Solver = "auto"

    def _check_parameters(self) -> None:
        check_positive("regularization", self.regularization)

    def _fit(self, dataset: Dataset, executor: Executor) -> Array:
        normal = normal_equations_of(dataset, self.solver, executor)
        found = CheckedRidge(dataset, normal, executor).fit(self.regularization)
        self.objective_, self.relative_rounding_ = found.objective, found.relative_rounding
        warn_of_rounding(found, dataset.feature_names)
        return found.weights

    def ridge(self) -> tuple[list[int], float]:
        """All features, and lambda."""
        self._check_fitted()
        return list(range(len(self.coef_))), self.regularization

    def _fit_facts(self) -> dict[str, Any]:
        return {"objective": self.objective_, "relative_rounding": self.relative_rounding_}
