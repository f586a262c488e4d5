"""The last step before a block is stored: missing values are filled in, features are scaled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.column_forms import Scaling
from dranking.data.letor.feature_minima import fill_missing
from dranking.data.scaling import FeatureMoments, merged_moments

NullPolicy: TypeAlias = Literal["error", "zero", "minimum", "mean"]
"""The meaning of a missing feature value: an error, zero, or the minimum or mean of the feature
over the documents that have a value."""


def finish_block(
    block: QueryBlock, fill: NDArray[np.float32] | None, transforms: Sequence[Scaling]
) -> QueryBlock:
    """Fill in missing values (n_features,) and scale; the result's dense features are F-ordered."""
    features = block.features if fill is None else fill_missing(block.features, fill)
    if not block.is_sparse:
        features = np.asfortranarray(features)
    block = block.with_features(features)
    for transform in transforms:
        block = transform.apply(block)
    return block


def fill_values(moments: FeatureMoments, null: NullPolicy) -> NDArray[np.float32]:
    """(n_features,) values for missing ones; 0 for a feature that has no value at all."""
    values = {"minimum": moments.low, "mean": moments.mean}.get(null, np.zeros_like(moments.mean))
    return np.where(moments.n > 0, values, 0.0).astype(np.float32)


def filled_moments(
    moments: FeatureMoments, fill: NDArray[np.float32], n_documents: int
) -> FeatureMoments:
    """Moments of all documents, once the missing values are filled in."""
    value = fill.astype(np.float64)
    missing = n_documents - moments.n
    low, high = (np.where(missing > 0, value, edge) for edge in (np.inf, -np.inf))
    return merged_moments(moments, FeatureMoments(missing, value, np.zeros_like(value), low, high))


def queries_without_pairs(block: QueryBlock) -> int:
    """Number of queries without two labelled documents of different grades."""
    starts = block.query_ptr[:-1]
    if not len(starts):
        return 0
    unlabelled = np.isnan(block.relevance)
    low = np.minimum.reduceat(np.where(unlabelled, np.inf, block.relevance), starts)
    high = np.maximum.reduceat(np.where(unlabelled, -np.inf, block.relevance), starts)
    return int((low >= high).sum())
