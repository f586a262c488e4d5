"""A mergeable sketch of the distributions of features, with a bound of its rank error.

Values lie on levels; a value of level h stands for 2^h documents. A level with more values than the
capacity k is sorted, and every second value moves up one level. Each such step changes the number
of documents below any value by at most 2^h, and the sum of these changes is the bound: about
``log2(n / k) / (2 k)`` of n documents (Manku, Rajagopalan and Lindsay, Approximate medians and
other quantiles in one pass and with limited memory, SIGMOD 1998; Karnin, Lang and Liberty, Optimal
quantile approximation in streams, FOCS 2016, draw at random where this sketch alternates). Nothing
is random: equal blocks in equal order give equal sketches. All features have as many values, so
a level is one array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CAPACITY = 2048
"""Values of each feature on a level: the bound is 0.4 % for 10 million documents."""

EXACT_VALUES = 1 << 24
"""Data of at most this many values (64 MiB) is kept whole, so that its shares are exact."""

N_KNOTS = 128
"""Most knots of a feature; between knots a share is off by less than 1 / (N_KNOTS - 1)."""

Array = NDArray[np.float64]


def sketch_capacity(n_documents: int, n_features: int) -> int:
    """The capacity of the sketches of data of a size: all documents where they fit."""
    return n_documents if n_documents * n_features <= EXACT_VALUES else CAPACITY


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """Distributions of features.

    Attributes
    ----------
    levels
        Level h is (n_values, n_features) float32, each value standing for 2^h documents.
    n
        Number of documents.
    capacity
        Most values on a level.
    error
        Bound of the error of the number of documents below any value.
    """

    levels: tuple[NDArray[np.float32], ...]
    n: int
    capacity: int
    error: int = 0

    @classmethod
    def of(cls, features: NDArray[np.float32], capacity: int) -> QuantileSketch:
        """Sketch of (n_documents, n_features) values."""
        return cls((np.array(features, order="C"),), len(features), capacity)._compacted()

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.levels[0].shape[1])

    @property
    def rank_error(self) -> float:
        """Bound of the error of a share of the documents."""
        return self.error / self.n if self.n else 0.0

    def merged(self, other: QuantileSketch) -> QuantileSketch:
        """Sketch of the documents of both, in this order."""
        height = max(len(self.levels), len(other.levels))
        nothing = self.levels[0][:0]
        pairs = (
            [s.levels[h] if h < len(s.levels) else nothing for s in (self, other)]
            for h in range(height)
        )
        levels = tuple(np.concatenate(pair) for pair in pairs)
        error = self.error + other.error
        return QuantileSketch(levels, self.n + other.n, self.capacity, error)._compacted()

    def _compacted(self) -> QuantileSketch:
        """The sketch after every level with too many values has moved half of them up."""
        levels, error, height = list(self.levels), self.error, 0
        while height < len(levels):
            values = levels[height]
            if len(values) > self.capacity:
                ordered = np.sort(values, axis=0)
                paired = len(ordered) // 2 * 2
                moved = ordered[(error >> height) % 2 : paired : 2]
                levels[height] = ordered[paired:]
                if height + 1 == len(levels):
                    levels.append(moved)
                else:
                    levels[height + 1] = np.concatenate([levels[height + 1], moved])
                error += 2**height
            height += 1
        return QuantileSketch(tuple(levels), self.n, self.capacity, error)

    def distribution(self, feature: int) -> tuple[Array, Array]:
        """The values of one feature, ascending, and the share of the documents up to each."""
        columns = [values[:, feature] for values in self.levels]
        weights = [np.full(len(column), 2.0**h) for h, column in enumerate(columns)]
        values, place = np.unique(np.concatenate(columns), return_inverse=True)
        counts = np.bincount(place, np.concatenate(weights))
        return values.astype(np.float64), np.cumsum(counts) / self.n

    def knots(self, feature: int) -> tuple[Array, Array, float]:
        """Knots of one feature for the scaling `Quantile`.

        Returns
        -------
        values, levels
            Every knot twice: first with the share of the documents below it, then with the share of
            the documents not above it.
        error
            Bound of the error of linear interpolation between the knots.
        """
        values, high = self.distribution(feature)
        low = np.concatenate([[0.0], high[:-1]])
        if len(values) > N_KNOTS:
            targets = np.arange(N_KNOTS) / (N_KNOTS - 1)
            kept = np.unique(np.searchsorted(high, targets).clip(max=len(values) - 1))
        else:
            kept = np.arange(len(values))
        error = float(np.max(low[kept[1:]] - high[kept[:-1]], initial=0.0))
        pairs = np.stack([low[kept], high[kept]], axis=1)
        return np.repeat(values[kept], 2), pairs.ravel(), error
