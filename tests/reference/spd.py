"""SPD in plain loops: every vector written out, nothing scaled or summed lazily."""

import math


def loss(name, y, f):
    if name == "hinge":
        return max(0.0, 1 - y * f)
    if name == "squared-hinge":
        return max(0.0, 1 - y * f) ** 2
    if name == "logistic":
        return math.log(1 + math.exp(-y * f))
    return (y - f) ** 2 / 2


def descent(name, y, f):
    """Minus the derivative of the loss by f."""
    if name == "hinge":
        return y if y * f < 1 else 0.0
    if name == "squared-hinge":
        return 2 * y * max(0.0, 1 - y * f)
    if name == "logistic":
        return y / (1 + math.exp(y * f))
    return y - f


def spd(X, pairs, labels, regularization, name, t0=0.0, radius=math.inf, average_from=0, w=None):
    """Weights after a step on each pair, sum of the iterates that count, sum of the losses."""
    n = len(X[0])
    w = [0.0] * n if w is None else list(w)
    total, losses = [0.0] * n, 0.0
    for t, ((a, b), y) in enumerate(zip(pairs, labels, strict=True), start=1):
        p = [float(X[a][i]) - float(X[b][i]) for i in range(n)]
        f = sum(w[i] * p[i] for i in range(n))
        losses += loss(name, y, f)
        eta = 1 / (regularization * (t + t0))
        decay = 1 - eta * regularization if any(w) else 1.0
        w = [decay * w[i] + eta * descent(name, y, f) * p[i] for i in range(n)]
        norm = math.sqrt(sum(value * value for value in w))
        if norm > radius:
            w = [value * radius / norm for value in w]
        if t > average_from:
            total = [total[i] + w[i] for i in range(n)]
    return w, total, losses
