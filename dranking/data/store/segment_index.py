"""The index of the segments of a data set: a parquet file beside the manifest, as columns.

A driver asks for all entries, and checks them together. Tasks ask for the entries of a few segments
(`SegmentLookup`): the file has a row group for some hundred segments, of which one is decoded.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo
from dranking.data.store.manifest import (
    MAX_FILE_BYTES,
    SEGMENT_NAME,
    BlockEntry,
    DatasetManifest,
    SegmentEntry,
)
from dranking.files.checksums import DamagedFileError

Numbers: TypeAlias = NDArray[np.int64]

SEGMENTS_PER_GROUP = 512
"""Segments of a row group of the file, about 160 kB."""


class SegmentBorders:
    """The borders of the blocks of each segment.

    Attributes
    ----------
    first_block
        (n_segments + 1,) number of the first block of each segment, then the number of blocks.
    """

    first_block: Numbers

    @property
    def n_segments(self) -> int:
        """Number of segments."""
        return len(self.first_block) - 1

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self.first_block[-1])

    def segment_of(self, block: int) -> int:
        """Number of the segment that holds a block."""
        return int(np.searchsorted(self.first_block, block, side="right")) - 1

    def blocks_of(self, segment: int) -> slice:
        """The blocks of a segment."""
        return slice(*self.first_block[segment : segment + 2].tolist())

    def runs(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Segments with the blocks from `start` to before `end`, and the range of blocks in each.

        A range is the first block and the block after the last, counted from the first block of the
        segment.
        """
        if start >= end:
            return []
        found = []
        for segment in range(self.segment_of(start), self.segment_of(end - 1) + 1):
            there = self.blocks_of(segment)
            first, last = max(start, there.start), min(end, there.stop)
            found.append((segment, first - there.start, last - there.start))
        return found


@dataclass(frozen=True, eq=False)
class SegmentIndex(SegmentBorders):
    """The entries of all segments as columns.

    Attributes
    ----------
    names, chunks_digests
        (n_segments,) strings, and digests of 16 bytes.
    n_features, chunks_bytes
        (n_segments,) number of features, and bytes of chunks, of each segment.
    first_block
        (n_segments + 1,) number of the first block of each segment, then the number of blocks.
    n_documents, n_queries, n_unlabelled, n_values
        (n_blocks,) number of documents, queries, unlabelled documents and values of each block.
    digests, features_digests
        (n_blocks,) digests of 16 bytes.
    """

    names: pa.Array
    n_features: Numbers
    chunks_bytes: Numbers
    chunks_digests: pa.Array
    first_block: Numbers
    n_documents: Numbers
    n_queries: Numbers
    n_unlabelled: Numbers
    n_values: Numbers
    digests: pa.Array
    features_digests: pa.Array

    @property
    def largest_segment(self) -> int:
        """Documents of the largest segment."""
        return int(np.add.reduceat(self.n_documents, self.first_block[:-1]).max())

    def entry(self, segment: int) -> SegmentEntry:
        """The entry of one segment."""
        blocks = self.blocks_of(segment)
        columns = [getattr(self, name)[blocks].tolist() for name in _OF_BLOCKS]
        digests = [hex_digests(each[blocks]) for each in (self.digests, self.features_digests)]
        return SegmentEntry(
            name=self.names[segment].as_py(),
            n_features=int(self.n_features[segment]),
            chunks_bytes=int(self.chunks_bytes[segment]),
            chunks_digest=self.chunks_digests[segment].as_py().hex(),
            blocks=tuple(map(BlockEntry, *columns, *digests)),
        )

    def infos(self, manifest: DatasetManifest) -> tuple[BlockInfo, ...]:
        """Sizes of each block as it is read."""
        n_values = self.n_values
        if not manifest.sparse:
            n_values = self.n_documents * len(manifest.feature_names)
        columns = (self.n_documents, self.n_queries, n_values, self.n_unlabelled)
        return tuple(map(BlockInfo, *(column.tolist() for column in columns)))

    def joined(self, other: SegmentIndex) -> SegmentIndex:
        """The segments of this index, then those of another."""
        both: dict[str, Any] = {}
        for field in fields(self):
            mine, its = getattr(self, field.name), getattr(other, field.name)
            if field.name == "first_block":
                both[field.name] = np.concatenate((mine, its[1:] + mine[-1]))
            elif isinstance(mine, pa.Array):
                both[field.name] = pa.concat_arrays([mine, its])
            else:
                both[field.name] = np.concatenate((mine, its))
        return SegmentIndex(**both)


_DIGEST = pa.binary(16)
_OF_BLOCKS = ("n_documents", "n_queries", "n_unlabelled", "n_values")


def digest_array(digests: Iterable[str]) -> pa.Array:
    """Digests of 32 hex digits as 16 bytes each."""
    return pa.array([bytes.fromhex(digest) for digest in digests], _DIGEST)


def hex_digests(digests: pa.Array) -> list[str]:
    """Digests of 16 bytes as 32 hex digits each."""
    return [digest.hex() for digest in digests.to_pylist()]


def index_of(entries: Sequence[SegmentEntry]) -> SegmentIndex:
    """The index of some segments."""
    blocks = [block for entry in entries for block in entry.blocks]
    counts = [len(entry.blocks) for entry in entries]
    return SegmentIndex(
        names=pa.array([entry.name for entry in entries], pa.string()),
        n_features=np.array([entry.n_features for entry in entries], np.int64),
        chunks_bytes=np.array([entry.chunks_bytes for entry in entries], np.int64),
        chunks_digests=digest_array(entry.chunks_digest for entry in entries),
        first_block=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        digests=digest_array(block.digest for block in blocks),
        features_digests=digest_array(block.features_digest for block in blocks),
        **{
            name: np.array([getattr(block, name) for block in blocks], np.int64)
            for name in _OF_BLOCKS
        },
    )


def index_parquet(index: SegmentIndex) -> bytes:
    """The content of the file of an index: a row per segment, with lists over its blocks."""
    borders = pa.array(index.first_block, pa.int32())
    of_blocks = {name: pa.array(getattr(index, name)) for name in _OF_BLOCKS}
    of_blocks |= {"digest": index.digests, "features_digest": index.features_digests}
    table = pa.table(
        {
            "name": index.names,
            "n_features": index.n_features,
            "chunks_bytes": index.chunks_bytes,
            "chunks_digest": index.chunks_digests,
            **{k: pa.ListArray.from_arrays(borders, v) for k, v in of_blocks.items()},
        }
    )
    sink = io.BytesIO()
    pq.write_table(
        table, sink, compression="lz4", write_statistics=False, row_group_size=SEGMENTS_PER_GROUP
    )
    return sink.getvalue()


def read_index(content: bytes, manifest: DatasetManifest) -> SegmentIndex:
    """Parse and check the file of an index.

    Raises
    ------
    DamagedFileError
        If the content is not what the manifest says, or contradicts it.
    """
    _check_digest(content, manifest)
    with _readable():
        index = _index_in(pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False))
    for flaw, wrong in _flaws(index, manifest).items():
        if wrong:
            raise DamagedFileError(f"contradicts itself or the manifest: {flaw}")
    return index


class SegmentLookup(SegmentBorders):
    """The entries of single segments, out of a file that `read_index` has checked elsewhere.

    Parameters
    ----------
    content
        Content of the file.
    manifest
        The manifest by which it was checked: the digest shows that the content is the same.

    Raises
    ------
    DamagedFileError
        If the content is not what the manifest says.
    """

    def __init__(self, content: bytes, manifest: DatasetManifest) -> None:
        _check_digest(content, manifest)
        self._content = pa.py_buffer(content)
        with _readable():
            self._metadata = pq.ParquetFile(pa.BufferReader(self._content)).metadata
            groups = range(self._metadata.num_row_groups)
            n_segments = [self._metadata.row_group(group).num_rows for group in groups]
            n_blocks = [self._n_blocks(group) for group in groups]
        self._first_segment = np.cumsum([0, *n_segments])
        self.first_block = np.cumsum(np.concatenate(([0], *n_blocks)), dtype=np.int64)
        self._last: tuple[int, SegmentIndex] | None = None

    def entry(self, segment: int) -> SegmentEntry:
        """The entry of one segment."""
        group = int(np.searchsorted(self._first_segment, segment, side="right")) - 1
        last = self._last
        if last is None or last[0] != group:
            with _readable():
                index = _index_in(self._read(group))
            last = self._last = (group, index)
        return last[1].entry(segment - int(self._first_segment[group]))

    def _n_blocks(self, group: int) -> Numbers:
        """(n_segments,) number of blocks of the segments of a row group."""
        table = self._read(group, ["n_queries"])
        return np.asarray(table["n_queries"].combine_chunks().value_lengths(), np.int64)

    def _read(self, group: int, columns: list[str] | None = None) -> pa.Table:
        # A reader of its own for each call: tasks of several threads share the data set.
        file = pq.ParquetFile(pa.BufferReader(self._content), metadata=self._metadata)
        return file.read_row_group(group, columns=columns, use_threads=False)


def _check_digest(content: bytes, manifest: DatasetManifest) -> None:
    if hashlib.blake2b(content, digest_size=16).hexdigest() != manifest.index.digest:
        raise DamagedFileError("is not what was written: its digest is wrong")


@contextmanager
def _readable() -> Iterator[None]:
    """Raise DamagedFileError if a file is no parquet, or has other columns."""
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise DamagedFileError(f"is no index of segments ({error})") from error


def _index_in(table: pa.Table) -> SegmentIndex:
    names = (*_OF_BLOCKS, "digest", "features_digest")
    lists = {name: table[name].combine_chunks() for name in names}
    first = lists["n_documents"].offsets
    if any(not column.offsets.equals(first) or column.null_count for column in lists.values()):
        raise ValueError("lists of other lengths")
    return SegmentIndex(
        names=table["name"].combine_chunks().cast(pa.string()),
        chunks_digests=table["chunks_digest"].combine_chunks().cast(_DIGEST),
        n_features=_integers(table["n_features"].combine_chunks()),
        chunks_bytes=_integers(table["chunks_bytes"].combine_chunks()),
        first_block=_integers(first),
        digests=lists["digest"].values.cast(_DIGEST),
        features_digests=lists["features_digest"].values.cast(_DIGEST),
        **{name: _integers(lists[name].values) for name in _OF_BLOCKS},
    )


def _integers(values: pa.Array) -> Numbers:
    if values.null_count or not pa.types.is_integer(values.type):
        raise ValueError("a column of numbers has other values")
    return np.asarray(values, np.int64)


def _flaws(index: SegmentIndex, manifest: DatasetManifest) -> dict[str, bool]:
    """Whether each flaw is there, by its description; without flaws, sizes can be relied on."""
    sizes = np.diff(index.first_block)
    n_features = np.repeat(index.n_features, sizes)
    numbers = [getattr(index, name) for name in _OF_BLOCKS]
    totals = {name: int(getattr(index, name).sum()) for name in _OF_BLOCKS[:3]}
    totals |= {"n_blocks": index.n_blocks, "n_segments": index.n_segments}
    tokens = pc.utf8_slice_codeunits(index.names, len("segments/"), len("segments/") + 16)
    wrong = {
        "names of segments": len(pc.unique(index.names)) < index.n_segments
        or not pc.all(pc.match_substring_regex(index.names, SEGMENT_NAME)).as_py()
        or set(pc.unique(tokens).to_pylist()) != set(manifest.writers),
        "a segment without blocks": (sizes < 1).any() or index.first_block[0] != 0,
        "numbers below 0, or too large": any((n < 0).any() or (n > 2**53).any() for n in numbers),
        "sizes of tables": (index.chunks_bytes < 1).any()
        or (index.chunks_bytes > MAX_FILE_BYTES).any(),
        "blocks without queries or documents": (index.n_queries < 1).any()
        or (index.n_queries > index.n_documents).any(),
        "unlabelled documents": (index.n_unlabelled > index.n_documents).any(),
        "features": (index.n_features < 0).any()
        or (index.n_features > len(manifest.feature_names)).any(),
        "values that are not documents times features": not manifest.sparse
        and (index.n_values != index.n_documents * n_features).any(),
        "digests": index.digests.null_count
        or index.features_digests.null_count
        or index.chunks_digests.null_count,
        "totals": any(getattr(manifest, name) != total for name, total in totals.items()),
    }
    return {flaw: bool(is_wrong) for flaw, is_wrong in wrong.items()}
