"""What single passes over the data take on a cluster: ingest, shuffle, prediction and others.

Numbers of tasks follow from the rules of the planner, bytes are of decoded features as float32, and
requests are those to the storage of data and scratch files. The times of Dask follow from `Rates`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, expm1, log1p

from dranking.data.blocks import SEGMENT_BLOCKS, SEGMENT_DOCUMENTS
from dranking.data.regrouping.layout import QUERIES_AT_ONCE, QUERY
from dranking.data.regrouping.query_lines import LINE
from dranking.data.store.segment_layout import FEATURES_PER_CHUNK
from dranking.engine.map_blocks import RUN_BLOCKS
from dranking.engine.tree_sum import combining_tasks
from dranking.ingestion.exchange_rows import MAX_BUCKET_BYTES, groups_of
from dranking.ingestion.order_rows import LINES_AT_ONCE, MAX_ROWS, MIN_ROWS, PARTS_AT_ONCE
from dranking.ingestion.rows.scan import N_BINS
from dranking.metrics.scores.score_directory import BLOCKS_PER_PART
from pipelines.forecast import Rates, Sketch

OBJECTS_PER_SEGMENT = 6
"""Two tables, the table of chunks, the features, and two files of Zarr."""

BORDER_BYTES = 8
"""Memory of the driver for a border of parts of scratch files."""

PART_BYTES = 3 * BORDER_BYTES
"""Memory of the driver for a part of a scratch file that a task gets: file, start and stop."""

FACT_BYTES = 1_000
"""Memory of the driver for a task with its result, or a segment: rounded up."""


@dataclass(frozen=True)
class PassCosts:
    """What a pass takes, over all workers.

    Attributes
    ----------
    name
        The pass.
    n_tasks
        Tasks; each takes a message to a worker and a message back.
    bytes_read, bytes_written
        Bytes of data and scratch files.
    n_requests
        Requests to storage: objects or parts of objects that are read or written.
    driver_bytes
        Memory of the driver.
    """

    name: str
    n_tasks: int
    bytes_read: int
    bytes_written: int
    n_requests: int
    driver_bytes: int

    def dask_seconds(self, rates: Rates) -> float:
        """Seconds of the scheduler for the tasks."""
        return self.n_tasks * rates.task_seconds


@dataclass(frozen=True)
class IngestSizes:
    """Numbers of the parts into which an ingest of m rows of a table is cut.

    Attributes
    ----------
    data
        The sizes of the data.
    n_workers
        Workers of one thread.
    in_order
        Whether the rows of every query are adjacent; otherwise rows come in random order.
    """

    data: Sketch
    n_workers: int
    in_order: bool

    @property
    def n_ranges(self) -> int:
        """Ranges of rows, each scanned by a task, if row groups are no larger."""
        m = self.data.n_documents
        return max(1, m // min(max(m // (4 * self.n_workers), MIN_ROWS), MAX_ROWS))

    @property
    def n_lines(self) -> int:
        """Lines of queries in all ranges: a query has a line in every range with its rows."""
        q, per_range = self.data.n_queries, self.data.n_documents / self.n_ranges
        if self.in_order or q == 1:
            return q + self.n_ranges - 1
        return round(-self.n_ranges * q * expm1(per_range * log1p(-1 / q)))

    @property
    def n_partitions(self) -> int:
        """Ranges of bins whose lines a task merges."""
        bins_at_once = max(1, LINES_AT_ONCE * N_BINS // max(self.n_lines, 1))
        return ceil(N_BINS / bins_at_once)

    @property
    def n_segments(self) -> int:
        """Segments of whole blocks."""
        per_segment = min(SEGMENT_BLOCKS, SEGMENT_DOCUMENTS // self.data.blocks[0].n_documents)
        return ceil(self.data.n_blocks / per_segment)

    @property
    def n_parts(self) -> int:
        """Parts into which the ordered queries are cut."""
        return ceil(self.data.n_queries / QUERIES_AT_ONCE)

    @property
    def n_buckets(self) -> int:
        """Groups of segments that a task brings together, of 256 MiB or one segment."""
        per_bucket = MAX_BUCKET_BYTES // (row_bytes(self.data) * SEGMENT_DOCUMENTS)
        return ceil(self.n_segments / max(1, per_bucket))

    @property
    def n_groups(self) -> int:
        """Groups of buckets that ranges of rows are sorted by; as many as buckets, if few."""
        return len(groups_of(self.n_buckets))

    @property
    def n_files(self) -> int:
        """Files into which the ranges of rows are sorted by group, of 256 MiB at most."""
        per_range = self.data.n_documents / self.n_ranges * row_bytes(self.data)
        return self.n_ranges * ceil(per_range / MAX_BUCKET_BYTES)

    @property
    def n_splits(self) -> int:
        """Files into which the groups are sorted by bucket; 0 if a group is a bucket."""
        if self.n_groups == self.n_buckets:
            return 0
        part = self.data.n_documents * row_bytes(self.data) / (self.n_files * self.n_groups)
        return self.n_groups * ceil(self.n_files / max(1, MAX_BUCKET_BYTES // part))


def row_bytes(data: Sketch) -> int:
    """Bytes of a row: the features, relevance, and two ids."""
    return 4 * data.n_features + 24


def passes(data: Sketch, n_workers: int, n_weights: int) -> Iterator[PassCosts]:
    """Costs of every kind of pass.

    Parameters
    ----------
    data, n_workers
        Sizes of the data, and number of workers of one thread.
    n_weights
        Features of the model that predicts.
    """
    yield ingest(IngestSizes(data, n_workers, True))
    yield ingest(IngestSizes(data, n_workers, False))
    yield statistics(data)
    yield prediction(data, n_weights)
    yield mixing(data, n_workers)


def ingest(sizes: IngestSizes) -> PassCosts:
    """Scan, merge, order, write; rows in any order are exchanged through scratch files before."""
    data, ranges, segments = sizes.data, sizes.n_ranges, sizes.n_segments
    parts, lines = sizes.n_partitions, LINE.itemsize * sizes.n_lines
    queries = QUERY.itemsize * data.n_queries
    all_rows = data.n_documents * row_bytes(data)
    tasks = ranges + parts + sizes.n_parts + segments + 1
    read = 8 * data.n_documents + lines + queries + all_rows
    written = lines + queries + all_rows
    requests = ranges + ranges * parts + ranges + parts + parts * sizes.n_parts
    requests += OBJECTS_PER_SEGMENT * segments + segments
    driver = BORDER_BYTES * (N_BINS + 1) * ranges + PART_BYTES * ranges * parts
    driver += 2 * PARTS_AT_ONCE * QUERIES_AT_ONCE * QUERY.itemsize + PART_BYTES * data.n_blocks
    if not sizes.in_order:
        buckets, splits = sizes.n_buckets, sizes.n_splits
        pieces = sizes.n_files * sizes.n_groups + splits * buckets // sizes.n_groups
        moved = all_rows * (2 if splits else 1)
        tasks += ranges + parts - segments + buckets + splits
        read, written = read + moved + lines, written + moved
        requests += 2 * ranges * parts + ranges + sizes.n_files + 2 * splits + buckets + pieces
        driver += (BORDER_BYTES + PART_BYTES) * (ranges * parts + pieces)
    driver += FACT_BYTES * (tasks + segments)
    name = "ingest" if sizes.in_order else "ingest, rows in any order"
    return PassCosts(name, tasks, read, written, requests, driver)


def statistics(data: Sketch) -> PassCosts:
    """A statistics store: the workers write blocks, and the driver receives their entries."""
    n_bytes = 8 * data.n_queries * data.n_features**2
    n_tasks = ceil(data.n_blocks / RUN_BLOCKS)
    read = 4 * data.n_documents * data.n_features
    requests = n_tasks + 2 * data.n_blocks
    driver = FACT_BYTES * (n_tasks + data.n_blocks)
    return PassCosts("statistics store", n_tasks, read, n_bytes, requests, driver)


def prediction(data: Sketch, n_weights: int) -> PassCosts:
    """Scores of a stored data set, written by the workers; a task writes a part."""
    n_tasks = ceil(data.n_blocks / BLOCKS_PER_PART)
    n_chunks = min(n_weights, ceil(data.n_features / FEATURES_PER_CHUNK))
    columns = min(n_chunks * FEATURES_PER_CHUNK, data.n_features)
    segments = IngestSizes(data, 1, True).n_segments
    read = 4 * data.n_documents * columns
    requests = segments * (n_chunks + 2) + n_tasks
    written = 24 * data.n_documents
    return PassCosts(
        "prediction", n_tasks, read, written, requests, FACT_BYTES * n_tasks + 8 * n_weights
    )


def mixing(data: Sketch, n_workers: int) -> PassCosts:
    """An epoch of SPD from storage with a shard for each worker; means join on workers."""
    shards = min(n_workers, data.n_blocks)
    read = 4 * data.n_documents * data.n_features
    joins = sum(combining_tasks(shards, 1))
    chunks = ceil(data.n_features / FEATURES_PER_CHUNK)
    return PassCosts(
        "epoch of SPD",
        shards + joins + 1,
        read,
        0,
        data.n_blocks * chunks,
        2 * 16 * 8 * data.n_features,
    )
