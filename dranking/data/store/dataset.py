"""Reading of the data set directory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, cached_property, partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, FeatureMatrix, QueryBlock
from dranking.data.directory_dataset import DirectoryDataset
from dranking.data.roles import Roles
from dranking.data.store.manifest import KIND, DatasetManifest
from dranking.data.store.segment_index import (
    SegmentIndex,
    SegmentLookup,
    hex_digests,
    read_index,
)
from dranking.data.store.segment_layout import DOCUMENTS_PER_CHUNK
from dranking.data.store.segment_reader import (
    WINDOW_BYTES,
    WINDOWS_AHEAD,
    SegmentReader,
    read_ahead,
    read_query_ids,
)
from dranking.errors import DataError, StoreRefusesError
from dranking.files.checksums import DamagedFileError
from dranking.files.folders.manifests import changed_since_opened, is_replaced
from dranking.files.places import AnyPlace, is_local
from dranking.files.reading import read_bytes

SEGMENTS_KEPT_OPEN = 8
"""Open segments that a data set keeps: their tables of chunks, documents and queries."""

FETCHING_THREADS = 16

Value = TypeVar("Value")


class StoredDataset(DirectoryDataset[DatasetManifest]):
    """A data set directory; see `DirectoryDataset` for parameters and errors."""

    _model, _kind = DatasetManifest, KIND

    def __init__(self, path: AnyPlace) -> None:
        super().__init__(path)
        _ = self.index

    @cached_property
    def index(self) -> SegmentIndex:
        """The entries of all segments."""
        return self._index_file(read_index)

    @cached_property
    def entries(self) -> SegmentIndex | SegmentLookup:
        """The entries of single segments; a pickled data set, checked before, decodes few."""
        known: SegmentIndex | None = self.__dict__.get("index")
        return self._index_file(SegmentLookup) if known is None else known

    def _index_file(self, read: Callable[[bytes, DatasetManifest], Value]) -> Value:
        file = self.path / self.manifest.index.name
        try:
            return read(read_bytes(file, 0, self.manifest.index.n_bytes), self.manifest)
        except StoreRefusesError:
            raise
        except (FileNotFoundError, DamagedFileError, DataError) as error:
            missing = isinstance(error, FileNotFoundError)
            if missing and is_replaced(self.path, self.manifest.index.name):
                raise changed_since_opened(self.path) from error
            why = "is missing" if missing else str(error).rstrip(".")
            raise DataError(f"{file}: {why}. Restore it from a copy, or {KIND.remedy}.") from error

    @property
    def bytes_ahead(self) -> int:  # type: ignore[override]
        """Bytes that a task fetches ahead from an object store, of two segments."""
        if is_local(self.path):
            return 0
        least = 4 * DOCUMENTS_PER_CHUNK * len(self.feature_names)
        return 2 * (WINDOWS_AHEAD + 1) * max(WINDOW_BYTES, least)

    @property
    def click_nights(self) -> tuple[str, str] | None:
        """First and last night of the clicks that the labels come from; None for other labels."""
        return None if self.manifest.labels is None else self.manifest.labels.nights

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether blocks hold CSR features."""
        return self.manifest.sparse

    @property
    def roles(self) -> Roles:  # type: ignore[override]
        """Names of the columns of ids, grades and weights in the table that the data comes from."""
        return self.manifest.roles

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block."""
        return self.index.infos(self.manifest)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.manifest.n_blocks

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self.manifest.n_documents

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.manifest.n_queries

    @property
    def n_unlabelled(self) -> int:
        """Number of documents without relevance."""
        return self.manifest.n_unlabelled

    def block_digests(self) -> Iterator[str]:
        """Hex digest of the content of each block, in order."""
        return iter(hex_digests(self.index.digests))

    def features_digests(self) -> Iterator[str | None]:
        """Hex digest of the features of each block, in order."""
        return iter(hex_digests(self.index.features_digests))

    def features_of(self, index: int, rows: NDArray[np.bool_]) -> FeatureMatrix:
        """Read the features of some documents; of dense features, only chunks that hold them."""
        [(segment, first, _)] = self.entries.runs(index, index + 1)
        return self._segment(segment).features_of(first, rows)

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block; dense features are F-ordered. All arrays are read-only.

        Raises
        ------
        DataError
            If a file is missing or damaged; the message names the segment, the file and the remedy.
        """
        if not 0 <= index < self.n_blocks:
            raise IndexError(f"there is no block {index}; there are {self.n_blocks}.")
        return next(self.read_blocks(index, index + 1, columns))

    def read_blocks(
        self, start: int = 0, end: int | None = None, columns: NDArray[np.intp] | None = None
    ) -> Iterator[QueryBlock]:
        """Read neighbouring blocks in order; every chunk is fetched and decoded once.

        From an object store, chunks are fetched ahead, also those of the next segment.
        """
        pool = None if is_local(self.path) else _fetching_pool()

        def begin(run: tuple[int, int, int]) -> Iterator[QueryBlock]:
            segment, first, last = run
            return self._segment(segment).blocks(first, last, columns, pool)

        runs = self.entries.runs(start, self.n_blocks if end is None else end)
        for blocks in read_ahead(begin, runs, pool, 1):
            yield from blocks

    def query_ids(self) -> pa.Array:
        """(n_queries,) ids of all queries, in order; fetches neither features nor documents."""
        pool = None if is_local(self.path) else _fetching_pool()
        entries = map(self.entries.entry, range(self.entries.n_segments))
        read = partial(read_query_ids, self.path, self.manifest)
        return pa.concat_arrays(list(read_ahead(read, entries, pool, FETCHING_THREADS)))

    def _segment(self, number: int) -> SegmentReader:
        """An open segment; some stay open."""
        with self._lock:
            if number in self._open:
                self._open.move_to_end(number)
                return self._open[number]
        segment = SegmentReader(self.path, self.manifest, self.entries.entry(number))
        with self._lock:
            self._open[number] = segment
            if len(self._open) > SEGMENTS_KEPT_OPEN:
                self._open.popitem(last=False)
        return segment

    @cached_property
    def _open(self) -> OrderedDict[int, SegmentReader]:
        return OrderedDict()

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()


@cache
def _fetching_pool() -> Executor:
    return ThreadPoolExecutor(FETCHING_THREADS, thread_name_prefix="dranking-fetch")
