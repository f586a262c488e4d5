"""Pairs of documents of one query, drawn from their exact distribution without a list of pairs.

The first document of a pair is drawn from an alias table; its mass is the mass of all pairs in
which the document stands first. The partner is drawn uniformly, since the partners of a document
are adjacent once the documents of a query are sorted by relevance. A draw costs O(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.errors import UsageError
from dranking.kernels.machine.compile import frozen
from dranking.pairwise.kernels.alias_table import PairSlots, build_alias_table, take_pairs

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Balance: TypeAlias = Literal["pairs", "queries"]
Positions: TypeAlias = Literal["equal", "dcg"]


class PairRule(NamedTuple):
    """Rule for the probability of a pair, which is also proportional to the query's weight.

    Attributes
    ----------
    balance
        "pairs": all pairs are equally likely, so that a query counts by its number of pairs;
        "queries": all queries are equally likely, and all pairs within a query.
    positions
        "equal", or "dcg": a pair of labelled documents counts by the discount 1 / log2(1 + rank)
        of the better document in the ideal ranking, averaged over documents of equal relevance.
    """

    balance: Balance = "pairs"
    positions: Positions = "equal"

    def check(self) -> None:
        """Raise UsageError if there is no such rule."""
        if self.balance not in ("pairs", "queries"):
            raise UsageError(f"sampling is {self.balance!r}; choose pairs or queries.")
        if self.positions not in ("equal", "dcg"):
            raise UsageError(f"position_weights is {self.positions!r}; choose equal or dcg.")


EVERY_PAIR = PairRule()


@dataclass(frozen=True, eq=False)
class PairTable:
    """The distribution of the pairs of a block.

    Attributes
    ----------
    rows
        (n_ranked,) documents, query by query; labelled ones by descending relevance.
    slots
        (n_slots,) positions in `rows` of the documents that stand first in a pair.
    first, last
        (n_slots,) range of the partners in `rows`: the first position, and the position behind the
        last.
    accept, alias
        (n_slots,) alias table over the slots.
    masses
        (n_slots,) mass of the pairs in which each document stands first.
    """

    rows: Ints
    slots: Ints
    first: Ints
    last: Ints
    accept: Array
    alias: Ints
    masses: Array

    @property
    def mass(self) -> float:
        """Mass of all pairs. The number of steps on the block is proportional to this mass."""
        return float(self.masses.sum())

    @property
    def n_pairs(self) -> int:
        """Number of different pairs."""
        return int((self.last - self.first).sum())

    def all_pairs(self) -> tuple[Ints, Ints, Array]:
        """All pairs: (n_pairs,) rows of both documents as in `draw`, and (n_pairs,) masses."""
        counts = self.last - self.first
        ends = np.cumsum(counts)
        within = np.arange(self.n_pairs) - np.repeat(ends - counts, counts)
        partner = np.repeat(self.first, counts) + within
        first = np.repeat(self.rows[self.slots], counts)
        return first, self.rows[partner], np.repeat(self.masses / counts, counts)

    def draw(self, rng: np.random.Generator, n_draws: int) -> tuple[Ints, Ints]:
        """Draw pairs independently, with replacement, in O(1) each.

        Returns
        -------
        (n_draws,) rows of the documents that stand first (in labelled pairs the more relevant
        documents), and (n_draws,) rows of their partners.

        Raises
        ------
        ValueError
            If the block has no pair.
        """
        if not len(self.slots):
            raise ValueError("the block has no pair to draw.")
        slot = rng.integers(len(self.slots), size=n_draws)
        uniform = rng.random((2, n_draws))
        first, partner = np.empty(n_draws, dtype=np.int64), np.empty(n_draws, dtype=np.int64)
        table = PairSlots(
            rows=frozen(self.rows),
            slots=frozen(self.slots),
            first=frozen(self.first),
            last=frozen(self.last),
            accept=frozen(self.accept),
            alias=frozen(self.alias),
        )
        take_pairs(table, slot, uniform, first, partner)
        return first, partner


def labelled_pairs(block: QueryBlock, rule: PairRule = EVERY_PAIR) -> PairTable:
    """The pairs of documents of the same query with different relevance: the set P.

    Unlabelled documents are in no pair.
    """
    labelled = np.flatnonzero(~np.isnan(block.relevance))
    query = _query_of_rows(block)[labelled]
    relevance = block.relevance[labelled]
    order = np.lexsort((-relevance, query))
    query, relevance = query[order], relevance[order]
    # The partners of a document begin where its grade ends.
    changes = (np.diff(query) != 0) | (np.diff(relevance) != 0)
    grade_ends = np.append(np.flatnonzero(changes) + 1, len(query))[: len(query)]
    sizes = np.diff(grade_ends, prepend=0)
    factors = None
    if rule.positions == "dcg" and len(query):
        rank = np.arange(len(query)) - _query_starts(query)
        discount = 1.0 / np.log2(rank + 2.0)
        factors = np.repeat(np.add.reduceat(discount, grade_ends - sizes) / sizes, sizes)
    first = np.repeat(grade_ends, sizes)
    return _pair_table(labelled[order], query, first, factors, block.weights, rule)


def unlabelled_pairs(
    block: QueryBlock, rule: PairRule = EVERY_PAIR, *, ignore_labels: bool = False
) -> PairTable:
    """All pairs of unlabelled documents of the same query: the set P^.

    Parameters
    ----------
    ignore_labels
        Treat every document as unlabelled.
    """
    unlabelled = np.ones(block.n_documents, dtype=bool)
    if not ignore_labels:
        unlabelled = np.isnan(block.relevance)
    rows = np.flatnonzero(unlabelled)
    query = _query_of_rows(block)[rows]
    return _pair_table(rows, query, np.arange(1, len(rows) + 1), None, block.weights, rule)


def squared_differences(table: PairTable, relevance: Array) -> float:
    """Sum over the pairs of a table: mass times squared difference of relevance."""
    if not len(table.slots):
        return 0.0
    sorted_ = relevance[table.rows]
    sums, squares = (np.append(0.0, np.cumsum(values)) for values in (sorted_, sorted_**2))
    first, last, better = table.first, table.last, sorted_[table.slots]
    counts = last - first
    total = counts * better**2 - 2 * better * (sums[last] - sums[first])
    return float((table.masses / counts) @ (total + squares[last] - squares[first]))


class PairStreams:
    """Random generators for the draws of an epoch, one for each block.

    A generator depends only on the seed, the epoch, the block and the kind of use.
    """

    def __init__(self, seed: int, epoch: int, kind: int = 0) -> None:
        self._seed, self._epoch, self._kind = seed, epoch, kind
        self._streams: dict[int, np.random.Generator] = {}

    def __getitem__(self, block: int) -> np.random.Generator:
        if block not in self._streams:
            key = (self._epoch, block, self._kind)
            seeds = np.random.SeedSequence(self._seed, spawn_key=key)
            self._streams[block] = np.random.default_rng(seeds)
        return self._streams[block]


def _pair_table(
    rows: Ints, query: Ints, first: Ints, factors: Array | None, weights: Array, rule: PairRule
) -> PairTable:
    """The table for documents `rows`, whose partners begin at `first` and end with the query."""
    last = np.searchsorted(query, query, side="right")
    masses = (last - first) * (1.0 if factors is None else factors)
    if rule.balance == "queries":
        of_query = np.bincount(query, masses, minlength=len(weights))[query]
        masses = np.divide(masses, of_query, out=np.zeros_like(masses), where=of_query > 0)
    masses = masses * weights[query]
    slots = np.flatnonzero(masses > 0)
    accept, alias = np.empty(len(slots)), np.empty(len(slots), dtype=np.int64)
    if len(slots):
        build_alias_table(masses[slots], accept, alias)
    return PairTable(rows, slots, first[slots], last[slots], accept, alias, masses[slots])


def _query_of_rows(block: QueryBlock) -> Ints:
    return np.repeat(np.arange(block.n_queries), np.diff(block.query_ptr))


def _query_starts(query: Ints) -> Ints:
    """(n,) position of the first document of each document's query; `query` is sorted."""
    return np.searchsorted(query, query, side="left")
