"""One risk bound with its terms, in logarithms: N, a number of rankings, may be a factorial."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

Version: TypeAlias = Literal["printed", "weighted", "scaled", "corrected", "union", "contraction"]


@dataclass(frozen=True)
class RiskBound:
    """One bound with its terms.

    Attributes
    ----------
    statement
        The theorem or corollary, such as "theorem 3"; or "extension".
    case
        The pairs or lists that the statement is about, such as "full pairwise".
    version
        "printed"; "weighted" or "scaled" (pairs); "corrected" (sums over rankings); "union" or
        "contraction" (arg-max form).
    risk
        The risk that is bounded.
    n_queries
        n.
    empirical
        Empirical hinge risk of the same form; None where a list is too long to compute the risk.
    log_terms
        Log of N, the number of pairs or rankings of a query (N is 1 for the arg-max form).
    margin
        K, the largest margin.
    map_norm
        Factor c of the joint map's norm; 1 for pairs and printed statements.
    log_complexity, log_deviation
        Logs of the second and third term, both with their factor N.
    log_scale
        Log of the factor of the whole right side.
    log_ceiling
        Log of a value that the risk never exceeds: a bound that is not below this value is vacuous.
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
        """Log of the right side without the empirical risk."""
        return self.log_scale + self._log_terms_sum

    @property
    def log_value(self) -> float:
        """Log of the right side; a lower bound of that log if the empirical risk is None."""
        own = log(self.empirical or 0.0) + self.log_scale
        return float(np.logaddexp(own, self.log_slack))

    @property
    def value(self) -> float:
        """The right side; infinity beyond floating point."""
        return exp(self.log_value)

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound is no lower than the largest risk there can be."""
        return self.empirical is None or self.log_value >= self.log_ceiling

    @property
    def log_queries_needed(self) -> float | None:
        """Log of the n from which on the bound is not vacuous, at the same empirical risk.

        None if no n is enough, or the empirical risk is None.
        """
        if self.empirical is None:
            return None
        left = exp(self.log_ceiling - self.log_scale) - self.empirical
        if left <= 0.0:
            return None
        return 2.0 * (self._log_terms_sum - math.log(left)) + math.log(self.n_queries)

    @property
    def queries_needed(self) -> float | None:
        """The least whole n from which on the bound is not vacuous.

        Infinity beyond floating point; None as for `log_queries_needed`.
        """
        if self.log_queries_needed is None:
            return None
        number = exp(self.log_queries_needed)
        return math.floor(number) + 1.0 if number < 2.0**53 else number

    @property
    def _log_terms_sum(self) -> float:
        return float(np.logaddexp(self.log_complexity, self.log_deviation))

    def as_json(self) -> dict[str, Any]:
        """All facts and terms, for JSON; logs to base 10 accompany values that may be infinite."""
        ln_10 = math.log(10.0)
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
            "log10_value": self.log_value / ln_10,
            "ceiling": exp(self.log_ceiling),
            "vacuous": self.is_vacuous,
            "queries_needed": self.queries_needed,
            "log10_queries_needed": None if needed is None else needed / ln_10,
            "constants": {
                "log10_N": self.log_terms / ln_10,
                "K": self.margin,
                "c": self.map_norm,
            },
        }


def log(value: float) -> float:
    """Natural logarithm; minus infinity of 0."""
    return math.log(value) if value > 0.0 else -math.inf


def exp(value: float) -> float:
    """Exponential; infinity beyond floating point."""
    return math.exp(value) if value < 709.0 else math.inf
