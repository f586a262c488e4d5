"""Greedy RankRLS with lambda and the number of features chosen by its own criterion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.models.linear.checks import values_to_try
from dranking.rankrls.greedy.estimator import GreedyRanker
from dranking.rankrls.greedy.path import SelectionPath

Array = NDArray[np.float64]

DEFAULT_GRID = tuple(2.0**e for e in range(11))


@dataclass(eq=False, repr=False)
class GreedyRankRLSCV(GreedyRanker):
    """Greedy RankRLS that chooses lambda and the number of features by leave-query-out error.

    One selection for each lambda gives the squared leave-query-out error of every number of
    features; all selections share every pass over the data. The smallest error is taken; ties go to
    the smallest lambda, then to the fewest features. A statistics store can take the place of the
    data from which the store was built.

    Parameters
    ----------
    n_features
        Largest number of features, at least 1 and at most the number in the data.
    regularizations
        lambdas > 0 to try.
    start, forbidden, normalize, memory_limit, checkpoint, passes
        As in `GreedyRankRLS`.

    Attributes
    ----------
    regularization_ : float
        The lambda chosen.
    selected_ : list of int
        0-based indices of the features chosen, in selection order.
    coef_ : (n_features_in_,) float64
        Weights; zero for features not selected.
    lqo_error_ : (n_lambdas, n_features) float64
        Leave-query-out error for every lambda, in the order given, and every number of features; a
        sum over queries.
    relative_rounding_ : float
        Estimated relative error by rounding of the errors of the selection chosen, as in
        `GreedyRankRLS`.
    paths_ : list of SelectionPath
        The selection of each lambda.
    path_ : SelectionPath
        The selection of the lambda chosen, up to the number of features chosen.
    n_passes_ : int
        Number of passes over the data.

    References
    ----------
    Pahikkala, Airola, Naula, Salakoski (2010), Algorithm 1 and section 3.

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5)).astype(np.float32)
    >>> y = X[:, 3] - 0.5 * X[:, 1]
    >>> ranker = dr.GreedyRankRLSCV(2, [0.01, 1000.0]).fit(X, y, qid=np.repeat(np.arange(10), 6))
    >>> ranker.regularization_, ranker.selected_
    (0.01, [3, 1])
    """

    regularization_: float = field(init=False)
    paths_: list[SelectionPath] = field(init=False)

    regularizations: Sequence[float] = DEFAULT_GRID

    def _check_parameters(self) -> None:
        values_to_try("regularizations", self.regularizations)

    def _fit(self, dataset: Dataset, executor: Executor) -> Array:
        self.paths_ = self._select(dataset, self.regularizations, executor).paths
        self.lqo_error_ = np.array([path.lqo_error for path in self.paths_])
        best = [path.first(max(path.best_size, len(self.start))) for path in self.paths_]
        path = min(best, key=lambda path: (path.lqo_error[-1], path.regularization))
        self.regularization_ = path.regularization
        return self._take(path, dataset)

    def ridge(self) -> tuple[list[int], float]:
        """The selected features, and lambda."""
        self._check_fitted()
        return self.selected_, self.regularization_

    def _fit_facts(self) -> dict[str, Any]:
        return {
            "regularization": self.regularization_,
            "selected": self.selected_,
            "lqo_error": self.lqo_error_.tolist(),
            "relative_rounding": self.relative_rounding_,
            "unproven_picks": [self.path_.kept[r][-1] for r in self.path_.unproven],
        }
