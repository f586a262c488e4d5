"""Minima of means of hinges, of pairs and of lists, in 600 bits, with an exact lower bound.

A hinge is the largest of several planes ``c - <d, w>``. The dual has a share for every plane, which
sum to 1 within each hinge; an active set of planes with shares above 0 grows by the plane that is
violated most, and loses those whose share falls to 0. Whatever the shares, their dual value is a
lower bound; so the minimum is known as well as lower bound and objective agree.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, permutations

import mpmath

from tests.reference.pair_losses import pairs_of

BITS = 600
RIDGE = mpmath.mpf(2) ** -250
CLOSE = mpmath.mpf(2) ** -80


@mpmath.workprec(BITS)
def hinges_of_pairs(X, y, query_ptr, query_weights, margin_of):
    """A hinge ``max(0, margin - <x_a - x_b, w>)`` for each pair; `margin_of` takes two grades."""
    found = []
    for q, a, b in pairs_of(y, query_ptr):
        row = [mpmath.mpf(float(p)) - mpmath.mpf(float(r)) for p, r in zip(X[a], X[b], strict=True)]
        wanted = Fraction(margin_of(y[a], y[b]))
        margin = mpmath.mpf(wanted.numerator) / wanted.denominator
        nothing = (mpmath.mpf(0), [mpmath.mpf(0)] * len(row))
        planes = [nothing, (margin, row)]
        found.append((mpmath.mpf(float(query_weights[q])), planes))
    return found


@mpmath.workprec(BITS)
def hinges_of_lists(X, y, query_ptr, query_weights, measure):
    """A hinge for each list that is not all alike, with a plane for each of its rankings.

    The planes are ``L(pi) - <w, phi(y) - phi(pi)>`` of Riezler and De Bona (2009), where y orders
    equally good documents as pi does, and phi is ``2 / (n (n - 1))`` times the sum of the
    differences of all pairs, the higher place first.
    """
    found = []
    for q, (start, end) in enumerate(pairwise(query_ptr)):
        gains = [int(g > 0) if measure == "ap" else 2 ** int(g) - 1 for g in y[start:end]]
        rows = [[mpmath.mpf(float(value)) for value in row] for row in X[start:end]]
        if len(set(gains)) > 1:
            orders = permutations(range(end - start))
            planes = [_plane(rows, gains, order, measure) for order in orders]
            found.append((mpmath.mpf(float(query_weights[q])), planes))
    return found


def _plane(rows, gains, order, measure):
    """The plane of the ranking that has document `order[p]` at place p."""
    best = sorted(order, key=lambda i: -gains[i])  # stable: ties as in `order`
    own, most = (tuple(gains[i] for i in each) for each in (order, best))
    loss = 1 - _measure(own, measure) / _measure(most, measure)
    n = len(order)
    slopes = [mpmath.mpf(0)] * len(rows[0])
    for place in range(n):
        # A document at place p is above n - 1 - p others, and below p.
        count = mpmath.mpf(2 * (n - 1 - 2 * place)) / (n * (n - 1))
        ahead, behind = rows[best[place]], rows[order[place]]
        slopes = [s + count * (a - b) for s, a, b in zip(slopes, ahead, behind, strict=True)]
    return loss, slopes


@lru_cache(maxsize=10_000)
def _measure(ranked, measure):
    """AP or DCG of gains in their order."""
    if measure == "ap":
        hits = [sum(ranked[: p + 1]) for p in range(len(ranked))]
        return mpmath.fsum(mpmath.mpf(hits[p]) / (p + 1) for p, g in enumerate(ranked) if g)
    return mpmath.fsum(g / mpmath.log(p + 2, 2) for p, g in enumerate(ranked))


@mpmath.workprec(BITS)
def value_at(hinges, regularization, weights):
    """The weighted mean of the hinges at some weights, plus lambda / 2 |w|^2."""
    w = [mpmath.mpf(float(value)) for value in weights]
    return float(_value(hinges, mpmath.mpf(float(regularization)), w))


@mpmath.workprec(BITS)
def least_of_hinges(hinges, regularization, start):
    """The minimum of `value_at`, from the largest planes at `start`."""
    return _Shares(hinges, mpmath.mpf(float(regularization)), start).minimum()


def _value(hinges, regularization, w):
    mass = mpmath.fsum(weight for weight, _ in hinges)
    largest = [weight * max(_heights(planes, w)) for weight, planes in hinges]
    return mpmath.fsum(largest) / mass + regularization / 2 * mpmath.fdot(w, w)


def _heights(planes, w):
    return [c - mpmath.fdot(d, w) for c, d in planes]


class _Shares:
    """Shares of the planes of each hinge, those above 0 and one that enters."""

    def __init__(self, hinges, regularization, start):
        self.hinges, self.regularization = hinges, regularization
        mass = mpmath.fsum(weight for weight, _ in hinges)
        self.masses = [weight / mass for weight, _ in hinges]
        w = [mpmath.mpf(float(value)) for value in start]
        self.shares = []
        for _, planes in hinges:
            heights = _heights(planes, w)
            self.shares.append({heights.index(max(heights)): mpmath.mpf(1)})

    def weights(self):
        """The minimum of the planes, taken with their shares, plus lambda / 2 |w|^2."""
        w = [mpmath.mpf(0)] * len(self.hinges[0][1][0][1])
        for mass, (_, planes), own in zip(self.masses, self.hinges, self.shares, strict=True):
            for k, share in own.items():
                w = [v + mass * share * d for v, d in zip(w, planes[k][1], strict=True)]
        return [v / self.regularization for v in w]

    def minimum(self):
        for _ in range(2_000):
            w = self.weights()
            value = _value(self.hinges, self.regularization, w)
            if value - self._bound(w) <= CLOSE * value:
                return float(value)
            self._enter(w)
            while not self._settle():
                pass
        raise AssertionError("the active set does not settle")

    def _bound(self, w):
        planes = mpmath.fsum(
            mass * share * planes[k][0]
            for mass, (_, planes), own in zip(self.masses, self.hinges, self.shares, strict=True)
            for k, share in own.items()
        )
        return planes - self.regularization / 2 * mpmath.fdot(w, w)

    def _enter(self, w):
        """Give the plane that is violated most a share of 0.

        None may be violated while shares are not yet settled, since the ridge shortens their moves.
        """
        most, which = mpmath.mpf(0), None
        for t, ((_, planes), own) in enumerate(zip(self.hinges, self.shares, strict=True)):
            heights = _heights(planes, w)
            k = heights.index(max(heights))
            excess = self.masses[t] * (heights[k] - max(heights[j] for j in own))
            if k not in own and excess > most:
                most, which = excess, (t, k)
        if which is not None:
            self.shares[which[0]][which[1]] = mpmath.mpf(0)

    def _settle(self):
        """Move the shares toward the maximum of the dual; False if a plane falls out on the way."""
        moves = list(self._moves(self.weights()))
        change = [dict.fromkeys(own, mpmath.mpf(0)) for own in self.shares]
        for (t, first, k, *_), length in zip(moves, self._lengths(moves), strict=True):
            change[t][k] += length
            change[t][first] -= length
        step, out = mpmath.mpf(1), None
        for t, own in enumerate(self.shares):
            for k, share in own.items():
                if share + step * change[t][k] < 0:
                    step, out = share / -change[t][k], (t, k)
        for own, its_change in zip(self.shares, change, strict=True):
            for k in own:
                own[k] += step * its_change[k]
        if out is not None:
            del self.shares[out[0]][out[1]]
        return out is None

    def _moves(self, w):
        """Exchanges of shares between the first plane of a hinge and another one.

        Each with its hinge, both planes, how the weights move (times lambda), and the gain.
        """
        for t, own in enumerate(self.shares):
            first, *others = own
            mass, planes = self.masses[t], self.hinges[t][1]
            c, d = planes[first]
            for k in others:
                slope = [mass * (a - b) for a, b in zip(planes[k][1], d, strict=True)]
                yield t, first, k, slope, mass * (planes[k][0] - c) - mpmath.fdot(slope, w)

    def _lengths(self, moves):
        """How far to go along each move to the maximum of the dual; a ridge bounds free ones."""
        if not moves:
            return []
        n = len(moves)
        system = mpmath.matrix(n, n)
        for i in range(n):
            for j in range(i + 1):
                system[i, j] = mpmath.fdot(moves[i][3], moves[j][3]) / self.regularization
                system[j, i] = system[i, j]
        largest = max(system[i, i] for i in range(n))
        for i in range(n):
            system[i, i] += RIDGE * (system[i, i] + largest) + mpmath.mpf(2) ** -500
        return list(mpmath.lu_solve(system, mpmath.matrix([move[4] for move in moves])))
