"""Data sets that are a directory with a manifest: what data sets and statistics stores share."""

from __future__ import annotations

import platform
import threading
from collections import OrderedDict
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import Scaling
from dranking.data.dataset import Dataset
from dranking.errors import DataError, StoreRefusesError
from dranking.files.folders.manifests import DirectoryKind, changed_since_opened, read_manifest
from dranking.files.places import AnyPlace, Place, as_place, is_local
from dranking.files.writing.names import MANIFEST_NAME, replaced_manifest
from dranking.redaction import redacted


class _Manifest(Protocol):
    @property
    def feature_names(self) -> tuple[str, ...]: ...

    @property
    def constants(self) -> ColumnConstants | None: ...

    @property
    def transforms(self) -> tuple[Scaling, ...]: ...


ManifestT = TypeVar("ManifestT", bound=_Manifest)

N_KEPT_OPEN = 8
"""Data sets that a process keeps open for tasks."""

_open_lock = threading.RLock()
_kept_open: OrderedDict[tuple[object, ...], DirectoryDataset[Any]] = OrderedDict()


class DirectoryDataset(Dataset, Generic[ManifestT]):
    """Blocks in a directory, described by its manifest.

    A data set is pickled as its place and the digest of its manifest. The copy opens the directory
    again on first use, and raises DataError if the directory was changed in between. All copies in
    one process are the same object, so that many tasks open the data once.

    Parameters
    ----------
    path
        The directory: a path, a URL or a place.

    Raises
    ------
    DataError
        If there is no manifest, or if it is damaged, of another schema or of another kind.
    """

    _model: type[Any]
    _kind: DirectoryKind

    def __init__(self, path: AnyPlace) -> None:
        self.path: Place = as_place(path)
        self.manifest, self._manifest_digest = self._read_manifest()

    def __repr__(self) -> str:
        # A copy on a worker has not read its manifest yet.
        known = f", {self._sizes()}" if "manifest" in vars(self) else ""
        return f"{type(self).__name__}({redacted(str(self.path))}{known})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.path, self._manifest_digest)

    @cached_property
    def manifest(self) -> ManifestT:
        """The manifest; a pickled data set reads it on first use."""
        try:
            manifest, digest = self._read_manifest()
        except StoreRefusesError:  # nothing is known of the data there
            raise
        except DataError as error:
            raise DataError(
                f"on host {platform.node()}: {error} If the data is there on other hosts, give a "
                "path that all workers can read, or a URL."
            ) from error
        return manifest if digest == self._manifest_digest else self._replaced_manifest()

    def _read_manifest(self, name: str = MANIFEST_NAME) -> tuple[ManifestT, str]:
        return read_manifest(self.path, self._model, self._kind, name)

    def _replaced_manifest(self) -> ManifestT:
        """The manifest at the time when the data set was opened."""
        try:
            return self._read_manifest(replaced_manifest(self._manifest_digest))[0]
        except StoreRefusesError:
            raise
        except DataError as error:
            raise changed_since_opened(self.path) from error

    @property
    def feature_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """One unique name per feature."""
        return self.manifest.feature_names

    @property
    def constants(self) -> ColumnConstants | None:  # type: ignore[override]
        """The values that were filled in for missing ones."""
        return self.manifest.constants

    @property
    def transforms(self) -> tuple[Scaling, ...]:  # type: ignore[override]
        """Scalings already applied to the values."""
        return self.manifest.transforms


def _unpickled(
    kind: type[DirectoryDataset[Any]], path: Place, manifest_digest: str
) -> DirectoryDataset[Any]:
    """The one copy of a data set in this process; a new copy is opened at its first use."""
    options = {} if is_local(path) else path.storage_options
    key = (kind, str(path), repr(sorted(options.items())), manifest_digest)
    with _open_lock:
        if key not in _kept_open:
            dataset = kind.__new__(kind)
            dataset.path, dataset._manifest_digest = path, manifest_digest
            _kept_open[key] = dataset
            if len(_kept_open) > N_KEPT_OPEN:
                _kept_open.popitem(last=False)
        _kept_open.move_to_end(key)
        return _kept_open[key]
