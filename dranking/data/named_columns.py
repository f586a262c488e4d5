"""Features of another data set, chosen and ordered by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.data.dataset import Dataset, View
from dranking.errors import DataWarning, quoted, warn_user


class NamedColumns(View):
    """Some features of another data set, in the order of their names.

    Parameters
    ----------
    source
        The other data set.
    names
        Names of the features.

    Raises
    ------
    DataError
        If the data lacks some of the features; the message names them.
    """

    def __init__(self, source: Dataset, names: Sequence[str]) -> None:
        super().__init__(source)
        self._columns = source.columns_of(names)
        self.feature_names = tuple(names)
        self.transforms = tuple(t.restricted(self._columns) for t in source.transforms)
        self.fill = None if source.fill is None else source.fill.restricted(self._columns)

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block; of sparse data, the values of all features are counted."""
        if self.is_sparse:
            return self._source.blocks
        n_columns = len(self._columns)
        return tuple(replace(b, n_values=b.n_documents * n_columns) for b in self._source.blocks)

    def _needed(self, columns: NDArray[np.intp] | None) -> NDArray[np.intp]:
        return self._columns if columns is None else self._columns[columns]

    def _made(self, index: int, block: QueryBlock, columns: NDArray[np.intp] | None) -> QueryBlock:
        return block


def by_name(data: Dataset, names: Sequence[str], owner: str) -> Dataset:
    """The features that `owner` has, in its order; a line says which others are left out."""
    if data.feature_names == tuple(names):
        return data
    chosen = NamedColumns(data, names)
    left_out = [name for name in data.feature_names if name not in names]
    if left_out:
        warn_user(f"left out {quoted(left_out)}, which {owner} does not have.", DataWarning)
    return chosen
