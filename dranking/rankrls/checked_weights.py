"""Weights of RankRLS on all features that are checked: where A loses digits, from 32 digits.

The normal equations serve all lambdas. For a lambda with which their rounding may change
predictions by more than `STATED_ACCURACY`, the weights come from sums of products of the documents
in double-double, as those of `RankRLSCV` do: one pass finds the sums, and another pass measures on
the features how far the factor of the sums is off. Both passes are made once for all lambdas.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Executor
from dranking.engine.tiles import Tiles
from dranking.errors import SCALE, STATED_ACCURACY, AccuracyWarning, listed, moved_by, warn_user
from dranking.rankrls.dominant_queries import block_sums
from dranking.rankrls.gram.pair_sums import PairSums
from dranking.rankrls.gram.triangular_factor import takes_factors
from dranking.rankrls.kernels.lqo.factor_rounding import share_of_exact
from dranking.rankrls.normal_equations import (
    CgSolver,
    NormalEquations,
    objective_in_pass,
)
from dranking.rankrls.row_forms import (
    DOCUMENTS,
    Basis,
    RowForm,
    products_of_rows,
    weight_rounding,
)

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
    """

    def __init__(self, dataset: Dataset, normal: NormalEquations, executor: Executor) -> None:
        self._dataset, self._executor, self._normal = dataset, executor, normal
        self._is_direct = not isinstance(normal, CgSolver)

    def fit(self, regularization: float) -> CheckedWeights:
        """The weights of a lambda, from as many passes as their digits take."""
        weights = self._normal.solve(regularization)
        found = self._normal.check(weights, regularization)
        share = _share(found.objective, found.off)
        in_doubt = max(found.predictions, share) > STATED_ACCURACY
        objective, has_documents = found.objective, self._dataset.has_documents
        if in_doubt and self._is_direct and has_documents:
            if takes_factors(self._dataset):
                return self._from_pairs(regularization)
            tiles = Tiles(self._dataset, self._executor, resident=False)
            _, objective, off = objective_in_pass(tiles, weights, regularization)
            share = _share(objective, off + found.predictions**2 * self._normal.label_norm)
        uncertain = found.uncertain if found.predictions > STATED_ACCURACY else []
        rounding = max(found.predictions, share)
        return CheckedWeights(weights, objective, rounding, uncertain, self._normal.reason)

    def _from_pairs(self, regularization: float) -> CheckedWeights:
        found: CheckedWeights = with_one_blas_thread(
            checked_from_rows, DOCUMENTS, *self._measured, regularization
        )
        return found

    @cached_property
    def _measured(self) -> tuple[PairSums, Basis, Array]:
        """Sums of products, their factor, and its Gram matrix of the documents."""
        tiles = Tiles(self._dataset, self._executor, resident=False)
        sums: PairSums = tiles.sum_blocks(
            partial(with_one_blas_thread, block_sums), DOCUMENTS, name="sums-of-rows"
        )
        task = self._executor.submit(with_one_blas_thread, DOCUMENTS.basis, sums, name="rotation")
        check = tiles.sum_blocks(
            partial(with_one_blas_thread, block_check), task, name="check-of-factor"
        )
        [basis] = self._executor.gather([task])
        return sums, basis, check


def checked_from_rows(
    form: RowForm, sums: Any, basis: Basis, check: Array, regularization: float
) -> CheckedWeights:
    """The weights of a lambda from the sums of a form of rows.

    Parameters
    ----------
    form
        Form of the rows.
    sums, basis, check
        Sums of all rows, their basis, and the Gram matrix of the rows [Q, rest, y].
    regularization
        lambda.
    """
    weights, objective = form.weights(sums, regularization)
    found = form.rounding(sums, basis, check, np.array([regularization]))
    predictions = found.own + float(found.of_factor[0])
    if form is DOCUMENTS:
        predictions += weight_rounding(sums, weights)
    rounding = min(max(predictions, _share(objective, float(found.of_sums[0]))), 1.0)
    uncertain = found.features if predictions > STATED_ACCURACY else []
    return CheckedWeights(weights, objective, rounding, uncertain)


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
