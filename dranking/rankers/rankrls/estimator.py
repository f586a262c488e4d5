"""RankRLS: ridge regression on data that is centred within each query."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.statistics.per_query import QueryStatistics
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Executor
from dranking.engine.progress import report
from dranking.engine.tiles import Tiles
from dranking.errors import (
    STATED_ACCURACY,
    AccuracyWarning,
    DrankingError,
    UsageError,
    listed,
    warn_user,
)
from dranking.kernels.gram.per_query import block_gram, gram_product
from dranking.kernels.lqo.factor_rounding import relative_rounding
from dranking.kernels.lqo.orthogonal import ridge_from_factor
from dranking.rankers.gram.moments import TotalMoments
from dranking.rankers.gram.rows import ridge_rounding, ridge_weights
from dranking.rankers.gram.statistics_store import statistics_equations
from dranking.rankers.gram.triangular_factor import factor_of, takes_factors
from dranking.rankers.linear.checks import check_positive, check_training_data
from dranking.rankers.linear.estimator import LinearRanker

Array = NDArray[np.float64]
Solver = Literal["auto", "direct", "cg"]

MAX_DIRECT_FEATURES = 8_192
"""Largest number of features for which "auto" takes "direct": every task has a copy of A."""

CG_TOLERANCE = 1e-10
"""Norm of the residual, relative to the norm of b, at which conjugate gradients end."""

CG_STEPS_PER_FEATURE = 10
"""Largest number of steps of conjugate gradients, divided by the number of features."""


@dataclass(eq=False, repr=False)
class RankRLS(LinearRanker):
    """Linear ranker that minimises the regularised pairwise squared loss over all features.

    The weights minimise ``sum_q |y_q - X_q w|^2 + lambda |w|^2`` with features and relevance
    centred within each query. A term of the sum equals the squared error of the difference of two
    documents, summed over the query's document pairs and divided by the number of its documents.

    Parameters
    ----------
    regularization
        lambda > 0.
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
        Estimated relative error of predictions of the training documents, by rounding and by the
        end of conjugate gradients. Where A loses more than 1e-6, one more pass finds the weights
        from orthogonal factors of the documents, if these have at most 256 features, or 1,024 with
        16 documents for each; else a warning names the features.

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
        coef = normal.solve(self.regularization)
        self.objective_ = normal.label_norm - float(normal.products @ coef)
        rounding, uncertain = normal.rounding(coef, self.regularization)
        has_factors = dataset.has_documents and not isinstance(normal, CgSolver)
        if rounding > STATED_ACCURACY and has_factors and takes_factors(dataset):
            factor = factor_of(dataset, executor).values
            coef, self.objective_ = with_one_blas_thread(
                ridge_from_factor, factor, self.regularization
            )
            [rounding], uncertain = with_one_blas_thread(
                relative_rounding, factor, np.array([self.regularization])
            )
        self.relative_rounding_ = float(rounding)
        if rounding > STATED_ACCURACY:
            _warn_of_rounding(rounding, [dataset.feature_names[i] for i in uncertain])
        return coef

    def ridge(self) -> tuple[list[int], float]:
        """All features, and lambda."""
        self._check_fitted()
        return list(range(len(self.coef_))), self.regularization

    def _fit_facts(self) -> dict[str, Any]:
        return {"objective": self.objective_, "relative_rounding": self.relative_rounding_}


def _warn_of_rounding(rounding: float, names: list[str]) -> None:
    which = f": these features nearly depend on others: {listed(names)}" if names else ""
    warn_user(
        f"rounding may have changed predictions by a share of {rounding:.0e}{which}. Raise "
        "regularization, scale the features (--normalize standard), or leave out features that "
        "depend on others.",
        AccuracyWarning,
    )


class NormalEquations(Protocol):
    """Normal equations A = sum_q X_q' X_q, b = sum_q X_q' y_q and y.y, for any lambda.

    Attributes
    ----------
    products
        (n_features,) b.
    label_norm
        y.y.
    """

    products: Array
    label_norm: float

    def solve(self, regularization: float) -> Array:
        """(A + lambda I)^-1 b."""
        ...

    def rounding(self, weights: Array, regularization: float) -> tuple[float, list[int]]:
        """Estimated relative error of predictions by these weights; the features behind it."""
        ...


def normal_equations_of(dataset: Dataset, solver: Solver, executor: Executor) -> NormalEquations:
    """The normal equations of a data set; "cg" does not form A."""
    check_training_data(dataset)
    if solver not in ("auto", "direct", "cg"):
        raise UsageError(f"solver is {solver!r}; choose auto, direct or cg.")
    if solver == "auto":
        solver = "direct" if dataset.n_features <= MAX_DIRECT_FEATURES else "cg"
    return DirectSolver(dataset, executor) if solver == "direct" else CgSolver(dataset, executor)


class DirectSolver:
    """Normal equations with A in `gram` (n_features, n_features), from one pass over X."""

    def __init__(self, dataset: Dataset, executor: Executor) -> None:
        tiles = Tiles(dataset, executor, resident=False)
        self.gram, self.products, label_norm = tiles.sum_blocks(
            partial(with_one_blas_thread, block_equations), name="gram"
        )
        self.label_norm = float(label_norm)

    def solve(self, regularization: float) -> Array:
        """(A + lambda I)^-1 b by Cholesky."""
        return ridge_weights(self.gram, self.products, regularization)

    def rounding(self, weights: Array, regularization: float) -> tuple[float, list[int]]:
        """Estimated relative error of predictions by `solve`, and the features behind it."""
        return ridge_rounding(self.gram, regularization)

    def minimum(self, regularization: float) -> tuple[Array, float]:
        """Weights for a lambda, and the minimum of the objective."""
        weights = self.solve(regularization)
        return weights, self.label_norm - float(self.products @ weights)


class CgSolver:
    """Normal equations without A; every step of conjugate gradients is one pass over X."""

    def __init__(self, dataset: Dataset, executor: Executor) -> None:
        # X stays in memory if it fits: there are many passes.
        resident = 8 * sum(block.n_values for block in dataset.blocks) <= executor.memory_bytes
        self._tiles = Tiles(dataset, executor, resident=resident)
        moments = TotalMoments(self._tiles)
        self._diagonal = moments.diagonal
        self.products = moments.products
        self.label_norm = float(moments.label_norm)

    def solve(self, regularization: float) -> Array:
        """(A + lambda I)^-1 b by conjugate gradients, preconditioned with the diagonal.

        Raises
        ------
        DrankingError
            If conjugate gradients do not converge.
        """
        n = len(self.products)
        n_steps = 0

        def count(_: Array) -> None:
            nonlocal n_steps
            n_steps += 1
            report("conjugate gradients", n_steps, None, passes=n_steps, **self._tiles.moved)

        weights, failed = cg(
            LinearOperator(
                (n, n), matvec=partial(self._multiply, regularization), dtype=np.float64
            ),
            self.products,
            rtol=CG_TOLERANCE,
            maxiter=max(1, int(CG_STEPS_PER_FEATURE * n)),
            M=LinearOperator((n, n), matvec=lambda v: v / (self._diagonal + regularization)),
            callback=count,
        )
        if failed:
            raise DrankingError(
                f"conjugate gradients did not converge in {n_steps} steps; scale the features, or "
                f"raise regularization above {regularization:g}."
            )
        solution: Array = weights
        return solution

    def rounding(self, weights: Array, regularization: float) -> tuple[float, list[int]]:
        """Bound of the norm of errors of predictions as a share of the norm of y; no features.

        For the residual r of the normal equations, the bound is |r| / (sqrt(lambda) |y|).
        """
        residual = self.products - self._multiply(regularization, weights)
        norm = float(np.linalg.norm(residual)) / np.sqrt(regularization)
        return (min(1.0, norm / np.sqrt(self.label_norm)) if norm else 0.0), []

    def _multiply(self, regularization: float, vector: Array) -> Array:
        product: Array = self._tiles.sum_blocks(block_product, vector, name="product")
        return product + regularization * vector


def block_equations(block: QueryBlock | QueryStatistics) -> tuple[Array, Array, float]:
    """A, b and y.y of one block."""
    if isinstance(block, QueryStatistics):
        return statistics_equations(block)
    return block_gram(block.features, block.relevance, block.query_ptr, block.weights)


def block_product(block: QueryBlock, vector: Array) -> Array:
    """A v of one block."""
    return gram_product(block.features, block.query_ptr, block.weights, vector)
