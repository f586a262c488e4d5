"""Grades of training data: whole numbers, and how many levels there are."""

from __future__ import annotations

import math

import numpy as np

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_labels
from dranking.errors import DataError


def check_grades(dataset: Dataset, executor: Executor) -> None:
    """Raise DataError if a label is no whole number, as labels from clicks are not."""
    for found in map_labels(_first_fraction, dataset, executor):
        if found is not None:
            query, label = found
            raise DataError(
                f"query {query} has the label {label:g}, and margins of levels, AP and NDCG are of "
                "grades 0, 1, 2, ...: labels from clicks are real numbers. Train GreedyRankRLS or "
                "RankRLS on them; or take loss pairwise with margins ranks, which needs only their "
                "order, noise included."
            )


def _first_fraction(block: QueryBlock) -> tuple[str, float] | None:
    wrong = np.flatnonzero(block.relevance % 1 > 0)  # NaN, no label, is not above 0
    if not len(wrong):
        return None
    query = int(np.searchsorted(block.query_ptr, wrong[0], side="right")) - 1
    return str(block.query_ids[query]), float(block.relevance[wrong[0]])


def levels_of(dataset: Dataset, executor: Executor) -> int:
    """Number of levels of a data set: one more than the highest grade, at least 2."""
    highest: float = max(map_labels(highest_grade, dataset, executor), default=0.0)
    return max(2, math.ceil(highest) + 1)


def highest_grade(block: QueryBlock) -> float:
    """Highest grade of the labelled documents of a block, at least 0."""
    return float(np.nanmax(block.relevance, initial=0.0, where=~np.isnan(block.relevance)))
