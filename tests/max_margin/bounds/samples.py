"""Models and sizes of lists for the tests of bounds."""

import itertools

import numpy as np

from dranking.models.linear.model import LinearModel

WEIGHTS = np.array([1.5, -1.0, 0.5])


def model_of(dataset, weights):
    return LinearModel(feature_names=dataset.feature_names, weights=tuple(weights))


def all_sizes(m, caps):
    """All numbers of documents of each grade under caps, with at most m documents in all."""
    return [n for n in itertools.product(*(range(cap + 1) for cap in caps)) if sum(n) <= m]
