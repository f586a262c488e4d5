"""Data sets that are a directory with a manifest: what data sets and statistics stores share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from dranking.data.blocks import BlockInfo
from dranking.data.dataset import Dataset
from dranking.data.transforms import Scaling
from dranking.errors import DataError
from dranking.files.commit import AnyPath, restore_interrupted
from dranking.files.manifests import DirectoryKind, read_manifest


class _Manifest(Protocol):
    @property
    def feature_names(self) -> tuple[str, ...]: ...

    @property
    def transforms(self) -> tuple[Scaling, ...]: ...

    @property
    def blocks(self) -> Sequence[Any]: ...

    def info(self, entry: Any) -> BlockInfo: ...


ManifestT = TypeVar("ManifestT", bound=_Manifest)


class DirectoryDataset(Dataset, Generic[ManifestT]):
    """Blocks in a directory, described by its manifest.

    A data set is pickled as its path. The copy opens the directory again on first use, and raises
    DataError if the directory was changed in between.

    Parameters
    ----------
    path
        The directory.

    Raises
    ------
    DataError
        If there is no manifest, or if it is damaged, of another schema or of another kind.
    """

    _model: type[Any]
    _kind: DirectoryKind

    def __init__(self, path: AnyPath) -> None:
        self.path = Path(path).absolute()
        restore_interrupted(self.path)
        self.manifest, self._manifest_digest = self._read_manifest()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_manifest_digest": self._manifest_digest}

    @cached_property
    def manifest(self) -> ManifestT:
        """The manifest; a pickled data set reads it on first use."""
        manifest, digest = self._read_manifest()
        if digest != self._manifest_digest:
            raise DataError(
                f"{self.path}: was changed since it was opened. Start the computation again."
            )
        return manifest

    def _read_manifest(self) -> tuple[ManifestT, str]:
        return read_manifest(self.path, self._model, self._kind)

    @property
    def feature_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """One unique name per feature."""
        return self.manifest.feature_names

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block."""
        return tuple(self.manifest.info(entry) for entry in self.manifest.blocks)

    @property
    def transforms(self) -> tuple[Scaling, ...]:  # type: ignore[override]
        """Scalings already applied to the values."""
        return self.manifest.transforms

    def block_digests(self) -> Iterator[str]:
        """Hex digest of the content of each block, in order."""
        return (entry.digest for entry in self.manifest.blocks)
