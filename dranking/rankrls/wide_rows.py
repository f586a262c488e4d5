"""Rows of documents or of a store in the eigenvectors of A, for more features than factors take.

With A = V D V', the rows Q of an orthogonal basis are X V D^(-1/2). They have the digits of A, half
those of factors; but no query is dominant, and no query needs the factor of all other queries.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.floats import EPSILON
from dranking.rankrls.kernels.lqo.factor_rounding import SAFETY, sums_rounding
from dranking.rankrls.kernels.lqo.orthogonal import Rotation
from dranking.rankrls.row_forms import STORES, Basis, Rounding, RowForm

Array = NDArray[np.float64]


def _gram_basis(sums: Array) -> Basis:
    """The basis of (n_features + 1, n_features + 1) sums of products of [X y]."""
    values, vectors = np.linalg.eigh(sums[:-1, :-1])
    # Directions without data would divide by 0; the rows of the basis are multiplied back.
    values = np.maximum(values, max(EPSILON**2 * values[-1], np.finfo(float).tiny))
    roots = np.sqrt(values)
    left = np.asfortranarray(vectors / roots)
    rotation = Rotation(left, roots, left.T @ sums[:-1, -1], float(np.sqrt(sums[-1, -1])))
    return Basis(rotation, None, 1.0, float(values[0]))


def _features(rows: Array, factor: None) -> Array:
    """(m, n) the features of rows [X y], which the rotation alone turns into rows of Q."""
    return rows[:, :-1]


def _gram_rounding(
    has_documents: bool, sums: Array, basis: Basis, check: Array, regularizations: Array
) -> Rounding:
    """Each eigenvalue of A is wrong by the rounding of the largest eigenvalue."""
    rotation, nothing = basis.rotation, np.zeros(len(regularizations))
    squares = np.square(rotation.singular_values)
    own = SAFETY * EPSILON * squares[-1] / (squares[0] + regularizations)
    of_sums = nothing
    if not has_documents:
        shares = squares / (squares + regularizations[:, None])
        weights = (shares * rotation.projected) @ rotation.left.T
        of_sums = sums_rounding(weights, np.sqrt(sums.diagonal()))
    return Rounding(basis.own_rounding + own, nothing, of_sums, [])


def wide_form(has_documents: bool) -> RowForm:
    """The form of rows of documents, or of a store, whose sums are A, b and y.y."""
    rounding = partial(_gram_rounding, has_documents)
    return STORES._replace(
        basis=_gram_basis, orthogonal=_features, rounding=rounding, least_margin=-np.inf
    )
