"""Tasks that bring the rows of each query together, through Arrow files in a scratch place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.regrouping.rows_by_bucket import first_rows, join_rows, split_again, split_rows
from dranking.data.roles import QID
from dranking.ingestion.rows.row_source import RowSource
from dranking.ingestion.rows.scan import all_ids, read_answers, read_lines
from dranking.ingestion.rows.scratch import FileParts, Scratch, numbered

FILES_OF_RANGE = 10**6
"""The files of range r of the rows are numbered from r times this number on."""


class BucketFiles(NamedTuple):
    """Numbered files with rows sorted by bucket, in the order of their rows.

    Attributes
    ----------
    stem
        Beginning of the names of the files.
    numbers
        (n_files,) int64 numbers of the files.
    borders
        (n_files, n_buckets + 1) int64 first byte of each bucket, then the end of the last one. The
        schema, which is the same in all files, is before the first bucket.
    """

    stem: str
    numbers: NDArray[np.int64]
    borders: NDArray[np.int64]

    def of(self, bucket: int) -> FileParts:
        """The parts of files with the rows of a bucket; files without such rows are left out."""
        ends = self.borders[:, bucket : bucket + 2]
        held = ends[:, 0] < ends[:, 1]
        return FileParts(self.stem, self.numbers[held], ends[held])


def joined_files(files: Sequence[BucketFiles]) -> BucketFiles:
    """Files of several tasks as one list; there is at least one task."""
    return BucketFiles(
        files[0].stem,
        np.concatenate([each.numbers for each in files]),
        np.concatenate([each.borders for each in files]),
    )


@dataclass(frozen=True)
class SplitRange:
    """A range of rows to sort by bucket.

    Attributes
    ----------
    number
        Number of the range, and of the file with the lines of its queries.
    start, stop
        The rows.
    answers
        The first row of each of these queries, counted in the whole source.
    key
        Key of the hashes.
    n_bytes
        Bytes of rows to sort at a time; each such part is a file.
    """

    number: int
    start: int
    stop: int
    answers: FileParts
    key: int
    n_bytes: int


def split_range(
    source: RowSource, scratch: Scratch, stem: str, part: SplitRange, cuts: NDArray[np.int64]
) -> BucketFiles:
    """Write the rows of a range sorted by bucket; `cuts` are the smallest first rows of buckets."""
    own = read_lines(scratch, part.number)
    first = read_answers(scratch, part.answers)
    numbers, borders = [], []
    for number, table in enumerate(source.tables(part.start, part.stop, part.n_bytes)):
        of_rows = first_rows(all_ids(table, QID), own, first, key=part.key)
        numbers.append(FILES_OF_RANGE * part.number + number)
        name = numbered(stem, numbers[-1])
        borders.append(_write(scratch, name, *split_rows(table, of_rows, cuts)))
        del table  # before the next one is read
    return BucketFiles(
        stem,
        np.array(numbers, dtype=np.int64),
        np.array(borders, dtype=np.int64).reshape(-1, len(cuts) + 1),
    )


def split_files(
    scratch: Scratch, stem: str, number: int, parts: FileParts, head: int, cuts: NDArray[np.int64]
) -> BucketFiles:
    """Read rows of one bucket and write them sorted by the smaller buckets that `cuts` makes of it.

    Parameters
    ----------
    scratch
        Place of all files.
    stem, number
        Name of the file to write.
    parts, head
        The arguments of `read_rows` with these names.
    cuts
        (n_buckets,) smallest first row of each of the smaller buckets.
    """
    rows, ptr = split_again(pa.concat_tables(read_rows(scratch, parts, head)), cuts)
    borders = _write(scratch, numbered(stem, number), rows, ptr)
    return BucketFiles(stem, np.array([number]), borders[None, :])


def _write(
    scratch: Scratch, name: str, rows: pa.Table, ptr: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Write a stream of the rows of all buckets; returns the bytes where the buckets begin."""
    with scratch.writing(name) as path, path.open("wb") as file:
        file.write(rows.schema.serialize())
        ends = [file.tell()]
        for start, stop in pairwise(ptr.tolist()):
            for batch in rows.slice(start, stop - start).to_batches():
                file.write(batch.serialize())
            ends.append(file.tell())
    return np.array(ends, dtype=np.int64)


def read_rows(scratch: Scratch, parts: FileParts, head: int) -> list[pa.Table]:
    """The rows of parts of streams, in order.

    Parameters
    ----------
    scratch
        Place of the files.
    parts
        Bytes of the files; at least one part.
    head
        Bytes of the schema, with which each file begins.
    """
    name = numbered(parts.stem, int(parts.numbers[0]))
    schema = pa.ipc.read_schema(pa.py_buffer(scratch.get(name, 0, head)))
    return [_table(content, schema) for content in scratch.get_parts(parts)]


def _table(content: bytes, schema: pa.Schema) -> pa.Table:
    stream, batches = pa.BufferReader(content), []
    while stream.tell() < len(content):
        batches.append(pa.ipc.read_record_batch(pa.ipc.read_message(stream), schema))
    return pa.Table.from_batches(batches, schema)


def join_bucket(scratch: Scratch, parts: FileParts, head: int) -> pa.Table:
    """The rows of a bucket by query, from parts in the order of their rows; see `read_rows`.

    The rows are in memory twice at a time: the parts are freed before the rows are put in order.
    """
    table = pa.concat_tables(read_rows(scratch, parts, head)).combine_chunks()
    return join_rows([table])
