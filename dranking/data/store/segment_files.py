"""The files of one segment, each verified as it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import google_crc32c
import numpy as np

from dranking.data.store.manifest import KIND, SegmentEntry
from dranking.data.store.segment_layout import (
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    QUERIES_FILE,
    Chunks,
    chunks_in,
)
from dranking.data.store.zarr_arrays import ArraySpec, StoredChunk, verified_chunk
from dranking.errors import DataError, StoreRefusesError
from dranking.files.checksums import Bytes, DamagedFileError
from dranking.files.folders.manifests import changed_since_opened, is_replaced
from dranking.files.places import Place, is_local
from dranking.files.reading import read_bytes, read_files, read_ranges

LARGEST_GAP = 2**20
"""Bytes between two chunks in an object store up to which one request reads both."""


class SegmentFiles:
    """The folder of a segment; what is missing, unreadable or altered is an error.

    Parameters
    ----------
    root
        The data set.
    entry
        The entry of the segment in the index.
    specs
        The arrays of such a segment.

    Raises
    ------
    DataError
        If the table of chunks is missing or damaged, here, or another file, by the methods; the
        message names the segment, the file and the remedy.
    """

    def __init__(self, root: Place, entry: SegmentEntry, specs: Mapping[str, ArraySpec]) -> None:
        self._root, self._name = root, entry.name
        self._chunks = self._read_chunk_table(entry, specs)

    def damaged(self, file: str, why: str) -> DataError:
        """The error for a damaged file of the segment; `why` continues the file's name."""
        return DataError(
            f"segment {self._name} of {self._root} is damaged: {self._root / self._name / file} "
            f"{why}. Restore the file from a copy, or {KIND.remedy}."
        )

    @contextmanager
    def explained(self, file: str) -> Iterator[None]:
        """Turn the errors of reading a file into errors that name the segment."""
        with self.decoded(file):
            try:
                yield
            except FileNotFoundError as error:
                if is_replaced(self._root, self._name):
                    raise changed_since_opened(self._root) from error
                raise self.damaged(file, "is missing") from error
            except StoreRefusesError:
                raise
            except DataError as error:
                raise self.damaged(file, f"cannot be read ({error})") from error

    @contextmanager
    def decoded(self, file: str) -> Iterator[None]:
        """Turn the errors of decoding a file into errors that name the segment."""
        try:
            yield
        except DamagedFileError as error:
            raise self.damaged(file, f"is not what was written, {error}") from error
        except MemoryError as error:
            why = "needs more memory than there is, if its entry in the index is right"
            raise self.damaged(file, why) from error

    @property
    def table(self) -> Chunks:
        """The chunks of each file."""
        return self._chunks

    def chunks(self, file: str, numbers: Sequence[int]) -> list[Bytes]:
        """Contents of some chunks of an array, without their checksums."""
        place = self._root / self._name / file
        wanted = [self._chunks[file][number] for number in numbers]
        with self.explained(file):
            ranges = _merged(wanted, 0 if is_local(place) else LARGEST_GAP)
            parts = dict(zip(ranges, read_ranges(place, ranges), strict=True))
            return [_chunk_in(parts, place, chunk) for chunk in wanted]

    def tables(self) -> tuple[bytes, bytes]:
        """Contents of the tables of documents and of queries."""
        documents, queries = self._whole_files(DOCUMENTS_FILE, QUERIES_FILE)
        return documents, queries

    def queries(self) -> bytes:
        """Content of the table of queries."""
        (queries,) = self._whole_files(QUERIES_FILE)
        return queries

    def _whole_files(self, *names: str) -> list[bytes]:
        places = [self._root / self._name / name for name in names]
        try:
            contents = read_files(places)
        except (FileNotFoundError, DataError):  # read one by one, to name the file
            contents = [b"" for _ in names]
        return [self._verified_file(*each) for each in zip(names, places, contents, strict=True)]

    def _verified_file(self, name: str, place: Place, content: bytes) -> bytes:
        (chunk,) = self._chunks[name]
        if not _is_whole(content, chunk):
            with self.explained(name):
                content = read_bytes(place, 0, chunk.length)  # once more
                if not _is_whole(content, chunk):
                    raise DamagedFileError("its length or checksum is wrong")
        return content

    def _read_chunk_table(self, entry: SegmentEntry, specs: Mapping[str, ArraySpec]) -> Chunks:
        with self.explained(CHUNKS_FILE):
            place = self._root / self._name / CHUNKS_FILE
            for _ in range(2):
                content = read_bytes(place, 0, entry.chunks_bytes)
                if hashlib.blake2b(content, digest_size=16).hexdigest() == entry.chunks_digest:
                    return chunks_in(content, specs)
            raise DamagedFileError("its digest is wrong")


def _is_whole(content: bytes, chunk: StoredChunk) -> bool:
    return len(content) == chunk.length and google_crc32c.value(content) == chunk.checksum


def _merged(chunks: Sequence[StoredChunk], gap: int) -> list[tuple[int, int]]:
    """First byte and end of the parts to read of a file: few parts that hold all chunks."""
    parts: list[tuple[int, int]] = []
    for offset, length, _ in sorted(chunks):
        if parts and 0 <= offset - parts[-1][1] <= gap:
            parts[-1] = (parts[-1][0], offset + length)
        else:
            parts.append((offset, offset + length))
    return parts


def _chunk_in(parts: Mapping[tuple[int, int], bytes], place: Place, chunk: StoredChunk) -> Bytes:
    """A chunk, cut out of the parts that were read; a wrong chunk is read once more."""
    start, content = next(
        (start, content)
        for (start, end), content in parts.items()
        if start <= chunk.offset and chunk.offset + chunk.length <= end
    )
    first = chunk.offset - start
    try:
        return verified_chunk(np.frombuffer(content, np.uint8)[first : first + chunk.length], chunk)
    except DamagedFileError:
        again = read_bytes(place, chunk.offset, chunk.offset + chunk.length)
        return verified_chunk(np.frombuffer(again, np.uint8), chunk)
