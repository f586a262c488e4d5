"""Simulated users of the online study: queries, clicks on a page, and how good a page is."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.kernels.machine.compile import kernel

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

CUTOFF = 10
"""Documents of a page, and cutoff of NDCG."""


class Users(NamedTuple):
    """Click model of users who read a page from its top.

    Attributes
    ----------
    click
        (3,) probability of a click on a document of each grade.
    stop
        (3,) probability of leaving the page after such a click.
    """

    click: Array
    stop: Array


USERS = {
    "perfect": Users(np.array([0.0, 0.5, 1.0]), np.zeros(3)),
    "navigational": Users(np.array([0.05, 0.5, 0.95]), np.array([0.2, 0.5, 0.9])),
    "informational": Users(np.array([0.4, 0.7, 0.9]), np.array([0.1, 0.3, 0.5])),
}
"""The instantiations of the dependent click model for three grades of Hofmann, Schuth, Whiteson, de
Rijke, Reusing historical interaction data for faster online learning to rank for IR, 2013."""


class Queries(NamedTuple):
    """Documents of queries in memory.

    Attributes
    ----------
    features
        (n_documents, n_features) float32, C-ordered.
    grade
        (n_documents,) 0, 1 or 2; the documents of a query are in random order.
    ptr
        (n_queries + 1,) offsets.
    ideal
        (n_queries,) largest DCG of a page; 0 for a query without a relevant document.
    """

    features: NDArray[np.float32]
    grade: Ints
    ptr: Ints
    ideal: Array


def in_memory(dataset: Dataset, rng: np.random.Generator) -> Queries:
    """The queries of a data set, with their documents in random order."""
    blocks = [dataset.block(i) for i in range(len(dataset.blocks))]
    sizes = np.concatenate([np.diff(block.query_ptr) for block in blocks])
    ptr = np.append(0, np.cumsum(sizes))
    order = np.lexsort((rng.random(int(ptr[-1])), np.repeat(np.arange(len(sizes)), sizes)))
    features = np.ascontiguousarray(np.concatenate([block.features for block in blocks])[order])
    grade = np.concatenate([block.relevance for block in blocks])[order].astype(np.int64)
    best = grade[np.lexsort((-grade, np.repeat(np.arange(len(sizes)), sizes)))]
    ideal = np.array([page_gain(best[start:end]) for start, end in pairwise(ptr)])
    return Queries(features, grade, ptr, ideal)


@kernel
def page_gain(grades: Ints) -> float:
    """DCG of a page: sum of (2^grade - 1) / log2(1 + rank) over at most `CUTOFF` ranks."""
    total = 0.0
    for i in range(min(len(grades), CUTOFF)):
        total += (2.0 ** grades[i] - 1.0) / np.log2(i + 2.0)
    return total


@kernel
def browse(grades: Ints, click: Array, stop: Array, uniform: Array) -> NDArray[np.bool_]:
    """Whether a user clicks each document of a page; `uniform` (2, at least the page) in [0, 1)."""
    clicked = np.zeros(len(grades), dtype=np.bool_)
    for i in range(len(grades)):
        grade = grades[i]
        if uniform[0, i] < click[grade]:
            clicked[i] = True
            if uniform[1, i] < stop[grade]:
                break
    return clicked


@kernel
def scores_of(features: NDArray[np.float32], first: int, last: int, weights: Array) -> Array:
    """(last - first,) scores of documents first to last - 1."""
    scores = np.zeros(last - first)
    for i in range(first, last):
        for j in range(len(weights)):
            scores[i - first] += features[i, j] * weights[j]
    return scores


@kernel
def ndcg_of_queries(
    features: NDArray[np.float32], grade: Ints, ptr: Ints, ideal: Array, weights: Array
) -> Array:
    """(n_queries,) NDCG@`CUTOFF` of linear weights; NaN for queries without a relevant document.

    Documents of equal score keep their order, which is random.
    """
    values = np.full(len(ideal), np.nan)
    for q in range(len(ideal)):
        if ideal[q] > 0.0:
            scores = scores_of(features, ptr[q], ptr[q + 1], weights)
            order = np.argsort(-scores, kind="mergesort") + ptr[q]
            values[q] = page_gain(grade[order]) / ideal[q]
    return values
