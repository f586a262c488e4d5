"""Data of a few documents a block, and a plain sum over blocks to compare with."""

import numpy as np

from dranking.data.tables.in_memory import from_arrays


def dataset_of(n_blocks, n_features=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4 * n_blocks, n_features)).astype(np.float32)
    y = rng.integers(0, 2, len(X)).astype(float)
    y[::7] = np.nan
    return from_arrays(X, y, np.repeat(np.arange(n_blocks), 4), max_documents=4)


def reference_tree(values):
    """Neighbours are added until one is left; what has no neighbour waits."""
    values = list(values)
    while len(values) > 1:
        values = [sum(values[i : i + 2][1:], values[i]) for i in range(0, len(values), 2)]
    return values[0]
