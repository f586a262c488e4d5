"""Weights of RankRLS on all features that are checked: where A loses digits, from 32 digits.

The normal equations serve all lambdas. For a lambda with which their rounding may change
predictions by more than `STATED_ACCURACY`, the weights come from sums of products of the documents
in double-double: one pass finds the sums, and another pass measures on the features how far the
factor of the sums is off. Both passes are made once for all lambdas; `RankRLSCV` has made them for
its errors, and finds its model here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Executor
from dranking.engine.tiles import Tiles
from dranking.errors import SCALE, STATED_ACCURACY, AccuracyWarning, listed, moved_by, warn_user
from dranking.kernels.machine.floats import EPSILON
from dranking.rankrls.dominant_queries import block_sums
from dranking.rankrls.gram.pair_sums import PairSums
from dranking.rankrls.gram.triangular_factor import takes_factors
from dranking.rankrls.kernels.gram.double_double import product_of_pairs
from dranking.rankrls.kernels.lqo.factor_rounding import share_of_exact
from dranking.rankrls.kernels.lqo.pair_factor import PairRidge
from dranking.rankrls.normal_equations import (
    CgSolver,
    NormalEquations,
    objective_in_pass,
)
from dranking.rankrls.row_forms import DOCUMENTS, Basis, products_of_rows

Array = NDArray[np.float64]


class CheckedWeights(NamedTuple):
    """The weights of one lambda, and how far rounding may have moved what follows from them.

    Attributes
    ----------
    weights
        (n_features,) weights.
    objective
        Minimum of the objective.
    relative_rounding
        Estimated relative error of predictions of the training documents, and of the objective; at
        most 1.
    uncertain
        The features behind an error of predictions, the most uncertain first; none if only the
        objective is in doubt.
    reason
        What is said of these features.
    """

    weights: Array
    objective: float
    relative_rounding: float
    uncertain: list[int]
    reason: str = "these features nearly depend on others"


class Measured(NamedTuple):
    """Sums of products of all rows of documents, and how far their factor is off.

    Attributes
    ----------
    sums, basis
        The sums, and their basis.
    check
        (n_features + 1, n_features + 1) sums of products of the rows [Q, rest, y].
    """

    sums: PairSums
    basis: Basis
    check: Array


class CheckedRidge:
    """RankRLS on all features of a data set, for any lambda.

    Parameters
    ----------
    dataset
        Labelled documents, or statistics.
    normal
        Its normal equations.
    executor
        Where tasks run.
    measured
        Sums with 32 digits, if they were found before.
    """

    def __init__(
        self,
        dataset: Dataset,
        normal: NormalEquations,
        executor: Executor,
        measured: Measured | None = None,
    ) -> None:
        self._dataset, self._executor, self._normal = dataset, executor, normal
        self._is_direct = not isinstance(normal, CgSolver)
        self._known = measured

    def fit(self, regularization: float) -> CheckedWeights:
        """The weights of a lambda, from as many passes as their digits take."""
        weights = self._normal.solve(regularization)
        found = self._normal.check(weights, regularization)
        share = _share(found.objective, found.off)
        in_doubt = max(found.predictions, share) > STATED_ACCURACY
        objective, has_documents = found.objective, self._dataset.has_documents
        if in_doubt and self._is_direct and has_documents:
            if takes_factors(self._dataset):
                exact = with_one_blas_thread(exact_weights, self._measured, regularization)
                return cast("CheckedWeights", exact)
            tiles = Tiles(self._dataset, self._executor, resident=False)
            _, objective, off = objective_in_pass(tiles, weights, regularization)
            share = _share(objective, off + found.predictions**2 * self._normal.label_norm)
        uncertain = found.uncertain if found.predictions > STATED_ACCURACY else []
        rounding = max(found.predictions, share)
        return CheckedWeights(weights, objective, rounding, uncertain, self._normal.reason)

    @cached_property
    def sums(self) -> PairSums:
        """Sums of products of the documents with 32 digits."""
        tiles = Tiles(self._dataset, self._executor, resident=False)
        found: PairSums = tiles.sum_blocks(
            partial(with_one_blas_thread, block_sums), DOCUMENTS, name="sums-of-rows"
        )
        return found

    @cached_property
    def _measured(self) -> Measured:
        if self._known is not None:
            return self._known
        tiles, sums = Tiles(self._dataset, self._executor, resident=False), self.sums
        task = self._executor.submit(with_one_blas_thread, DOCUMENTS.basis, sums, name="rotation")
        check = tiles.sum_blocks(
            partial(with_one_blas_thread, block_check), task, name="check-of-factor"
        )
        [basis] = self._executor.gather([task])
        return Measured(sums, basis, check)


def exact_weights(measured: Measured, regularization: float) -> CheckedWeights:
    """The weights of a lambda from sums with 32 digits."""
    sums, basis = measured.sums.values, measured.basis
    found = PairRidge(basis.factor).weights(regularization)
    residuals = product_of_pairs(sums, found)
    [[square], _] = product_of_pairs(residuals[:, None], found)
    weights = -found[0, :-1]
    objective = float(square) + regularization * float(weights @ weights)
    off = DOCUMENTS.rounding(measured.sums, basis, measured.check, np.array([regularization]))
    rounding = float(off.own + off.of_factor[0]) + _weight_rounding(sums, weights)
    rounding = min(rounding, 1.0)
    return CheckedWeights(
        weights, objective, rounding, off.features if rounding > STATED_ACCURACY else []
    )


def _weight_rounding(sums: Array, weights: Array) -> float:
    """Largest relative error of predictions by the rounding of weights to float64."""
    norms = np.sqrt(sums[0].diagonal())
    if not norms[-1]:
        return 0.0
    return float(EPSILON / 2.0 * (norms[:-1] @ np.abs(weights)) / norms[-1])


def _share(objective: float, off: float) -> float:
    return float(share_of_exact(np.array([objective]), np.array([off]))[0])


def block_check(block: QueryBlock, basis: Basis) -> Array:
    """(n_features + 1, n_features + 1) sums of products of the rows [Q, rest, y] of a block."""
    check = np.zeros((block.n_features + 1, block.n_features + 1))
    for rows, _ in DOCUMENTS.rows(block):
        check += products_of_rows(DOCUMENTS.orthogonal(rows, basis.factor), rows[0, :, -1])
    return check


def warn_of_rounding(found: CheckedWeights, feature_names: Sequence[str]) -> None:
    """Give an `AccuracyWarning` if rounding may have changed what is stated by more than 1e-6."""
    if found.relative_rounding <= STATED_ACCURACY:
        return
    size = moved_by(found.relative_rounding)
    if not found.uncertain:
        warn_user(
            f"rounding may have changed the objective {size}: the features predict the relevance "
            "nearly without error. The weights are right; a larger regularization gives the "
            "objective more digits, and so do documents in place of statistics.",
            AccuracyWarning,
        )
        return
    names = listed([feature_names[i] for i in found.uncertain])
    warn_user(
        f"rounding may have changed predictions {size}: {found.reason}: {names}. Raise "
        f"regularization, scale the features ({SCALE}), or leave out features that "
        "depend on others.",
        AccuracyWarning,
    )
