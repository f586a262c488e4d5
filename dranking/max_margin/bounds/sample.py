"""Measurements of a model on a sample of queries: empirical risks, largest sizes and norms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError
from dranking.max_margin.bounds.sizes import log_choose
from dranking.max_margin.grades import levels_of
from dranking.max_margin.kernels.rankings import Lists
from dranking.max_margin.listwise_objective import ListRule, measured_lists
from dranking.max_margin.losses.listwise import (
    MEASURES,
    ArgmaxHinge,
    ListLoss,
    SumHinge,
    ranking_losses,
)
from dranking.max_margin.losses.margins import MarginRule, margin_targets, pair_counts, pair_risks
from dranking.metrics.conventions import get_convention
from dranking.models.linear.model import LinearModel
from dranking.models.linear.scoring import Transforms, locate_features, score_block

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

PAIRS = ("full", "multipartite", "bipartite")

LIST_LOSSES: dict[str, ListLoss] = {
    "ap argmax": ArgmaxHinge(),
    "ndcg argmax": ArgmaxHinge(),
    "ap": SumHinge(by_class=False),
    "ap classes": SumHinge(by_class=True),
    "ndcg": SumHinge(by_class=False),
}
"""Losses by name; the first word of a name is the measure."""


@dataclass(frozen=True)
class Sample:
    """Measurements of a model on a sample of queries.

    Attributes
    ----------
    n_queries
        All queries with labelled documents; a query in which no mistake is possible has risk 0.
    n_levels
        r.
    lengths
        Labelled documents of the shortest list with at least 2, and of the longest list.
    norm, feature_norm
        Norm of the model's weights; largest norm of a document's features, scaled for the model
        and restricted to the features with a weight.
    level_sizes
        (n_levels,) most documents of a query with each grade.
    maxima
        Largest values of a query: ``KIND pairs`` and ``KIND margins``, the number and the sum of
        margins of the pairs of each of `PAIRS`; ``classes``, the log of the number of rankings with
        different AP.
    risks
        Means over queries: ``KIND 0-1``, ``KIND weighted``, ``KIND hinge`` of each of `PAIRS`;
        ``ap loss`` and ``ndcg loss``, ``ap argmax`` and ``ndcg argmax``; and the sums over all
        rankings ``ap``, ``ap classes`` and ``ndcg``. Sums over rankings, and ``ndcg argmax``, are
        missing where lists are too long to compute them.
    too_long
        The first query whose list is too long for ``ndcg argmax``, and why; None if there is none.
    """

    n_queries: int
    n_levels: int
    lengths: tuple[int, int]
    norm: float
    feature_norm: float
    level_sizes: tuple[int, ...]
    maxima: dict[str, float]
    risks: dict[str, float]
    too_long: str | None


class BlockFacts(NamedTuple):
    """Measurements of one block: sums over its queries, and largest and least values of a query."""

    n_queries: int
    sums: dict[str, float]
    maxima: dict[str, float]
    minima: dict[str, float]
    level_sizes: Ints
    too_long: str | None


def measure_sample(
    model: LinearModel,
    dataset: Dataset,
    *,
    n_levels: int | None = None,
    convention: str = "standard",
    executor: Any = None,
) -> Sample:
    """Measure a model on a data set; every block is measured where it is read.

    Parameters
    ----------
    n_levels
        r; None means one more than the highest grade.
    convention
        Defines relevance, gains and discounts, as in `dranking.evaluate`.

    Raises
    ------
    DataError
        If no document is labelled, queries have different weights, or a grade is not whole or not
        among the levels.
    """
    executor = get_executor(executor)
    columns, missing = locate_features(model.feature_names, model.preparation, dataset)
    if n_levels is None:
        n_levels = levels_of(dataset, executor)
    weights = np.array(model.weights)
    arguments = (weights, missing, n_levels, get_convention(convention).name)
    blocks = [
        facts
        for facts in map_blocks(
            block_facts, dataset, executor, *arguments, columns=columns, name="risks"
        )
        if facts is not None
    ]
    if not blocks:
        raise DataError("there is no labelled document; a bound needs labelled queries.")
    n_queries = sum(facts.n_queries for facts in blocks)
    maxima = {name: max(facts.maxima[name] for facts in blocks) for name in blocks[0].maxima}
    minima = {name: min(facts.minima[name] for facts in blocks) for name in blocks[0].minima}
    if minima.pop("weight") < maxima.pop("weight"):
        raise DataError(
            "queries have different weights; bounds are for queries drawn from one distribution."
        )
    longest = max(2.0, maxima.pop("length"))
    return Sample(
        n_queries=n_queries,
        n_levels=n_levels,
        lengths=(int(min(minima["length"], longest)), int(longest)),
        norm=float(np.linalg.norm(weights)),
        feature_norm=maxima.pop("norm"),
        level_sizes=tuple(np.max([facts.level_sizes for facts in blocks], axis=0).tolist()),
        maxima=maxima,
        risks={
            name: sum(facts.sums[name] for facts in blocks) / n_queries
            for name in blocks[0].sums
            if all(name in facts.sums for facts in blocks)
        },
        too_long=next(filter(None, (facts.too_long for facts in blocks)), None),
    )


def block_facts(
    block: QueryBlock, weights: Array, transforms: Transforms, n_levels: int, convention: str
) -> BlockFacts | None:
    """Measurements of the labelled documents of a block; None if it has none."""
    block, scores = score_block(block, weights, transforms)
    scores = scores[~np.isnan(block.relevance)]
    block = block.labelled()
    if not block.n_queries:
        return None
    _check_whole_grades(block)
    query_weights = block.weights
    block = replace(block, query_weights=None)
    lengths = np.diff(block.query_ptr)
    relevant = get_convention(convention).relevant(block.relevance)
    n_relevant = np.add.reduceat(relevant, block.query_ptr[:-1])
    maxima = {
        "weight": float(query_weights.max()),
        "length": float(lengths.max()),
        "norm": largest_norm(block.features),
        "classes": max(
            log_choose(int(n), int(k)) for n, k in zip(lengths, n_relevant, strict=True)
        ),
    }
    minima = {
        "weight": float(query_weights.min()),
        "length": float(np.min(lengths.astype(float), initial=np.inf, where=lengths > 1)),
    }
    sums, pair_maxima = pair_facts(block, scores, relevant, n_levels)
    of_lists, too_long = list_sums(block, scores, convention)
    sizes = most_of_each_grade(block, n_levels)
    return BlockFacts(
        block.n_queries, sums | of_lists, maxima | pair_maxima, minima, sizes, too_long
    )


def largest_norm(features: FeatureMatrix) -> float:
    """The largest norm of a document, in float64."""
    X = features.astype(np.float64)
    if sparse.issparse(X):
        squares = X.power(2) @ np.ones(X.shape[1])
    else:
        squares = np.einsum("ij,ij->i", X, X)
    return float(np.sqrt(squares.max()))


def pair_facts(
    block: QueryBlock, scores: Array, relevant: Array, n_levels: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Sums of a block's pairwise losses; the largest pair numbers and margins of a query."""
    sums: dict[str, float] = {}
    maxima: dict[str, float] = {}
    binary = replace(block, relevance=relevant)
    for kind, of_kind, rule in (
        ("full", block, MarginRule("ranks", 0)),
        ("multipartite", block, MarginRule("levels", n_levels)),
        ("bipartite", binary, MarginRule("levels", 2)),
    ):
        targets = margin_targets(of_kind, rule)
        n_pairs, margins = pair_counts(targets)
        maxima[f"{kind} pairs"] = float(n_pairs.max())
        maxima[f"{kind} margins"] = float(margins.max())
        risks = pair_risks(targets, scores)
        for name, values in zip(("0-1", "weighted", "hinge"), risks, strict=True):
            sums[f"{kind} {name}"] = float(values.sum())
    return sums, maxima


def _check_whole_grades(block: QueryBlock) -> None:
    """Raise DataError unless grades are whole: else a margin may be below 1 / (r - 1)."""
    wrong = np.flatnonzero(block.relevance % 1.0)
    if len(wrong):
        query = np.searchsorted(block.query_ptr, wrong[0], side="right") - 1
        raise DataError(
            f"query {block.query_ids[int(query)]} has a document of relevance "
            f"{block.relevance[wrong[0]]:g}; bounds need grades 0, 1, 2, ...: map the relevance to "
            "such grades."
        )


def most_of_each_grade(block: QueryBlock, n_levels: int) -> Ints:
    """(n_levels,) largest number of documents of a query with each grade."""
    query = np.repeat(np.arange(block.n_queries), np.diff(block.query_ptr))
    keys, counts = np.unique(
        query * n_levels + block.relevance.astype(np.int64), return_counts=True
    )
    most = np.zeros(n_levels, dtype=np.int64)
    np.maximum.at(most, keys % n_levels, counts)
    return most


def list_sums(
    block: QueryBlock, scores: Array, convention: str
) -> tuple[dict[str, float], str | None]:
    """Sums of a block's listwise losses and hinges; why a list is too long for NDCG, or None."""
    sums: dict[str, float] = {}
    lists: dict[str, Lists] = {
        measure: measured_lists(block, ListRule(measure, convention)) for measure in MEASURES
    }
    for name, own in lists.items():
        sums[f"{name} loss"] = float(ranking_losses(scores, own).sum())
    too_long = {}
    for name, loss in LIST_LOSSES.items():
        own = lists[name.split()[0]]
        too_long[name] = loss.too_long(own)
        if too_long[name] is None:
            sums[name] = loss.at(scores, own)[0]
    found = too_long["ndcg argmax"]
    return sums, found and f"query {block.query_ids[found.query]} {found.why}"
