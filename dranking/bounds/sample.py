"""What a sample of queries says of a model: empirical risks, and its largest sizes and norms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.bounds.sizes import log_choose
from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import get_executor
from dranking.engine.stream import map_blocks
from dranking.errors import DataError
from dranking.kernels.listwise.rankings import Lists
from dranking.losses.listwise import MEASURES, ArgmaxHinge, ListLoss, SumHinge, ranking_losses
from dranking.losses.margins import MarginRule, margin_targets, pair_counts, pair_risks
from dranking.metrics.conventions import get_convention
from dranking.rankers.linear.model import LinearModel, Transforms, locate_features, score_block
from dranking.rankers.max_margin.listwise_objective import ListRule, measured_lists

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

PAIRS = ("full", "multipartite", "bipartite")

LIST_LOSSES: dict[str, ListLoss] = {
    "ap": SumHinge(by_class=False),
    "ap classes": SumHinge(by_class=True),
    "ndcg": SumHinge(by_class=False),
    "ap argmax": ArgmaxHinge(),
    "ndcg argmax": ArgmaxHinge(),
}
"""By name, whose first word is the measure."""


@dataclass(frozen=True)
class Sample:
    """A sample of queries, and a model on it.

    Attributes
    ----------
    n_queries
        All queries with labelled documents; those where no mistake is possible have risk 0.
    n_levels
        r.
    lengths
        Labelled documents of the shortest list of at least 2, and of the longest.
    norm, feature_norm
        Of the model's weights; and the largest one of a document's features, of those that the
        model uses and as it uses them.
    level_sizes
        (n_levels,) most documents of a query with each grade.
    maxima
        The most of a query: ``KIND pairs`` and ``KIND margins``, number and sum of margins of the
        pairs of each of `PAIRS`; ``ties``, pairs of equal relevance; ``classes``, log of the
        number of rankings of different AP.
    risks
        Means over queries: ``KIND 0-1``, ``KIND weighted``, ``KIND hinge`` of each of `PAIRS`;
        ``ap loss`` and ``ndcg loss``, ``ap argmax`` and ``ndcg argmax``; and the sums over all
        rankings ``ap``, ``ap classes`` and ``ndcg``. Sums, and ``ndcg argmax``, are left out where
        lists are too long for them.
    too_long
        Which query's list is too long for ``ndcg argmax``; None if there is none.
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
    """What a block says: sums over its queries, and the most and the least of any of them."""

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
    """Measure a model on a data set, where its blocks are.

    Parameters
    ----------
    n_levels
        r; None means one more than the highest grade.
    convention
        What is relevant, gains and discounts, as in `dranking.evaluate`.

    Raises
    ------
    DataError
        If no document is labelled, the queries have different weights, or a grade is not whole or
        beyond the levels.
    """
    executor = get_executor(executor)
    columns, missing = locate_features(model.feature_names, model.transforms, dataset)
    if n_levels is None:
        none = np.empty(0, dtype=np.intp)
        grades = list(map_blocks(highest_grade, dataset, executor, columns=none, name="grades"))
        n_levels = max(2, math.ceil(max(grades, default=0.0)) + 1)
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
        raise DataError("there is no labelled document: a bound needs labelled queries.")
    n_queries = sum(facts.n_queries for facts in blocks)
    maxima = {name: max(facts.maxima[name] for facts in blocks) for name in blocks[0].maxima}
    minima = {name: min(facts.minima[name] for facts in blocks) for name in blocks[0].minima}
    if minima.pop("weight") < maxima.pop("weight"):
        raise DataError("queries have different weights; bounds are for queries drawn alike.")
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


def highest_grade(block: QueryBlock) -> float:
    """Of the labelled documents of a block; 0 if there are none."""
    return float(np.max(block.relevance, initial=0.0, where=~np.isnan(block.relevance)))


def block_facts(
    block: QueryBlock, weights: Array, transforms: Transforms, n_levels: int, convention: str
) -> BlockFacts | None:
    """The facts of the labelled part of a block; None if there is none."""
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
    binary = replace(block, relevance=relevant)
    sums: dict[str, float] = {}
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
        if kind == "full":
            maxima["ties"] = float((lengths * (lengths - 1) / 2 - n_pairs).max())
        for name, values in zip(("0-1", "weighted", "hinge"), risks, strict=True):
            sums[f"{kind} {name}"] = float(values.sum())
    of_lists, too_long = list_sums(block, scores, convention)
    sizes = most_of_each_grade(block, n_levels)
    return BlockFacts(block.n_queries, sums | of_lists, maxima, minima, sizes, too_long)


def _check_whole_grades(block: QueryBlock) -> None:
    """Raise DataError unless grades are whole: their margins are otherwise below 1 / (r - 1)."""
    wrong = np.flatnonzero(block.relevance % 1.0)
    if len(wrong):
        query = np.searchsorted(block.query_ptr, wrong[0], side="right") - 1
        raise DataError(
            f"query {block.query_ids[int(query)]} has a document of relevance "
            f"{block.relevance[wrong[0]]:g}; bounds are for grades 0, 1, 2, ...: map the others to "
            "such grades."
        )


def most_of_each_grade(block: QueryBlock, n_levels: int) -> Ints:
    """(n_levels,) most documents of a query with each grade."""
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
    """Losses and hinges of the lists of a block; and the list that is too long for the last."""
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


def largest_norm(features: FeatureMatrix) -> float:
    """Largest Euclidean norm of a row."""
    if sparse.issparse(features):
        return float(np.sqrt(features.astype(np.float64).power(2).sum(axis=1).max()))
    values = np.asarray(features, dtype=np.float64)
    return float(np.sqrt(np.einsum("ij,ij->i", values, values).max()))
