"""RankRLS: ridge regression on data that is centred within each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.errors import UsageError, listed
from dranking.models.linear.checks import check_positive
from dranking.models.linear.estimator import LinearRanker, feature_indices
from dranking.rankrls.checked_weights import CheckedRidge, warn_of_rounding
from dranking.rankrls.normal_equations import (
    MAX_DIRECT_FEATURES,
    DirectSolver,
    Solver,
    normal_equations_of,
)
from dranking.rankrls.sign_constraints import signed_weights

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
    non_negative
        Features whose weights may not be negative, by index or name: of two documents of a query
        that differ in such a feature alone, the one with the larger value never ranks lower. All
        scalings of `normalize` rise with the feature, so that this holds of raw values too. The
        weights minimise the objective under these constraints: they are those of RankRLS on the
        features that are not in `at_zero_`, and the conditions of Karush, Kuhn and Tucker are
        checked, with what rounding leaves of them in `relative_rounding_`. Takes the matrix A.
    normalize
        Scaling of the features that `fit` fits and the model carries out, as in `GreedyRankRLS`.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        Weights.
    at_zero_ : list of int
        Features of `non_negative` whose weights the constraint keeps at 0.
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

    at_zero_: list[int] = field(init=False)
    objective_: float = field(init=False)
    relative_rounding_: float = field(init=False)

    regularization: float = 1.0
    solver: Solver = "auto"
    non_negative: Sequence[int | str] = ()

    def _check_parameters(self) -> None:
        check_positive("regularization", self.regularization)

    def _fit(self, dataset: Dataset, executor: Executor) -> Array:
        normal = normal_equations_of(dataset, self.solver, executor)
        restricted = self._restricted(dataset)
        if not restricted.any():
            found, self.at_zero_ = (
                CheckedRidge(dataset, normal, executor).fit(self.regularization),
                [],
            )
        elif isinstance(normal, DirectSolver):
            found, self.at_zero_ = signed_weights(
                dataset, normal, restricted, self.regularization, executor
            )
        else:
            raise UsageError(
                "non_negative takes the matrix A, and conjugate gradients do not form it: give "
                f'solver="direct" (above {MAX_DIRECT_FEATURES:,} features A takes '
                f"{8e-9 * dataset.n_features**2:.1f} GB on each worker), or fewer features."
            )
        self.objective_, self.relative_rounding_ = found.objective, found.relative_rounding
        warn_of_rounding(found, dataset.feature_names)
        return found.weights

    def _restricted(self, dataset: Dataset) -> NDArray[np.bool_]:
        """(n_features,) whether the weight of a column may not be negative."""
        indices = feature_indices(dataset, self.non_negative, "non_negative")
        wrong = [i for i in indices if not 0 <= i < dataset.n_features]
        if wrong:
            raise UsageError(
                f"non_negative has {listed([str(i) for i in wrong])}, and the data has the "
                f"features 0 to {dataset.n_features - 1}."
            )
        return np.isin(np.arange(dataset.n_features), indices)

    def ridge(self) -> tuple[list[int], float]:
        """All features, and lambda."""
        self._check_fitted()
        if len(self.non_negative):
            raise UsageError(
                "RankRLS with non_negative has no leave-query-out scores: these follow from "
                "weights without constraints. Measure the ranker on other queries "
                "(dranking evaluate), or without non_negative."
            )
        return list(range(len(self.coef_))), self.regularization

    def _fit_facts(self) -> dict[str, Any]:
        kept_at_zero = [self.feature_names_[i] for i in self.at_zero_]
        return {
            "objective": self.objective_,
            "relative_rounding": self.relative_rounding_,
            **({"at_zero": kept_at_zero} if len(self.non_negative) else {}),
        }
