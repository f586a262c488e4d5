"""The conventions in which ranking measures are computed; `dranking.metrics` tabulates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dranking.errors import MOST_NAMES, UsageError

DEFAULT_CONVENTION = "standard"


@dataclass(frozen=True)
class Convention:
    """The choices that the formulas of ranking measures leave open; defaults are ``standard``.

    Attributes
    ----------
    name
        Name of the convention on the command line.
    gain
        Gain of grade r: ``exponential`` is 2^r - 1, ``linear`` is r; or pairs of a grade and its
        gain, by rising grade, of which the first is (0, 0). A grade below 0 gains nothing.
    discount
        Discount of rank i: ``log2`` is 1 / log2(i + 1); ``letor`` is 1 for ranks 1 and 2, then
        1 / log2(i).
    relevant_from
        Lowest grade that precision, recall, AP, reciprocal rank and AUC take as relevant.
    ties
        Order of documents with equal scores: ``file`` order, ``doc_id`` descending, or ``average``
        over their permutations.
    excludes_irrelevant
        Whether means exclude a query without relevant documents; otherwise such a query scores 0.
    ndcg_pads
        Whether NDCG@k of a list shorter than k is the NDCG of the whole list; otherwise it is 0.
    precision_pads
        Whether P@k of a list shorter than k divides by k; otherwise P@k is 0.
    """

    name: str
    gain: Literal["exponential", "linear"] | tuple[tuple[float, float], ...] = "exponential"
    discount: Literal["log2", "letor"] = "log2"
    relevant_from: float = 1.0
    ties: Literal["file", "doc_id", "average"] = "average"
    excludes_irrelevant: bool = True
    ndcg_pads: bool = True
    precision_pads: bool = True

    def gains(self, relevance: NDArray[np.float64]) -> NDArray[np.float64]:
        """Gain of each grade, in the shape of `relevance`."""
        grades = np.maximum(relevance, 0.0)
        if isinstance(self.gain, tuple):
            known, gains = np.array(self.gain).T
            return np.asarray(gains[np.searchsorted(known, grades)])
        return np.asarray(np.exp2(grades) - 1.0 if self.gain == "exponential" else grades)

    def discounts(self, n: int) -> NDArray[np.float64]:
        """(n,) float64 discounts of ranks 1 to n."""
        ranks = np.arange(1.0, n + 1.0)
        arguments = ranks + 1.0 if self.discount == "log2" else np.maximum(ranks, 2.0)
        return np.asarray(1.0 / np.log2(arguments))

    def relevant(self, relevance: NDArray[np.float64]) -> NDArray[np.float64]:
        """1.0 for each relevant document, 0.0 for the others."""
        return (relevance >= self.relevant_from).astype(np.float64)


LETOR4 = Convention(
    "letor4", discount="letor", ties="file", excludes_irrelevant=False, ndcg_pads=False
)

CONVENTIONS: dict[str, Convention] = {
    convention.name: convention
    for convention in (
        Convention("standard"),
        LETOR4,
        replace(LETOR4, name="letor3", precision_pads=False),
        replace(LETOR4, name="mslr", relevant_from=2.0),
        Convention("trec", gain="linear", ties="doc_id", excludes_irrelevant=False),
    )
}


def adapted(
    convention: str | Convention,
    relevant_from: float | None = None,
    gain: Sequence[float] | Mapping[float, float] | None = None,
) -> Convention:
    """A convention with another lowest relevant grade, or with given gains.

    The gains are those of the grades 0, 1, ..., or by grade; a grade of 0 gains nothing.

    Raises
    ------
    UsageError
        If the lowest relevant grade is not above 0, a gain is negative, or grade 0 has a gain.
    """
    convention = get_convention(convention)
    name = convention.name
    if relevant_from is not None:
        if not 0.0 < relevant_from < np.inf:
            raise UsageError(f"the relevance level is {relevant_from:g}; it must be above 0.")
        name = f"{name}, relevant from {relevant_from:g}"
        convention = replace(convention, relevant_from=relevant_from)
    if gain is not None:
        pairs = _pairs(gain)
        is_list = not isinstance(gain, Mapping)
        shown = " ".join(f"{g:g}" if is_list else f"{grade:g}={g:g}" for grade, g in pairs)
        name = f"{name}, gains {shown}"
        convention = replace(convention, gain=pairs)
    return replace(convention, name=name)


def _pairs(gain: Sequence[float] | Mapping[float, float]) -> tuple[tuple[float, float], ...]:
    """Grades and their gains by rising grade, grade 0 among them."""
    given = gain if isinstance(gain, Mapping) else dict(enumerate(gain))
    is_right = all(grade >= 0.0 and 0.0 <= g < np.inf for grade, g in given.items())
    if not given or not is_right or given.get(0, 0.0) != 0.0:
        shown = ", ".join(f"{grade:g}={g:g}" for grade, g in [*given.items()][:MOST_NAMES])
        raise UsageError(
            f"the gains by grade are {shown or 'none'}; they must be numbers of at least 0 for "
            "grades of at least 0, and grade 0 must gain 0, since an unjudged document gains "
            "nothing."
        )
    return tuple(
        sorted({0.0: 0.0, **{float(grade): float(g) for grade, g in given.items()}}.items())
    )


def get_convention(name: str | Convention = DEFAULT_CONVENTION) -> Convention:
    """Look up a convention by name, in upper or lower case; a `Convention` is returned unchanged.

    Raises
    ------
    UsageError
        If there is no convention of that name.
    """
    if isinstance(name, Convention):
        return name
    try:
        return CONVENTIONS[name.lower()]
    except KeyError:
        raise UsageError(
            f"there is no evaluation convention {name!r}; choose one of {', '.join(CONVENTIONS)}."
        ) from None
