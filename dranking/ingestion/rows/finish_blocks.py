"""The last step before a block is stored: missing values are filled in, features are scaled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.column_forms import Scaling
from dranking.data.scaling import FeatureMoments, merged_moments
from dranking.data.steps import Filling


def finish_block(
    block: QueryBlock, filling: Filling | None, transforms: Sequence[Scaling]
) -> QueryBlock:
    """Fill in missing values and scale; the result's dense features are F-ordered."""
    if filling is not None:
        block = filling.of_columns(block)
    if not block.is_sparse:
        block = block.with_features(np.asfortranarray(block.features))
    for transform in transforms:
        block = transform.apply(block)
    return block


def filled_moments(
    moments: FeatureMoments, values: Sequence[float], n_documents: int
) -> FeatureMoments:
    """Moments of all documents, once missing values have the (n_features,) `values`."""
    value = np.array(values)
    missing = n_documents - moments.n
    low, high = (np.where(missing > 0, value, edge) for edge in (np.inf, -np.inf))
    return merged_moments(moments, FeatureMoments(missing, value, np.zeros_like(value), low, high))


def gaps_of(block: QueryBlock) -> NDArray[np.bool_]:
    """(n_features,) whether the block lacks values of the feature."""
    if not block.is_sparse:
        return np.asarray(np.isnan(block.features).any(axis=0))
    missing = block.features.indices[np.isnan(block.features.data)]
    return np.bincount(missing, minlength=block.n_features) > 0


def queries_without_pairs(block: QueryBlock) -> int:
    """Number of queries without two labelled documents of different grades."""
    starts = block.query_ptr[:-1]
    if not len(starts):
        return 0
    unlabelled = np.isnan(block.relevance)
    low = np.minimum.reduceat(np.where(unlabelled, np.inf, block.relevance), starts)
    high = np.maximum.reduceat(np.where(unlabelled, -np.inf, block.relevance), starts)
    return int((low >= high).sum())
