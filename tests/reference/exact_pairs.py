"""Objectives over all pairs, mean of a loss plus lambda / 2 |w|^2, and minima, in 300 bits."""

import mpmath

from tests.reference.pair_losses import pairs_of

BITS = 300


def least_squared_hinge(X, y, query_ptr, query_weights, regularization, start):
    """The minimum of the objective, from the active pairs at `start`; the steps end at a fixed set.

    The objective is a quadratic as long as the set of pairs below their margin stays, so a Newton
    step from the right set is exact. Steps that would ascend are halved.
    """
    with mpmath.workprec(BITS):
        rows, shares = _differences(X, y, query_ptr, query_weights)
        weights = [mpmath.mpf(float(w)) for w in start]
        lam = mpmath.mpf(float(regularization))

        def margins(w):
            return [1 - mpmath.fdot(row, w) for row in rows]

        def value_of(w):
            squares = [s * max(m, 0) ** 2 for s, m in zip(shares, margins(w), strict=True)]
            return mpmath.fsum(squares) + lam / 2 * mpmath.fdot(w, w)

        active = None
        for _ in range(200):
            below = [m > 0 for m in margins(weights)]
            if below == active:
                return float(value_of(weights))
            there, active = _minimum_of_squares(rows, shares, below, lam), below
            before = value_of(weights)
            while value_of(there) > before:
                there, active = [(v + w) / 2 for v, w in zip(there, weights, strict=True)], None
            weights = there
        raise AssertionError("the set of active pairs does not settle")


def _minimum_of_squares(rows, shares, active, lam):
    """The minimum of the squares of the active pairs alone, plus lambda / 2 |w|^2."""
    n = len(rows[0])
    left, right = lam * mpmath.eye(n), mpmath.zeros(n, 1)
    for row, share, here in zip(rows, shares, active, strict=True):
        for i in range(n if here else 0):
            right[i] += 2 * share * row[i]
            for j in range(i + 1):
                left[i, j] += 2 * share * row[i] * row[j]
    for i in range(n):
        for j in range(i):
            left[j, i] = left[i, j]
    return list(mpmath.lu_solve(left, right))


def least_logistic(X, y, query_ptr, query_weights, regularization, start):
    """The minimum of the mean logistic loss, by Newton steps that are halved until they descend."""
    with mpmath.workprec(BITS):
        rows, shares = _differences(X, y, query_ptr, query_weights)
        lam, n = mpmath.mpf(float(regularization)), X.shape[1]

        def value_of(w):
            losses = [mpmath.log1p(mpmath.exp(-mpmath.fdot(row, w))) for row in rows]
            return mpmath.fdot(shares, losses) + lam / 2 * mpmath.fdot(w, w)

        weights = [mpmath.mpf(float(w)) for w in start]
        value = value_of(weights)
        for _ in range(60):
            gradient, curvature = mpmath.matrix([lam * w for w in weights]), lam * mpmath.eye(n)
            for row, share in zip(rows, shares, strict=True):
                chance = 1 / (1 + mpmath.exp(mpmath.fdot(row, weights)))
                slope = share * chance
                bend = slope * (1 - chance)
                for i in range(n):
                    gradient[i] -= slope * row[i]
                    bent = bend * row[i]
                    for j in range(i + 1):
                        curvature[i, j] += bent * row[j]
            for i in range(n):
                for j in range(i):
                    curvature[j, i] = curvature[i, j]
            step = list(mpmath.lu_solve(curvature, -gradient))
            decrease, length = -mpmath.fdot(gradient, step), mpmath.mpf(1)
            if decrease <= value * mpmath.mpf(2) ** -80:
                return float(value - decrease / 2)
            while value_of([w + length * s for w, s in zip(weights, step, strict=True)]) > value:
                length /= 2
            weights = [w + length * s for w, s in zip(weights, step, strict=True)]
            value = value_of(weights)
        raise AssertionError("Newton's steps do not end")


def _differences(X, y, query_ptr, query_weights):
    """Rows x_a - x_b of all pairs, and the share of each pair in the mean."""
    listed = list(pairs_of(y, query_ptr))
    rows = [
        [mpmath.mpf(float(p)) - mpmath.mpf(float(q)) for p, q in zip(X[a], X[b], strict=True)]
        for _, a, b in listed
    ]
    shares = [mpmath.mpf(float(query_weights[q])) for q, _, _ in listed]
    total = mpmath.fsum(shares)
    return rows, [share / total for share in shares]
