"""All pairs of a data set written out, and the minimum of a loss over them."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from tests.reference import pairs as reference


class Listed(NamedTuple):
    """Differences (n_pairs, n_features), label differences, and probabilities of all pairs."""

    differences: np.ndarray
    labels: np.ndarray
    masses: np.ndarray

    def objective(self, weights, regularization, loss="hinge", label="sign"):
        labels = np.ones(len(self.labels)) if label == "sign" else self.labels
        return reference.objective(
            self.differences, labels, self.masses, weights, regularization, LOSSES[loss]
        )

    def minimum(self, regularization, loss="hinge", label="sign"):
        """Of a smooth loss, or of the hinge with its corner rounded over 1e-4."""
        n = self.differences.shape[1]
        smooth = "smooth-hinge" if loss == "hinge" else loss
        found = minimize(self.objective, np.zeros(n), (regularization, smooth, label), tol=1e-10)
        return self.objective(found.x, regularization, loss, label)


def smooth_hinge(y, f, width=1e-4):
    x = np.maximum(1 - y * f, 0)
    return np.where(x < width, x**2 / (2 * width), x - width / 2)


LOSSES = {
    "hinge": lambda y, f: np.maximum(1 - y * f, 0),
    "smooth-hinge": smooth_hinge,
    "squared-hinge": lambda y, f: np.maximum(1 - y * f, 0) ** 2,
    "logistic": lambda y, f: np.logaddexp(0, -y * f),
    "squared": lambda y, f: (y - f) ** 2 / 2,
}


def listed_pairs(dataset, *rule):
    """The pairs of all blocks; `rule` as in the reference."""
    X = [block.features for block in map(dataset.block, range(dataset.n_blocks))]
    X = np.vstack([x.toarray() if dataset.is_sparse else x for x in X]).astype(float)
    blocks = [dataset.block(b) for b in range(dataset.n_blocks)]
    y = np.concatenate([block.relevance for block in blocks])
    sizes = np.concatenate([np.diff(block.query_ptr) for block in blocks])
    weights = np.concatenate([block.weights for block in blocks])
    query_ptr = np.concatenate(([0], np.cumsum(sizes)))
    masses = reference.labelled_pairs(y.tolist(), query_ptr.tolist(), weights.tolist(), *rule)
    a, b = np.array(list(masses)).T
    return Listed(X[a] - X[b], y[a] - y[b], np.array(list(masses.values())))
