"""Sources of counts: buckets of whole queries, in memory or in a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dranking.clicks.counts import ClickCounts, UserCounts
from dranking.clicks.hashes import query_keys
from dranking.engine.executor import Executor, Task
from dranking.engine.tree_sum import tree_sum


class ClickSource(Protocol):
    """Counts in buckets; all rows of a query are in one bucket."""

    @property
    def buckets(self) -> range:
        """Numbers of the buckets."""
        ...

    def counts(self, bucket: int) -> ClickCounts:
        """The counts of one bucket."""
        ...

    @property
    def has_users(self) -> bool:
        """Whether there are counts by user."""
        ...

    def user_counts(self, bucket: int) -> UserCounts:
        """The counts of one bucket by user, if there are any."""
        ...

    def names_of(self, queries: pa.Array) -> pa.Array:
        """Ids in the counts of the queries with these texts: hashes, if the counts have hashes."""
        ...


@dataclass(frozen=True)
class CountsInMemory:
    """A `ClickSource` of counts in memory, and perhaps of the same counts by user."""

    parts: tuple[ClickCounts, ...]
    by_user: tuple[UserCounts, ...] = ()

    @property
    def buckets(self) -> range:
        """Numbers of the buckets."""
        return range(len(self.parts))

    def counts(self, bucket: int) -> ClickCounts:
        """The counts of one bucket."""
        return self.parts[bucket]

    @property
    def has_users(self) -> bool:
        """Whether there are counts by user."""
        return bool(self.by_user)

    def user_counts(self, bucket: int) -> UserCounts:
        """The counts of one bucket by user."""
        return self.by_user[bucket]

    def names_of(self, queries: pa.Array) -> pa.Array:
        """The queries themselves."""
        return queries


@dataclass(frozen=True)
class QueryFold:
    """A `ClickSource` of the queries of one fold of another source, or of all others.

    The fold of a query follows from its id alone (`dranking.clicks.hashes.query_keys`).

    Attributes
    ----------
    source
        The other source.
    fold, n_folds
        The fold, from 0, and how many there are.
    complement
        Whether the queries are those outside the fold.
    """

    source: ClickSource
    fold: int
    n_folds: int
    complement: bool = False
    has_users: bool = False

    @property
    def buckets(self) -> range:
        """Numbers of the buckets."""
        return self.source.buckets

    def counts(self, bucket: int) -> ClickCounts:
        """The counts of one bucket."""
        counts = self.source.counts(bucket)
        inside = query_keys(counts.query_ids) % np.uint64(self.n_folds) == self.fold
        return counts.of_queries(inside != self.complement)

    def user_counts(self, bucket: int) -> UserCounts:
        """Raise NotImplementedError: folds have no counts by user."""
        raise NotImplementedError("folds of queries have no counts by user.")

    def names_of(self, queries: pa.Array) -> pa.Array:
        """Ids in the counts of the queries with these texts."""
        return self.source.names_of(queries)


def as_source(clicks: ClickSource | ClickCounts | Sequence[ClickCounts]) -> ClickSource:
    """Counts in one of the forms that functions of this package take, as a `ClickSource`."""
    if isinstance(clicks, ClickCounts):
        return CountsInMemory((clicks,))
    return CountsInMemory(tuple(clicks)) if isinstance(clicks, Sequence) else clicks


def nights_of(source: ClickSource) -> list[str]:
    """The nights of the counts, ascending."""
    stored = getattr(source, "nights", None)  # of a store, which knows them without reading
    if stored is None:
        parts = map(source.counts, source.buckets)
        found = [counts.nights[np.unique(counts.night)].astype(str).tolist() for counts in parts]
        return sorted({night for nights in found for night in nights})
    return [str(night) for night in stored]


def bucket_tasks(
    function: Callable[..., Any], source: ClickSource, run: Executor, *args: Any, name: str
) -> list[Task]:
    """Tasks that compute `function(counts, *args)` of every bucket."""
    return [
        run.submit(_of_bucket, function, _one(source, index), *args, name=name)
        for index in source.buckets
    ]


def user_tasks(
    function: Callable[..., Any], source: ClickSource, run: Executor, *args: Any, name: str
) -> list[Task]:
    """Tasks that compute `function(users, *args)` of every bucket, with its counts by user."""
    return [
        run.submit(_of_users, function, _one(source, index), *args, name=name)
        for index in source.buckets
    ]


def sum_of_buckets(
    function: Callable[..., Any], source: ClickSource, run: Executor, *args: Any, name: str
) -> Any:
    """The sum of `function(counts, *args, users=...)` over the buckets.

    `users` are the counts by user, or None if there are none. The sum is one tree, which
    does not depend on the workers.
    """
    tasks = [
        run.submit(_with_users, function, _one(source, index), *args, name=name)
        for index in source.buckets
    ]
    return tree_sum(run.gather(tasks))


@dataclass(frozen=True)
class _Bucket:
    source: ClickSource
    index: int


def _one(source: ClickSource, index: int) -> _Bucket:
    """One bucket, as a task gets it; counts in memory are cut down to this bucket."""
    if isinstance(source, CountsInMemory):
        own = slice(index, index + 1)
        return _Bucket(CountsInMemory(source.parts[own], source.by_user[own]), 0)
    return _Bucket(source, index)


def _of_bucket(function: Callable[..., Any], bucket: _Bucket, *args: Any) -> Any:
    return function(bucket.source.counts(bucket.index), *args)


def _of_users(function: Callable[..., Any], bucket: _Bucket, *args: Any) -> Any:
    return function(bucket.source.user_counts(bucket.index), *args)


def _with_users(function: Callable[..., Any], bucket: _Bucket, *args: Any) -> Any:
    source, index = bucket.source, bucket.index
    users = source.user_counts(index) if source.has_users else None
    return function(source.counts(index), *args, users=users)
