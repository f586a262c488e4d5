"""The interface of all data sets: query blocks that are read on demand, and views of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dranking.data.block_masks import BlockMasks
from dranking.data.block_source import BlockSource
from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import Scaling
from dranking.data.steps import Filling, every_gap


class Dataset(BlockSource):
    """Query-partitioned ranking data.

    A data set is a sequence of blocks that are read on demand. A data set on disk is small and can
    be pickled to a worker, which then reads blocks from storage.

    Attributes
    ----------
    feature_names
        One unique name per column.
    blocks
        Sizes of each block, in order.
    constants
        The values that stand for missing ones, which were filled in before any scaling; None if
        no value was permitted to be missing.
    has_nulls
        Whether values may be missing: they are NaN, and only models that know values for them
        score such data.
    transforms
        Scalings already applied to the values.
    roles
        Names of the columns of ids, grades and weights in the table that the data comes from.
    is_sparse
        Whether blocks hold CSR features.
    in_memory
        Whether the blocks are in the memory of this process: reading a block costs nothing, and
        pickling the data set pickles all blocks.
    has_documents
        Whether blocks hold documents; a statistics store holds statistics of queries only.
    bytes_ahead
        Bytes that a task holds beside its blocks while `read_blocks` fetches ahead.
    is_reordered
        Whether rows that lay apart were brought together, so that documents have another order
        than the rows given.
    rows_apart
        The first query whose rows lie apart; None if every query is whole. Other data is opened
        for the scores of its rows alone: each run of rows of a query counts as a query there,
        except in `n_queries`.
    """

    def for_blocks(self, blocks: Iterable[int]) -> Dataset:
        """The data set for a task that reads only some blocks, which keep their numbers.

        Facts about other blocks may be missing in it, so that its pickle is small.
        """
        return self

    def select_queries(self, keep: NDArray[np.bool_]) -> Dataset:
        """A view of the queries where `keep` (n_queries,) is true; the block borders stay."""
        return QuerySubset(self, keep)

    def filled(self, constants: ColumnConstants | None, filling: Filling | None = None) -> Dataset:
        """A view in which missing values have the values that stand for them.

        Parameters
        ----------
        constants
            These values, which the view records.
        filling
            Replaces missing values, or refuses them, and makes the features of the view of the
            columns of this data set; None replaces all missing values by `constants`.
        """
        return FilledDataset(self, constants, filling or every_gap(self.feature_names, constants))

    def transformed(self, transforms: Sequence[Scaling]) -> Dataset:
        """A view with further scalings, which are applied when blocks are read."""
        return TransformedDataset(self, tuple(transforms)) if transforms else self


class View(Dataset):
    """A data set whose blocks are made from the blocks of another data set."""

    def __init__(self, source: Dataset) -> None:
        self._source = source
        self.feature_names = source.feature_names
        self.constants = source.constants
        self.has_nulls = source.has_nulls
        self.transforms = source.transforms
        self.roles = source.roles
        self.is_sparse = source.is_sparse
        self.in_memory = source.in_memory
        self.has_documents = source.has_documents
        self.bytes_ahead = source.bytes_ahead
        self.is_reordered = source.is_reordered
        self.rows_apart = source.rows_apart

    def __repr__(self) -> str:
        # The sizes of the blocks of a view may have to be read from storage.
        return f"{type(self).__name__}({self.n_features:,} features, of {self._source!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the sizes of blocks, which are found again: a task gets few bytes."""
        return {name: value for name, value in self.__dict__.items() if name != "blocks"}

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block."""
        return self._source.blocks

    @property
    def n_blocks(self) -> int:
        """Number of blocks, equal to the number of blocks of the source."""
        return self._source.n_blocks

    @property
    def source(self) -> Dataset:
        """The other data set."""
        return self._source

    @property
    def root(self) -> Dataset:
        """The data set at the bottom, which is no view."""
        return self._source.root if isinstance(self._source, View) else self._source

    @property
    def click_nights(self) -> tuple[str, str] | None:
        """First and last night of the clicks that the labels of the source come from, if known."""
        return self._source.click_nights

    def in_given_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values in the order of the rows given, as the source knows it."""
        return self._source.in_given_order(values)

    def in_own_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values in the order of the documents, as the source knows it."""
        return self._source.in_own_order(values)

    def over(self, root: Dataset | None) -> View:
        """The same view with another data set at the bottom; `blocks` of the new view is empty."""
        view = copy(self)
        view._source = self._source.over(root) if isinstance(self._source, View) else root  # type: ignore[assignment]
        view.__dict__["blocks"] = ()
        return view

    def for_blocks(self, blocks: Iterable[int]) -> Self:
        """The same view of the other data set for these blocks."""
        view = copy(self)
        view._source = self._source.for_blocks(blocks)
        return view

    @abstractmethod
    def _made(self, index: int, block: QueryBlock, columns: NDArray[np.intp] | None) -> QueryBlock:
        """Make a block of the view from the block with the same number of the other data set."""

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block of the other data set, and make the block of the view."""
        return self._made(index, self._source.block(index, self._needed(columns)), columns)

    def read_blocks(
        self, start: int = 0, end: int | None = None, columns: NDArray[np.intp] | None = None
    ) -> Iterator[QueryBlock]:
        """Read neighbouring blocks of the other data set, and make the blocks of the view."""
        blocks = self._source.read_blocks(start, end, self._needed(columns))
        for index, block in enumerate(blocks, start):
            yield self._made(index, block, columns)

    def _needed(self, columns: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
        """The columns of the other data set from which some columns of the view are made."""
        return columns


class QuerySubset(View):
    """The queries of another data set that a mask selects; blocks may become empty."""

    def __init__(self, source: Dataset, keep: NDArray[np.bool_]) -> None:
        super().__init__(source)
        if len(keep) != source.n_queries:
            raise ValueError(f"keep has {len(keep)} entries for {source.n_queries} queries.")
        self._masks = BlockMasks.of_all(np.asarray(keep, dtype=bool), source.blocks)

    def __repr__(self) -> str:
        n_kept = int(self._masks.keep.sum())
        return f"{type(self).__name__}({n_kept:,} queries, of {self._source!r})"

    def in_given_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values; UsageError where rows were brought together."""
        return Dataset.in_given_order(self, values)

    def in_own_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values; UsageError where rows were brought together."""
        return Dataset.in_own_order(self, values)

    def for_blocks(self, blocks: Iterable[int]) -> Self:
        """The same view with the part of the mask for these blocks."""
        numbers = np.unique(np.fromiter(blocks, dtype=np.int64))
        view = super().for_blocks(numbers.tolist())
        view._masks = self._masks.of(numbers)
        return view

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of the blocks after the selection. Features are read only of sparse data."""
        if self.is_sparse:
            return tuple(block.info for block in self.read_blocks())
        infos = [block.info for block in self.read_blocks(columns=np.empty(0, dtype=np.intp))]
        return tuple(replace(i, n_values=i.n_documents * self.n_features) for i in infos)

    def _made(self, index: int, block: QueryBlock, columns: NDArray[np.intp] | None) -> QueryBlock:
        return block.take_queries(self._masks.mask(index))


class FilledDataset(View):
    """Another data set with values for missing ones."""

    def __init__(
        self, source: Dataset, constants: ColumnConstants | None, filling: Filling
    ) -> None:
        super().__init__(source)
        self.feature_names = filling.names
        self.constants = constants
        self.has_nulls = False
        self._filling = filling

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block; features of one column take the place of several."""
        n, n_columns = self.n_features, self._source.n_features
        return tuple(replace(b, n_values=b.n_values * n // n_columns) for b in self._source.blocks)

    def _needed(self, columns: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
        """The columns of the features, each once."""
        sources = self._filling.sources
        if sources is None:
            return columns
        return np.unique(sources if columns is None else sources[columns])

    def _made(self, index: int, block: QueryBlock, columns: NDArray[np.intp] | None) -> QueryBlock:
        sources = self._filling.sources
        if sources is not None:
            wanted = sources if columns is None else sources[columns]
            places = np.searchsorted(np.unique(wanted), wanted)
            block = block.with_features(block.features[:, places])
        return self._filling.apply(block, columns)


class TransformedDataset(View):
    """Another data set with further scalings."""

    def __init__(self, source: Dataset, added: tuple[Scaling, ...]) -> None:
        super().__init__(source)
        self._added = added
        self.transforms = (*source.transforms, *added)

    def __repr__(self) -> str:
        added = ", ".join(transform.kind for transform in self._added)
        return f"{type(self).__name__}({added}, of {self._source!r})"

    def _made(self, index: int, block: QueryBlock, columns: NDArray[np.intp] | None) -> QueryBlock:
        for transform in self._added:
            block = transform.apply(block, columns)
        return block
