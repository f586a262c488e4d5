"""Ranking measures by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dranking.errors import UsageError
from dranking.files.key_values import names_in
from dranking.metrics.measures.average_precision import average_precision
from dranking.metrics.measures.cascade import expected_reciprocal_rank, hit_rate
from dranking.metrics.measures.inferred import inferred_average_precision
from dranking.metrics.measures.judged import binary_preference, judged_share
from dranking.metrics.measures.ndcg import dcg, mean_ndcg, ndcg
from dranking.metrics.measures.pairwise import area_under_curve, pairwise_error
from dranking.metrics.measures.precision import precision
from dranking.metrics.measures.rank_biased_precision import rank_biased_precision
from dranking.metrics.measures.recall import recall
from dranking.metrics.measures.reciprocal_rank import reciprocal_rank
from dranking.metrics.ranking import Ranking

MeasureFunction = Callable[..., NDArray[np.float64]]


@dataclass(frozen=True)
class MeasureFamily:
    """A measure before its cutoff is known.

    Attributes
    ----------
    name
        The part of a measure's name before ``@``.
    meaning
        One line for users.
    function
        Function of a `Ranking` and a cutoff; returns (n_queries,) values.
    cutoff
        Whether the name takes ``@K``.
    higher_is_better
        Whether a larger value is an improvement.
    binary
        Whether the measure tells relevant from other documents, so that the name takes ``(rel=R)``.
    largest
        Largest possible value; infinite for a sum of gains. The smallest one is 0.
    """

    name: str
    meaning: str
    function: MeasureFunction
    cutoff: Literal["none", "optional", "required"] = "none"
    higher_is_better: bool = True
    binary: bool = False
    largest: float = 1.0

    @property
    def spellings(self) -> tuple[str, ...]:
        """The forms in which the name can be written, such as ``ndcg`` and ``ndcg@K``."""
        plain = () if self.cutoff == "required" else (self.name,)
        return plain if self.cutoff == "none" else (*plain, f"{self.name}@K")


@dataclass(frozen=True)
class Measure:
    """A measure with its cutoff and, if it has one of its own, its lowest relevant grade.

    Attributes
    ----------
    family
        The measure without cutoff.
    cutoff
        Number of ranks that count; None for all ranks.
    relevant_from
        Lowest relevant grade; None for that of the convention.
    """

    family: MeasureFamily
    cutoff: int | None = None
    relevant_from: float | None = None

    @property
    def name(self) -> str:
        """Name in lower case, such as ``ndcg@10`` and ``p(rel=2)@10``."""
        level = "" if self.relevant_from is None else f"(rel={self.relevant_from:g})"
        return f"{self.family.name}{level}" + ("" if self.cutoff is None else f"@{self.cutoff}")

    def __call__(self, ranking: Ranking) -> NDArray[np.float64]:
        """(n_queries,) values; NaN for queries that do not count."""
        if self.relevant_from is not None:
            ranking = ranking.relevant_from(self.relevant_from)
        return self.family.function(ranking, self.cutoff)


MEASURES: dict[str, MeasureFamily] = {
    family.name: family
    for family in (
        MeasureFamily(
            "map", "mean of P@rank over the relevant documents", average_precision, binary=True
        ),
        MeasureFamily(
            "p", "share of the first K that are relevant", precision, "required", binary=True
        ),
        MeasureFamily(
            "recall", "share of the relevant among the first K", recall, "required", binary=True
        ),
        MeasureFamily(
            "hit", "1 if any of the first K is relevant, else 0", hit_rate, "required", binary=True
        ),
        MeasureFamily("ndcg", "discounted gain over the largest possible", ndcg, "optional"),
        MeasureFamily("dcg", "sum of discounted gains", dcg, "optional", largest=np.inf),
        MeasureFamily("mean_ndcg", "mean of ndcg@K over all K", mean_ndcg),
        MeasureFamily(
            "mrr", "1 / rank of the first relevant one", reciprocal_rank, "optional", binary=True
        ),
        MeasureFamily(
            "err",
            "1 / rank where a user ends: at grade r with chance (2^r - 1) / 16",
            expected_reciprocal_rank,
            "required",
        ),
        MeasureFamily(
            "rbp",
            "rank-biased precision with persistence 0.8",
            rank_biased_precision,
            "optional",
            binary=True,
        ),
        MeasureFamily(
            "bpref",
            "how rarely judged irrelevant are above relevant documents",
            binary_preference,
            binary=True,
        ),
        MeasureFamily(
            "infap",
            "map where grades below 0 are pooled and not judged, by the share of relevant ones",
            inferred_average_precision,
            binary=True,
        ),
        MeasureFamily("judged", "share of the first K that have a label", judged_share, "required"),
        MeasureFamily(
            "pairwise_error",
            "share of the pairs of unequal grade in the wrong order, ties one half",
            pairwise_error,
            higher_is_better=False,
        ),
        MeasureFamily(
            "auc",
            "1 - pairwise error of relevant against other documents",
            area_under_curve,
            binary=True,
        ),
    )
}
"""The measures by name."""

SQUARED_ERROR = "squared_error"
"""Squared error of leave-query-out predictions: not a measure of rankings, but the criterion of
greedy RankRLS, which computes it without documents."""


def get_measure(name: str) -> Measure:
    """Look up a measure by name, in upper or lower case: ``map``, ``p@10``, ``NDCG@5``.

    Measures of relevant documents take a lowest relevant grade of their own: ``p(rel=2)@10``.

    Raises
    ------
    UsageError
        If there is no such measure, its cutoff is not a whole number of at least 1, its lowest
        relevant grade is not a number above 0, or several are named.

    Examples
    --------
    >>> get_measure("NDCG@10").name
    'ndcg@10'
    >>> get_measure("P(rel=2)@10").name
    'p(rel=2)@10'
    """
    if not isinstance(name, str) or len(names_in(name)) > 1:
        raise UsageError(f"the metric is {name!r}; name one, for example ndcg@10.")
    written_stem, at, written = name.strip().lower().partition("@")
    stem, level = _level_of(name, written_stem)
    family = MEASURES.get(stem)
    if family is None or (at and family.cutoff == "none"):
        known = ", ".join(form for f in MEASURES.values() for form in f.spellings)
        raise UsageError(f"there is no metric {name!r}; choose from {known}.")
    if level is not None and not family.binary:
        binary = ", ".join(f.name for f in MEASURES.values() if f.binary)
        raise UsageError(
            f"{name!r}: {stem} does not tell relevant from other documents, so that it takes no "
            f"(rel=...); {binary} do."
        )
    if not at:
        if family.cutoff == "required":
            raise UsageError(f"{name!r} needs a cutoff, for example {stem}@10.")
        return Measure(family, relevant_from=level)
    if not (written.isascii() and written.isdigit() and int(written) >= 1):
        raise UsageError(
            f"the cutoff of {name!r} must be a whole number of at least 1, for example {stem}@10."
        )
    return Measure(family, int(written), level)


def _level_of(name: str, stem: str) -> tuple[str, float | None]:
    """A name without its lowest relevant grade, and that grade, if it is written."""
    found = re.fullmatch(r"(\w+)\(rel=([^()]*)\)", stem)
    if found is None:
        return stem, None
    try:
        level = float(found[2])
    except ValueError:
        level = 0.0
    if not 0.0 < level < np.inf:
        raise UsageError(
            f"the lowest relevant grade of {name!r} must be a number above 0, for example "
            f"{found[1]}(rel=2)."
        )
    return found[1], level


def get_measures(names: str | Iterable[str]) -> tuple[Measure, ...]:
    """Look up one measure or several, without repetitions, in the order of `names`.

    A text may name several, separated by commas: ``"map,ndcg@10"``.

    Raises
    ------
    UsageError
        If a name is wrong, or `names` is empty.
    """
    names = names_in(names) if isinstance(names, str) else names
    measures = tuple(dict.fromkeys(get_measure(name) for name in names))
    if not measures:
        raise UsageError("no metric was asked for; name at least one, for example ndcg@10.")
    return measures


def higher_is_better(name: str) -> bool:
    """Whether a larger value of the named measure is an improvement; true for unknown names."""
    family = _family_of(name)
    return name != SQUARED_ERROR if family is None else family.higher_is_better


def value_range(name: str) -> tuple[float, float]:
    """Least and largest possible value of the named measure; infinite for unknown names."""
    family = _family_of(name)
    return (-np.inf, np.inf) if family is None else (0.0, family.largest)


def _family_of(name: str) -> MeasureFamily | None:
    """The family of a named measure, or of a bound of it such as ``rbp (most)``, if it exists."""
    return MEASURES.get(re.split("[ @(]", name.lower())[0])
