"""Greedy RankRLS with lambda and the number of features chosen by its own criterion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.data.scaling import Normalize
from dranking.engine.executor import Executor
from dranking.errors import UsageError
from dranking.files.places import AnyPlace
from dranking.rankers.greedy.estimator import warn_of_rounding
from dranking.rankers.greedy.options import Passes
from dranking.rankers.greedy.path import SelectionPath, SelectionRules
from dranking.rankers.greedy.selection import select_paths
from dranking.rankers.linear.estimator import feature_indices
from dranking.rankers.linear.feature_selection import SelectingRanker

Array = NDArray[np.float64]

DEFAULT_GRID = tuple(2.0**e for e in range(11))


@dataclass(eq=False, repr=False)
class GreedyRankRLSCV(SelectingRanker):
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
    selected_: list[int] = field(init=False)
    lqo_error_: Array = field(init=False)
    relative_rounding_: float = field(init=False)
    paths_: list[SelectionPath] = field(init=False)
    path_: SelectionPath = field(init=False)
    n_passes_: int = field(init=False)

    n_features: int = 10
    regularizations: Sequence[float] = DEFAULT_GRID
    _: KW_ONLY
    start: Sequence[int | str] = ()
    forbidden: Sequence[int | str] = ()
    normalize: Normalize = "none"
    memory_limit: int | str | None = None
    checkpoint: AnyPlace | None = None
    passes: Passes | Mapping[str, Any] | None = None

    def _check_parameters(self) -> None:
        if not len(self.regularizations):
            raise UsageError("regularizations is empty; name at least one lambda above 0.")

    def _fit(self, dataset: Dataset, executor: Executor) -> Array:
        passes = Passes.of(self.passes)
        rules = SelectionRules(
            self.n_features,
            start=feature_indices(dataset, self.start),
            forbidden=feature_indices(dataset, self.forbidden),
            prefetch=passes.prefetch,
        )
        found = select_paths(
            dataset,
            self.regularizations,
            rules,
            memory_limit=self.memory_limit,
            feature_blocks=passes.feature_blocks,
            checkpoint=self.checkpoint,
            executor=executor,
        )
        self.paths_, self.n_passes_ = found.paths, found.n_passes
        self.lqo_error_ = np.array([path.lqo_error for path in found.paths])
        sizes = [max(path.best_size, len(rules.start)) for path in found.paths]
        best = [path.first(size) for path, size in zip(found.paths, sizes, strict=True)]
        self.path_ = min(best, key=lambda path: (path.lqo_error[-1], path.regularization))
        self.regularization_ = self.path_.regularization
        self.selected_ = list(self.path_.selected)
        self.relative_rounding_ = self.path_.relative_rounding
        warn_of_rounding(self.path_, dataset.feature_names)
        return self.path_.coef(dataset.n_features)

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
        }
