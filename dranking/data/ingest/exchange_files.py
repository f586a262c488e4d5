"""Tasks that bring the rows of each query together, through Arrow files in a scratch place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dranking.data.ingest.row_source import RowSource
from dranking.data.ingest.scan import Span, all_ids, read_answers
from dranking.data.ingest.scratch import Scratch
from dranking.data.regrouping.exchange import first_rows, join_rows, split_rows
from dranking.data.regrouping.query_lines import LINE
from dranking.data.roles import QID


@dataclass(frozen=True)
class SplitRange:
    """A range of rows to sort by bucket.

    Attributes
    ----------
    name
        Beginning of the names of the files to write.
    start, stop
        The rows.
    lines
        Name of the file with the lines of the queries of the range.
    answers
        First rows of these queries in all rows.
    key
        Key of the hashes.
    borders
        Smallest first row of each bucket.
    n_bytes
        Bytes of rows to sort at a time; each such part is a file.
    """

    name: str
    start: int
    stop: int
    lines: str
    answers: tuple[Span, ...]
    key: int
    borders: tuple[int, ...]
    n_bytes: int


def split_range(
    source: RowSource, scratch: Scratch, part: SplitRange
) -> list[tuple[str, tuple[int, ...]]]:
    """Write the rows of a range sorted by bucket.

    Returns
    -------
    Name of each file, and the borders of the buckets in it, in bytes.
    """
    own = np.frombuffer(scratch.get(part.lines), LINE)
    first = read_answers(scratch, part.answers)
    cuts = np.asarray(part.borders)
    written = []
    for number, table in enumerate(source.tables(part.start, part.stop, part.n_bytes)):
        of_rows = first_rows(all_ids(table, QID), own, first, key=part.key)
        rows, ptr = split_rows(table, of_rows, cuts)
        sink, ends = pa.BufferOutputStream(), [0]
        for begins, stops in pairwise(ptr.tolist()):
            if begins < stops:
                with pa.ipc.new_stream(sink, rows.schema) as stream:
                    stream.write_table(rows.slice(begins, stops - begins))
            ends.append(sink.tell())
        file = f"{part.name}-{number:04d}"
        scratch.put(file, sink.getvalue())
        written.append((file, tuple(ends)))
    return written


def join_bucket(scratch: Scratch, spans: Sequence[Span]) -> pa.Table:
    """The rows of a bucket by query; `spans` are bytes of files, in the order of their rows."""
    return join_rows([pa.ipc.open_stream(scratch.get(*span)).read_all() for span in spans])
