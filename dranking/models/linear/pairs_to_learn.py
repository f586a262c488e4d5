"""Whether training data has anything to learn: documents of one query that differ in relevance."""

from __future__ import annotations

import numpy as np

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_labels
from dranking.errors import DataError
from dranking.rankrls.statistics.per_query import QueryStatistics

IN_DOUBT = 1e-6
"""Root mean square of centred labels up to which the labels themselves are compared."""

ROUNDING = 1e-13
"""Root mean square of centred labels up to which statistics, which hold no labels, have no pair."""


def check_pairs(label_norm: float, dataset: Dataset, executor: Executor) -> None:
    """Raise DataError if no two documents of a query differ in relevance.

    Parameters
    ----------
    label_norm
        y.y of the labels, centred within queries and weighted. It is 0 without pairs, but for the
        rounding of means of labels such as 0.1: only where it is next to nothing, one more pass
        compares the labels, without their features.
    dataset, executor
        The training data, and where it is read.
    """
    if label_norm > IN_DOUBT**2 * dataset.n_documents:
        return
    if not any(map_labels(has_pair, dataset, executor)):
        raise no_pair(dataset)


def no_pair(dataset: Dataset) -> DataError:
    """The error for training data without two documents of a query that differ in relevance."""
    n = dataset.n_unlabelled
    unlabelled = (
        f" {n:,} of {dataset.n_documents:,} documents have no label, which a relevance of -1 in "
        "text and null in a table say: write labels of +1 and -1 as 1 and 0."
    )
    return DataError(
        "no query of a weight above 0 has two documents of different relevance: there is no pair "
        "to learn from. Check the columns of query ids and of relevance: all documents of a query "
        f"have one id.{unlabelled if n else ''}"
    )


def has_pair(block: QueryBlock | QueryStatistics) -> bool:
    """Whether a query with a weight above 0 has labelled documents of different relevance."""
    if isinstance(block, QueryStatistics):
        differs = block.label_norms > ROUNDING**2 * block.labelled_sizes
        return bool((differs & (block.weights > 0.0)).any())
    labelled = block.labelled()
    if not labelled.n_queries:
        return False
    starts = labelled.query_ptr[:-1]
    least = np.minimum.reduceat(labelled.relevance, starts)
    largest = np.maximum.reduceat(labelled.relevance, starts)
    return bool(((least < largest) & (labelled.weights > 0.0)).any())
