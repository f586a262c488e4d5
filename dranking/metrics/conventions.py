"""The conventions in which ranking measures are computed.

The public tools of this field disagree in ways that change the second digit, so every measure here
takes a convention by name:

========  ========  ==================  ========  ===========  ==============  =================
name      gain      discount d(i)       relevant  ties         none relevant   k beyond the list
========  ========  ==================  ========  ===========  ==============  =================
letor4    2^r - 1   d(1) = d(2) = 1,    r >= 1    file order   0, counted      NDCG@k = 0
                    else 1 / log2(i)
letor3    2^r - 1   as letor4           r >= 1    file order   0, counted      NDCG@k = P@k = 0
mslr      2^r - 1   as letor4           r >= 2    file order   0, counted      as letor4
trec      r         1 / log2(i + 1)     r >= 1    document id  0, counted      pads with zeros
standard  2^r - 1   1 / log2(i + 1)     r >= 1    averaged     excluded        pads with zeros
========  ========  ==================  ========  ===========  ==============  =================

Under ``trec``, scores are compared as float32 and tied documents are ordered by descending id,
compared as byte strings; under ``standard``, a measure is averaged over the permutations of tied
documents. The LETOR tools define grades 0 to 2 (``letor3``, ``letor4``) and 0 to 4 (``mslr``);
other grades extend them here. LightGBM and XGBoost count a query without relevant documents as 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dranking.errors import UsageError

DEFAULT_CONVENTION = "standard"


@dataclass(frozen=True)
class Convention:
    """What the formulas of the measures leave open.

    Attributes
    ----------
    name
        How the command line calls it.
    gain
        Of a document of grade r: ``exponential`` is 2^r - 1, ``linear`` is r. A grade below 0
        gains nothing.
    discount
        At rank i: ``log2`` is 1 / log2(i + 1); ``letor`` is 1 for ranks 1 and 2, then 1 / log2(i).
    relevant_from
        Lowest grade that precision, AP, reciprocal rank and AUC take as relevant.
    ties
        Documents with equal scores: ``file`` order, ``doc_id`` descending, or ``average`` over
        their permutations.
    excludes_irrelevant
        Whether a query without any relevant document is left out; otherwise it scores 0.
    ndcg_pads
        Whether NDCG@k of a list shorter than k is that of the whole list; otherwise it is 0.
    precision_pads
        Whether P@k of a list shorter than k divides by k; otherwise it is 0.
    """

    name: str
    gain: Literal["exponential", "linear"]
    discount: Literal["log2", "letor"]
    relevant_from: float
    ties: Literal["file", "doc_id", "average"]
    excludes_irrelevant: bool
    ndcg_pads: bool
    precision_pads: bool

    def gains(self, relevance: NDArray[np.float64]) -> NDArray[np.float64]:
        """Gain of each grade, in the same shape."""
        grades = np.maximum(relevance, 0.0)
        return np.asarray(np.exp2(grades) - 1.0 if self.gain == "exponential" else grades)

    def discounts(self, n: int) -> NDArray[np.float64]:
        """(n,) float64 discounts of ranks 1 to n."""
        ranks = np.arange(1.0, n + 1.0)
        arguments = ranks + 1.0 if self.discount == "log2" else np.maximum(ranks, 2.0)
        return np.asarray(1.0 / np.log2(arguments))

    def relevant(self, relevance: NDArray[np.float64]) -> NDArray[np.float64]:
        """1.0 for each relevant document, 0.0 for the others."""
        return (relevance >= self.relevant_from).astype(np.float64)


def _letor(name: str, relevant_from: float = 1.0, precision_pads: bool = True) -> Convention:
    return Convention(
        name=name,
        gain="exponential",
        discount="letor",
        relevant_from=relevant_from,
        ties="file",
        excludes_irrelevant=False,
        ndcg_pads=False,
        precision_pads=precision_pads,
    )


CONVENTIONS: dict[str, Convention] = {
    convention.name: convention
    for convention in (
        Convention(
            name="standard",
            gain="exponential",
            discount="log2",
            relevant_from=1.0,
            ties="average",
            excludes_irrelevant=True,
            ndcg_pads=True,
            precision_pads=True,
        ),
        _letor("letor4"),
        _letor("letor3", precision_pads=False),
        _letor("mslr", relevant_from=2.0),
        Convention(
            name="trec",
            gain="linear",
            discount="log2",
            relevant_from=1.0,
            ties="doc_id",
            excludes_irrelevant=False,
            ndcg_pads=True,
            precision_pads=True,
        ),
    )
}


def get_convention(name: str | Convention = DEFAULT_CONVENTION) -> Convention:
    """Look up a convention by name, in any case; a `Convention` passes through.

    Raises
    ------
    UsageError
        If there is none of that name.
    """
    if isinstance(name, Convention):
        return name
    try:
        return CONVENTIONS[name.lower()]
    except KeyError:
        raise UsageError(
            f"there is no evaluation convention {name!r}; choose one of {', '.join(CONVENTIONS)}."
        ) from None
