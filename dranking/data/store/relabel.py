"""Data sets with other labels: features are shared with the data set that has them, never read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from dranking.data.blocks import QueryBlock
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.manifest import BlockEntry, SegmentEntry, WrittenSegment
from dranking.data.store.segment_files import SegmentFiles
from dranking.data.store.segment_layout import (
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    QUERIES_FILE,
    array_specs,
    chunk_columns,
    group_files,
    object_name,
)
from dranking.data.store.segment_reader import SegmentReader
from dranking.data.store.segment_writer import (
    check_labels,
    document_columns,
    parquet_of,
    query_columns,
    whole_file,
)
from dranking.files.places import Place, is_local
from dranking.files.writing.atomic_files import new_folder
from dranking.files.writing.links import share_file

Relabel = Callable[[Sequence[QueryBlock]], Sequence[QueryBlock]]
"""Returns blocks, which come without features, with other relevance and query weights."""


def relabel_segment(
    source: StoredDataset, segment: int, root: Place, name: str, relabel: Relabel
) -> WrittenSegment:
    """Write a segment of a data set with other labels, in any process that sees both places.

    Parameters
    ----------
    source
        The data set with the features.
    segment
        Number of the segment.
    root, name
        As in `dranking.data.store.segment_writer.write_segment`.
    relabel
        Gives the blocks of the segment other labels.

    Raises
    ------
    DataError
        If the segment is damaged, or a new grade or query weight is out of range.
    """
    manifest, entry = source.manifest, source.entries.entry(segment)
    sizes = [(block.n_documents, block.n_values) for block in entry.blocks]
    n_documents, n_values = map(sum, zip(*sizes, strict=True))
    specs = array_specs(manifest.sparse, entry.n_features, n_documents, n_values)
    kept = SegmentFiles(source.path, entry, specs).table
    reader = SegmentReader(source.path, manifest, entry)
    blocks = relabel(list(reader.blocks_without_features()))
    for block in blocks:
        check_labels(block)
    files = {
        **group_files(specs),
        DOCUMENTS_FILE: parquet_of([document_columns(block) for block in blocks]),
        QUERIES_FILE: parquet_of([query_columns(block) for block in blocks]),
    }
    chunks = {each: [whole_file(files[each])] for each in (DOCUMENTS_FILE, QUERIES_FILE)}
    shared = [file for file in (object_name(*each) for each in specs.items()) if file in kept]
    chunks |= {file: list(kept[file]) for file in shared}
    files[CHUNKS_FILE] = parquet_of([chunk_columns(chunks)])
    with new_folder(root, name) as folder:
        for file, content in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        to: Place = folder if is_local(root) else root / name
        for file in shared:
            if is_local(to):
                (to / file).parent.mkdir(parents=True, exist_ok=True)
            share_file(source.path / entry.name / file, to / file)
    new = SegmentEntry(
        name=name,
        n_features=entry.n_features,
        chunks_bytes=len(files[CHUNKS_FILE]),
        chunks_digest=hashlib.blake2b(files[CHUNKS_FILE], digest_size=16).hexdigest(),
        blocks=tuple(map(_relabelled, entry.blocks, blocks)),
    )
    return WrittenSegment(new, manifest.sparse, manifest.query_id_type, manifest.doc_id_type)


def _relabelled(entry: BlockEntry, block: QueryBlock) -> BlockEntry:
    return replace(
        entry,
        n_unlabelled=block.info.n_unlabelled,
        digest=block.digest_with(entry.features_digest),
    )
