"""A mask of queries, cut by blocks, so that a task gets the part for its own blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo


class BlockMasks(NamedTuple):
    """The queries of some blocks that are kept.

    Attributes
    ----------
    keep
        (n_queries,) whether each query of these blocks is kept, block after block.
    numbers
        (n_blocks,) numbers of the blocks, in ascending order.
    borders
        (n_blocks + 1,) where the queries of each block begin in `keep`, and the length of `keep`.
    """

    keep: NDArray[np.bool_]
    numbers: NDArray[np.int64]
    borders: NDArray[np.int64]

    @classmethod
    def of_all(cls, keep: NDArray[np.bool_], blocks: Sequence[BlockInfo]) -> BlockMasks:
        """The masks of all blocks of a data set."""
        sizes = np.fromiter((b.n_queries for b in blocks), dtype=np.int64, count=len(blocks))
        return cls(keep, np.arange(len(blocks)), np.cumsum(np.append(0, sizes)))

    def of(self, numbers: NDArray[np.int64]) -> BlockMasks:
        """The masks of some of these blocks, whose numbers are in ascending order."""
        parts = [self.mask(number) for number in numbers.tolist()]
        borders = np.cumsum([0, *map(len, parts)])
        return BlockMasks(np.concatenate([self.keep[:0], *parts]), numbers, borders)

    def mask(self, number: int) -> NDArray[np.bool_]:
        """The queries of one block that are kept.

        Raises
        ------
        IndexError
            If the mask of this block is not among these.
        """
        at = int(np.searchsorted(self.numbers, number))
        if at == len(self.numbers) or self.numbers[at] != number:
            raise IndexError(f"the mask of block {number} is not in this part of the selection.")
        return self.keep[self.borders[at] : self.borders[at + 1]]
