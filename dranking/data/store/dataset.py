"""Reading and writing of the data set directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.directory_dataset import DirectoryDataset
from dranking.data.roles import DEFAULT_ROLES, Roles
from dranking.data.store.block_reader import read_block, read_query_ids
from dranking.data.store.block_writer import WrittenBlock, write_block
from dranking.data.store.manifest import (
    KIND,
    BlockEntry,
    DatasetManifest,
    IdType,
    manifest_json,
)
from dranking.data.tables.feature_names import check_feature_names, default_feature_names
from dranking.data.transforms import Scaling
from dranking.errors import DataError
from dranking.files.commit import MANIFEST_NAME, AnyPath, new_directory


class StoredDataset(DirectoryDataset[DatasetManifest]):
    """A data set directory; see `DirectoryDataset` for parameters and errors."""

    _model, _kind = DatasetManifest, KIND

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether blocks hold CSR features."""
        return self.manifest.sparse

    @property
    def roles(self) -> Roles:  # type: ignore[override]
        """Names of the columns of ids, grades and weights in the table that the data comes from."""
        return self.manifest.roles

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block; dense features are F-ordered. All arrays are read-only.

        Raises
        ------
        DataError
            If a file is missing or damaged; the message names the block, the file and the remedy.
        """
        return read_block(self.path, self.manifest, index, columns)

    def query_ids(self) -> pa.Array:
        """(n_queries,) ids of all queries, in order; reads no features."""
        return pa.concat_arrays(
            [read_query_ids(self.path, self.manifest, b) for b in range(self.n_blocks)]
        )


def write_dataset(
    blocks: Iterable[QueryBlock],
    path: AnyPath,
    *,
    feature_names: Sequence[str] | None = None,
    transforms: Sequence[Scaling] = (),
    roles: Roles = DEFAULT_ROLES,
    fill: Callable[[], ArrayLike] | None = None,
    overwrite: bool = False,
) -> StoredDataset:
    """Write a data set directory, whole or not at all.

    Blocks are used one at a time; a block is compressed while the next one is made. Blocks without
    documents are left out.

    Parameters
    ----------
    blocks
        Blocks, all dense or all sparse. A block may have fewer features than the data set; the
        missing last features read as zeros. The arrays of a block must not change afterwards.
    path
        Directory to write; missing parent directories are made.
    feature_names
        One unique name per feature; ``f1``, ``f2``, ... for the widest block if None.
    transforms
        Scalings already applied to the values.
    roles
        Names of the columns of ids, grades and weights in the table that the data comes from.
    fill
        Called after the last block; returns (n_features,) finite values that replace missing
        values (NaN in the blocks) when blocks are read. Without `fill`, NaN is an error.
    overwrite
        Replace a data set that exists.

    Raises
    ------
    UsageError
        If the path exists and `overwrite` is false, if the directory there is not the project's,
        or if the disk is full.
    DataError
        If there are no documents, a name is empty or repeated, a block has more features than
        there are names, some blocks are sparse and others dense, or a value is not finite.
    ValueError
        If `fill` returns another number of values, or values that are not finite.
    """
    names = None if feature_names is None else check_feature_names(feature_names)
    with new_directory(path, overwrite=overwrite) as temporary:
        written, is_sparse = _write_blocks(blocks, temporary, names, fill is not None)
        entries = [block.entry for block in written]
        widest = max(entry.n_features for entry in entries)
        names = default_feature_names(widest) if names is None else names
        manifest = DatasetManifest(
            feature_names=names,
            sparse=is_sparse,
            transforms=tuple(transforms),
            roles=roles,
            null_fill=None if fill is None else _checked_fill(fill(), len(names)),
            query_id_type=_common_type({block.query_id_type for block in written}) or "string",
            doc_id_type=_common_type({block.doc_id_type for block in written}),
            blocks=tuple(entries),
        )
        manifest = _with_digests_as_read(temporary, manifest)
        (temporary / MANIFEST_NAME).write_text(manifest_json(manifest), encoding="utf-8")
    return StoredDataset(path)


def _write_blocks(
    blocks: Iterable[QueryBlock], root: Path, names: tuple[str, ...] | None, allow_null: bool
) -> tuple[list[WrittenBlock], bool]:
    """Write the blocks that have documents, and find whether they are sparse."""
    written: list[WrittenBlock] = []
    pending: Future[WrittenBlock] | None = None
    is_sparse: bool | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="dranking-write") as pool:
        for block in blocks:
            if not block.n_documents:
                continue
            if names is not None and block.n_features > len(names):
                raise DataError(
                    f"query {block.query_ids[0]} and the queries after it have {block.n_features} "
                    f"features, but {len(names)} feature names are given."
                )
            if is_sparse is not None and block.is_sparse != is_sparse:
                raise DataError(
                    "some blocks are sparse and some dense; make all blocks sparse or all dense."
                )
            is_sparse = block.is_sparse
            if pending is not None:
                written.append(pending.result())
            index = len(written)
            pending = pool.submit(write_block, root, index, block, allow_null)
        if pending is None or is_sparse is None:
            raise DataError("there are no documents to write: the input is empty.")
        written.append(pending.result())
    return written, is_sparse


def _with_digests_as_read(root: Path, manifest: DatasetManifest) -> DatasetManifest:
    """The manifest with the digests of blocks as they are read.

    Columns of zeros for narrow blocks and replacements of missing values are known only after the
    last block. With new digests for such blocks, equal data has equal digests however it was
    streamed.
    """
    n_features = len(manifest.feature_names)

    def as_read(index: int, entry: BlockEntry) -> BlockEntry:
        narrow = entry.n_features < n_features and not manifest.sparse
        if not narrow and not entry.n_null:
            return entry
        digest = read_block(root, manifest, index).digest()
        return entry.model_copy(update={"digest": digest})

    entries = tuple(as_read(index, entry) for index, entry in enumerate(manifest.blocks))
    return manifest.model_copy(update={"blocks": entries})


def _checked_fill(values: ArrayLike, n_features: int) -> tuple[float, ...]:
    fill = np.asarray(values, np.float64)
    if fill.shape != (n_features,) or not np.isfinite(fill).all():
        raise ValueError(
            f"fill must give {n_features} finite values; it has shape {fill.shape} and "
            f"{np.isfinite(fill).sum()} finite ones."
        )
    return tuple(fill.tolist())


def _common_type(types: set[IdType | None]) -> IdType | None:
    """Type in which the ids of all blocks are read: string, unless all blocks have integers."""
    found = types - {None}
    if not found:
        return None
    return "int64" if found == {"int64"} else "string"
