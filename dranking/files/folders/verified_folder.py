"""Files of one block, each read whole and compared with its checksum in the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import pyarrow as pa

from dranking.errors import DataError, StoreRefusesError
from dranking.files.checksums import checksum
from dranking.files.folders.manifests import changed_since_opened, is_replaced
from dranking.files.places import Place
from dranking.files.reading import read_bytes

Value = TypeVar("Value")


class VerifiedFolder:
    """The folder of one block; a file that is missing, unreadable or altered is an error.

    Parameters
    ----------
    root, index
        The directory, and the number of the block in it.
    path
        The block's folder inside `root`.
    checksums
        CRC-32C of each file by its name inside the folder.
    remedy
        As in `dranking.files.folders.manifests.DirectoryKind`.
    """

    def __init__(
        self, root: Place, index: int, path: str, checksums: Mapping[str, str], remedy: str
    ) -> None:
        self._root = root
        self._index = index
        self._checksums = checksums
        self._remedy = remedy
        self._path, self.path = path, root / path

    def damaged(self, name: str, why: str) -> DataError:
        """The error for a damaged file of this folder; `why` continues the file's name."""
        return DataError(
            f"block {self._index} of {self._root} is damaged: {self.path / name} {why}. "
            f"Restore the file from a copy, or {self._remedy}."
        )

    def unreadable(self, name: str, error: OSError | DataError) -> DataError:
        """The error for a file that is not there, or that the operating system could not read."""
        if isinstance(error, FileNotFoundError):
            if is_replaced(self._root, self._path):
                return changed_since_opened(self._root)
            return self.damaged(name, "is missing")
        why = getattr(error.__cause__ or error, "strerror", None) or str(error).rstrip(".")
        return self.damaged(name, f"cannot be read ({why})")

    def content(self, name: str) -> bytes:
        """Content of a file, not verified.

        Raises
        ------
        DataError
            If the file cannot be read.
        """
        try:
            return read_bytes(self.path / name)
        except StoreRefusesError:
            raise
        except (OSError, DataError) as error:
            raise self.unreadable(name, error) from error

    def parsed(self, name: str, form: str, parse: Callable[[pa.BufferReader], Value]) -> Value:
        """Content of a file as `parse` reads it, after its checksum was compared.

        Parameters
        ----------
        name
            The file.
        form
            The file format that `parse` reads, for the error.
        parse
            A function of pyarrow.

        Raises
        ------
        DataError
            If the file cannot be read, has another checksum, or is not of the format.
        """
        content = self.content(name)
        if checksum(content) != self._checksums[name]:
            raise self.damaged(name, "is not what was written: its checksum is wrong")
        try:
            return parse(pa.BufferReader(content))
        except (pa.ArrowException, OSError) as error:
            raise self.damaged(name, f"is not {form} ({error})") from error
