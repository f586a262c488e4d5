"""Tasks that make the blocks of segments, and measure or write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.column_forms import Scaling
from dranking.data.dataset import Dataset
from dranking.data.regrouping.layout import Segment, check_queries
from dranking.data.steps import Filling
from dranking.data.store.manifest import WrittenSegment
from dranking.data.store.segment_writer import write_segment
from dranking.files.places import Place
from dranking.ingestion.rows.exchange_tasks import join_bucket
from dranking.ingestion.rows.finish_blocks import finish_block, gaps_of, queries_without_pairs
from dranking.ingestion.rows.row_source import RowSource
from dranking.ingestion.rows.scratch import FileParts, Scratch


class SegmentBlocks(NamedTuple):
    """Number and blocks of a segment; how many rows gave way to later ones of their documents."""

    number: int
    blocks: list[QueryBlock]
    n_replaced: int = 0


class Work(Protocol):
    """The segments that one task makes, from a source that all tasks share."""

    def segments_of(self, source: Any) -> Iterator[SegmentBlocks]:
        """Make the segments one after the other."""
        ...


@dataclass(frozen=True)
class AdjacentRows:
    """Segments whose rows are read from a `RowSource` in order."""

    segments: tuple[Segment, ...]

    def segments_of(self, source: RowSource) -> Iterator[SegmentBlocks]:
        """Read the rows of each block."""
        for segment in self.segments:
            blocks = [source.read_block(*rows) for rows in pairwise(segment.row_ptr)]
            yield _checked(segment, blocks)


@dataclass(frozen=True)
class BucketRows:
    """Segments whose rows were exchanged by `dranking.ingestion.rows.exchange_tasks`."""

    segments: tuple[Segment, ...]
    scratch: Scratch
    parts: FileParts
    head: int

    def segments_of(self, source: RowSource) -> Iterator[SegmentBlocks]:
        """Bring the rows of the bucket in order and cut them."""
        rows = join_bucket(self.scratch, self.parts, self.head)
        first = self.segments[0].row_ptr[0]
        for segment in self.segments:
            blocks = [
                source.table_block(rows.slice(start - first, stop - start))
                for start, stop in pairwise(segment.row_ptr)
            ]
            yield _checked(segment, blocks)


@dataclass(frozen=True)
class StoredBlocks:
    """Segments of blocks `start` to `stop` - 1 of a data set, each with its number."""

    ranges: tuple[tuple[int, int, int], ...]

    def segments_of(self, source: Dataset) -> Iterator[SegmentBlocks]:
        """Read the blocks."""
        for number, start, stop in self.ranges:
            yield SegmentBlocks(number, list(source.read_blocks(start, stop)))


def _checked(segment: Segment, blocks: list[QueryBlock]) -> SegmentBlocks:
    """The blocks of a segment, in which the last row of a document stands for all of them."""
    for block, n_planned in zip(blocks, segment.n_queries, strict=True):
        check_queries(block.n_queries, n_planned)
    kept = [block.latest_documents() for block in blocks]
    n_replaced = sum(block.n_documents for block in blocks) - sum(b.n_documents for b in kept)
    return SegmentBlocks(segment.number, kept, n_replaced)


def measure_segments(
    source: Any,
    work: Work,
    function: Callable[[QueryBlock], Any],
    merge: Callable[[Any, Any], Any],
    filling: Filling | None,
) -> list[Any]:
    """For each segment, merged values of `function` of its blocks, with missing values filled."""
    return [
        reduce(merge, [function(finish_block(block, filling, ())) for block in segment.blocks])
        for segment in work.segments_of(source)
    ]


class Written(NamedTuple):
    """A segment that was written, and facts about its queries and rows.

    Attributes
    ----------
    segment
        The entry of the segment.
    n_queries_without_pairs
        Number of queries that rankers learn nothing from.
    gaps
        (n_features,) whether values of the feature were missing.
    n_replaced
        Number of rows that gave way to later rows of their documents.
    n_labelled
        Number of documents with a grade.
    """

    segment: WrittenSegment
    n_queries_without_pairs: int
    gaps: NDArray[np.bool_]
    n_replaced: int
    n_labelled: int


def write_segments(
    source: Any,
    work: Work,
    root: Place,
    prefix: str,
    filling: Filling | None,
    transforms: Sequence[Scaling],
) -> list[Written]:
    """Finish and write the blocks of each segment.

    Parameters
    ----------
    source, work
        The source of the rows, and the segments to make of it.
    root, prefix
        Directory to write segments to, and the beginning of their names.
    filling
        Replaces missing values; None if no value is missing.
    transforms
        Scalings to apply.

    Raises
    ------
    DataError
        If a value is not allowed.
    HashCollisionError
        If two query ids have one hash.
    """
    written = []
    for number, raw, n_replaced in work.segments_of(source):
        gaps = np.logical_or.reduce([gaps_of(block) for block in raw])
        blocks = [finish_block(block, filling, transforms) for block in raw]
        segment = write_segment(root, f"{prefix}{number:06d}", blocks)
        n_without = sum(map(queries_without_pairs, blocks))
        n_labelled = sum(int(np.isfinite(block.relevance).sum()) for block in blocks)
        written.append(Written(segment, n_without, gaps, n_replaced, n_labelled))
    return written
