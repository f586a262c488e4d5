"""Array folders: a directory of named arrays, one .npy file each, with checksums in the manifest.

``manifest.json`` holds "format" (``dranking-<kind>``), "schema_version", "files" (the CRC-32C of
every ``<name>.npy``), the facts of the caller, and a seal. Nothing is pickled.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from dranking.errors import DataError
from dranking.files.checksums import Checksum, checksum, file_checksum
from dranking.files.folders.manifests import DirectoryKind, read_manifest
from dranking.files.json_files import sealed_json
from dranking.files.places import AnyPlace, Place, as_place, is_local
from dranking.files.reading import read_bytes
from dranking.files.writing.commit import new_directory
from dranking.files.writing.debris import GRACE
from dranking.files.writing.names import MANIFEST_NAME, TOKEN
from dranking.files.writing.output_checks import FORMAT_PREFIX, manifest_format, restore_interrupted

SCHEMA_VERSION: Final = 1


class _ArrayFolderManifest(BaseModel):
    """Content of ``manifest.json``; every further entry is a fact of the caller."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    format: str
    schema_version: Literal[1] = SCHEMA_VERSION
    folder: Annotated[str, Field(pattern=rf"^{TOKEN}$")] | None = None
    files: dict[Annotated[str, Field(pattern=r"^[^/]+\.npy$")], Checksum]


def write_arrays(
    path: AnyPlace,
    kind: str,
    facts: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    overwrite: bool = False,
    grace: timedelta = GRACE,
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
    grace
        As in `dranking.files.writing.commit.new_directory`.

    Raises
    ------
    UsageError
        If the path exists and `overwrite` is false, if the directory there is not the project's,
        or if the disk is full.
    """
    with new_directory(path, overwrite=overwrite, grace=grace) as folder:
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
        (folder / MANIFEST_NAME).write_bytes(sealed_json(manifest))


def is_array_folder(path: AnyPlace, kind: str) -> bool:
    """Whether a directory's manifest says that it is an array folder of this kind."""
    return manifest_format(as_place(path)) == FORMAT_PREFIX + kind


def read_arrays(path: AnyPlace, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the facts and the arrays of an array folder, and compare every file's checksum.

    Returns
    -------
    facts
        Entries of the manifest that `write_arrays` was given.
    arrays
        Arrays by name: read-only; of a local folder they are mapped into memory, so that only the
        parts in use are read.

    Raises
    ------
    DataError
        If there is no such folder, or if it is of another kind, of a newer schema, or damaged.
    """
    root = as_place(path)
    restore_interrupted(root)
    manifest, _ = read_manifest(
        root,
        _ArrayFolderManifest,
        DirectoryKind(kind, FORMAT_PREFIX + kind, SCHEMA_VERSION, "make it anew", sealed=True),
    )
    arrays = {}
    for name, expected in manifest.files.items():
        try:
            arrays[name.removesuffix(".npy")] = _load(
                root / (manifest.folder or "") / name, expected
            )
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


def _load(file: Place, expected: str) -> NDArray[Any]:
    """An array whose checksum is the expected one: mapped if local, else in memory."""
    if not is_local(file):
        content = read_bytes(file)
        _compare(checksum(content), expected)
        array = _parsed(io.BytesIO(content))
        array.flags.writeable = False
        return array
    if file.is_symlink():
        raise ValueError("is a symbolic link")
    _compare(file_checksum(file), expected)
    return _parsed(file, mmap_mode="r")


def _compare(found: str, expected: str) -> None:
    if found != expected:
        raise ValueError(f"has checksum {found} instead of {expected}")


def _parsed(source: Path | io.BytesIO, **options: Any) -> NDArray[Any]:
    try:
        array = np.load(source, allow_pickle=False, **options)
    except OSError:
        raise
    except Exception as error:  # the header's parser raises errors of Python's tokenizer
        raise ValueError(f"is no array: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ValueError("is an archive, not an array")
    return array
