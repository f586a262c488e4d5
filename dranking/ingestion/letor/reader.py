"""Reader of LETOR / SVMlight ranking text; the package's docstring describes the format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from upath import UPath

from dranking.data.blocks import (
    MAX_BLOCK_DOCUMENTS,
    FeatureMatrix,
    QueryBlock,
    block_boundaries,
)
from dranking.errors import DataError, UsageError
from dranking.files.places import AnyPlace
from dranking.ingestion.kernels.tokenizer import TokenTable
from dranking.ingestion.letor.regroup import Regrouper
from dranking.ingestion.letor.row_buffer import BlockForm, RowBuffer, make_block
from dranking.ingestion.letor.row_widths import WidestRow, check_dense, check_widths, widest_row
from dranking.ingestion.letor.seen_queries import SeenQueries
from dranking.ingestion.letor.text_source import CHUNK_BYTES, check_readable, line_chunks


class LetorReader:
    """Query blocks of LETOR text; every iteration reads the files again. See `read_letor`.

    Blocks are made while the text is read, so the form of a block depends on the text up to the end
    of the block. The block has as many features as the largest index so far; the block has
    `doc_ids` (or `comments`) if any row so far has one. After an iteration has ended, the
    attributes are final and `complete` brings every block into the same form.

    Attributes
    ----------
    n_features
        The number of features that the caller announced, otherwise the largest index so far.
    has_doc_ids, has_comments
        Whether any document so far has a document id, or a comment.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        n_features: int | None,
        nullable: bool,
        regroup: bool,
        sparse: bool,
        max_documents: int,
        chunk_bytes: int,
    ) -> None:
        self._paths = paths
        self._announced = n_features
        self._nullable = nullable
        self._regroup = regroup
        self._sparse = sparse
        self._max_documents = max_documents
        self._chunk_bytes = chunk_bytes
        self._reset()

    def _reset(self) -> None:
        self.n_features = self._announced or 0
        self.has_doc_ids = False
        self.has_comments = False

    def __iter__(self) -> Iterator[QueryBlock]:
        """Read the files from the start.

        Raises
        ------
        DataError
            At the first invalid line; the message names the file and the line.
        UsageError
            If the disk is too full for the temporary files of regrouping.
        """
        self._reset()
        return self._read_regrouped() if self._regroup else self._read_in_order()

    def complete(self, block: QueryBlock) -> QueryBlock:
        """Bring a block into the form that all blocks share, once an iteration has ended.

        Features are padded with zeros to `n_features`, and documents without an id or a comment get
        empty strings if other documents have one.
        """
        features = padded(block.features, self.n_features)
        empty = pa.array([""] * block.n_documents)
        return replace(
            block,
            features=features,
            doc_ids=empty if self.has_doc_ids and block.doc_ids is None else block.doc_ids,
            comments=empty if self.has_comments and block.comments is None else block.comments,
        )

    def complete_blocks(self) -> list[QueryBlock]:
        """Read everything into memory; all blocks have the same form."""
        blocks = list(self)
        return [self.complete(block) for block in blocks]

    def _read_in_order(self) -> Iterator[QueryBlock]:
        rows = RowBuffer(self._nullable)
        seen = SeenQueries(self._paths)
        for _ in self._read_chunks(rows, seen):
            if rows.n_rows > self._max_documents:
                # The last query, and so its block, may continue in the next chunk.
                borders = self._borders(rows)[:-1]
                yield from self._blocks(rows.table, borders)
                rows.drop(borders[-1])
        yield from self._blocks(rows.table, self._borders(rows))

    def _read_regrouped(self) -> Iterator[QueryBlock]:
        rows = RowBuffer(self._nullable)
        with Regrouper() as regrouper:
            for _ in self._read_chunks(rows, None):
                self._note(rows.table, rows.n_rows)
                regrouper.take(rows)
            for table in regrouper.tables(self._max_documents):
                yield from self._blocks(table, [0, len(table.query_ptr) - 1])

    def _borders(self, rows: RowBuffer) -> list[int]:
        sizes = np.diff(rows.table.query_ptr[: rows.n_queries + 1])
        borders: list[int] = block_boundaries(sizes, self._max_documents).tolist()
        return borders

    def _read_chunks(self, rows: RowBuffer, seen: SeenQueries | None) -> Iterator[None]:
        """Append the files to the rows, one chunk per step."""
        widest: list[WidestRow] = []
        for file, path in enumerate(self._paths):
            rows.begin_file()
            widest.append(WidestRow(0, 0))
            for text in line_chunks(path, self._chunk_bytes):
                row, query = rows.n_rows, rows.n_queries
                invalid = rows.append(text, self._announced)
                new_rows = range(row, rows.n_rows)
                if seen is not None:
                    invalid += seen.add(file, rows.table, new_rows, range(query, rows.n_queries))
                if invalid:
                    first = min(invalid, key=lambda found: found.line)
                    raise DataError(f"{path}:{first.line}: {first.message}")
                widest[-1] = widest_row(rows.table, new_rows, widest[-1])
                if self._announced is None and not self._sparse:
                    check_dense(path, widest[-1])
                yield
            check_widths(self._paths, widest, self._announced)

    def _blocks(self, table: TokenTable, borders: Sequence[int]) -> Iterator[QueryBlock]:
        """Copy the queries between consecutive borders into blocks."""
        for first, last in pairwise(borders):
            self._note(table, int(table.query_ptr[last]))
            form = BlockForm(self.n_features, self._sparse, self.has_doc_ids, self.has_comments)
            yield make_block(table, first, last, form)

    def _note(self, table: TokenTable, n_rows: int) -> None:
        """Update the attributes from the first rows of a table."""
        if self._announced is None:
            self.n_features = int(table.widths[:n_rows].max(initial=self.n_features))
        self.has_doc_ids = self.has_doc_ids or bool(table.doc_ptr[n_rows])
        self.has_comments = self.has_comments or bool(table.comment_ptr[n_rows])


def read_letor(
    paths: AnyPlace | Sequence[AnyPlace],
    *,
    n_features: int | None = None,
    nullable: bool = False,
    regroup: bool = False,
    sparse: bool = False,
    max_documents: int = MAX_BLOCK_DOCUMENTS,
    chunk_bytes: int = CHUNK_BYTES,
) -> LetorReader:
    """Read LETOR / SVMlight text as a stream of query blocks.

    Parameters
    ----------
    paths
        One file, or several files that are one data set; a query may continue in the next file.
        Files named ``*.gz``, ``*.xz`` or ``*.zst`` are decompressed.
    n_features
        Number of features. None stands for the largest index, which must then be the same in all
        files.
    nullable
        Whether a value may be ``NULL``, which is NaN in the blocks; otherwise it is an error.
    regroup
        Sort the rows of a query together where they are not adjacent: queries in order of first
        appearance, rows of a query in the order of the text. All text is then read into temporary
        files before the first block is made.
    sparse
        Make `scipy.sparse.csr_array` blocks, which store no zeros, instead of dense C-ordered
        blocks.
    max_documents
        Largest number of documents in a block, unless a single query is larger.
    chunk_bytes
        Bytes of text read at a time, without influence on the result.

    Returns
    -------
    An iterable of `QueryBlock`. Every value is ``np.float32(float(token))``, relevance -1 is NaN,
    ids are strings. `comments` holds the text behind ``#``, and `doc_ids` the word behind
    ``docid =`` in a comment (an empty string if the comment has none, None if no document so far
    has one). Iterating takes the memory of one block and about 400 bytes per query.

    Raises
    ------
    DataError
        If a file cannot be opened. Errors in its content are raised by the iteration.
    UsageError
        If a parameter is out of range.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike, UPath)) else paths
    names = [str(path) for path in given]
    if not names:
        raise UsageError("no file is named; give at least one.")
    for name, number in (
        ("n_features", n_features),
        ("max_documents", max_documents),
        ("chunk_bytes", chunk_bytes),
    ):
        if number is not None and number < 1:
            raise UsageError(f"{name} is {number}; it must be at least 1.")
    for name in names:
        check_readable(name)
    return LetorReader(
        names,
        n_features=n_features,
        nullable=nullable,
        regroup=regroup,
        sparse=sparse,
        max_documents=max_documents,
        chunk_bytes=chunk_bytes,
    )


def padded(features: FeatureMatrix, n_features: int) -> FeatureMatrix:
    """The features with columns of zeros appended; the same object if none are missing."""
    n_documents, width = features.shape
    if width == n_features:
        return features
    if isinstance(features, np.ndarray):
        return np.pad(features, ((0, 0), (0, n_features - width)))
    padded = features.copy()
    padded.resize((n_documents, n_features))
    return padded
