"""Array folders: a directory of named arrays, one .npy file each, with checksums in the manifest.

``manifest.json`` holds "format" (``dranking-<kind>``), "schema_version", "files" (the CRC-32C of
every ``<name>.npy``) and the facts of the caller. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from dranking.errors import DataError
from dranking.files.checksums import Checksum, file_checksum
from dranking.files.commit import (
    FORMAT_PREFIX,
    MANIFEST_NAME,
    AnyPath,
    manifest_format,
    new_directory,
    restore_interrupted,
)
from dranking.files.manifests import DirectoryKind, read_manifest

SCHEMA_VERSION: Final = 1


class _ArrayFolderManifest(BaseModel):
    """Content of ``manifest.json``; every further entry is a fact of the caller."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    format: str
    schema_version: Literal[1] = SCHEMA_VERSION
    files: dict[Annotated[str, Field(pattern=r"^[^/]+\.npy$")], Checksum]


def write_arrays(
    path: AnyPath,
    kind: str,
    facts: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    overwrite: bool = False,
) -> None:
    """Write an array folder, whole or not at all.

    Parameters
    ----------
    path
        Directory to write.
    kind
        The folder's kind, such as "collection"; the manifest's format is ``dranking-<kind>``.
    facts
        Further entries of the manifest; values that JSON can hold.
    arrays
        Arrays by name, of any shape and of any dtype except object.
    overwrite
        Replace a directory that exists.

    Raises
    ------
    UsageError
        If the path exists and `overwrite` is false, if the directory there is not the project's,
        or if the disk is full.
    """
    with new_directory(path, overwrite=overwrite) as folder:
        files = {}
        for name, array in arrays.items():
            file = folder / f"{name}.npy"
            np.save(file, array, allow_pickle=False)
            files[file.name] = file_checksum(file)
        manifest = {
            "format": FORMAT_PREFIX + kind,
            "schema_version": SCHEMA_VERSION,
            "files": files,
            **facts,
        }
        (folder / MANIFEST_NAME).write_text(json.dumps(manifest, ensure_ascii=False) + "\n")


def is_array_folder(path: AnyPath, kind: str) -> bool:
    """Whether a directory's manifest says that it is an array folder of this kind."""
    return manifest_format(Path(path)) == FORMAT_PREFIX + kind


def read_arrays(path: AnyPath, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the facts and the arrays of an array folder, and compare every file's checksum.

    Returns
    -------
    facts
        Entries of the manifest that `write_arrays` was given.
    arrays
        Arrays by name: read-only, mapped into memory, so that only the parts in use are read.

    Raises
    ------
    DataError
        If there is no such folder, or if it is of another kind, of a newer schema, or damaged.
    """
    root = Path(path)
    restore_interrupted(root)
    manifest, _ = read_manifest(
        root,
        _ArrayFolderManifest,
        DirectoryKind(kind, FORMAT_PREFIX + kind, SCHEMA_VERSION, "make it anew"),
    )
    arrays = {}
    for name, expected in manifest.files.items():
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
    return dict(manifest.model_extra or {}), arrays


def csr_of(arrays: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> Any:
    """Make a CSR array of the arrays `indptr`, `indices` and `data`, without copying them.

    Every entry is checked, because compiled code trusts the pointers.

    Raises
    ------
    KeyError
        If one of the arrays is missing.
    ValueError
        If a pointer or an index is out of bounds, an array has a wrong dtype, or an entry of
        `data` is not finite.
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


def _load(file: Path) -> NDArray[Any]:
    array = np.load(file, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("is an archive, not an array")
    return array
