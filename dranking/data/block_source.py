"""Blocks of ranking data that are read on demand, and facts about them.

`dranking.data.dataset` adds the views, which are made of such blocks.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, FeatureMatrix, QueryBlock
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import Scaling
from dranking.data.roles import DEFAULT_ROLES, Roles
from dranking.data.steps import Steps
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


class BlockSource(ABC):
    """Blocks of whole queries, in order; `dranking.data.dataset.Dataset` names the attributes."""

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


def joined_ids(arrays: Sequence[pa.Array]) -> pa.Array:
    """Ids of several blocks one after the other, as texts if their types differ."""
    if len({array.type for array in arrays}) > 1:
        arrays = [array.cast(pa.string()) for array in arrays]
    return pa.chunked_array(arrays).combine_chunks()


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
