"""The difference of two sparse vectors, by strips of columns, as rows kept by strips want it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import inlined
from dranking.kernels.machine import lowest_one
from dranking.kernels.sparse_gram import Csr

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

STRIP = 64
"""Columns of a strip."""


class StripVector(NamedTuple):
    """A sparse vector, and room to compute it in.

    Attributes
    ----------
    size
        (1,) number of strips with entries.
    numbers, bits
        Of each of these, ascending: its number, and a bitmap of its columns.
    first
        The first entry of each of these strips, and behind the last one the number of entries.
    columns, values, below, of_strip
        Of each entry, columns ascending: its column, its value, the bitmap of the columns of its
        strip that come before, and which of the strips it is in.
    there, before
        Room, for each of the strips: the columns that a row of W has in it, and how many entries
        it has in earlier ones.
    spread, marks
        (n_columns,) zeros, and a bitmap of columns, empty, between computations.
    """

    size: Ints
    numbers: NDArray[np.int32]
    bits: Ints
    first: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Array
    below: Ints
    of_strip: NDArray[np.int32]
    there: Ints
    before: Ints
    spread: Array
    marks: Ints


def room_for_difference(documents: Csr, n_columns: int) -> StripVector:
    """Room for the difference of any two documents."""
    longest = 2 * int(np.diff(documents.indptr).max(initial=0))
    n_strips = n_columns // STRIP + 1
    # A place more: behind the last entry, what would be next is written all the same.
    most = min(longest, n_strips) + 1
    return StripVector(
        size=np.zeros(1, dtype=np.int64),
        numbers=np.empty(most, dtype=np.int32),
        bits=np.empty(most, dtype=np.int64),
        first=np.empty(most + 1, dtype=np.int32),
        columns=np.empty(longest + 1, dtype=np.int32),
        values=np.empty(longest + 1),
        below=np.empty(longest + 1, dtype=np.int64),
        of_strip=np.empty(longest + 1, dtype=np.int32),
        there=np.empty(most, dtype=np.int64),
        before=np.empty(most, dtype=np.int64),
        spread=np.zeros(n_columns),
        marks=np.zeros(n_strips, dtype=np.int64),
    )


@inlined
def n_entries(vector: StripVector) -> Any:
    """How many entries a vector has."""
    return vector.first[vector.size[0]]


@inlined
def subtract(
    place: NDArray[np.int32], documents: Csr, better: int, worse: int, vector: StripVector
) -> None:
    """Overwrite a vector with d+ - d-, zeros left out.

    Columns are numbered by their places.
    """
    spread, marks = vector.spread, vector.marks
    indices, data = documents.indices, documents.data
    last_strip = np.int64(-1)
    for p in range(documents.indptr[better], documents.indptr[better + 1]):
        column = np.int64(place[indices[p]])
        spread[np.uint64(column)] = np.float64(data[p])
        marks[np.uint64(column >> 6)] |= np.int64(1) << (column & 63)
        last_strip = max(last_strip, column >> 6)
    for p in range(documents.indptr[worse], documents.indptr[worse + 1]):
        column = np.int64(place[indices[p]])
        spread[np.uint64(column)] -= np.float64(data[p])
        marks[np.uint64(column >> 6)] |= np.int64(1) << (column & 63)
        last_strip = max(last_strip, column >> 6)
    gather(vector, last_strip + 1)


@inlined
def gather(vector: StripVector, n_marked: Any) -> None:
    """Take the entries of a vector from `spread`, out of so many of the first strips."""
    numbers, bits, first = vector.numbers, vector.bits, vector.first
    values, below, of_strip = vector.values, vector.below, vector.of_strip
    columns, spread, marks = vector.columns, vector.spread, vector.marks
    n_strips, n = np.int64(0), np.int64(0)
    for strip in range(n_marked):
        marked, kept = marks[strip], np.int64(0)
        if marked != 0:
            marks[strip] = 0
            first[n_strips] = n
            while marked != 0:
                bit = marked & -marked
                at = np.uint64((strip << 6) + lowest_one(marked))
                # Written over by the next one if it is zero.
                columns[n], values[n] = at, spread[at]
                below[n], of_strip[n] = bit - 1, n_strips
                is_there = np.int64(spread[at] != 0.0)
                n += is_there
                kept |= bit & -is_there
                spread[at] = 0.0
                marked &= marked - 1
            numbers[n_strips], bits[n_strips] = strip, kept
            n_strips += np.int64(kept != 0)
    first[n_strips] = n
    vector.size[0] = n_strips
