"""The pairs of judged documents whose wrong order costs most, and the features to blame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.metrics.conventions import Convention
from dranking.metrics.prediction_files import document_ids
from dranking.models.linear.explanation import contributions_of_rows
from dranking.models.linear.model import LinearModel
from dranking.models.linear.scoring import Transforms, locate_features, score_block

Array = NDArray[np.float64]

N_PAIRS = 5
N_BLAMED = 3
"""Features that are named for each pair."""

N_FIRST = 10
"""Ranks from which the wrongly preferred document of a pair is taken."""


class Document(NamedTuple):
    """A document of a pair: its id, its grade and its rank from 1."""

    id: str
    grade: float
    rank: int


class LostPair(NamedTuple):
    """Two documents of a query in the wrong order.

    Attributes
    ----------
    query
        Query id.
    better, worse
        The document of the higher grade, and the one that ranks above it.
    cost
        The NDCG that the query would gain if the two changed places.
    blamed
        Names of features, and their contributions to the score of `better` minus those to the score
        of `worse`, the lowest first; all are below 0.
    """

    query: str
    better: Document
    worse: Document
    cost: float
    blamed: Sequence[tuple[str, float]]


def lost_pairs(
    model: LinearModel, judged: Dataset, convention: Convention, executor: Executor
) -> list[LostPair]:
    """The pair that costs most NDCG of each of the queries that lose most by one pair."""
    columns, missing = locate_features(model.feature_names, model.preparation, judged)
    blocks = map_blocks(
        _pairs_of_block,
        judged,
        executor,
        np.array(model.weights),
        missing,
        model.feature_names,
        convention,
        columns=columns,
        name="lost pairs",
    )
    return _most_costly(pair for pairs in blocks for pair in pairs)


def _most_costly(pairs: Iterable[LostPair]) -> list[LostPair]:
    return sorted(pairs, key=lambda pair: -pair.cost)[:N_PAIRS]


def _pairs_of_block(
    block: QueryBlock,
    weights: Array,
    transforms: Transforms,
    names: Sequence[str],
    convention: Convention,
) -> list[LostPair]:
    """The most costly pairs of a block."""
    block, scores = score_block(block, weights, transforms)
    is_judged = ~np.isnan(block.relevance)
    found: list[tuple[int, Swap]] = []
    for query in range(block.n_queries):
        start, end = block.query_ptr[query : query + 2]
        rows = start + np.flatnonzero(is_judged[start:end])
        swap = costliest_swap(block.relevance[rows], scores[rows], convention)
        if swap is not None:
            better, worse = int(rows[swap.better]), int(rows[swap.worse])
            found.append((query, swap._replace(better=better, worse=worse)))
    found = sorted(found, key=lambda each: -each[1].cost)[:N_PAIRS]
    return [_told(block, query, swap, weights, names) for query, swap in found]


def _told(
    block: QueryBlock, query: int, swap: Swap, weights: Array, names: Sequence[str]
) -> LostPair:
    """A pair of rows of a block, with its ids and the features to blame."""
    rows = [swap.better, swap.worse]
    ids = document_ids(block, np.array(rows, dtype=np.int64)).to_pylist()
    grades, ranks = block.relevance[rows].tolist(), (swap.rank_of_better, swap.rank_of_worse)
    better, worse = map(Document, ids, grades, ranks)
    parts = contributions_of_rows(block, rows, weights)
    difference = parts[0] - parts[1]
    lowest = np.argsort(difference, kind="stable")[:N_BLAMED].tolist()
    blamed = [(names[j], float(difference[j])) for j in lowest if difference[j] < 0.0]
    return LostPair(str(block.query_ids[query]), better, worse, swap.cost, blamed)


class Swap(NamedTuple):
    """Two rows, their ranks, and the NDCG that their change of places would gain."""

    cost: float
    better: int
    worse: int
    rank_of_better: int
    rank_of_worse: int


def costliest_swap(grades: Array, scores: Array, convention: Convention) -> Swap | None:
    """The change of places of two documents that gains most NDCG; None if none gains.

    Parameters
    ----------
    grades, scores
        (n_documents,) grades, and scores; documents of equal scores keep their order.
    convention
        Gains and discounts.

    Returns
    -------
    The document of the lower grade is among the first `N_FIRST`.
    """
    order = np.argsort(-scores, kind="stable")
    gains, discounts = convention.gains(grades)[order], convention.discounts(len(order))
    ideal = float(np.sort(gains)[::-1] @ discounts)
    if not ideal > 0.0:
        return None
    first = min(N_FIRST, len(order))
    changes = (gains - gains[:first, None]) * (discounts[:first, None] - discounts)
    changes[scores[order] >= scores[order][:first, None]] = 0.0
    worse, better = np.unravel_index(int(np.argmax(changes)), changes.shape)
    cost = float(changes[worse, better]) / ideal
    if cost <= 0.0:
        return None
    return Swap(cost, int(order[better]), int(order[worse]), int(better) + 1, int(worse) + 1)
