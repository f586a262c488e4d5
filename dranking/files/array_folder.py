"""Directories of named arrays: one .npy file each, their checksums in the manifest. No pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.errors import DataError
from dranking.files.commit import MANIFEST_NAME, AnyPath, new_directory, restore_interrupted
from dranking.files.json_files import read_json
from dranking.files.zarr_chunks import checksum

SCHEMA_VERSION = 1

ARCHIVE_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading an archive of arrays (.npz) raises that is none, damaged, or made to do harm."""


def write_arrays(
    path: AnyPath,
    kind: str,
    facts: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    overwrite: bool = False,
) -> None:
    """Write a directory, whole or not at all.

    Parameters
    ----------
    path
        Directory to write.
    kind
        What it is, such as "collection"; the manifest's format is ``dranking-<kind>``.
    facts
        What JSON can hold.
    arrays
        Numbers, by name.
    overwrite
        Replace a directory that exists.

    Raises
    ------
    UsageError
        If the path exists and `overwrite` is false, or it is not the project's.
    """
    with new_directory(path, overwrite=overwrite) as folder:
        files = {}
        for name, array in arrays.items():
            file = folder / f"{name}.npy"
            np.save(file, array, allow_pickle=False)
            files[file.name] = file_checksum(file)
        manifest = {
            "format": f"dranking-{kind}",
            "schema_version": SCHEMA_VERSION,
            "files": files,
            **facts,
        }
        (folder / MANIFEST_NAME).write_text(json.dumps(manifest, ensure_ascii=False) + "\n")


def is_array_directory(path: AnyPath, kind: str) -> bool:
    """Whether a directory says that it is of a kind."""
    try:
        content = read_json(Path(path) / MANIFEST_NAME)
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("format") == f"dranking-{kind}"


def read_arrays(path: AnyPath, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the facts and the arrays of a directory, each verified.

    Returns
    -------
    Facts, and read-only arrays that lie in memory as they are used.

    Raises
    ------
    DataError
        If the directory is not there, of another kind, newer, or damaged.
    """
    root = Path(path)
    restore_interrupted(root)
    facts = _read_manifest(root, kind)
    arrays = {}
    for name, expected in facts.pop("files").items():
        file = root / name
        try:
            found = file_checksum(file)
            if found != expected:
                raise ValueError(f"has checksum {found} instead of {expected}")
            arrays[file.stem] = _load(file)
        except (OSError, ValueError, OverflowError, EOFError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise DataError(
                f"{root} is damaged: {name} ({why}). Restore it from a copy, or make it anew."
            ) from error
    return facts, arrays


def csr_of(arrays: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> Any:
    """The CSR array of indptr, indices and data; every number is looked at, none is copied.

    Raises
    ------
    KeyError
        If one of them is not there.
    ValueError
        If they point outside of their arrays, are of other types, or data is not finite.
    """
    from scipy import sparse

    data, indices, indptr = (arrays[name] for name in ("data", "indices", "indptr"))
    if data.dtype != np.float32 or not indices.dtype.kind == indptr.dtype.kind == "i":
        raise ValueError("data must be float32, indices and indptr integers")
    if not np.isfinite(data).all():
        raise ValueError("data has numbers that are not finite")
    matrix = sparse.csr_array((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def file_checksum(file: Path) -> str:
    """CRC-32C of a file as 8 hex digits."""
    if not file.stat().st_size:
        return checksum(b"")
    return checksum(np.memmap(file, dtype=np.uint8, mode="r"))


def _load(file: Path) -> NDArray[Any]:
    """The array in a file, as it lies there."""
    array = np.load(file, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("is an archive, not an array")
    return array


def _read_manifest(root: Path, kind: str) -> dict[str, Any]:
    file = root / MANIFEST_NAME
    try:
        content = read_json(file)
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise DataError(f"{file}: {error}.") from error
    if not isinstance(content, dict) or content.pop("format", None) != f"dranking-{kind}":
        raise DataError(f"{root}: this is no {kind} of dranking.")
    version = content.pop("schema_version", None)
    if version != SCHEMA_VERSION:
        raise DataError(
            f"{root}: schema {version} of a {kind} is not the one this dranking reads "
            f"({SCHEMA_VERSION}); upgrade dranking, or make it anew."
        )
    files = content.get("files")
    named = isinstance(files, dict) and all("/" not in n and n.endswith(".npy") for n in files)
    if not named:
        raise DataError(f"{file}: 'files' does not name the arrays; restore it from a copy.")
    return content
