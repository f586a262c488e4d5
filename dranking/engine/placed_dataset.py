"""A data set whose blocks are results of tasks on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import Scaling
from dranking.data.dataset import Dataset, View
from dranking.data.roles import DEFAULT_ROLES, Roles
from dranking.data.steps import Filling, every_gap
from dranking.engine.executor import Executor, Task


class PlacedDataset(Dataset):
    """Blocks that stay on the workers of a cluster, where tasks made them.

    Parameters
    ----------
    executor
        The executor of the tasks.
    tasks
        A task for each block.
    blocks
        Sizes of the blocks.
    query_ids
        (n_queries,) ids of all queries, in order.
    feature_names
        One unique name per column.
    transforms
        Scalings already applied to the values.
    roles
        Names of the columns that are not features.
    is_sparse
        Whether blocks hold CSR features.

    Attributes
    ----------
    tasks
        A task for each block. A function of a block runs in a task that gets this task as argument;
        see `dranking.engine.block_tasks.submit_with_blocks`.
    """

    in_memory = True

    def __init__(
        self,
        executor: Executor,
        tasks: Sequence[Task],
        *,
        blocks: tuple[BlockInfo, ...],
        query_ids: pa.Array,
        feature_names: tuple[str, ...],
        transforms: tuple[Scaling, ...] = (),
        roles: Roles = DEFAULT_ROLES,
        is_sparse: bool = False,
    ) -> None:
        self.tasks = list(tasks)
        self.blocks = blocks
        self.feature_names = feature_names
        self.transforms = transforms
        self.roles = roles
        self.is_sparse = is_sparse
        self._executor = executor
        self._query_ids = query_ids
        self._digests: list[str] | None = None

    def __reduce__(self) -> Any:
        raise TypeError(
            "the blocks of this data set are on the workers of a Dask cluster, and it cannot be "
            "pickled; pass its tasks instead."
        )

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Fetch one block, or some of its columns, from the worker that holds the block."""
        if not 0 <= index < self.n_blocks:
            raise IndexError(f"there is no block {index}; there are {self.n_blocks}.")
        task = self.tasks[index]
        if columns is not None:
            task = self._executor.submit(columns_of_block, task, columns, name="columns")
        block: QueryBlock = self._executor.gather([task])[0]
        return block

    def query_ids(self) -> pa.Array:
        """(n_queries,) ids of all queries, in order."""
        return self._query_ids

    def block_digests(self) -> Iterator[str]:
        """Hex digest of the content of each block, in order; computed where the blocks are."""
        if self._digests is None:
            self._digests = self._of_each(QueryBlock.digest, "digest")
        return iter(self._digests)

    def select_queries(self, keep: NDArray[np.bool_]) -> PlacedDataset:
        """The queries where `keep` (n_queries,) is true; the block borders stay."""
        if len(keep) != self.n_queries:
            raise ValueError(f"keep has {len(keep)} entries for {self.n_queries} queries.")
        keep = np.asarray(keep, dtype=bool)
        parts = np.split(keep, np.cumsum([b.n_queries for b in self.blocks])[:-1])
        tasks = [
            task
            if part.all()
            else self._executor.submit(QueryBlock.take_queries, task, part, name="queries")
            for task, part in zip(self.tasks, parts, strict=True)
        ]
        taken = self._with(tasks, query_ids=self._query_ids.filter(pa.array(keep)))
        taken.blocks = tuple(taken._of_each(info_of, "info"))
        return taken

    def filled(self, constants: ColumnConstants | None, filling: Filling | None = None) -> Dataset:
        """The data set with values for missing ones."""
        chosen = filling or every_gap(self.feature_names, constants)
        tasks = [self._executor.submit(chosen.of_columns, task, name="fill") for task in self.tasks]
        filled = self._with(tasks, feature_names=chosen.names)
        if chosen.sources is not None:
            filled.blocks = tuple(filled._of_each(info_of, "info"))
        filled.constants, filled.has_nulls = constants, False
        return filled

    def transformed(self, transforms: Sequence[Scaling]) -> Dataset:
        """The data set with further scalings."""
        if not transforms:
            return self
        added = tuple(transforms)
        tasks = [self._executor.submit(scaled, task, added, name="scale") for task in self.tasks]
        return self._with(tasks, transforms=(*self.transforms, *transforms))

    def _with(self, tasks: Sequence[Task], **changed: Any) -> PlacedDataset:
        fields: dict[str, Any] = {
            "blocks": self.blocks,
            "query_ids": self._query_ids,
            "feature_names": self.feature_names,
            "transforms": self.transforms,
            "roles": self.roles,
            "is_sparse": self.is_sparse,
        }
        made = PlacedDataset(self._executor, tasks, **(fields | changed))
        made.constants, made.has_nulls = self.constants, self.has_nulls
        return made

    def _of_each(self, function: Callable[[QueryBlock], Any], name: str) -> list[Any]:
        """A small result for each block."""
        submit = self._executor.submit
        return self._executor.gather([submit(function, task, name=name) for task in self.tasks])


def placed(dataset: Dataset) -> PlacedDataset | None:
    """The data set itself, or that below a view, if its blocks are on workers; else None."""
    root = dataset.root if isinstance(dataset, View) else dataset
    return root if isinstance(root, PlacedDataset) else None


class HeldBlocks(Dataset):
    """Some blocks of a data set, in a task that got them as arguments."""

    def __init__(self, held: Mapping[int, QueryBlock]) -> None:
        self._held = held

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The block itself, or a copy of some of its columns."""
        return columns_of_block(self._held[index], columns)


def columns_of_block(block: QueryBlock, columns: NDArray[np.intp] | None) -> QueryBlock:
    """The block, or a copy of some of its columns."""
    return block if columns is None else block.with_features(block.features[:, columns])


def info_of(block: QueryBlock) -> BlockInfo:
    """Sizes of a block."""
    return block.info


def scaled(block: QueryBlock, scalings: Sequence[Scaling]) -> QueryBlock:
    """The block with further scalings."""
    for step in scalings:
        block = step.apply(block)
    return block
