"""A statistics store: per-query statistics of a data set, kept beside it or instead of it.

It holds, for every query, A_q, b_q, y_q.y_q and l_q (design: greedy RankRLS), by the same blocks as
the data. They add up, so new queries are appended and old ones expire without the data; and as sums
run over the blocks anew each time, the outcome is that of a store built from the same blocks, bit
for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo
from dranking.data.dataset import Dataset, TransformedDataset, documents_needed
from dranking.data.statistics.block_folder import read_block
from dranking.data.statistics.manifest import KIND, StatisticsManifest, load_manifest
from dranking.data.statistics.per_query import QueryStatistics
from dranking.data.transforms import QueryMinMax, Standard
from dranking.errors import DataError
from dranking.files.commit import AnyPath, manifest_format, restore_interrupted

Scaling: TypeAlias = QueryMinMax | Standard


class StatisticsDataset(Dataset):
    """A statistics store, in the place of the data set that it was made of.

    Greedy RankRLS, RankRLS and their choice of lambda by squared leave-query-out error run on it;
    what needs documents is refused. Its fingerprint is that of the data, as long as no query has
    expired from the midst of a block.

    Parameters
    ----------
    path
        The directory.

    Raises
    ------
    DataError
        If there is no manifest, or it is damaged, of another schema or of something else.
    """

    has_documents = False

    def __init__(self, path: AnyPath) -> None:
        self.path = Path(path).absolute()
        restore_interrupted(self.path)
        self.manifest, self._manifest_digest = load_manifest(self.path)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_manifest_digest": self._manifest_digest}

    @cached_property
    def manifest(self) -> StatisticsManifest:
        """What the store holds."""  # loaded on first use behind a pickle; `__init__` sets it
        manifest, digest = load_manifest(self.path)
        if digest != self._manifest_digest:
            raise DataError(
                f"{self.path}: was changed since it was opened. Start the computation again."
            )
        return manifest

    @property
    def feature_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """One unique name per feature."""
        return self.manifest.feature_names

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block: its documents, and the memory of its statistics."""
        return tuple(self.manifest.info(entry) for entry in self.manifest.blocks)

    @property
    def transforms(self) -> tuple[Scaling, ...]:  # type: ignore[override]
        """Scalings that were in the values of the data."""
        return self.manifest.transforms

    def block(  # type: ignore[override] # rankers that take statistics ask which they have
        self, index: int, columns: NDArray[np.intp] | None = None
    ) -> QueryStatistics:
        """Read the statistics of one block; with no columns wanted, only what is of queries.

        Raises
        ------
        DataError
            If a file is missing or damaged; or if columns of documents are wanted.
        """
        if columns is not None and len(columns):
            raise documents_needed()
        return read_block(self.path, self.manifest, index, queries_only=columns is not None)

    def query_ids(self) -> pa.Array:
        """(n_queries,) ids of all queries as strings, in order."""
        return pa.concat_arrays([block.query_ids for block in self.queries()])

    def transformed(self, transforms: Sequence[Scaling]) -> Dataset:
        """A view with more scalings: `Standard` ones, which take A_q to D A_q D.

        Raises
        ------
        DataError
            If one is another, and needs documents.
        """
        standard = tuple(t for t in transforms if isinstance(t, Standard))
        if len(standard) < len(transforms):
            raise documents_needed()
        return _ScaledStatistics(self, standard) if standard else self

    def check_made_of(self, dataset: Dataset) -> None:
        """Raise DataError unless the store holds this data set: the same blocks, all of them."""
        if dataset.fingerprint == self.fingerprint:
            return
        if dataset.feature_names != self.feature_names:
            what = "other features"
        elif dataset.transforms != self.transforms:
            what = "another scaling"
        elif dataset.n_blocks != self.n_blocks:
            what = f"{dataset.n_blocks} blocks, not {self.n_blocks}"
        else:
            what = "other content"
        raise DataError(
            f"{self.path} is not of this data, which has {what}: name the statistics store that "
            "was built of it, or build one (dranking stats build)."
        )

    def queries(self) -> Iterator[QueryStatistics]:
        """What there is of the queries of each block beside their features."""
        for index in range(self.n_blocks):
            yield read_block(self.path, self.manifest, index, queries_only=True)

    def block_digests(self) -> Iterator[str]:
        """Hex digest of the content of each block, in order."""
        return (entry.digest for entry in self.manifest.blocks)


class _ScaledStatistics(TransformedDataset):
    """A statistics store seen through standard scalings."""

    def __init__(self, store: StatisticsDataset, added: tuple[Standard, ...]) -> None:
        super().__init__(store, added)
        self._store = store
        self._scales = [np.array(transform.scale) for transform in added]

    def block(  # type: ignore[override]
        self, index: int, columns: NDArray[np.intp] | None = None
    ) -> QueryStatistics:
        block = self._store.block(index, columns)
        for scale in self._scales if columns is None else ():
            block = block.scaled(scale)
        return block


def is_statistics(path: Path) -> bool:
    """Whether a directory is a statistics store, by what its manifest says."""
    return manifest_format(path) == KIND.format
