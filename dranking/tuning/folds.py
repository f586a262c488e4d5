"""Folds of queries for cross-validation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import UsageError


@dataclass(frozen=True)
class QueryKFold:
    """Cross-validation over queries: all documents of a query are in one fold.

    Queries are dealt to the folds in random order, so sizes of folds differ by at most one query.

    Attributes
    ----------
    n_folds
        Number of folds: at least 2, and at most the number of queries.
    seed
        Seed of the random order, at least 0.

    Examples
    --------
    >>> [int(held_out.sum()) for _, held_out in QueryKFold(2, seed=1).split(5)]
    [3, 2]
    """

    n_folds: int
    seed: int = 0

    def split(self, n_queries: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """Yield a mask of the training queries and a mask of the held-out queries for each fold.

        Parameters
        ----------
        n_queries
            Length of the masks: queries of the data set whose `select_queries` takes the masks.

        Raises
        ------
        UsageError
            If there are fewer than two folds, or more folds than queries, or the seed is negative.
        """
        fold = self.assign(n_queries)
        for index in range(self.n_folds):
            held_out = fold == index
            yield ~held_out, held_out

    def assign(self, n_queries: int) -> NDArray[np.int64]:
        """(n_queries,) the fold in which each query is held out; errors as in `split`."""
        if not 2 <= self.n_folds <= n_queries:
            raise UsageError(
                f"{self.n_folds} folds cannot be made of {n_queries} queries; "
                f"choose at least 2, and at most the number of queries."
            )
        if self.seed < 0:
            raise UsageError(f"the seed of the folds is {self.seed}; it must be at least 0.")
        fold = np.empty(n_queries, dtype=np.int64)
        order = np.random.default_rng(self.seed).permutation(n_queries)
        fold[order] = np.arange(n_queries) % self.n_folds
        return fold


def labelled_queries(dataset: Dataset, executor: Executor) -> NDArray[np.bool_]:
    """(n_queries,) whether any document of a query has relevance; reads no features."""
    if not dataset.n_unlabelled:
        return np.ones(dataset.n_queries, dtype=bool)
    columns = np.empty(0, dtype=np.intp)
    masks = map_blocks(
        has_label, dataset, executor, columns=columns, combine=np.concatenate, name="labels"
    )
    return np.concatenate(list(masks))


def has_label(block: QueryBlock) -> NDArray[np.bool_]:
    """(n_queries,) whether any document of a query has relevance."""
    known = np.concatenate(([0], np.cumsum(~np.isnan(block.relevance))))
    return known[block.query_ptr[1:]] > known[block.query_ptr[:-1]]
