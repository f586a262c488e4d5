"""Forward selection on the factor of all features, in double-double: what each feature adds.

With X = Q R (`dranking.rankrls.kernels.lqo.pair_factor`), ridge regression is least squares on the
columns [R; sqrt(lambda) I], to which the label adds the column [Q'y; 0]. Selecting a feature
divides its column by its norm and makes all other columns orthogonal to it (the modified method of
Gram and Schmidt). So what a candidate adds to the selected features has its own digits, however
little that is: its rest has 32 digits less those that are lost, and sums of products in float64
have 16.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import frozen, kernel
from dranking.rankrls.kernels.gram.double_double import (
    add,
    divide,
    multiply,
    square_root,
    subtract_product,
)
from dranking.rankrls.kernels.lqo.pair_factor import PairFactor, back_substitute

Array = NDArray[np.float64]


class Directions(NamedTuple):
    """Directions of columns in the augmented space, of norm 1, as far as documents have them.

    Attributes
    ----------
    along
        (r, c) the part of each direction in the span of Q: rows of Q times this are the values of
        documents.
    gains
        (c,) products of the directions with the label.
    """

    along: Array
    gains: Array


class Elimination:
    """The features selected so far on one path, and what is left of all other columns.

    Parameters
    ----------
    factor
        The factor of all features and the label.
    regularization
        lambda > 0.

    Attributes
    ----------
    selected
        The features selected so far, in order.
    """

    def __init__(self, factor: PairFactor, regularization: float) -> None:
        n, self._rank = len(factor.columns), factor.rank
        self._columns = np.zeros((2, n + 1, self._rank + n))
        places = np.append(factor.columns, n)
        self._columns[:, places, : self._rank] = factor.triangle.transpose(0, 2, 1)
        self._columns[0, range(n), range(self._rank, self._rank + n)] = np.sqrt(regularization)
        self._products = np.zeros((n, 2, n + 1))
        self.selected: list[int] = []

    def select(self, feature: int) -> None:
        """Select one more feature."""
        is_left = np.ones(self._columns.shape[1], dtype=np.bool_)
        is_left[[*self.selected, feature]] = False
        _eliminate(self._columns, feature, is_left, self._products[len(self.selected)])
        self.selected.append(feature)

    @property
    def directions(self) -> Directions:
        """Directions of the selected features, each orthogonal to those selected before it."""
        along = np.ascontiguousarray(self._columns[0, self.selected, : self._rank].T)
        return Directions(along, self._products[: len(self.selected), 0, -1].copy())

    @property
    def label(self) -> Array:
        """(r + n,) what is left of the label; the first r numbers belong to the rows of Q."""
        left: Array = self._columns[0, -1].copy()
        return left

    def candidates(self, features: NDArray[np.intp]) -> Directions:
        """Directions of features that are not selected, orthogonal to all selected features."""
        left = self._columns[0, features]
        left = left / np.linalg.norm(left, axis=1, keepdims=True)
        along = np.ascontiguousarray(left[:, : self._rank].T)
        return Directions(along, left @ self._columns[0, -1])

    def weights(self) -> Array:
        """(t,) weights of the selected features, fitted to all queries."""
        t = len(self.selected)
        triangle = np.ascontiguousarray(self._products[:t, :, self.selected].transpose(1, 0, 2))
        solved: Array = np.ascontiguousarray(self._products[:t, :, -1].T)
        back_substitute(frozen(triangle), solved)
        weights: Array = solved[0]
        return weights


@kernel
def _eliminate(columns: Array, f: int, is_left: NDArray[np.bool_], products: Array) -> None:
    """Divide column f by its norm, and make all columns that are left orthogonal to it.

    `columns` is (2, n + 1, r + n). `products` (2, n + 1) gets the norm, and the products of the
    other columns with column f of norm 1.
    """
    high, low = columns[0, f], columns[1, f]
    square = (0.0, 0.0)
    for k in range(len(high)):
        own = (high[k], low[k])
        square = add(square, multiply(own, own))
    root = square_root(square)
    products[0, f], products[1, f] = root
    for k in range(len(high)):
        high[k], low[k] = divide((high[k], low[k]), root)
    for j in range(len(is_left)):
        if is_left[j]:
            total = (0.0, 0.0)
            for k in range(len(high)):
                if high[k] != 0.0:
                    other = (columns[0, j, k], columns[1, j, k])
                    total = add(total, multiply((high[k], low[k]), other))
            products[0, j], products[1, j] = total
            for k in range(len(high)):
                if high[k] != 0.0:
                    columns[0, j, k], columns[1, j, k] = subtract_product(
                        (columns[0, j, k], columns[1, j, k]), (high[k], low[k]), total
                    )
