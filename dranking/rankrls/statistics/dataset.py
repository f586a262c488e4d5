"""A statistics store as a data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.affine_scalings import MinMax, Standard
from dranking.data.block_source import documents_needed
from dranking.data.blocks import BlockInfo
from dranking.data.column_forms import Scaling
from dranking.data.dataset import Dataset, TransformedDataset
from dranking.data.directory_dataset import DirectoryDataset
from dranking.files.places import Place
from dranking.files.writing.output_checks import manifest_format
from dranking.rankrls.statistics.block_folder import read_block, read_pieces
from dranking.rankrls.statistics.manifest import KIND, StatisticsManifest
from dranking.rankrls.statistics.per_query import QueryStatistics


class StatisticsDataset(DirectoryDataset[StatisticsManifest]):
    """A statistics store, which replaces the data set of which the store was made.

    Greedy RankRLS and RankRLS train on a store and choose lambda on it by squared leave-query-out
    error; computations that need documents raise DataError. The fingerprint equals the data's
    fingerprint as long as queries expired in whole blocks only.

    See `DirectoryDataset` for parameters and errors.
    """

    _model, _kind = StatisticsManifest, KIND
    has_documents = False

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block."""
        return tuple(self.manifest.info(entry) for entry in self.manifest.blocks)

    def block_digests(self) -> Iterator[str]:
        """Hex digest of the content of each block, in order."""
        return (entry.digest for entry in self.manifest.blocks)

    def block(  # type: ignore[override] # rankers that take statistics check `has_documents`
        self, index: int, columns: NDArray[np.intp] | None = None
    ) -> QueryStatistics:
        """Read the statistics of one block.

        Parameters
        ----------
        index
            0 <= index < n_blocks.
        columns
            None for all features, or an empty array for ids, sizes, weights and times only.

        Raises
        ------
        DataError
            If a file is missing or damaged, or if `columns` names features.
        """
        if columns is not None and len(columns):
            raise documents_needed()
        return read_block(self.path, self.manifest, index, queries_only=columns is not None)

    def pieces(self, index: int) -> QueryStatistics:
        """Statistics, with means, of the documents of one block, unmerged with other blocks."""
        return read_pieces(self.path, self.manifest, index, with_means=True)

    def query_ids(self) -> pa.Array:
        """(n_queries,) ids of all queries as strings, in order."""
        blocks = [self.block(index, np.empty(0, np.intp)) for index in range(self.n_blocks)]
        return pa.concat_arrays([block.query_ids for block in blocks])

    def transformed(self, transforms: Sequence[Scaling]) -> Dataset:
        """A view with further `Standard` or `MinMax` scalings, under which A_q becomes D A_q D.

        Raises
        ------
        DataError
            If another scaling is given, since it would need documents.
        """
        affine = tuple(t for t in transforms if isinstance(t, Standard | MinMax))
        if len(affine) < len(transforms):
            raise documents_needed()
        return _ScaledStatistics(self, affine) if affine else self

    def queries_of(self, index: int) -> QueryStatistics:
        """Pieces of one block without features: ids, sizes, weights and times."""
        return read_pieces(self.path, self.manifest, index, queries_only=True)

    def queries(self) -> Iterator[QueryStatistics]:
        """Pieces of each block without features."""
        return map(self.queries_of, range(self.n_blocks))


class _ScaledStatistics(TransformedDataset):
    """A statistics store with further scalings by numbers."""

    def __init__(self, store: StatisticsDataset, added: tuple[Standard | MinMax, ...]) -> None:
        super().__init__(store, added)
        self._scales = [np.array(transform.divisors) for transform in added]

    def _made(  # type: ignore[override]
        self, index: int, block: QueryStatistics, columns: NDArray[np.intp] | None
    ) -> QueryStatistics:
        for scale in self._scales if columns is None else ():
            block = block.scaled(scale)
        return block


def is_statistics(path: Place) -> bool:
    """Whether a directory's manifest says that it is a statistics store."""
    return manifest_format(path) == KIND.format
