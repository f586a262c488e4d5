"""The data set interface: query blocks read on demand, whatever they are stored in."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.data.transforms import QueryMinMax, Standard
from dranking.errors import DataError


class Dataset(ABC):
    """Query-partitioned ranking data.

    A data set is a sequence of blocks, each read on demand; it is small itself and can be pickled
    to a worker, which then reads blocks from storage.

    Attributes
    ----------
    feature_names
        One unique name per column.
    blocks
        Sizes of each block, in order.
    transforms
        Scalings already in the values.
    is_sparse
        Whether blocks hold CSR features.
    in_memory
        Whether blocks are in this process's memory, so that reading costs nothing, and sending
        the data set elsewhere sends all of them.
    has_documents
        Whether blocks hold documents; else statistics of their queries alone.
    """

    feature_names: tuple[str, ...]
    blocks: tuple[BlockInfo, ...]
    transforms: tuple[QueryMinMax | Standard, ...] = ()
    is_sparse: bool = False
    in_memory: bool = False
    has_documents: bool = True

    @abstractmethod
    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block.

        Parameters
        ----------
        index
            0 <= index < n_blocks.
        columns
            Which features to read, in the order wanted; all if None.

        Raises
        ------
        DataError
            If the stored block is missing or damaged.
        """

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
        """Hex digest that names the content: blocks, labels, feature names, scalings."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update("\0".join(self.feature_names).encode())
        for transform in self.transforms:
            digest.update(transform.model_dump_json().encode())
        for part in self.block_digests():
            digest.update(part.encode())
        return digest.hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        """Content and sizes, for the provenance of what is made of it."""
        return {
            "fingerprint": self.fingerprint,
            "n_documents": self.n_documents,
            "n_queries": self.n_queries,
            "n_features": self.n_features,
        }

    def block_digests(self) -> Iterator[str]:
        """Hex digest of the content of each block, in order."""
        return (self.block(b).digest() for b in range(self.n_blocks))

    def query_ids(self) -> pa.Array:
        """(n_queries,) ids of all queries, in order."""
        no_columns = np.empty(0, dtype=np.intp)
        return pa.concat_arrays([self.block(b, no_columns).query_ids for b in range(self.n_blocks)])

    def check_documents(self) -> None:
        """Raise DataError unless there are documents, for whatever needs them."""
        if not self.has_documents:
            raise documents_needed()

    def columns_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Positions of the named features.

        Raises
        ------
        DataError
            Naming the features that the data does not have.
        """
        position = {name: i for i, name in enumerate(self.feature_names)}
        absent = [name for name in names if name not in position]
        if absent:
            raise DataError(
                f"the data lacks {len(absent)} of the {len(names)} features needed: "
                f"{', '.join(absent[:10])}{', ...' if len(absent) > 10 else ''}."
            )
        return np.array([position[name] for name in names], dtype=np.intp)

    def select_queries(self, keep: NDArray[np.bool_]) -> Dataset:
        """A view of the queries where `keep` (n_queries,) is true; block borders stay."""
        return QuerySubset(self, keep)

    def transformed(self, transforms: Sequence[QueryMinMax | Standard]) -> Dataset:
        """A view with more scalings, applied as blocks are read."""
        return TransformedDataset(self, tuple(transforms)) if transforms else self


class QuerySubset(Dataset):
    """The queries of another data set that a mask keeps; its blocks may be empty."""

    def __init__(self, source: Dataset, keep: NDArray[np.bool_]) -> None:
        if len(keep) != source.n_queries:
            raise ValueError(f"keep has {len(keep)} entries for {source.n_queries} queries.")
        self._source = source
        borders = np.cumsum([b.n_queries for b in source.blocks])[:-1]
        self._keep = np.split(np.asarray(keep, dtype=bool), borders)
        self.feature_names = source.feature_names
        self.transforms = source.transforms
        self.is_sparse = source.is_sparse
        self.in_memory = source.in_memory
        self.has_documents = source.has_documents

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of the blocks after the selection; reads features of sparse data alone."""
        return tuple(self._info(b) for b in range(self._source.n_blocks))

    def _info(self, index: int) -> BlockInfo:
        if self.is_sparse:
            return self.block(index).info
        info = self.block(index, np.empty(0, dtype=np.intp)).info
        return replace(info, n_values=info.n_documents * self.n_features)

    @property
    def n_blocks(self) -> int:
        """Number of blocks: those of the source."""
        return self._source.n_blocks

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block and keep the selected queries."""
        return self._source.block(index, columns).take_queries(self._keep[index])


class TransformedDataset(Dataset):
    """Another data set seen through scalings."""

    def __init__(self, source: Dataset, added: tuple[QueryMinMax | Standard, ...]) -> None:
        self._source = source
        self._added = added
        self.feature_names = source.feature_names
        self.blocks = source.blocks
        self.transforms = (*source.transforms, *added)
        self.is_sparse = source.is_sparse
        self.in_memory = source.in_memory
        self.has_documents = source.has_documents

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block and scale it."""
        block = self._source.block(index, columns)
        for transform in self._added:
            block = transform.apply(block, columns)
        return block


def documents_needed() -> DataError:
    """The error of asking statistics for documents."""
    return DataError(
        "these are statistics of queries, which hold no documents. They serve greedy-rankrls, "
        "rankrls and their choice by squared leave-query-out error (tune --criterion "
        "lqo-squared_error); ranking measures, predictions and other rankers need documents: give "
        "the data itself."
    )
