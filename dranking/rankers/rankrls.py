"""RankRLS: ridge regression on query-centred data, the pairwise squared loss in closed form."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.collections import as_dataset
from dranking.engine.executor import get_executor, with_one_blas_thread
from dranking.engine.tiles import Tiles
from dranking.kernels.gram import block_gram
from dranking.rankers.estimator import LinearRanker, check_positive, check_training_data
from dranking.rankers.gram import ridge_weights

Array = NDArray[np.float64]


class RankRLS(LinearRanker):
    """Linear ranker that minimises the regularised pairwise squared loss over all features.

    The minimum of `sum_q |y_q - X_q w|^2 + lambda |w|^2` with features and relevance centred within
    each query; that is the sum over a query's document pairs of the squared error of their
    difference, divided by the number of its documents.

    Parameters
    ----------
    regularization
        lambda > 0.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        Weights.
    objective_ : float
        The minimum.

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

    objective_: float

    def __init__(self, regularization: float = 1.0) -> None:
        self.regularization = regularization

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        executor: Any = None,
    ) -> RankRLS:
        """Fit the weights; arguments and errors as in `GreedyRankRLS.fit`."""
        check_positive("regularization", self.regularization)
        dataset = as_dataset(X, y, qid=qid, query_weights=query_weights)
        normal = NormalEquations(Tiles(dataset, get_executor(executor), resident=False))
        coef = normal.solve(self.regularization)
        self.objective_ = normal.label_norm - float(normal.products @ coef)
        self._set_weights(dataset, coef)
        return self

    def _fit_facts(self) -> dict[str, Any]:
        return {"objective": self.objective_}


class NormalEquations:
    """A = sum_q X_q' X_q, b = sum_q X_q' y_q and y.y: all that RankRLS needs, for any lambda.

    Attributes
    ----------
    gram
        (n_features, n_features) A.
    products
        (n_features,) b.
    label_norm
        y.y.
    """

    def __init__(self, tiles: Tiles) -> None:
        check_training_data(tiles.dataset)
        parts = tiles.map_blocks(partial(with_one_blas_thread, normal_equations), name="gram")
        self.gram, self.products, label_norm = tiles.sum(parts, tuple, "gram")
        self.label_norm = float(label_norm)

    def solve(self, regularization: float) -> Array:
        """(A + lambda I)^-1 b."""
        return ridge_weights(self.gram, self.products, regularization)


def normal_equations(block: QueryBlock) -> tuple[Array, Array, float]:
    """A, b and y.y of one block."""
    return block_gram(block.features, block.relevance, block.query_ptr, block.weights)
