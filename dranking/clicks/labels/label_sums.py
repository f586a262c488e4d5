"""Sums over positions, nights, contexts and arms of the clicks on each document, for labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.clicks.propensities.propensities import Propensities
from dranking.errors import DataError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class LabelSums:
    """Sums over the rows of each document of each query, in the order of the counts.

    Attributes
    ----------
    query, document
        (n_documents,) indices in the counts.
    impressions, clicks
        (n_documents,) n_d and c_d, where c_d may be a sum of weights of clicks.
    examined
        (n_documents,) sum_k a_k n_dk: impressions, counted in impressions at position 1.
    corrected
        (n_documents,) sum_k c_dk - b_k n_dk.
    inverse
        (n_documents,) sum_k (c_dk - b_k n_dk) / a_k, with a_k clipped from below.
    cells
        The rows, for variances.
    n_deep
        Impressions left out because they are deeper than the propensities.
    """

    query: Integers
    document: Integers
    impressions: Array
    clicks: Array
    examined: Array
    corrected: Array
    inverse: Array
    cells: Cells
    n_deep: int


@dataclass(frozen=True)
class Cells:
    """Rows of the counts: number of the document in `LabelSums`, counts, a_k, b_k and clipped a_k.

    `squares` has the sums of squared weights of clicks; it is None where clicks are counted.
    """

    row: Integers
    impressions: Array
    clicks: Array
    a: Array
    b: Array
    clipped: Array
    squares: Array | None


def label_sums(
    counts: ClickCounts, propensities: Propensities, clip: float = 0.0, *, weighted: bool = False
) -> LabelSums:
    """Sums over the rows of each document.

    Parameters
    ----------
    counts
        Counts of whole queries.
    propensities
        The curves a_k and b_k.
    clip
        Smallest divisor of `inverse`.
    weighted
        Whether sums of weights take the place of clicks.

    Raises
    ------
    DataError
        If `weighted` and the counts have no weights.
    """
    if weighted and (counts.weight_sum is None or counts.weight_square_sum is None):
        raise DataError("the clicks have no weights; build the counts with a weight column.")
    a, b = propensities.affine(counts.contexts, counts.context, counts.position)
    shown = np.isfinite(a)
    a, b, n = a[shown], b[shown], counts.impressions[shown].astype(np.float64)
    query, document = counts.query[shown], counts.document[shown]
    new = np.ones(len(query), bool)
    new[1:] = (query[1:] != query[:-1]) | (document[1:] != document[:-1])
    starts, row = np.flatnonzero(new), np.cumsum(new) - 1
    gained = counts.weight_sum if weighted and counts.weight_sum is not None else counts.clicks
    c = gained[shown].astype(np.float64)
    squares = counts.weight_square_sum
    cells = Cells(
        row=row,
        impressions=n,
        clicks=c,
        a=a,
        b=b,
        clipped=np.maximum(a, clip),
        squares=squares[shown] if weighted and squares is not None else None,
    )
    size = len(starts)
    return LabelSums(
        query=query[starts],
        document=document[starts],
        impressions=sums_over(row, n, size),
        clicks=sums_over(row, c, size),
        examined=sums_over(row, a * n, size),
        corrected=sums_over(row, c - b * n, size),
        inverse=sums_over(row, (c - b * n) / cells.clipped, size),
        cells=cells,
        n_deep=int(counts.impressions[~shown].sum()),
    )


def sums_over(row: Integers, values: Array, size: int) -> Array:
    """(size,) sums of the values with the same number `row`."""
    sums: Array = np.bincount(row, values, size).astype(np.float64)
    return sums
