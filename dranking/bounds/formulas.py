"""The bounds of Riezler and De Bona (2009), theorems 3 and 4, and of their extensions; in logs.

For n queries drawn alike, linear scores with |w| <= B and |phi| <= M over documents, with
probability 1 - delta for all such w at once

    risk <= empirical risk + N 4BM/sqrt(n) + N (K + 2BM) sqrt(8 ln(2/delta)/n).

Empirical risks are sums over the N pairs or rankings of a query, mean over queries. Logs, because N
may be a factorial.

As printed, some of the bounds are not proved; they are given *as printed* and *corrected*:

- A hinge whose margin is less than 1 may be below the 0-1 loss. Corrected, the left side is the
  *margin-weighted* 0-1 risk; or the right side is *scaled* by the inverse of the least margin.
- The joint map has norm M c, with c = n/(n-1) for lists of even length n and (n+1)/n for odd ones.
- The score of a class of rankings with equal AP is not linear, but the largest of its members': the
  complexity term needs m!, not the number of classes.

Beyond the paper, for the largest hinge of all rankings (the *arg-max form*), whose values are at
most 1 + 2BMc: either the complexity of a maximum is at most the sum of those of its m! members
(*union*); or, since the hinge is Lipschitz in the scores of a list, with constant
4/(n(n-1)) |y - pi|, it is at most 2 sqrt(2) B M max_n sqrt(16(n+1)/(3(n-1)))/sqrt(n_queries)
(*contraction*: Maurer, A vector-contraction inequality for Rademacher complexities, 2016,
corollary 4), which hardly depends on how long lists are. Lists may differ in length n: a hinge
with constant L_n in the scores has constant 1 in L_n times the scores, which are linear too, of
vectors whose squared norms sum to at most n L_n^2 M^2; that is largest for the shortest list.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Version: TypeAlias = Literal["printed", "weighted", "scaled", "corrected", "union", "contraction"]


@dataclass(frozen=True)
class Setting:
    """What every bound depends on.

    Attributes
    ----------
    n_queries
        n, of the sample.
    delta
        The bound fails with at most this probability.
    norm
        B: the class holds all weights of at most this norm, fixed before training.
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
        """Log of the complexity term by vector contraction."""
        slope = math.sqrt(16.0 * (least_length + 1) / (3.0 * (least_length - 1)))
        product = 2.0 * math.sqrt(2.0) * self.norm * self.feature_norm * slope
        return log(product) - 0.5 * math.log(self.n_queries)


@dataclass(frozen=True)
class RiskBound:
    """One bound with its terms.

    Attributes
    ----------
    statement
        Which theorem or corollary, or "extension".
    case
        What it is about.
    version
        "printed"; "weighted" or "scaled" (pairs), "corrected" (lists); "union" or "contraction"
        (arg-max form).
    risk
        What is bounded.
    n_queries
        n.
    empirical
        Empirical risk of the same form; None where a list is too long to compute it.
    log_terms
        Log of N, the pairs or rankings of a query (1 for the arg-max form).
    margin
        K, the largest margin.
    map_norm
        c of the joint map; 1 where there is none.
    log_complexity, log_deviation
        Logs of the second and third term, with N.
    log_scale
        Log of what the right side is multiplied by.
    log_ceiling
        Log of a value that the risk never exceeds: the bound is vacuous if it is not below.
    """

    statement: str
    case: str
    version: Version
    risk: str
    n_queries: int
    empirical: float | None
    log_terms: float
    margin: float
    map_norm: float
    log_complexity: float
    log_deviation: float
    log_scale: float
    log_ceiling: float

    @property
    def log_slack(self) -> float:
        """Log of all but the empirical risk."""
        return self.log_scale + log_add(self.log_complexity, self.log_deviation)

    @property
    def log_value(self) -> float:
        """Log of the right side; at least so much if the empirical risk is not known."""
        own = log(self.empirical or 0.0) + self.log_scale
        return log_add(own, self.log_slack)

    @property
    def value(self) -> float:
        """The right side; infinity beyond floating point."""
        return exp(self.log_value)

    @property
    def is_vacuous(self) -> bool:
        """Whether it says no more than that the risk is what a risk can be."""
        return self.empirical is None or self.log_value >= self.log_ceiling

    @property
    def log_queries_needed(self) -> float | None:
        """Log of the number of queries from which on it is not vacuous, the empirical risk given.

        None if no number is enough, or the empirical risk is not known.
        """
        if self.empirical is None:
            return None
        room = exp(self.log_ceiling - self.log_scale) - self.empirical
        if room <= 0.0:
            return None
        terms = log_add(self.log_complexity, self.log_deviation)
        return 2.0 * (terms - math.log(room)) + math.log(self.n_queries)

    @property
    def queries_needed(self) -> float | None:
        """The number itself, the least whole one; infinity beyond floating point."""
        if self.log_queries_needed is None:
            return None
        number = exp(self.log_queries_needed)
        return math.floor(number) + 1.0 if number < 2.0**53 else number

    def as_json(self) -> dict[str, Any]:
        """All of it; what is beyond floating point is None beside its log to base 10."""
        tenth = math.log(10.0)
        needed = self.log_queries_needed
        return {
            "statement": self.statement,
            "case": self.case,
            "version": self.version,
            "risk": self.risk,
            "empirical_risk": self.empirical,
            "complexity_term": exp(self.log_complexity),
            "deviation_term": exp(self.log_deviation),
            "scale": exp(self.log_scale),
            "value": self.value if self.empirical is not None else None,
            "log10_value": self.log_value / tenth,
            "ceiling": exp(self.log_ceiling),
            "vacuous": self.is_vacuous,
            "queries_needed": self.queries_needed,
            "log10_queries_needed": None if needed is None else needed / tenth,
            "constants": {
                "log10_N": self.log_terms / tenth,
                "K": self.margin,
                "c": self.map_norm,
            },
        }


@dataclass(frozen=True)
class PairCase:
    """A kind of pairs.

    Attributes
    ----------
    statement, case
        As in `RiskBound`.
    n_pairs
        N, of a query at most.
    largest_margin
        K; the least is its inverse.
    total_margin
        Sum of the margins of a query at most.
    """

    statement: str
    case: str
    n_pairs: float
    largest_margin: float
    total_margin: float


def pair_bound(
    case: PairCase, empirical: float, setting: Setting, version: Version = "weighted"
) -> RiskBound:
    """Theorem 3, and corollaries 1 and 2.

    Parameters
    ----------
    empirical
        Mean over queries of the sum of position-sensitive hinges.
    version
        "printed"; "weighted", for the margin-weighted 0-1 risk; or "scaled".
    """
    log_terms = log(case.n_pairs)
    weighted = version == "weighted"
    return RiskBound(
        statement=case.statement,
        case=case.case,
        version=version,
        risk="margin-weighted 0-1 risk of pairs" if weighted else "0-1 risk of pairs",
        n_queries=setting.n_queries,
        empirical=empirical,
        log_terms=log_terms,
        margin=case.largest_margin,
        map_norm=1.0,
        log_complexity=log_terms + setting.log_complexity(),
        log_deviation=log_terms + setting.log_deviation(case.largest_margin),
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
        Documents of the shortest and of the longest list, of the distribution; 2 at least.
    log_classes
        Log of the number of rankings, or of classes of them, that a sum is over.
    """

    statement: str
    case: str
    risk: str
    lengths: tuple[int, int]
    log_classes: float

    @property
    def map_norm(self) -> float:
        """C: the joint map has norm M c at most, whatever the length."""
        return largest_map_norm(self.lengths[0])

    @property
    def log_rankings(self) -> float:
        """Log of m!."""
        return math.lgamma(self.lengths[1] + 1)


def sum_bound(
    case: ListCase, empirical: float | None, setting: Setting, version: Version = "corrected"
) -> RiskBound:
    """Theorem 4 and corollary 3: the sum of the hinges of all rankings.

    Parameters
    ----------
    empirical
        Mean over queries of the sum; None if it is not known.
    version
        "printed" or "corrected".
    """
    printed = version == "printed"
    c = 1.0 if printed else case.map_norm
    log_members = case.log_classes if printed else case.log_rankings
    return RiskBound(
        statement=case.statement,
        case=case.case,
        version=version,
        risk=case.risk,
        n_queries=setting.n_queries,
        empirical=empirical,
        log_terms=case.log_classes,
        margin=1.0,
        map_norm=c,
        log_complexity=log_members + setting.log_complexity(c),
        log_deviation=case.log_classes + setting.log_deviation(1.0, c),
        log_scale=0.0,
        log_ceiling=0.0,
    )


def argmax_bound(
    case: ListCase, empirical: float | None, setting: Setting, version: Version = "contraction"
) -> RiskBound:
    """The arg-max form, beyond the paper.

    Parameters
    ----------
    empirical
        Mean over queries of the largest hinge; None if it is not known.
    version
        "union" or "contraction".
    """
    if version == "union":
        log_complexity = case.log_rankings + setting.log_complexity(case.map_norm)
    else:
        log_complexity = setting.log_contraction(case.lengths[0])
    return RiskBound(
        statement=case.statement,
        case=case.case,
        version=version,
        risk=case.risk,
        n_queries=setting.n_queries,
        empirical=empirical,
        log_terms=0.0,
        margin=1.0,
        map_norm=case.map_norm,
        log_complexity=log_complexity,
        log_deviation=setting.log_deviation(1.0, case.map_norm),
        log_scale=0.0,
        log_ceiling=0.0,
    )


def largest_map_norm(least_length: int) -> float:
    """Largest c of lists of at least so many documents: n/(n-1) for even n, (n+1)/n for odd."""
    n = least_length
    return n / (n - 1.0) if n % 2 == 0 else (n + 1.0) / n


def log(value: float) -> float:
    """Natural logarithm; minus infinity of 0."""
    return math.log(value) if value > 0.0 else -math.inf


def exp(value: float) -> float:
    """Exponential; infinity beyond floating point."""
    return math.exp(value) if value < 709.0 else math.inf


def log_add(a: float, b: float) -> float:
    """Log of the sum of two numbers given by their logs."""
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
