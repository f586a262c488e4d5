"""The ladder: the best measure so far, reported in steps.

A figure that is reported after every night with all its digits invites choices that fit the judged
queries. The ladder reports the best mean so far only, and moves only when a challenger's mean lies
above it by more than one step; the new figure is rounded to steps (the Ladder mechanism of Blum and
Hardt).

This is a heuristic against over-fitting the judged queries. It controls no share and no number of
false promotions, and the bound of the paper says nothing at some hundred queries: its error is of
the order (log(nights) / queries)^(1/3).

References
----------
Blum and Hardt, The Ladder: a reliable leaderboard for machine learning competitions, ICML 2015,
arXiv 1502.04585.
"""

from __future__ import annotations


def climb(best: float, mean: float, step: float, sign: float = 1.0) -> float:
    """The best reported mean after one more mean was measured.

    Parameters
    ----------
    best
        The best reported mean so far.
    mean
        The mean that was measured.
    step
        Size of a step, above 0.
    sign
        1 where larger means are better, -1 where smaller ones are.

    Examples
    --------
    >>> climb(0.45, 0.459, 0.01), climb(0.45, 0.4612, 0.01), climb(0.45, 0.4388, 0.01, -1.0)
    (0.45, 0.46, 0.44)
    """
    if sign * (mean - best) <= step:
        return best
    return rounded(mean, step)


def rounded(mean: float, step: float) -> float:
    """A mean rounded to steps."""
    return round(round(mean / step) * step, 12)
