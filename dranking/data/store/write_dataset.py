"""Writing of the data set directory: all segments, then the manifest, whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from dranking.data.blocks import QueryBlock, segment_borders
from dranking.data.column_constants import ColumnConstants, joined_constants
from dranking.data.column_forms import Scaling
from dranking.data.dataset import Dataset
from dranking.data.roles import DEFAULT_ROLES, Roles
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.manifest import (
    DatasetManifest,
    IdType,
    IndexFile,
    LabelOrigin,
    WrittenSegment,
    manifest_json,
)
from dranking.data.store.segment_index import (
    SegmentIndex,
    digest_array,
    hex_digests,
    index_of,
    index_parquet,
)
from dranking.data.store.segment_reader import (
    SegmentReader,
)
from dranking.data.store.segment_writer import check_alike, write_segment
from dranking.data.tables.any_table import is_table, no_dataset
from dranking.data.tables.feature_names import check_feature_names, default_feature_names
from dranking.errors import DataError
from dranking.files.places import AnyPlace, as_place, is_path
from dranking.files.writing.atomic_files import put_part
from dranking.files.writing.commit import DirectoryCommit, begin_directory
from dranking.files.writing.names import INDEX_NAME


def write_dataset(
    blocks: Dataset | Iterable[QueryBlock],
    path: AnyPlace,
    *,
    feature_names: Sequence[str] | None = None,
    transforms: Sequence[Scaling] = (),
    roles: Roles = DEFAULT_ROLES,
    overwrite: bool = False,
    append: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> StoredDataset:
    """Write a data set directory, whole or not at all.

    Blocks are used one segment at a time; a segment is compressed while the next one is made.
    Blocks without documents are left out.

    Parameters
    ----------
    blocks
        A data set, whose names, scalings and roles are kept unless others are given; or blocks, all
        dense or all sparse. A block may have fewer features than the data set; the missing last
        features read as zeros. The arrays of a block must not change afterwards.
    path
        Directory to write: a path, a URL or a place; missing parent directories are made.
    feature_names
        One unique name per feature; ``f1``, ``f2``, ... for the widest block if None.
    transforms
        Scalings already applied to the values.
    roles
        Names of the columns of ids, grades and weights in the table that the data comes from.
    overwrite
        Replace a data set that exists.
    append
        Add the blocks to a data set that exists; see `commit_dataset`.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.

    Raises
    ------
    UsageError
        If the path exists and neither `overwrite` nor `append` is true, if the directory there is
        not the project's, or if the disk is full.
    DataError
        If there are no documents, a name is empty or repeated, a block has more features than
        there are names, some blocks are sparse and others dense, or a value is not finite.
    TryAgainError
        If another process changed the data set meanwhile.
    """
    constants = None
    if isinstance(blocks, Dataset):
        feature_names = blocks.feature_names if feature_names is None else feature_names
        transforms = transforms or blocks.transforms
        constants = blocks.constants
        roles = blocks.roles if roles == DEFAULT_ROLES else roles
        blocks.check_documents()
        blocks = blocks.read_blocks()
    elif is_table(blocks) or hasattr(blocks, "columns") or is_path(blocks):
        raise no_dataset(blocks, "write_dataset")
    names = None if feature_names is None else check_feature_names(feature_names)
    place = as_place(path, storage_options)
    with begin_directory(place, overwrite=overwrite, append=append) as commit:
        segments = list(_write_segments(blocks, commit, names))
        return commit_dataset(
            commit,
            segments,
            feature_names=names,
            constants=constants,
            transforms=transforms,
            roles=roles,
            append=append,
        )


def commit_dataset(
    commit: DirectoryCommit,
    segments: Sequence[WrittenSegment],
    *,
    feature_names: Sequence[str] | None = None,
    transforms: Sequence[Scaling] = (),
    roles: Roles = DEFAULT_ROLES,
    constants: ColumnConstants | None = None,
    labels: LabelOrigin | None = None,
    append: bool = False,
) -> StoredDataset:
    """Make the segments that tasks wrote a data set, all at once.

    Parameters
    ----------
    commit
        The result of `begin_directory` for the data set.
    segments
        The results of `write_segment`, in the order of the data.
    feature_names
        One unique name per feature; ``f1``, ``f2``, ... for the widest segment if None, or the
        names of the data set to which segments are appended.
    transforms
        Scalings already applied to the values.
    roles
        Names of the columns of ids, grades and weights in the table that the data comes from.
    constants
        The values that the segments hold for missing ones; None if no value may be missing.
    labels
        The origin of the labels, if the segments are those of another data set with other labels.
    append
        Put the segments behind those of the data set that is there. The first new segment begins a
        new block, so that the borders of blocks, and with them the last bits of results, are not
        those of data that is written in one go.

    Raises
    ------
    UsageError
        If something appeared at the place meanwhile, the disk is full, or segments were written
        elsewhere since the workers do not share the directory.
    DataError
        If there are no segments, a segment has more features than there are names, some segments
        are sparse and others dense, or, to append, names or scalings are other than those of the
        data set.
    TryAgainError
        If another process changed the data set meanwhile; nothing was changed then.
    """
    if not segments:
        raise DataError("there are no documents to write: the input is empty.")
    before = StoredDataset(commit.place) if append else None
    if feature_names is None:
        widest = max(segment.entry.n_features for segment in segments)
        feature_names = default_feature_names(widest) if before is None else before.feature_names
    names = check_feature_names(feature_names)
    check_alike(segment.sparse for segment in segments)
    entries = [segment.entry for segment in segments]
    commit.check_parts(entry.name for entry in entries)
    for entry in entries:
        _check_width(entry.n_features, names, f"segment {entry.name} has")
    facts = {
        "feature_names": names,
        "sparse": segments[0].sparse,
        "transforms": tuple(transforms),
        "constants": constants if before is None else _constants_of_both(before, constants),
        "labels": labels,
    }
    id_types = {
        "query_id_type": _common_type(segment.query_id_type for segment in segments) or "string",
        "doc_id_type": _common_type(segment.doc_id_type for segment in segments),
    }
    index = index_of(entries)
    writers: tuple[str, ...] = (commit.token,)
    manifest = _manifest(index, commit, writers, roles=roles, **facts, **id_types)
    if labels is None:  # other labels are given to blocks as they are read
        index = _with_digests_as_read(commit, manifest, index)
    if before is not None:
        _check_same_facts(before, manifest)
        index = before.index.joined(index)
        writers = (*before.manifest.writers, commit.token)
        for name, kind in id_types.items():
            id_types[name] = _common_type([kind, getattr(before.manifest, name)])
        roles = before.roles
    manifest = _manifest(index, commit, writers, roles=roles, **facts, **id_types)
    put_part(commit.root, manifest.index.name, index_parquet(index))
    commit.finish(manifest_json(manifest))
    return StoredDataset(commit.place)


def segments_of(blocks: Iterable[QueryBlock]) -> Iterator[list[QueryBlock]]:
    """Group neighbouring blocks into segments; see `segment_borders`."""
    found: list[QueryBlock] = []
    for block in blocks:
        sizes = [other.n_documents for other in (*found, block)]
        if len(segment_borders(sizes)) > 2:
            yield found
            found = []
        found.append(block)
    if found:
        yield found


def _write_segments(
    blocks: Iterable[QueryBlock],
    commit: DirectoryCommit,
    names: tuple[str, ...] | None,
) -> Iterator[WrittenSegment]:
    """Write the blocks that have documents, a segment while the next one is made."""
    checked = _checked_blocks(blocks, names)
    pending: Future[WrittenSegment] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="dranking-write") as pool:
        for number, segment in enumerate(segments_of(checked)):
            if pending is not None:
                yield pending.result()
            if not number:
                commit.remove_replaced()
            name = commit.name(f"segments/{number:06d}")
            pending = pool.submit(write_segment, commit.root, name, segment)
        if pending is not None:
            yield pending.result()


def _checked_blocks(
    blocks: Iterable[QueryBlock], names: tuple[str, ...] | None
) -> Iterator[QueryBlock]:
    is_sparse: bool | None = None
    for block in blocks:
        if not block.n_documents:
            continue
        if names is not None:
            what = f"query {block.query_ids[0]} and the queries after it have"
            _check_width(block.n_features, names, what)
        is_sparse = block.is_sparse if is_sparse is None else is_sparse
        check_alike([is_sparse, block.is_sparse])
        yield block


def _check_width(n_features: int, names: Sequence[str], what: str) -> None:
    if n_features > len(names):
        raise DataError(f"{what} {n_features} features, but {len(names)} feature names are given.")


def _manifest(
    index: SegmentIndex, commit: DirectoryCommit, writers: tuple[str, ...], **facts: Any
) -> DatasetManifest:
    """The manifest of the segments of an index."""
    content = index_parquet(index)
    return DatasetManifest(
        **facts,
        n_documents=int(index.n_documents.sum()),
        n_queries=int(index.n_queries.sum()),
        n_unlabelled=int(index.n_unlabelled.sum()),
        n_blocks=index.n_blocks,
        n_segments=index.n_segments,
        writers=writers,
        index=IndexFile(
            name=commit.name(INDEX_NAME),
            n_bytes=len(content),
            digest=hashlib.blake2b(content, digest_size=16).hexdigest(),
        ),
    )


def _with_digests_as_read(
    commit: DirectoryCommit, manifest: DatasetManifest, index: SegmentIndex
) -> SegmentIndex:
    """The index with the digests of blocks as they are read.

    Columns of zeros for narrow segments are known only after the last block. With new digests for
    such blocks, equal data has equal digests however it was streamed.
    """
    narrow = (index.n_features < len(manifest.feature_names)) & (not manifest.sparse)
    changed = np.flatnonzero(narrow).tolist()
    if not changed:
        return index
    digests, of_features = hex_digests(index.digests), hex_digests(index.features_digests)
    for number in changed:
        entry = index.entry(number)
        blocks = SegmentReader(commit.root, manifest, entry).blocks(0, len(entry.blocks))
        new = [(block.features_digest(), block) for block in blocks]
        of_features[index.blocks_of(number)] = [digest for digest, _ in new]
        digests[index.blocks_of(number)] = [block.digest_with(digest) for digest, block in new]
    return replace(index, digests=digest_array(digests), features_digests=digest_array(of_features))


def _check_same_facts(before: StoredDataset, manifest: DatasetManifest) -> None:
    """Raise DataError unless new segments are like those to which they are appended."""
    for name in ("feature_names", "sparse", "transforms", "labels"):
        if getattr(manifest, name) != getattr(before.manifest, name):
            raise DataError(
                f"{before.path}: cannot be appended to, its {name} differ from those of the new "
                "data. Ingest all of the data anew."
            )


def _constants_of_both(
    before: StoredDataset, constants: ColumnConstants | None
) -> ColumnConstants | None:
    """The values for missing ones of a data set and of new segments; DataError if they differ."""
    return joined_constants(
        (before.constants, constants), before.feature_names, f"{before.path} and the new data"
    )


def _common_type(types: Iterable[IdType | None]) -> IdType | None:
    """Type in which the ids of all segments are read: string, unless all have integers."""
    found = set(types) - {None}
    if not found:
        return None
    return "int64" if found == {"int64"} else "string"
