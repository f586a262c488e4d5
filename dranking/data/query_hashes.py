"""Hashes of queries: keyed hashes of their ids, and digests of the features of their documents."""

from __future__ import annotations

import zlib
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import FeatureMatrix, QueryBlock

Words = NDArray[np.uint64]


def id_hashes(ids: pa.Array, key: str) -> Words:
    """Hashes of query ids, as texts, under a key: BLAKE2b of 8 bytes.

    Returns
    -------
    (n_queries,) uint64.
    """
    secret = key.encode()
    texts = map(str, ids.to_pylist())
    found = b"".join(blake2b(t.encode(), digest_size=8, key=secret).digest() for t in texts)
    return np.frombuffer(found, dtype="<u8").astype(np.uint64)


def feature_digests(block: QueryBlock) -> Words:
    """Digest of the features of the documents of every query of a block.

    The order of the documents, their grades and ids, and dense or sparse storage do not matter.

    Returns
    -------
    (n_queries,) uint64, never 0.
    """
    documents = mixed(_row_words(block.features))
    return _never_zero(mixed(np.add.reduceat(documents, block.query_ptr[:-1])))


def row_digests(features: FeatureMatrix) -> Words:
    """Digest of every row of features; dense or sparse storage does not matter.

    Returns
    -------
    (n_rows,) uint64, never 0.
    """
    return _never_zero(mixed(_row_words(features)))


def query_ranks(block: QueryBlock) -> Words:
    """A number for every query that looks random, and is the same in every run.

    The queries with the smallest numbers are a random sample, and the sample of several data sets
    together is found among their samples.

    Returns
    -------
    (n_queries,) uint64.
    """
    ids = np.array([zlib.crc32(str(i).encode()) for i in block.query_ids.to_pylist()], np.uint64)
    rows = np.add.reduceat(mixed(_row_words(block.features)), block.query_ptr[:-1])
    return mixed(rows ^ mixed(ids))


def _never_zero(words: Words) -> Words:
    return np.where(words == 0, np.uint64(1), words)


def _row_words(features: FeatureMatrix) -> Words:
    """(n_documents,) sums of the bits of a row's float32 values, each times a random odd number."""
    factors = np.random.default_rng(0).integers(2**63, size=features.shape[1], dtype=np.uint64)
    factors = 2 * factors + np.uint64(1)
    if isinstance(features, np.ndarray):
        bits = (features + np.float32(0)).view(np.uint32)  # -0.0 becomes 0.0
        sums: Words = (bits * factors).sum(axis=1, dtype=np.uint64)
        return sums
    bits = (features.data + np.float32(0)).view(np.uint32)
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(bits * factors[features.indices])])
    rows: Words = running[features.indptr[1:]] - running[features.indptr[:-1]]
    return rows


def mixed(words: Words) -> Words:
    """Mix the bits of words (the finaliser of SplitMix64, Steele, Lea and Flood, OOPSLA 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
