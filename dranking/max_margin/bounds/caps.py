"""Known properties of the distribution of queries, and values of a sample in their place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from dranking.errors import DataError, UsageError
from dranking.max_margin.bounds.sample import Sample
from dranking.max_margin.bounds.sizes import sizes_by_relevance

Source: TypeAlias = Literal["cap", "sample"]

NOTES = {
    "norm": "the norm of the trained model; a bound needs a cap fixed before training",
    "feature_norm": "the largest norm of the sample; a bound needs a cap that no document exceeds",
    "max_documents": "the longest list of the sample; a bound needs a cap that no query exceeds",
    "min_documents": "the shortest list of the sample; a bound needs a cap for all queries",
    "n_levels": "1 + the highest grade of the sample; a bound needs a number known before",
}
"""The reasons why a value from the sample makes the bounds an approximation."""

ROUNDING = 1e-9
"""Share of a cap by which rounding may lift a norm above the cap."""


@dataclass(frozen=True)
class Caps:
    """Properties of the distribution that are known beforehand; sample values replace None.

    Attributes
    ----------
    norm
        B: training was confined to weights of this norm.
    feature_norm
        M: greatest norm of a document's features.
    max_documents, min_documents
        Largest number of documents in a list, and smallest number in a list in which a mistake is
        possible.
    n_levels
        r, grades 0 to r - 1.
    level_sizes
        (n_levels,) largest number of documents of a query with each grade from 0. These caps lower
        the numbers of pairs and of classes of rankings, which are otherwise the largest numbers
        that lists of `max_documents` can have.
    """

    norm: float | None = None
    feature_norm: float | None = None
    max_documents: int | None = None
    min_documents: int | None = None
    n_levels: int | None = None
    level_sizes: tuple[int, ...] | None = None

    def check(self) -> None:
        """Raise UsageError if a cap is out of range or caps contradict each other."""
        for name in ("norm", "feature_norm"):
            value = getattr(self, name)
            if value is not None and not (0 < value < math.inf):
                raise UsageError(f"{name} is {value!r}; it must be a finite number above 0.")
        for name in ("max_documents", "min_documents", "n_levels"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise UsageError(f"{name} is {value}; it must be at least 2.")
        if self.level_sizes is None:
            return
        if self.n_levels is None or self.max_documents is None:
            raise UsageError("level_sizes needs n_levels and max_documents too.")
        if len(self.level_sizes) != self.n_levels or min(self.level_sizes) < 0:
            raise UsageError(
                f"level_sizes is {self.level_sizes}; give a number of documents, at least 0, for "
                f"each of the {self.n_levels} levels."
            )

    def check_sample(self, sample: Sample) -> None:
        """Raise DataError if a sample exceeds a cap: the sample is not from that distribution."""
        for name, found, cap in (
            ("norm", sample.norm, self.norm),
            ("feature_norm", sample.feature_norm, self.feature_norm),
            ("max_documents", sample.lengths[1], self.max_documents),
        ):
            if cap is not None and found > cap * (1 + ROUNDING):
                whose = "model" if name == "norm" else "data"
                raise DataError(
                    f"{name} is {cap:g}, but the {whose} has {found:g}; give a cap of at least "
                    "this value, known before the sample was drawn."
                )
        for grade, cap in enumerate(self.level_sizes or ()):
            if sample.level_sizes[grade] > cap:
                raise DataError(
                    f"level_sizes has {cap} documents of grade {grade}, but a query of the data "
                    f"has {sample.level_sizes[grade]}; give a cap that no query exceeds."
                )
        if self.min_documents is not None and sample.lengths[0] < self.min_documents:
            raise DataError(
                f"min_documents is {self.min_documents}, but the data has a list of "
                f"{sample.lengths[0]}; give a number that no list falls below."
            )

    def known_values(self, sample: Sample) -> dict[str, Known]:
        """Every value that the bounds depend on, from the caps or else from the sample."""

        def known(cap: float | None, found: float) -> Known:
            return Known(found, "sample") if cap is None else Known(cap, "cap")

        values = {
            "norm": known(self.norm, sample.norm),
            "feature_norm": known(self.feature_norm, sample.feature_norm),
            "min_documents": known(self.min_documents, sample.lengths[0]),
            "max_documents": known(self.max_documents, sample.lengths[1]),
            "n_levels": known(self.n_levels, sample.n_levels),
        }
        if self.level_sizes is not None:
            values["level_sizes"] = Known(self.level_sizes, "cap")
        return values

    def sizes_by_level(self, m: int, n_levels: int) -> tuple[int, ...]:
        """(n_levels,) largest number of documents of each grade in a list of m documents."""
        return (m,) * n_levels if self.level_sizes is None else self.level_sizes

    def sizes_by_relevance(self, m: int, convention: str) -> tuple[int, int]:
        """Largest numbers of irrelevant and of relevant documents in a list of m documents."""
        if self.level_sizes is None:
            return m, m
        return sizes_by_relevance(self.level_sizes, convention)


class Known(NamedTuple):
    """A value that bounds depend on, and whether the value is a cap or from the sample."""

    value: float | tuple[int, ...]
    source: Source
