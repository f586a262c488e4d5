"""Gram rows of a sample of documents, which are rounded to a byte for each number."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel

Array = NDArray[np.float64]

LARGEST = 127
"""The largest int8. Rounding changes a feature by less than the feature's spread: among n documents
the largest number is at most sqrt(n) times the spread, and n is some thousands."""

VECTOR = 16
"""Numbers of four bytes in the widest registers. Rows have a multiple of this length, so that loops
over whole registers leave no rest."""

TINY = 1e-37
"""Smaller units count as zero, because their reciprocal is not a float32."""


class RoundedDocuments(NamedTuple):
    """Documents rounded to a byte per number, because a row of products reads all documents.

    Attributes
    ----------
    numbers
        (n_documents, at least n_features) int8 multiples of the units, and columns of zeros up to
        a multiple of `VECTOR`.
    units
        (1, n_features) units, such that the largest multiple in each feature is `LARGEST`.
    squares
        (1, n_features) sums of the squares of the multiples.
    """

    numbers: NDArray[np.int8]
    units: Array
    squares: Array


def rounded(documents: NDArray[np.float32]) -> RoundedDocuments:
    """Round documents (n_documents, n_features). In NumPy, which takes no time to compile."""
    m, n = documents.shape
    units = np.abs(documents).max(axis=0, initial=0.0).astype(np.float64) / LARGEST
    per_unit = np.where(units > TINY, 1.0 / np.maximum(units, TINY), 0.0).astype(np.float32)
    numbers = np.zeros((m, -(-n // VECTOR) * VECTOR), np.int8)
    with np.errstate(invalid="ignore"):  # centred values beyond float32 are infinite
        multiples = np.rint(documents * per_unit)
        numbers[:, :n] = multiples
    squares = np.square(multiples, dtype=np.float64).sum(axis=0)
    return RoundedDocuments(numbers, units[None, :], squares[None, :])


@kernel
def add_sampled_row(
    numbers: NDArray[np.int8], units: Array, ends: NDArray[np.int64], f: int, row: Array
) -> None:
    """Add the products of feature f with all features to `row` (n_features,).

    Parameters
    ----------
    numbers, units
        Numbers and units of several `RoundedDocuments`, one part after the other:
        (n_documents, at least n_features), and (n_parts, n_features).
    ends
        (n_parts,) end of each part. A part has at most 2^17 documents, or sums of int32 might
        overflow.
    """
    first, of_part = 0, np.empty(numbers.shape[1], np.int32)
    for part in range(len(ends)):
        of_part[:] = 0
        for d in range(first, ends[part], 2):
            last = min(d + 1, ends[part] - 1)
            one, other = numbers[d], numbers[last]
            a, b = np.int32(one[f]), np.int32(other[f] if last > d else 0)
            for i in range(len(of_part)):
                of_part[i] += a * one[i] + b * other[i]
        first, unit = ends[part], units[part, f]
        for i in range(len(row)):
            row[i] += of_part[i] * unit * units[part, i]
