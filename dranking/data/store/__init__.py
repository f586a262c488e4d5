"""The data set directory: query blocks on disk, readable block by block and feature by feature.

On disk
-------
A directory, by convention ``*.zarr``::

    manifest.json              schema 1: names, scalings, types of ids, an entry for every block
    blocks/000000/             one block of whole queries, at most 8,192 documents (or one query)
        documents.parquet      a row per document: relevance; optionally doc_id, comment
        queries.parquet        a row per query: query_id, n_documents; optionally weight
        features/              dense: (n_features, n_documents) float32, 32 features per chunk
        indptr/ indices/ data/ sparse instead: CSR arrays int64, int32, float32

Arrays are in the Zarr v3 format (blosc lz4 with bitshuffle, then crc32c). The manifest holds the
CRC-32C of every file and a digest of every block. The commit protocol of `dranking.files.commit`
writes a directory whole or not at all.

Modules: `manifest`, `zarr_arrays`, `block_writer`, `block_reader`, and `dataset`, which holds the
public `write_dataset` and `StoredDataset`.

Limits: every file is compared with its checksum when it is read, and content that would lead a
kernel out of its arrays is refused even if its checksum is right. A chunk has at most 2 GiB; sparse
data has fewer than 2**31 features. The manifest grows with the number of blocks.
"""
