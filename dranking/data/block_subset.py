"""Some blocks of another data set, as a data set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset


class BlockSubset(Dataset):
    """Some blocks of another data set, in order.

    Parameters
    ----------
    source
        The other data set.
    numbers
        Numbers of the blocks.
    """

    def __init__(self, source: Dataset, numbers: Sequence[int]) -> None:
        self._source, self._numbers = source, list(numbers)
        self.blocks = tuple(source.blocks[number] for number in numbers)
        self.feature_names = source.feature_names
        self.constants, self.transforms, self.roles = (
            source.constants,
            source.transforms,
            source.roles,
        )
        self.has_nulls, self.is_sparse = source.has_nulls, source.is_sparse
        self.is_reordered = source.is_reordered
        self.has_documents, self.in_memory = source.has_documents, source.in_memory
        self.bytes_ahead = source.bytes_ahead

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block."""
        return self._source.block(self._numbers[index], columns)
