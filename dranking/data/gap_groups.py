"""Columns that lack values, grouped by the documents in which they lack them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock


class GapGroups(NamedTuple):
    """The columns of some documents, by their gaps.

    Attributes
    ----------
    gaps
        (n_columns,) whether the column lacks a value.
    groups
        (n_columns,) numbers; columns with one number lack their values in the same documents.
    """

    gaps: NDArray[np.bool_]
    groups: NDArray[np.intp]

    @property
    def firsts(self) -> list[int]:
        """The first column of each group that has gaps, in order."""
        _, firsts = np.unique(self.groups, return_index=True)
        return sorted(int(i) for i in firsts if self.gaps[i])


def gap_groups(block: QueryBlock) -> GapGroups:
    """The columns of a block, by their gaps."""
    if not block.is_sparse:
        missing = np.isnan(block.features)
        patterns = [bits.tobytes() for bits in np.packbits(missing, axis=0).T]
        return GapGroups(missing.any(axis=0), _numbers(patterns))
    entries = np.flatnonzero(np.isnan(block.features.data))
    rows = np.searchsorted(block.features.indptr, entries, side="right") - 1
    columns = block.features.indices[entries]
    found: list[list[int]] = [[] for _ in range(block.n_features)]
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        found[column].append(row)
    gaps = np.array([bool(each) for each in found], dtype=np.bool_)
    return GapGroups(gaps, _numbers([tuple(each) for each in found]))


def merged_gaps(a: GapGroups, b: GapGroups) -> GapGroups:
    """The same columns, by their gaps in the documents of both."""
    pairs = zip(a.groups.tolist(), b.groups.tolist(), strict=True)
    return GapGroups(a.gaps | b.gaps, _numbers(list(pairs)))


def _numbers(keys: Sequence[bytes | tuple[int, ...]]) -> NDArray[np.intp]:
    """A number for each key, equal for equal keys."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
