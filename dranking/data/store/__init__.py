"""The data set directory, version 2: query blocks on disk or in an object store, in segments.

On storage
----------
A directory, by convention ``*.zarr``, at a local path or behind a URL::

    manifest.json              schema 4: names, scalings, types of ids, totals; sealed by a digest
    <token>-index.parquet      a row per segment: name, sizes and digests of its blocks, and the
                               digest of its table of chunks
    segments/<token>-000017/   whole blocks: at most 65,536 documents, or a single block
        arrays/                a Zarr v3 group, with nothing but its arrays:
            features/              dense: (n_features, n_documents) float32
            indptr/ indices/ data/ sparse instead: CSR arrays int64, int32, float32
        documents.parquet      a row per document: relevance; optionally doc_id, comment
        queries.parquet        a row per query: query_id, n_documents; optionally weight
        chunks.parquet         offset, length and CRC-32C of every chunk and file above

A *block* is at most 8,192 documents of whole queries, or one query. The parquet files of a segment
have a row group for every block, and these are the borders of the blocks.

Every array is one object: a shard (Zarr's sharding codec) of chunks of 32 features x 4,096
documents, or of 262,144 values of sparse data, each compressed (blosc lz4 with bitshuffle) and
ended by its CRC-32C. The chunks of the same documents lie side by side, so that neighbouring blocks
are one range of bytes, and single blocks and features are read without the rest.
`zarr.open_group`, xarray and `dask.array.from_zarr` read ``arrays/`` without a warning, which they
print for any other file in a group. The index tells which segments count, and their order.

Writing: `write_segment` runs in a task on any worker; `commit_dataset` puts the index and then the
manifest, which makes everything visible at once; `write_dataset` does both for a stream of blocks.
The commit protocol is `dranking.files.writing.commit`: the token is a new name, so that tasks
write files under their final names. Appending adds segments, and a new index of all segments.

Reading: the manifest names the digest of the index, the index the digest of each table of chunks,
and that table the checksum of every chunk. Sizes are compared with each other before memory is
taken. What is missing or altered is a `DataError`; a chunk that is wrong is fetched once more
before. The ``zarr.json`` files, and the index at the end of each shard, are for other readers only.

Modules: `manifest`, `segment_index`, `zarr_arrays`, `segment_layout`, `segment_writer`,
`segment_files`, `segment_reader`, `dataset` with `StoredDataset`, and `write_dataset` with the
public function of this name.
"""
