"""Statistics of a query from all of its rows at once, in extended precision."""

import numpy as np


def query_statistics(X, y):
    """A_q, b_q, y_q'y_q of labelled rows, centred in longdouble."""
    X, y = np.asarray(X, dtype=np.longdouble), np.asarray(y, dtype=np.longdouble)
    X, y = X - X.sum(axis=0) / len(X), y - y.sum() / len(y)
    return X.T @ X, X.T @ y, y @ y


def bound_of_merging(X, y):
    """(p + 1, p + 1) bound of the rounding of merged statistics, labels as the last column.

    A few n u of the norms of the centred columns, and 4 n u (|d_i| x_j + |d_j| x_i + u x_i x_j),
    with the range of a column in place of |d|.
    """
    values = np.column_stack((X, y)).astype(np.longdouble)
    u, n = np.longdouble(2.0) ** -53, len(values)
    norms = np.sqrt(np.square(values - values.mean(axis=0)).sum(axis=0))
    far, apart = np.abs(values).max(axis=0), values.max(axis=0) - values.min(axis=0)
    means = np.outer(apart, far) + np.outer(far, apart) + u * np.outer(far, far)
    return 4 * n * u * (4 * n * np.outer(norms, norms) + n * means)
