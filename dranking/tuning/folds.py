"""Folds of queries for cross-validation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import UsageError

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class QueryKFold:
    """Cross-validation over queries: all documents of a query are in one fold.

    The fold of a query follows from its id and the seed alone: it is the BLAKE2b digest of the id
    as text, 8 bytes long, with the seed as salt, modulo the number of folds. A query that is added
    or removed moves no other query. Where this leaves a fold without queries, as may happen with
    few queries, the queries are dealt to the folds in the order of their digests instead.

    Attributes
    ----------
    n_folds
        Number of folds: at least 2, and at most the number of queries.
    seed
        Salt of the digests, at least 0.
    n_repeats
        Number of times that the queries are split, at least 1; the seed grows by 1 each time. Every
        query is held out as often.

    Examples
    --------
    >>> QueryKFold(2, seed=1).assign(["17", "18", "19", "20", "21"]).tolist()
    [0, 1, 1, 1, 1]
    """

    n_folds: int
    seed: int = 0
    n_repeats: int = 1

    def check(self, n_queries: int) -> None:
        """Raise an error unless so many queries can be split into the folds.

        Raises
        ------
        UsageError
            If there are fewer than two folds, or more folds than queries, the seed is negative, or
            the queries are split less than once.
        """
        if not 2 <= self.n_folds <= n_queries:
            raise UsageError(
                f"{self.n_folds} folds cannot be made of {n_queries} queries; "
                f"choose at least 2, and at most the number of queries."
            )
        if self.seed < 0:
            raise UsageError(f"the seed of the folds is {self.seed}; it must be at least 0.")
        if self.n_repeats < 1:
            raise UsageError(f"n_repeats is {self.n_repeats}; split the queries at least once.")

    def assign(self, query_ids: Sequence[Any]) -> NDArray[np.int64]:
        """(n_queries,) the fold in which each query is held out; errors as in `check`."""
        self.check(len(query_ids))
        return self.deal(self.keys(query_ids))

    def keys(self, query_ids: Sequence[Any]) -> Keys:
        """(n_queries,) digests of the ids, from which the folds follow."""
        salt = self.seed.to_bytes(16, "little")
        digests = (hashlib.blake2b(str(i).encode(), digest_size=8, salt=salt) for i in query_ids)
        return np.frombuffer(b"".join(d.digest() for d in digests), dtype="<u8").astype(np.uint64)

    def deal(self, keys: Keys) -> NDArray[np.int64]:
        """(n_queries,) the fold of each key; errors as in `check`."""
        self.check(len(keys))
        fold = (keys % np.uint64(self.n_folds)).astype(np.int64)
        if len(np.unique(fold)) < self.n_folds:
            fold[np.argsort(keys, kind="stable")] = np.arange(len(keys)) % self.n_folds
        return fold


def split_queries(
    dataset: Dataset, folds: QueryKFold, executor: Executor
) -> Iterator[tuple[Dataset, Dataset]]:
    """Yield the training queries and the validation queries of each fold; reads no features.

    With `n_repeats`, the folds of every repetition follow. Queries without labels are trained on in
    all folds, and never held out.
    """
    folds.check(dataset.n_queries)
    for repeat in range(folds.n_repeats):
        dealt = replace(folds, seed=folds.seed + repeat)
        labelled, keys = query_keys(dataset, dealt, executor)
        fold = np.full(len(keys), -1)
        fold[labelled] = dealt.deal(keys[labelled])
        for index in range(folds.n_folds):
            validation = fold == index
            yield dataset.select_queries(~validation), dataset.select_queries(validation)


def query_keys(
    dataset: Dataset, folds: QueryKFold, executor: Executor
) -> tuple[NDArray[np.bool_], Keys]:
    """(n_queries,) whether any document of a query has relevance, and the keys of the queries."""
    parts = map_blocks(
        _block_keys,
        dataset,
        executor,
        folds,
        columns=np.empty(0, dtype=np.intp),
        combine=list,
        name="folds",
    )
    labelled, keys = zip(*(part for run in parts for part in run), strict=True)
    return np.concatenate(labelled), np.concatenate(keys)


def _block_keys(block: QueryBlock, folds: QueryKFold) -> tuple[NDArray[np.bool_], Keys]:
    """The part of `query_keys` that a block, or the statistics of a block, gives."""
    return block.labelled_sizes > 0, folds.keys(block.query_ids.to_pylist())
