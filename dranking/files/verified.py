"""Folders of a directory of the project, every file of them verified as it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import DTypeLike, NDArray
from pydantic import BaseModel, ValidationError

from dranking.errors import DataError, problems_in
from dranking.files.commit import MANIFEST_NAME
from dranking.files.json_files import MAX_JSON_BYTES, parse_json, read_json
from dranking.files.row_files import RowFile
from dranking.files.zarr_chunks import (
    Buffer,
    DamagedFileError,
    checksum,
    read_array,
    verified_chunk,
)

Array = NDArray[np.float64]

Manifest = TypeVar("Manifest", bound=BaseModel)
Value = TypeVar("Value")


class OlderSchemaError(DataError):
    """A directory was written by a version whose schema is no longer read."""


class Kind(NamedTuple):
    """A kind of directory, as errors speak of it.

    Attributes
    ----------
    name
        What it is.
    format, schema_version
        What its manifest must say; another version is refused.
    remedy
        What makes a new one, behind "Restore it from a copy, or".
    """

    name: str
    format: str
    schema_version: int
    remedy: str


class VerifiedFolder:
    """Access to the files of one block's folder; what is not as it was written is an error.

    Parameters
    ----------
    root, index
        The directory, and which of its blocks this is.
    path
        The folder inside `root`.
    checksums
        CRC-32C of the files by their names inside the folder.
    remedy
        As in `Kind`.
    """

    def __init__(
        self, root: Path, index: int, path: str, checksums: Mapping[str, str], remedy: str
    ) -> None:
        self._root = root
        self._index = index
        self._path = path
        self._checksums = checksums
        self._remedy = remedy

    def damaged(self, name: str, why: str) -> DataError:
        """The error for a file of this folder."""
        file = self._root / self._path / name
        return DataError(
            f"block {self._index} of {self._root} is damaged: {file} {why}. "
            f"Restore the file from a copy, or {self._remedy}."
        )

    def table(self, name: str) -> pa.Table:
        """A parquet file."""
        return self._parsed(name, "parquet", _read_parquet)

    def arrow_table(self, name: str) -> pa.Table:
        """An Arrow file."""
        return self._parsed(name, "an Arrow file", _read_arrow)

    def _parsed(self, name: str, kind: str, read: Callable[[pa.BufferReader], Value]) -> Value:
        content = self._content(name)
        if checksum(content) != self._checksums[name]:
            raise self.damaged(name, "is not what was written, its checksum is wrong")
        try:
            return read(pa.BufferReader(content))
        except (pa.ArrowException, OSError) as error:
            raise self.damaged(name, f"is not {kind} ({error})") from error

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike, chunk: int) -> Any:
        """A whole array, in chunks of `chunk` entries of the first axis."""
        return self.guarded(name, lambda read: read_array(read, shape, dtype, chunk))

    def row_file(self, name: str, n_rows: int, shape: tuple[int, ...]) -> RowFile:
        """A file of `dranking.files.row_files`; `rows` reads it."""
        return RowFile(self._root / self._path / name, n_rows, shape, self._checksums[name])

    def rows(self, name: str, file: RowFile, wanted: Iterable[int]) -> Iterator[Array]:
        """Some rows of such a file, in the order given."""
        try:
            yield from file.read(wanted)
        except DamagedFileError as error:
            raise self.damaged(name, f"is not what was written, {error}") from error
        except OSError as error:
            raise self._unreadable(name, error) from error

    def guarded(self, array: str, read: Callable[[Callable[[str], Buffer]], Value]) -> Value:
        """Run `read` on the chunks of an array; damage becomes an error that names the chunk."""
        current = array

        def chunk(name: str) -> Buffer:
            nonlocal current
            current = f"{array}/{name}"
            return verified_chunk(self._content(current), self._checksums[current])

        try:
            return read(chunk)
        except DamagedFileError as error:
            raise self.damaged(current, f"is not what was written, {error}") from error
        except MemoryError as error:
            why = "takes more memory than there is, if the manifest is right"
            raise self.damaged(current, why) from error

    def _content(self, name: str) -> bytes:
        file = self._root / self._path / name
        try:
            return file.read_bytes()
        except OSError as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: str, error: OSError) -> DataError:
        if isinstance(error, FileNotFoundError):
            return self.damaged(name, "is missing")
        return self.damaged(name, f"cannot be read ({error.strerror})")


def _read_parquet(source: pa.BufferReader) -> pa.Table:
    return pq.ParquetFile(source).read(use_threads=False)


def _read_arrow(source: pa.BufferReader) -> pa.Table:
    table = pa.ipc.open_file(source).read_all()
    table.validate(full=True)  # it is used where it lies, and offsets might lead out of it
    return table


def read_manifest(directory: Path, model: type[Manifest], kind: Kind) -> tuple[Manifest, str]:
    """Read the manifest of a directory.

    Returns
    -------
    The manifest, and the hex digest of its text.

    Raises
    ------
    DataError
        If it is not there, damaged, of another schema, or of another kind; names the field.
    """
    file = directory / MANIFEST_NAME
    text = _read_text(directory, file, kind)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise DataError(
            f"{file}: damaged, {error}. Restore it from a copy, or {kind.remedy}."
        ) from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != kind.format:
        raise DataError(
            f"{file}: not the manifest of a {kind.name} (its 'format' is not '{kind.format}')."
        )
    version = content.get("schema_version")
    if isinstance(version, int) and version > kind.schema_version:
        raise DataError(
            f"{file}: {kind.name} schema {version} is newer than this dranking reads "
            f"({kind.schema_version}); upgrade dranking."
        )
    if isinstance(version, int) and 0 < version < kind.schema_version:
        raise OlderSchemaError(
            f"{file}: {kind.name} schema {version} is older than what this dranking reads "
            f"({kind.schema_version}); {kind.remedy}."
        )
    try:
        manifest = model.model_validate_json(text)
    except ValidationError as error:
        raise DataError(f"{file}: {problems_in(error, 'manifest')}.") from error
    return manifest, hashlib.blake2b(text, digest_size=16).hexdigest()


def format_of(directory: Path) -> str | None:
    """What the manifest of a directory says that it is; None if that cannot be read."""
    try:
        content = read_json(directory / MANIFEST_NAME)
    except (OSError, ValueError):
        return None
    return str(content.get("format")) if isinstance(content, dict) else None


def _read_text(directory: Path, file: Path, kind: Kind) -> bytes:
    try:
        if file.stat().st_size > MAX_JSON_BYTES:
            raise DataError(f"{file}: larger than {MAX_JSON_BYTES:,} bytes; not one of ours.")
        return file.read_bytes()
    except FileNotFoundError as error:
        if not directory.exists():
            raise DataError(f"{directory}: does not exist.") from error
        remedy = kind.remedy[0].upper() + kind.remedy[1:]
        raise DataError(
            f"{directory}: no {MANIFEST_NAME}: not a {kind.name}, or an interrupted write. "
            f"{remedy}."
        ) from error
    except NotADirectoryError as error:
        raise DataError(f"{directory}: not a directory, so not a {kind.name} directory.") from error
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from error
