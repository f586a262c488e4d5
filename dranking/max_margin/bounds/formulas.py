"""The bounds of Riezler and De Bona (2009), theorems 3 and 4, and their extensions, in logarithms.

For n queries drawn independently and linear scores with |w| <= B and |phi| <= M over documents,
with probability 1 - delta for all such w at once

    risk <= empirical risk + N 4BM/sqrt(n) + N (K + 2BM) sqrt(8 ln(2/delta)/n).

The empirical risk is the mean over queries of the sum over the N pairs or rankings of a query.
All terms are logarithms, because N may be a factorial. ``THEORY.md`` in this package says why some
statements do not hold as printed, and derives the corrected versions and the extensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dranking.max_margin.bounds.risk_bound import RiskBound, Version, log


@dataclass(frozen=True)
class BoundConstants:
    """The constants that all bounds share.

    Attributes
    ----------
    n_queries
        n, queries of the sample.
    delta
        A bound fails with at most this probability.
    norm
        B: the class of models holds all weights of at most this norm, fixed before training.
    feature_norm
        M: no document of the distribution has a feature vector of greater norm.
    """

    n_queries: int
    delta: float
    norm: float
    feature_norm: float

    def log_complexity(self, map_norm: float = 1.0) -> float:
        """Log of ``4 B M c / sqrt(n)``."""
        product = 4.0 * self.norm * self.feature_norm * map_norm
        return log(product) - 0.5 * math.log(self.n_queries)

    def log_deviation(self, margin: float, map_norm: float = 1.0) -> float:
        """Log of ``(K + 2 B M c) sqrt(8 ln(2/delta) / n)``."""
        largest = margin + 2.0 * self.norm * self.feature_norm * map_norm
        spread = 8.0 * math.log(2.0 / self.delta) / self.n_queries
        return log(largest) + 0.5 * math.log(spread)

    def log_contraction(self, least_length: int) -> float:
        """Log of the arg-max form's complexity term by vector contraction.

        Parameters
        ----------
        least_length
            Documents of the shortest list, at least 2.

        References
        ----------
        Maurer: A vector-contraction inequality for Rademacher complexities, 2016, corollary 4.
        """
        slope = math.sqrt(16.0 * (least_length + 1) / (3.0 * (least_length - 1)))
        product = 2.0 * math.sqrt(2.0) * self.norm * self.feature_norm * slope
        return log(product) - 0.5 * math.log(self.n_queries)


@dataclass(frozen=True)
class PairCase:
    """A kind of pairs.

    Attributes
    ----------
    statement, case
        As in `RiskBound`.
    n_pairs
        N, the largest number of pairs of a query.
    largest_margin
        K; the least margin is 1 / K.
    total_margin
        Largest sum of the margins of a query.
    """

    statement: str
    case: str
    n_pairs: float
    largest_margin: float
    total_margin: float


def pair_bound(
    case: PairCase, empirical: float, constants: BoundConstants, version: Version
) -> RiskBound:
    """The bound of theorem 3, or of corollary 1 or 2.

    Parameters
    ----------
    empirical
        Mean over queries of the sum of position-sensitive hinges.
    version
        "printed"; "weighted", for the margin-weighted 0-1 risk; or "scaled", the right side times
        K.
    """
    log_terms = log(case.n_pairs)
    weighted = version == "weighted"
    return RiskBound(
        statement=case.statement,
        case=case.case,
        version=version,
        risk="margin-weighted 0-1 risk of pairs" if weighted else "0-1 risk of pairs",
        n_queries=constants.n_queries,
        empirical=empirical,
        log_terms=log_terms,
        margin=case.largest_margin,
        map_norm=1.0,
        log_complexity=log_terms + constants.log_complexity(),
        log_deviation=log_terms + constants.log_deviation(case.largest_margin),
        log_scale=log(case.largest_margin) if version == "scaled" else 0.0,
        log_ceiling=log(case.total_margin if weighted else case.n_pairs),
    )


@dataclass(frozen=True)
class ListCase:
    """A kind of lists.

    Attributes
    ----------
    statement, case, risk
        As in `RiskBound`.
    lengths
        Documents of the shortest and of the longest list of the distribution; at least 2.
    log_classes
        Log of the number of rankings, or of classes of rankings, in the sum.
    """

    statement: str
    case: str
    risk: str
    lengths: tuple[int, int]
    log_classes: float

    @property
    def map_norm(self) -> float:
        """Largest factor c: the joint map of any list has a norm of at most M c."""
        return largest_map_norm(self.lengths[0])

    @property
    def log_rankings(self) -> float:
        """Log of m!, m the length of the longest list."""
        return math.lgamma(self.lengths[1] + 1)


def list_bound(
    case: ListCase, empirical: float | None, constants: BoundConstants, version: Version
) -> RiskBound:
    """The bound of theorem 4 or corollary 3 (sums over rankings), or of the added arg-max form.

    Parameters
    ----------
    empirical
        Mean over queries of the sum of hinges ("printed", "corrected"), or of the largest hinge
        ("union", "contraction"); None if a list is too long to compute the mean.
    version
        "printed" or "corrected"; "union" or "contraction".
    """
    printed = version == "printed"
    c = 1.0 if printed else case.map_norm
    log_terms = case.log_classes if version in ("printed", "corrected") else 0.0
    if version == "contraction":
        log_complexity = constants.log_contraction(case.lengths[0])
    else:
        log_members = case.log_classes if printed else case.log_rankings
        log_complexity = log_members + constants.log_complexity(c)
    return RiskBound(
        statement=case.statement,
        case=case.case,
        version=version,
        risk=case.risk,
        n_queries=constants.n_queries,
        empirical=empirical,
        log_terms=log_terms,
        margin=1.0,
        map_norm=c,
        log_complexity=log_complexity,
        log_deviation=log_terms + constants.log_deviation(1.0, c),
        log_scale=0.0,
        log_ceiling=0.0,
    )


def largest_map_norm(least_length: int) -> float:
    """Largest c of lists of `least_length` or more documents: n/(n-1) for even n, else (n+1)/n."""
    n = least_length
    return n / (n - 1.0) if n % 2 == 0 else (n + 1.0) / n
