"""Features of another data set, chosen and ordered by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.data.dataset import Dataset, View
from dranking.data.roles import KnownFeatures
from dranking.data.tables.later_features import compare_features, say_left_out


class NamedColumns(View):
    """Some features of another data set, in the order of their names.

    Parameters
    ----------
    source
        The other data set; if it lacks some of the features, it is dense and not scaled, and these
        features are missing values.
    names
        Names of the features.
    """

    def __init__(self, source: Dataset, names: Sequence[str]) -> None:
        super().__init__(source)
        position = {name: i for i, name in enumerate(source.feature_names)}
        self._columns = np.array([position.get(name, -1) for name in names], np.intp)
        self.feature_names = tuple(names)
        self.has_nulls = source.has_nulls or bool((self._columns < 0).any())
        self.transforms = tuple(t.restricted(self._columns) for t in source.transforms)
        self.constants = (
            None if source.constants is None else source.constants.restricted(self._columns)
        )

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block; of sparse data, the values of all features are counted."""
        if self.is_sparse:
            return self._source.blocks
        n_columns = len(self._columns)
        return tuple(replace(b, n_values=b.n_documents * n_columns) for b in self._source.blocks)

    def _wanted(self, columns: NDArray[np.intp] | None) -> NDArray[np.intp]:
        return self._columns if columns is None else self._columns[columns]

    def _needed(self, columns: NDArray[np.intp] | None) -> NDArray[np.intp]:
        wanted = self._wanted(columns)
        return wanted[wanted >= 0]

    def _made(self, index: int, block: QueryBlock, columns: NDArray[np.intp] | None) -> QueryBlock:
        there = self._wanted(columns) >= 0
        if there.all():
            return block
        features = np.full((block.n_documents, len(there)), np.nan, np.float32, order="F")
        features[:, there] = block.features
        return block.with_features(features)


def by_name(data: Dataset, known: KnownFeatures, where: str) -> Dataset:
    """The features of earlier data in its order; a line says which others are left out.

    Raises
    ------
    DataError
        If the data lacks some of them, and may not.
    """
    if data.feature_names == known.names:
        return data
    if data.preparation or data.is_sparse:  # missing values would have to be prepared, too
        known = known._replace(may_lack=False)
    new = compare_features(data.feature_names, known, where).new
    say_left_out(dict.fromkeys(new, where), known)
    return NamedColumns(data, known.names)
