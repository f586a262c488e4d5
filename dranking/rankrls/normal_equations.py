"""Normal equations of RankRLS on all features, solved for any lambda: from A, or without it."""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Executor
from dranking.engine.progress import report
from dranking.engine.tile_tasks import Literal as Same
from dranking.engine.tiles import Tiles
from dranking.errors import SCALE, DrankingError, UsageError
from dranking.models.linear.checks import check_training_data
from dranking.models.linear.pairs_to_learn import check_pairs
from dranking.rankrls.gram.moments import TotalMoments
from dranking.rankrls.gram.rows import ridge_rounding, ridge_weights
from dranking.rankrls.gram.statistics_store import statistics_equations
from dranking.rankrls.kernels.far_columns import Far, far_columns
from dranking.rankrls.kernels.gram.per_query import block_gram, gram_product, residual_sums
from dranking.rankrls.kernels.lqo.factor_rounding import SAFETY, error_rounding, sums_rounding
from dranking.rankrls.kernels.relative_products import shifted_strips
from dranking.rankrls.statistics.per_query import QueryStatistics

Array = NDArray[np.float64]
Solver = Literal["auto", "direct", "cg"]

MAX_DIRECT_FEATURES = 8_192
"""Largest number of features for which "auto" takes "direct": every task has a copy of A."""

CG_TOLERANCE = 1e-10
"""Norm of the residual, relative to the norm of b, at which conjugate gradients end."""

CG_STEPS_PER_FEATURE = 10
"""Largest number of steps of conjugate gradients, divided by the number of features."""


class Check(NamedTuple):
    """The effect of rounding on the weights of a lambda, and on the objective.

    Attributes
    ----------
    predictions
        Estimated error of predictions of the training documents, as a share of the norm of y.
    uncertain
        The features behind that error, the most uncertain first.
    objective
        The objective with these weights.
    off
        Estimated distance of `objective` from the minimum.
    """

    predictions: float
    uncertain: list[int]
    objective: float
    off: float


class NormalEquations(Protocol):
    """Normal equations A = sum_q X_q' X_q, b = sum_q X_q' y_q and y.y, for any lambda.

    Attributes
    ----------
    products
        (n_features,) b.
    label_norm
        y.y.
    reason
        What is said of features behind an error of predictions.
    """

    products: Array
    label_norm: float
    reason: str

    def solve(self, regularization: float) -> Array:
        """(A + lambda I)^-1 b."""
        ...

    def check(self, weights: Array, regularization: float) -> Check:
        """The effect of rounding on these weights."""
        ...


def normal_equations_of(dataset: Dataset, solver: Solver, executor: Executor) -> NormalEquations:
    """The normal equations of a data set; "cg" does not form A."""
    check_training_data(dataset)
    if solver not in ("auto", "direct", "cg"):
        raise UsageError(f"solver is {solver!r}; choose auto, direct or cg.")
    if solver == "auto":
        solver = "direct" if dataset.n_features <= MAX_DIRECT_FEATURES else "cg"
    normal: DirectSolver | CgSolver = (DirectSolver.of if solver == "direct" else CgSolver)(
        dataset, executor
    )
    check_pairs(normal.label_norm, dataset, executor)
    return normal


class DirectSolver:
    """Normal equations with A in `gram` (n_features, n_features): sums of `block_equations`."""

    reason = "these features nearly depend on others"

    def __init__(self, gram: Array, products: Array, label_norm: float) -> None:
        self.gram, self.products, self.label_norm = gram, products, float(label_norm)

    @classmethod
    def of(cls, dataset: Dataset, executor: Executor) -> DirectSolver:
        """The normal equations of a data set, from one pass over X."""
        tiles = Tiles(dataset, executor, resident=False)
        return cls(*tiles.sum_blocks(partial(with_one_blas_thread, block_equations), name="gram"))

    def restricted(self, columns: NDArray[np.intp]) -> DirectSolver:
        """The normal equations of some of the columns."""
        own = np.ix_(columns, columns)
        return DirectSolver(self.gram[own], self.products[columns], self.label_norm)

    @property
    def sums(self) -> Array:
        """(n_features + 1, n_features + 1) sums of products of [X y]."""
        column = self.products[:, None]
        return np.block([[self.gram, column], [column.T, np.array([[self.label_norm]])]])

    def solve(self, regularization: float) -> Array:
        """(A + lambda I)^-1 b by Cholesky."""
        return ridge_weights(self.gram, self.products, regularization)

    def check(self, weights: Array, regularization: float) -> Check:
        """The effect of the rounding of sums on weights by `solve`.

        The minimum y.y - b.w is off by the rounding of both terms, however small the minimum is.
        """
        predictions, uncertain = ridge_rounding(self.gram, regularization)
        squares = np.append(self.gram.diagonal() + regularization, self.label_norm)
        off = float(sums_rounding(weights, np.sqrt(squares)))
        objective = self.label_norm - float(self.products @ weights)
        return Check(predictions, uncertain, objective, off)


class CgSolver:
    """Normal equations without A; every step of conjugate gradients is one pass over X."""

    reason = "conjugate gradients end farthest from the minimum along these features"

    def __init__(self, dataset: Dataset, executor: Executor) -> None:
        # X stays in memory if it fits: there are many passes.
        resident = 8 * sum(block.n_values for block in dataset.blocks) <= executor.memory_bytes
        self._tiles = Tiles(dataset, executor, resident=resident)
        self._far = self._tiles.map_blocks(far_of_block, name="far")
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
                f"conjugate gradients did not converge in {n_steps} steps: features that nearly "
                f"depend on others need more. Scale the features ({SCALE}), leave out features "
                f"that depend on others, or raise regularization above {regularization:g}."
            )
        solution: Array = weights
        return solution

    def check(self, weights: Array, regularization: float) -> Check:
        """The distance of conjugate gradients, with rounding, from the minimum, in one pass.

        The bound of predictions follows from the gradient r = X'(y - X w) - lambda w: it is
        |r| / sqrt(lambda). The features with the largest elements of r are named.
        """
        gradient, objective, off = objective_in_pass(self._tiles, weights, regularization)
        distance = float(np.linalg.norm(gradient)) / np.sqrt(regularization)
        share = min(1.0, distance / np.sqrt(self.label_norm)) if distance else 0.0
        order = np.argsort(-np.abs(gradient), kind="stable")
        uncertain = order[np.abs(gradient[order]) > np.abs(gradient).max() / 10.0].tolist()
        return Check(share, uncertain, objective, off + distance**2)

    def _multiply(self, regularization: float, vector: Array) -> Array:
        product: Array = self._tiles.sum_map(block_product, self._far, Same(vector), name="product")
        return product + regularization * vector


def objective_in_pass(
    tiles: Tiles, weights: Array, regularization: float
) -> tuple[Array, float, float]:
    """Gradient X'(y - X w) - lambda w, objective, and the rounding of the objective: one pass."""
    products, (squares, sizes) = tiles.sum_blocks(block_residuals, weights, name="residuals")
    off = SAFETY * np.finfo(float).eps * np.sqrt(sizes)
    [rounding] = error_rounding(np.array([squares]), np.array([off]))
    penalty = regularization * float(weights @ weights)
    return products - regularization * weights, float(squares) + penalty, float(rounding)


def block_residuals(block: QueryBlock, weights: Array) -> tuple[Array, Array]:
    """`residual_sums` of one block."""
    strips = shifted_strips(block.features, block.query_ptr, far_of_block(block))
    return residual_sums(strips, block.relevance, block.query_ptr, block.weights, weights)


def block_equations(block: QueryBlock | QueryStatistics) -> tuple[Array, Array, float]:
    """A, b and y.y of one block."""
    if isinstance(block, QueryStatistics):
        return statistics_equations(block)
    return block_gram(block.features, block.relevance, block.query_ptr, block.weights)


def far_of_block(block: QueryBlock) -> Far:
    """The far columns of one block."""
    return far_columns(block.features, block.query_ptr)


def block_product(block: QueryBlock, far: Far, vector: Array) -> Array:
    """A v of one block."""
    strips = shifted_strips(block.features, block.query_ptr, far)
    return gram_product(strips, block.weights, vector)
