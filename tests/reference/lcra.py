"""LCRA in plain loops, with the implicit co-regularisation as a dense linear solve."""

import numpy as np

from tests.reference.spd import descent, loss


def lcra(X, Z, pairs, others, labels, views, regularization, mu, name, t0=0.0, average_from=0):
    """Weights (n_features,) of all views, sum of iterates, sum of losses.

    `pairs` lists the labelled pairs of each step, rows of X, with `labels`; `others` the
    unlabelled ones, rows of Z; `views` the columns of each view.
    """
    w, total = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    losses = 0.0
    for t, (step, ys, unlabelled) in enumerate(zip(pairs, labels, others, strict=True), start=1):
        eta = 1 / (regularization * (t + t0))
        gradient = np.zeros_like(w)
        for (a, b), y in zip(step, ys, strict=True):
            p = X[a].astype(float) - X[b].astype(float)
            for view in views:
                f = sum(w[i] * p[i] for i in view)
                losses += loss(name, y, f)
                for i in view:
                    gradient[i] += descent(name, y, f) * p[i]
        decay = 1 - eta * regularization if w.any() else 1.0
        w = decay * w + eta * gradient
        for a, b in unlabelled:
            p = Z[a].astype(float) - Z[b].astype(float)
            w = implicit_step(w, p, views, mu * eta)
        if t > average_from:
            total = total + w
    return w, total, losses


def implicit_step(w, p, views, factor):
    """argmin_v |v - w|^2 / 2 + factor * sum over ordered pairs of views of (f_m - f_n)^2."""
    matrix = np.eye(len(w))
    for m in views:
        for n in views:
            difference = np.zeros(len(w))
            for i in m:
                difference[i] += p[i]
            for i in n:
                difference[i] -= p[i]
            matrix += 2 * factor * np.outer(difference, difference)
    return np.linalg.solve(matrix, w)


def explicit_step(w, p, views, factor):
    """The page's gradient step of the same."""
    new = w.copy()
    for m in views:
        for n in views:
            if m is not n:
                f_m, f_n = (sum(w[i] * p[i] for i in view) for view in (m, n))
                for i in m:
                    new[i] -= 4 * factor * (f_m - f_n) * p[i]
    return new
