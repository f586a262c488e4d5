"""The least mean squared hinge over all pairs plus lambda / 2 |w|^2, by 300-bit Newton steps."""

import mpmath

from tests.reference.pair_losses import pairs_of

BITS = 300


def least_squared_hinge(X, y, query_ptr, query_weights, regularization, start):
    """The minimum of the objective, from the active pairs at `start`; the steps end at a fixed set.

    The objective is a quadratic as long as the set of pairs below their margin stays, so a Newton
    step from the right set is exact.
    """
    with mpmath.workprec(BITS):
        listed = list(pairs_of(y, query_ptr))
        rows = [
            [mpmath.mpf(float(p)) - mpmath.mpf(float(q)) for p, q in zip(X[a], X[b], strict=True)]
            for _, a, b in listed
        ]
        shares = [mpmath.mpf(float(query_weights[q])) for q, _, _ in listed]
        n_pairs, weights = mpmath.fsum(shares), [mpmath.mpf(float(w)) for w in start]
        lam = mpmath.mpf(float(regularization))

        def margins(w):
            return [1 - mpmath.fdot(row, w) for row in rows]

        active = None
        for _ in range(100):
            below = [m > 0 for m in margins(weights)]
            if below == active:
                break
            active, n = below, len(weights)
            left, right = lam * mpmath.eye(n), mpmath.zeros(n, 1)
            for row, share, here in zip(rows, shares, active, strict=True):
                if here:
                    for i in range(n):
                        scaled = 2 * share * row[i] / n_pairs
                        right[i] += scaled
                        for j in range(i + 1):
                            left[i, j] += scaled * row[j]
            for i in range(n):
                for j in range(i):
                    left[j, i] = left[i, j]
            weights = list(mpmath.lu_solve(left, right))
        else:
            raise AssertionError("the set of active pairs does not settle")
        squares = [s * max(m, 0) ** 2 for s, m in zip(shares, margins(weights), strict=True)]
        return float(mpmath.fsum(squares) / n_pairs + lam / 2 * mpmath.fdot(weights, weights))
