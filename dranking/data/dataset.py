"""The interface of all data sets: query blocks that are read on demand."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.block_masks import BlockMasks
from dranking.data.blocks import BlockInfo, FeatureMatrix, QueryBlock
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import Scaling
from dranking.data.roles import DEFAULT_ROLES, Roles
from dranking.data.steps import Filling, Steps, every_gap
from dranking.errors import DataError, UsageError, listed, quoted


class RowsApart(NamedTuple):
    """A query whose rows lie apart, for errors.

    Attributes
    ----------
    found
        The query, and the places of its rows, in words.
    remedy
        What to do, in words.
    """

    found: str
    remedy: str

    def error(self, reason: str = "") -> DataError:
        """The error; `reason` says what needs whole queries, as a clause without a period."""
        needed = f"{reason}, so rows" if reason else "Rows"
        return DataError(f"{self.found}. {needed} of a query must be adjacent; {self.remedy}")


class Dataset(ABC):
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

    feature_names: tuple[str, ...]
    blocks: tuple[BlockInfo, ...]
    constants: ColumnConstants | None = None
    has_nulls: bool = False
    transforms: tuple[Scaling, ...] = ()
    roles: Roles = DEFAULT_ROLES
    is_sparse: bool = False
    in_memory: bool = False
    has_documents: bool = True
    bytes_ahead: int = 0
    is_reordered: bool = False
    rows_apart: RowsApart | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sizes()})"

    def _sizes(self) -> str:
        """Numbers of queries, documents and features, and the scalings, in words."""
        form = "sparse features" if self.is_sparse else "features"
        sizes = f"{self.n_queries:,} queries, {self.n_documents:,} documents"
        sizes = f"{sizes}, {self.n_features:,} {form}"
        kinds = ", ".join(transform.kind for transform in self.transforms)
        return f"{sizes}, scaled: {kinds}" if kinds else sizes

    @abstractmethod
    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block.

        Parameters
        ----------
        index
            0 <= index < n_blocks.
        columns
            Positions of the features to read, in order; None for all features.

        Raises
        ------
        DataError
            If the stored block is missing or damaged.
        IndexError
            If there is no such block or column.
        """

    def read_blocks(
        self, start: int = 0, end: int | None = None, columns: NDArray[np.intp] | None = None
    ) -> Iterator[QueryBlock]:
        """Read neighbouring blocks in order, which may cost less than each of them alone.

        Parameters
        ----------
        start, end
            The first block, and the block before which to end; None for all blocks.
        columns
            As `block` takes them.
        """
        for index in range(start, self.n_blocks if end is None else end):
            yield self.block(index, columns)

    @property
    def preparation(self) -> Steps:
        """The filling and the scalings that were already applied to the values, in order."""
        return self.transforms if self.constants is None else (self.constants, *self.transforms)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    @cached_property
    def n_documents(self) -> int:
        """Number of documents."""
        return sum(b.n_documents for b in self.blocks)

    @cached_property
    def n_queries(self) -> int:
        """Number of queries."""
        return sum(b.n_queries for b in self.blocks)

    @cached_property
    def n_unlabelled(self) -> int:
        """Number of documents without relevance."""
        return sum(b.n_unlabelled for b in self.blocks)

    @cached_property
    def fingerprint(self) -> str:
        """Digest, 32 hex digits, of the content: blocks, labels, feature names and scalings."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update("\0".join(self.feature_names).encode())
        for transform in self.transforms:
            digest.update(transform.model_dump_json().encode())
        for part in self.block_digests():
            digest.update(part.encode())
        return digest.hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        """Fingerprint and sizes, which models and reports record as their origin."""
        return {
            "fingerprint": self.fingerprint,
            "n_documents": self.n_documents,
            "n_queries": self.n_queries,
            "n_features": self.n_features,
        }

    @property
    def click_nights(self) -> tuple[str, str] | None:
        """First and last night of the clicks that the labels come from; None if not known."""
        return None

    def block_digests(self) -> Iterator[str]:
        """Hex digest of the content of each block, in order."""
        return (block.digest() for block in self.read_blocks())

    def features_digests(self) -> Iterator[str | None]:
        """`QueryBlock.features_digest` of each block; None where it is not known without reading.

        Views do not know it.
        """
        return repeat(None, self.n_blocks)

    def features_of(self, index: int, rows: NDArray[np.bool_]) -> FeatureMatrix:
        """Read the features of some documents of one block, which may cost less than the block.

        Parameters
        ----------
        index
            0 <= index < n_blocks.
        rows
            (n_documents,) which documents of the block to read; at least one.

        Returns
        -------
        As in `QueryBlock`, of these documents in order.
        """
        return self.block(index).features[rows]

    def query_ids(self) -> pa.Array:
        """(n_queries,) ids of all queries, in order."""
        no_columns = np.empty(0, dtype=np.intp)
        blocks = self.read_blocks(columns=no_columns)
        return joined_ids([block.query_ids for block in blocks])

    def check_documents(self) -> None:
        """Raise DataError if the data set holds statistics of queries, without documents."""
        if not self.has_documents:
            raise documents_needed()

    def in_given_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of all documents, (n_documents, ...), in the order of the rows given.

        Raises
        ------
        UsageError
            If rows were brought together, and their order is not known here.
        """
        self.check_order("values are returned")
        return values

    def in_own_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of all rows given in the order of the documents; raises as `in_given_order`."""
        self.check_order("values are taken")
        return values

    def check_order(self, what: str) -> None:
        """Raise UsageError if rows were brought together; `what` needs the order given."""
        if self.is_reordered:
            raise UsageError(
                f"{what} in the order of rows, and rows of this data lay apart and were brought "
                "together by query, in another order. Sort the rows by query before the data set "
                "is made (in pandas, table.sort_values(column, kind='stable'))."
            )

    def check_whole_queries(self, reason: str) -> None:
        """Raise DataError if rows of a query lie apart; `reason` says what needs whole queries."""
        if self.rows_apart is not None:
            raise self.rows_apart.error(reason)

    def columns_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Positions of the named features.

        Raises
        ------
        DataError
            If the data lacks some of the features; the message names them.
        """
        position = {name: i for i, name in enumerate(self.feature_names)}
        check_features_there(names, position)
        return np.array([position[name] for name in names], dtype=np.intp)

    def select_queries(self, keep: NDArray[np.bool_]) -> Dataset:
        """A view of the queries where `keep` (n_queries,) is true; the block borders stay."""
        return QuerySubset(self, keep)

    def for_blocks(self, blocks: Iterable[int]) -> Dataset:
        """The data set for a task that reads only some blocks, which keep their numbers.

        Facts about other blocks may be missing in it, so that its pickle is small.
        """
        return self

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


def joined_ids(arrays: Sequence[pa.Array]) -> pa.Array:
    """Ids of several blocks one after the other, as texts if their types differ."""
    if len({array.type for array in arrays}) > 1:
        arrays = [array.cast(pa.string()) for array in arrays]
    return pa.chunked_array(arrays).combine_chunks()


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


def check_features_there(names: Sequence[str], there: Container[str]) -> None:
    """Raise DataError with the names of the features that are not there, if there are any."""
    needed = list(dict.fromkeys(names))  # once for all forms of a feature
    absent = [name for name in needed if name not in there]
    if absent:
        lists = dict.fromkeys(name.rpartition("_")[0] for name in absent)
        vectors = [name for name in lists if name in there]
        advice = ""
        if vectors:
            advice = f" If {quoted(vectors)} holds lists, dranking.ingest makes features of them."
        raise DataError(
            f"the data lacks {len(absent)} of the {len(needed)} features needed: "
            f"{listed(absent)}. Give data that has these features.{advice}"
        )


def documents_needed() -> DataError:
    """The error for a computation that needs documents but gets a statistics store."""
    return DataError(
        "statistics stores hold no documents. They serve greedy-rankrls, rankrls and the choice of "
        "their settings by squared leave-query-out error (dranking tune --criterion "
        "lqo-squared_error); "
        "ranking measures, predictions and other rankers need documents: give the data itself."
    )
