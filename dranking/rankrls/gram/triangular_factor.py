"""R of the QR decomposition of centred rows [X y]: the sum over blocks that keeps all digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.rankrls.gram.statistics_store import statistics_moments
from dranking.rankrls.kernels.gram.per_query import centred_strips
from dranking.rankrls.kernels.lqo.orthogonal import triangle_of
from dranking.rankrls.statistics.per_query import QueryStatistics

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MAX_NUMBERS = 2**19
"""Numbers in the matrices of the queries of a statistics store that are factored together: 4 MB."""

MAX_FACTORED_FEATURES = 1_024
"""Largest number of features with orthogonal factors: for more, the rotations take a minute."""

MAX_WIDE_FEATURES, DOCUMENTS_PER_FEATURE = 256, 16
"""Above the first number of features, orthogonal factors need at least the second number of
documents for each feature: in wider data nearly every query is dominant, and takes a factorisation
for each lambda."""


@dataclass(frozen=True, eq=False)
class TriangularFactor:
    """R of the QR decomposition of centred rows [X y]; `+` gives the R of both row sets together.

    Attributes
    ----------
    values
        (n_features + 1, n_features + 1) upper triangular.
    """

    values: Array

    def __add__(self, other: TriangularFactor) -> TriangularFactor:
        rows = np.concatenate((self.values, other.values))
        return TriangularFactor(with_one_blas_thread(triangle_of, rows))


def takes_factors(dataset: Dataset) -> bool:
    """Whether the errors of a data set are computed from orthogonal factors."""
    n = dataset.n_features
    if n <= MAX_WIDE_FEATURES:
        return True
    n_most = min(dataset.n_documents // DOCUMENTS_PER_FEATURE, MAX_FACTORED_FEATURES)
    return dataset.has_documents and n <= n_most


def block_factor(
    block: QueryBlock | QueryStatistics,
    columns: NDArray[np.float32] | None = None,
    features: Indices | None = None,
) -> TriangularFactor:
    """R of the rows of a block; arguments as in `centred_rows`."""
    factor: Array | None = None
    for rows, _ in centred_rows(block, columns, features):
        factor = triangle_of(rows if factor is None else np.concatenate((factor, rows)))
    if factor is None:
        n = block.n_features if features is None else len(features)
        factor = np.zeros((n + 1, n + 1))
    return TriangularFactor(factor)


def others_of_each(parts: Sequence[TriangularFactor]) -> list[TriangularFactor]:
    """For each of the row sets, R of all other row sets together."""
    n = len(parts[0].values)
    nothing = TriangularFactor(np.zeros((n, n)))
    after = [nothing]
    for part in reversed(parts[1:]):
        after.append(part + after[-1])
    others, before = [], nothing
    for part, behind in zip(parts, reversed(after), strict=True):
        others.append(before + behind)
        before = before + part
    return others


def centred_rows(
    block: QueryBlock | QueryStatistics,
    columns: NDArray[np.float32] | None = None,
    features: Indices | None = None,
    n_documents: int = 1_024,
) -> Iterator[tuple[Array, Indices]]:
    """Yield strips of centred rows [X y], with the offsets of the queries of each strip.

    Statistics hold no documents. Their rows have the sums of products that the statistics hold; the
    rows of a query are as many as its columns.

    Parameters
    ----------
    block
        The data.
    columns
        (len(features), n_documents) values of the features; None if the block holds all features.
    features
        The features; None means all.
    n_documents
        Number of documents of a strip, about.
    """
    if isinstance(block, QueryStatistics):
        kept = np.arange(block.n_features) if features is None else features
        yield from _rows_of_statistics(block, kept)
        return
    if columns is not None:
        values = np.ascontiguousarray(columns.T)
    else:
        chosen = block.features if features is None else block.features[:, features]
        values = chosen if block.is_sparse else np.ascontiguousarray(chosen)
    labels, ptr, weights = block.relevance, block.query_ptr, block.weights
    strips = centred_strips(values, labels, ptr, weights, n_documents)
    for rows, own, offsets in strips:
        yield np.column_stack((rows, own)), offsets


def _rows_of_statistics(
    block: QueryStatistics, features: Indices
) -> Iterator[tuple[Array, Indices]]:
    moments, n = statistics_moments(block), len(features)
    grams = np.zeros((block.n_queries, n + 1, n + 1))
    for j, rows in enumerate(block.rows(features.tolist())):
        grams[:, j, :n] = rows[:, features] * block.weights[:, None]
    grams += grams.transpose(0, 2, 1).copy()
    grams /= 2.0
    grams[:, :n, n] = grams[:, n, :n] = moments.products[:, features]
    grams[:, n, n] = moments.label_norms
    step = max(1, MAX_NUMBERS // (n + 1) ** 2)
    for first in range(0, block.n_queries, step):
        some = grams[first : first + step]
        diagonal = np.sqrt(np.einsum("qii->qi", some))
        inverse = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
        values, vectors = np.linalg.eigh(some * inverse[:, :, None] * inverse[:, None, :])
        roots = np.sqrt(np.maximum(values, 0.0))
        rows = roots[:, :, None] * vectors.transpose(0, 2, 1) * diagonal[:, None, :]
        yield rows.reshape(-1, n + 1), np.arange(0, len(some) + 1) * (n + 1)
