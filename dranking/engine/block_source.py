"""A range of blocks of a data set, which the task that needs the blocks reads itself."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.block_tasks import labelled_blocks, submit_with_blocks
from dranking.engine.executor import Executor, Task

Columns = NDArray[np.intp]


@dataclass(frozen=True)
class BlockSource:
    """The labelled documents of blocks start to end (exclusive) of a data set.

    Every iteration reads the blocks anew. It reads the next block while the caller uses one.

    Attributes
    ----------
    columns
        Features to read; None means all.
    """

    dataset: Dataset
    start: int
    end: int
    columns: Columns | None = None

    def __reduce__(self) -> tuple[type[BlockSource], tuple[Any, ...]]:
        dataset = self.dataset.for_blocks(range(self.start, self.end))
        return BlockSource, (dataset, self.start, self.end, self.columns)

    def __len__(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[QueryBlock]:
        blocks = self.read()
        with ThreadPoolExecutor(1, thread_name_prefix="dranking-read") as reader:
            coming = reader.submit(next, blocks, None)
            while (block := coming.result()) is not None:
                coming = reader.submit(next, blocks, None)
                yield block.labelled()

    def read(self) -> Iterator[QueryBlock]:
        """The blocks as stored, unlabelled documents included."""
        return self.dataset.read_blocks(self.start, self.end, self.columns)

    def load(self, executor: Executor, slot: int | None) -> Task:
        """Start the task that holds the labelled documents; a slot says where the task runs."""
        blocks = range(self.start, self.end)
        return submit_with_blocks(
            executor, labelled_blocks, self.dataset, blocks, self.columns, name="load", slot=slot
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of memory that the features of all blocks of the range take once they are read."""
        n_values = sum(b.n_values for b in self.dataset.blocks[self.start : self.end])
        if self.dataset.is_sparse:
            return 8 * n_values
        if self.columns is not None:
            n_values = n_values * len(self.columns) // self.dataset.n_features
        return 4 * n_values

    def with_columns(self, columns: Columns) -> BlockSource:
        """A source that reads more columns, behind those of this source."""
        own = () if self.columns is None else self.columns
        return replace(self, columns=np.concatenate((own, columns)))
