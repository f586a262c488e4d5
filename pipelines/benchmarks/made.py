"""Made ranking data of any size for benchmarks, block by block, in little memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from dranking.data.blocks import MAX_BLOCK_DOCUMENTS, QueryBlock

QUERY_SIZE = 40


def made_blocks(
    n_documents: int, n_features: int, query_size: int = QUERY_SIZE
) -> Iterator[QueryBlock]:
    """Blocks whose queries all have one size; each block is made when it is needed."""
    per_block = MAX_BLOCK_DOCUMENTS // query_size
    weights = np.random.default_rng(0).normal(size=n_features)
    for first in range(0, n_documents // query_size, per_block):
        n_queries = min(per_block, n_documents // query_size - first)
        rng = np.random.default_rng((1, first))
        features = rng.random((n_queries * query_size, n_features), dtype=np.float32)
        noisy = features @ weights + rng.normal(size=len(features))
        yield QueryBlock(
            features=features,
            relevance=np.digitize(noisy, np.quantile(noisy, [0.7, 0.9])).astype(float),
            query_ptr=np.arange(0, len(features) + 1, query_size),
            query_ids=pa.array(np.arange(first, first + n_queries)),
        )
