"""How a selection fits into memory: what is kept, what is read or computed again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.memory import format_bytes, parse_memory
from dranking.engine.tile_sizes import MAX_TILE_BYTES, tile_ranges
from dranking.errors import UsageError
from dranking.rankers.linear.estimator import check_whole

MOST_PICKS = 16
"""Picks of one update of a dense state at most. The work that picks share is then no longer most of
the time of the update."""

SURPLUS_ROWS = 4
"""Gram rows kept beyond those of the selected features: what a pass may fetch besides, even for the
last pick."""

BLOCKS_IN_FLIGHT = 6
"""Blocks that the memory of a streaming task amounts to (measured): the one in use, the next one,
what decoding takes, and what the allocator keeps of those before."""


class MemoryPlan(NamedTuple):
    """What a selection keeps.

    Attributes
    ----------
    resident
        X stays in memory; else each pass reads it from storage.
    keep_rows
        Gram rows of every query stay; else each round computes those it needs again.
    n_lockstep
        Paths (lambdas) run at the same time.
    n_states
        States per query and feature that a path has at a time: 2, of which one is there to go back
        to; 1 where that is always the one of no feature; 0 where each round computes it again from
        sparse data. Of no account where scores come from the rows of the features kept.
    n_rows
        Gram rows kept at most.
    n_feature_blocks
        Into how many parts the features are split.
    n_bytes
        Memory that takes, beyond data that is in this process's memory already.
    """

    resident: bool
    keep_rows: bool
    n_lockstep: int
    n_states: int
    n_rows: int
    n_feature_blocks: int
    n_bytes: int


class Needs:
    """Bytes that the parts of a selection take, over all workers, where a state is kept.

    Parameters
    ----------
    dataset
        Labelled queries.
    size
        Features to select.
    executor
        Where tasks run.
    n_feature_blocks
        Into how many parts the features are split.

    Attributes
    ----------
    n_states
        What a plan may have for its `n_states`: one state where there is no other way.
    """

    def __init__(
        self, dataset: Dataset, size: int, executor: Executor, n_feature_blocks: int = 1
    ) -> None:
        # An update goes through so many picks at most, and is of one alone between feature blocks.
        begins_anew = size <= MOST_PICKS and n_feature_blocks == 1
        self.n_states: Sequence[int] = (2, 1) if begins_anew else (2,)
        n, queries = dataset.n_features, dataset.n_queries
        # Data in this process is used as it is, but some columns of it are a copy.
        there = dataset.in_memory and executor.in_process and n_feature_blocks == 1
        value = 8 if dataset.is_sparse else 4
        largest = max(dataset.blocks, key=lambda block: block.n_values)
        self._size, self._n = size, n
        self.values = value * sum(b.n_values for b in dataset.blocks)
        self.data = 0 if there else self.values
        streamed = BLOCKS_IN_FLIGHT * value * largest.n_values
        self.stream = executor.n_slots * streamed // n_feature_blocks
        self.moments = 8 * queries * n * (2 if dataset.is_sparse else 3)
        # What is of queries alone, every feature block has.
        of_queries = 8 * queries * (size * (size + 1) + 1) * n_feature_blocks
        # A[S, :] for every block, what it scores after each pick of an update, and `Foresight`.
        of_blocks = (size + min(size, MOST_PICKS)) * dataset.n_blocks
        sums = 8 * (of_blocks + size + SURPLUS_ROWS) * n
        self._state = 8 * 4 * queries * n
        self.one_state = self._state + of_queries + sums
        # Where tasks do not share what an update adds to, one that goes through picks again copies.
        added_to = of_queries + 8 * size * n * dataset.n_blocks
        self._copies = 0 if executor.in_process else added_to
        self.row = 8 * queries * n
        fresh = 2 * 8 * largest.n_queries * n * size
        self.scratch = executor.n_slots * fresh // n_feature_blocks

    def n_rows(self, n_lockstep: int, keep_rows: bool = True) -> int:
        """Gram rows that a number of paths may keep."""
        return min(self._n, n_lockstep * self._size + SURPLUS_ROWS) if keep_rows else self._n

    def path(self, n_states: int) -> int:
        """What a path keeps beside Gram rows."""
        return self.one_state + (n_states - 1) * self._state + self._copies

    def total(self, resident: bool, keep_rows: bool, n_lockstep: int, n_states: int = 2) -> int:
        """All of it."""
        data = self.data if resident else self.stream
        rows = self.n_rows(n_lockstep) * self.row if keep_rows else self.scratch
        return data + self.moments + n_lockstep * self.path(n_states) + rows


class SparseNeeds(Needs):
    """The same where nothing is kept of a query: multiples of n_features alone."""

    def __init__(self, dataset: Dataset, size: int, executor: Executor) -> None:
        super().__init__(dataset, size, executor)
        self.n_states = (0,)
        n = 8 * self._n
        n_tiles = len(tile_ranges(dataset, executor.n_slots))
        copies = 1 if executor.in_process else executor.n_slots
        self.moments = 2 * n
        self.row = n
        # A[S, i] and what S explains of every candidate; the sums of the tiles; `Foresight`.
        self._path = (2 * size + 8) * n * copies + (n_tiles + 1) * n + (size + SURPLUS_ROWS) * n
        self.scratch = executor.n_slots * (2 * size + 20) * n

    def n_rows(self, n_lockstep: int, keep_rows: bool = True) -> int:
        """Gram rows that a number of paths may fetch."""
        return super().n_rows(n_lockstep)

    def path(self, n_states: int) -> int:
        """What a path keeps beside Gram rows."""
        return self._path

    def total(self, resident: bool, keep_rows: bool, n_lockstep: int, n_states: int = 2) -> int:
        """All of it."""
        return super().total(resident, True, n_lockstep, n_states) + self.scratch


def needs_of(dataset: Dataset, size: int, executor: Executor) -> Needs:
    """What a selection needs, with the state kept unless the data is sparser than that.

    A state that is smaller than the data is faster to update than to compute from the data. Where
    tasks run has no say: scores with and without a state differ by rounding.
    """
    needs = Needs(dataset, size, executor)
    kept = needs.moments + needs.one_state + needs.n_rows(1) * needs.row
    if dataset.is_sparse and kept > needs.values:
        return SparseNeeds(dataset, size, executor)
    return needs


def plan_memory(
    dataset: Dataset,
    n_paths: int,
    size: int,
    executor: Executor,
    limit: int | str | None,
    feature_blocks: int | None = None,
    *,
    refits: bool = False,
    whole_queries: bool = False,
) -> MemoryPlan:
    """The fastest way to run a selection within a memory limit.

    A single state is the last resort. Rows are kept before X is: without X each pass reads storage,
    and there are fewer passes than rounds; without rows each round computes all rows of the
    features selected so far.

    Parameters
    ----------
    dataset, size, executor
        As in `Needs`.
    n_paths
        Paths to run.
    limit
        Bytes, or text such as "8GB"; None means what the executor says.
    feature_blocks
        Into how many parts the features are split; None means as many as the workers need.
    refits
        Whether scores come from the Gram rows of every query, however sparse the data is.
    whole_queries
        Whether all features of a query are needed together, so that they are not split.

    Raises
    ------
    UsageError
        If even the state of one path does not fit, or the features cannot be split so.
    """
    available = executor.memory_bytes if limit is None else parse_memory(limit)
    needs = (Needs if refits else needs_of)(dataset, size, executor)
    whole = why_not_split(dataset, whole_queries)
    is_free = feature_blocks is None
    if feature_blocks is None:
        feature_blocks = 1 if whole else needed_feature_blocks(dataset, needs, executor, available)
    check_feature_blocks(feature_blocks, dataset.n_features, whole)
    if feature_blocks > 1:
        needs = Needs(dataset, size, executor, feature_blocks)
    streamable = [True] if dataset.in_memory else [True, False]
    least = needs.total(True, True, n_paths)
    ways = product(needs.n_states, (True, False), streamable, range(n_paths, 0, -1))
    for n_states, keep_rows, resident, n_lockstep in ways:
        n_bytes = needs.total(resident, keep_rows, n_lockstep, n_states)
        if n_bytes <= available:
            n_rows = needs.n_rows(n_lockstep, keep_rows)
            return MemoryPlan(
                resident, keep_rows, n_lockstep, n_states, n_rows, feature_blocks, n_bytes
            )
        least = min(least, n_bytes)
    if is_free and feature_blocks > 1 and executor.in_process:
        # A single state may fit, which there is not between feature blocks.
        return plan_memory(dataset, n_paths, size, executor, limit, 1, refits=refits)
    of_state = needs.path(needs.n_states[-1])
    raise UsageError(
        f"selecting {size} of {dataset.n_features} features over {dataset.n_queries:,} queries "
        f"needs at least {format_bytes(least)} of memory ({format_bytes(of_state)} of it state "
        f"per query), but there is {format_bytes(available)}. Raise memory_limit, add workers, or "
        "select fewer features."
    )


def needed_feature_blocks(
    dataset: Dataset, needs: Needs, executor: Executor, available: int
) -> int:
    """Feature blocks with which the tile of the largest block of queries is no burden.

    Its part of X is no more than tiles are meant to have; with all that is kept beside it, it fits
    into the share of memory that a worker has for each of its tasks.
    """
    if dataset.in_memory and executor.in_process:
        return 1  # splitting would copy it
    largest = max(dataset.blocks, key=lambda block: block.n_values)
    kept = needs.moments + needs.path(max(needs.n_states)) + needs.n_rows(1) * needs.row
    tile = 4 * largest.n_values + kept * largest.n_queries // dataset.n_queries
    share = available if executor.in_process else available // executor.n_slots
    needed = max(-(-4 * largest.n_values // MAX_TILE_BYTES), -(-tile // share))
    return min(needed, dataset.n_features)


def why_not_split(dataset: Dataset, whole_queries: bool) -> str | None:
    """Why there can be only one feature block; None where there can be more."""
    if not dataset.has_documents:
        return "statistics of queries are not split by features"
    if dataset.is_sparse:
        return "sparse data is not split by features"
    if whole_queries:
        return "back-fitting, floating and backward search take all features of a query together"
    return None


def check_feature_blocks(feature_blocks: int, n_features: int, whole: str | None) -> None:
    """Raise UsageError unless the features can be split into so many parts."""
    check_whole("feature_blocks", feature_blocks)
    if not 1 <= feature_blocks <= n_features:
        raise UsageError(
            f"feature_blocks is {feature_blocks}; the data has {n_features} features, so choose 1 "
            f"to {n_features}."
        )
    if feature_blocks > 1 and whole:
        raise UsageError(f"feature_blocks is {feature_blocks}, but {whole}; leave it out.")
