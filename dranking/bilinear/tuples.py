"""Random tuples (query, preferred document, other document), without a list of all tuples.

With classes or judgments, all queries are equally likely, and so are all tuples of one query. With
a table, all rows of the table are equally likely.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dranking.bilinear.kernels.window import Tuples
from dranking.bilinear.texts.preferences import (
    GradePreferences,
    Preferences,
    SameClass,
    TablePreferences,
)

Ints = NDArray[np.int64]


class TupleSampler(Protocol):
    """Draws random tuples.

    Attributes
    ----------
    queries
        Rows of the queries with tuples, ascending.
    """

    queries: Ints

    def draw(self, rng: np.random.Generator, n: int) -> Tuples:
        """Draw n tuples with replacement."""
        ...


def tuple_sampler(preferences: Preferences, shard: int = 0, n_shards: int = 1) -> TupleSampler:
    """Return the sampler of the tuples of one shard: every n_shards-th query, from `shard` on."""
    kinds = {
        SameClass: ClassSampler,
        GradePreferences: GradeSampler,
        TablePreferences: TableSampler,
    }
    sampler: TupleSampler = kinds[type(preferences)](preferences, shard, n_shards)
    return sampler


class ClassSampler:
    """Sampler of tuples from the classes of documents."""

    def __init__(self, preferences: SameClass, shard: int = 0, n_shards: int = 1) -> None:
        classes = preferences.classes
        n_excluded = int((classes < 0).sum())
        self._order = np.argsort(classes, kind="stable")[n_excluded:]
        sizes = np.bincount(classes[self._order])
        self._start, self._size = np.cumsum(sizes) - sizes, sizes
        self._classes = classes
        self._place = np.empty(len(classes), dtype=np.int64)
        self._place[self._order] = np.arange(len(self._order))
        self.queries = np.sort(self._order)[shard::n_shards]

    def draw(self, rng: np.random.Generator, n: int) -> Tuples:
        """Draw n tuples with replacement."""
        query = self.queries[rng.integers(len(self.queries), size=n)]
        start, size = (a[self._classes[query]] for a in (self._start, self._size))
        # Two places in `order`: a place in the query's class other than the query's own place, and
        # a place outside the class.
        better = start + rng.integers(size - 1)
        better += better >= self._place[query]
        worse = rng.integers(len(self._order) - size)
        worse += np.where(worse >= start, size, 0)
        return Tuples(query, self._order[better], self._order[worse])


class GradeSampler:
    """Sampler of tuples from graded judgments."""

    def __init__(self, preferences: GradePreferences, shard: int = 0, n_shards: int = 1) -> None:
        order = np.lexsort((preferences.grade, preferences.query))
        query, grade = preferences.query[order], preferences.grade[order]
        self._document = preferences.document[order]
        is_first = np.concatenate([[True], query[1:] != query[:-1]])
        is_step = is_first | np.concatenate([[True], grade[1:] != grade[:-1]])
        places = np.arange(len(query))
        first_of_query = np.maximum.accumulate(np.where(is_first, places, 0))
        first_of_grade = np.maximum.accumulate(np.where(is_step, places, 0))
        # The tuples that prefer the same document have adjacent numbers.
        n_lower = first_of_grade - first_of_query
        self._first_of_query = first_of_query
        self._tuples_before = np.concatenate([[0], np.cumsum(n_lower)])
        firsts = places[is_first]
        ends = np.append(firsts[1:], len(query))
        first, last = self._tuples_before[firsts], self._tuples_before[ends]
        has_tuples = last > first
        self.queries = query[firsts][has_tuples][shard::n_shards]
        self._range = tuple(a[has_tuples][shard::n_shards] for a in (first, last))

    def draw(self, rng: np.random.Generator, n: int) -> Tuples:
        """Draw n tuples with replacement."""
        drawn = rng.integers(len(self.queries), size=n)
        number = rng.integers(self._range[0][drawn], self._range[1][drawn])
        better = np.searchsorted(self._tuples_before, number, side="right") - 1
        worse = self._first_of_query[better] + number - self._tuples_before[better]
        return Tuples(self.queries[drawn], self._document[better], self._document[worse])


class TableSampler:
    """Sampler of the rows of a table of tuples."""

    def __init__(self, preferences: TablePreferences, shard: int = 0, n_shards: int = 1) -> None:
        self.queries = np.unique(preferences.query)[shard::n_shards]
        rows = np.flatnonzero(np.isin(preferences.query, self.queries))
        self._tuples = Tuples(
            preferences.query[rows], preferences.better[rows], preferences.worse[rows]
        )

    def draw(self, rng: np.random.Generator, n: int) -> Tuples:
        """Draw n tuples with replacement."""
        rows = rng.integers(len(self._tuples.query), size=n)
        return Tuples(*(a[rows] for a in self._tuples))
