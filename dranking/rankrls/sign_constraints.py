"""RankRLS with weights that may not be negative: which columns keep a weight, and the check."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.data.named_columns import NamedColumns
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Executor
from dranking.errors import SCALE, STATED_ACCURACY, DrankingError, listed
from dranking.kernels.machine.floats import EPSILON
from dranking.rankrls.checked_weights import CheckedRidge, CheckedWeights
from dranking.rankrls.gram.rows import ridge_rounding, ridge_weights
from dranking.rankrls.gram.triangular_factor import takes_factors
from dranking.rankrls.kernels.gram.double_double import UNIT, product_of_pairs
from dranking.rankrls.kernels.lqo.factor_rounding import SAFETY
from dranking.rankrls.kernels.lqo.pair_factor import PairRidge, pair_factor
from dranking.rankrls.normal_equations import DirectSolver

Array = NDArray[np.float64]
Columns = NDArray[np.intp]
Solve: TypeAlias = Callable[[Columns], tuple[Array, Array]]

FULL_EXCHANGES = 3
"""Exchanges of all wrong columns that may fail to lower their number."""

STEPS_PER_FEATURE = 10
"""Largest number of solved systems, divided by the number of columns."""


def signed_weights(
    dataset: Dataset,
    normal: DirectSolver,
    restricted: NDArray[np.bool_],
    regularization: float,
    executor: Executor,
) -> tuple[CheckedWeights, list[int]]:
    """The minimiser of RankRLS's objective among weights of which some may not be negative.

    Parameters
    ----------
    dataset, normal, regularization, executor
        As in `CheckedRidge`.
    restricted
        (n_features,) whether the weight of a column may not be negative.

    Returns
    -------
    The weights; and the columns that the constraint keeps at 0, in order.

    Raises
    ------
    DrankingError
        If rounding leaves it open which columns these are.
    """
    solve, unit = _solver(dataset, normal, regularization, executor)
    norms = np.sqrt(normal.gram.diagonal())
    kept, gradient = with_one_blas_thread(
        _kept_columns, solve, restricted, norms, float(np.sqrt(normal.label_norm)), unit
    )
    found = CheckedWeights(np.zeros(0), normal.label_norm, 0.0, [])
    if len(kept):
        own = normal.restricted(kept)
        has_rows = dataset.has_documents and len(kept) < dataset.n_features
        names = [dataset.feature_names[i] for i in kept]
        view = NamedColumns(dataset, names) if has_rows else dataset
        found = CheckedRidge(view, own, executor).fit(regularization)
    weights = np.zeros(dataset.n_features)
    weights[kept] = found.weights
    # Where a column's weight is 0 but for rounding, that rounding may have either sign.
    weights[restricted] = np.maximum(weights[restricted], 0.0)
    # No feasible weights predict better by more than this (THEORY.md): it is 0 or rounding.
    beyond = ridge_weights(normal.gram, gradient, regularization) @ gradient
    beyond = np.sqrt(max(float(beyond), 0.0) / (normal.label_norm or 1.0))
    found = found._replace(
        weights=weights,
        relative_rounding=min(1.0, found.relative_rounding + float(beyond)),
        uncertain=[int(kept[i]) for i in found.uncertain],
    )
    return found, np.setdiff1d(np.arange(dataset.n_features), kept).tolist()


def _solver(
    dataset: Dataset, normal: DirectSolver, regularization: float, executor: Executor
) -> tuple[Solve, float]:
    """Solves RankRLS on some columns, with as many digits as the columns take; its rounding."""
    rounding, uncertain = ridge_rounding(normal.gram, regularization)
    if rounding <= STATED_ACCURACY:
        return lambda kept: _solved(normal, kept, regularization), EPSILON
    if dataset.has_documents and takes_factors(dataset):
        sums = CheckedRidge(dataset, normal, executor).sums.values
        return lambda kept: _solved_in_pairs(sums, kept, regularization), UNIT
    names = listed([dataset.feature_names[i] for i in uncertain])
    raise DrankingError(
        "rounding leaves it open which weights non_negative keeps at 0, since these features "
        f"nearly depend on others: {names}. Raise regularization, scale the features ({SCALE}), "
        "or leave out features that depend on others."
    )


def _solved(normal: DirectSolver, kept: Columns, regularization: float) -> tuple[Array, Array]:
    """Weights of the kept columns, 0 elsewhere; and the gradient b - (A + lambda I) w."""
    weights = np.zeros(len(normal.products))
    if len(kept):
        weights[kept] = normal.restricted(kept).solve(regularization)
    return weights, normal.products - normal.gram @ weights - regularization * weights


def _solved_in_pairs(sums: Array, kept: Columns, regularization: float) -> tuple[Array, Array]:
    """As `_solved`, from sums with 32 digits."""
    own = np.append(kept, sums.shape[1] - 1)
    found = np.zeros(sums.shape[:2])
    found[0, -1] = 1.0
    if len(kept):
        factor = pair_factor(np.ascontiguousarray(sums[:, own[:, None], own]))
        found[:, own] = PairRidge(factor).weights(regularization)
    residuals = product_of_pairs(sums, found)[0, :-1]
    return -found[0, :-1], residuals + regularization * found[0, :-1]


def _kept_columns(
    solve: Solve, restricted: NDArray[np.bool_], norms: Array, label_norm: float, unit: float
) -> tuple[Columns, Array]:
    """The columns without an active constraint, and what the gradient of the others has above 0.

    Block principal pivoting (Portugal, Judice, Vicente 1994): all wrong columns change sides; where
    that lowers their number no more, the last of them alone does, which ends for every A.
    """
    free = np.ones(len(restricted), dtype=np.bool_)
    fewest, left = len(restricted) + 1, FULL_EXCHANGES
    for _ in range(STEPS_PER_FEATURE * len(restricted) + FULL_EXCHANGES):
        kept = np.flatnonzero(free)
        weights, gradient = solve(kept)
        size = label_norm + float(np.abs(weights) @ norms)
        noise = SAFETY * (len(norms) + 1) * unit * norms * size
        wrong = np.flatnonzero(restricted & np.where(free, weights < 0.0, gradient > noise))
        if not len(wrong):
            return kept, np.where(free, 0.0, np.maximum(gradient, 0.0))
        if len(wrong) < fewest:
            fewest, left = len(wrong), FULL_EXCHANGES
        else:
            left -= 1
        change = wrong if left > 0 else wrong[-1:]
        free[change] = ~free[change]
    raise DrankingError(
        "rounding leaves it open which weights non_negative keeps at 0. Raise regularization, "
        f"scale the features ({SCALE}), or leave out features that depend on others."
    )
