"""How a selection fits into memory: what is kept, what is read or computed again."""

from __future__ import annotations

from typing import NamedTuple

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.memory import format_bytes, parse_memory
from dranking.engine.tiles import tile_ranges
from dranking.errors import UsageError

SURPLUS_ROWS = 16
"""Gram rows kept beyond those of the selected features: what prefetching may guess wrong."""

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
    keep_state
        A state per query and feature stays; else each round computes it again from sparse data.
    n_rows
        Gram rows fetched at most.
    n_bytes
        Memory that takes, beyond data that is in this process's memory already.
    """

    resident: bool
    keep_rows: bool
    n_lockstep: int
    keep_state: bool
    n_rows: int
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
    """

    keep_state = True

    def __init__(self, dataset: Dataset, size: int, executor: Executor) -> None:
        n, queries = dataset.n_features, dataset.n_queries
        there = dataset.in_memory and executor.in_process
        value = 8 if dataset.is_sparse else 4
        largest = max(dataset.blocks, key=lambda block: block.n_values)
        copies = 1 if executor.in_process else 2
        self._size, self._n = size, n
        self.values = value * sum(b.n_values for b in dataset.blocks)
        self.data = 0 if there else self.values
        self.stream = executor.n_slots * BLOCKS_IN_FLIGHT * value * largest.n_values
        self.moments = 8 * queries * n * (2 if dataset.is_sparse else 3)
        self.state = 8 * queries * (4 * n + size * (size + 1) + 1) * copies
        self.row = 8 * queries * n
        self.scratch = 2 * executor.n_slots * 8 * largest.n_queries * n * size

    def n_rows(self, n_lockstep: int, keep_rows: bool = True) -> int:
        """Gram rows that a number of paths may fetch."""
        return min(self._n, n_lockstep * self._size + SURPLUS_ROWS) if keep_rows else self._n

    def total(self, resident: bool, keep_rows: bool, n_lockstep: int) -> int:
        """All of it."""
        data = self.data if resident else self.stream
        rows = self.n_rows(n_lockstep) * self.row if keep_rows else self.scratch
        return data + self.moments + n_lockstep * self.state + rows


class SparseNeeds(Needs):
    """The same where nothing is kept of a query: multiples of n_features alone."""

    keep_state = False

    def __init__(self, dataset: Dataset, size: int, executor: Executor) -> None:
        super().__init__(dataset, size, executor)
        n = 8 * self._n
        n_tiles = len(tile_ranges(dataset, executor.n_slots))
        copies = 1 if executor.in_process else executor.n_slots
        self.moments = 2 * n
        self.row = n
        # A[S, i] and what S explains of every candidate; the sums of the tiles.
        self.state = (2 * size + 8) * n * copies + (n_tiles + 1) * n
        self.scratch = executor.n_slots * (size + 12) * n

    def n_rows(self, n_lockstep: int, keep_rows: bool = True) -> int:
        """Gram rows that a number of paths may fetch."""
        return super().n_rows(n_lockstep)

    def total(self, resident: bool, keep_rows: bool, n_lockstep: int) -> int:
        """All of it."""
        data = self.data if resident else self.stream
        rows = self.n_rows(n_lockstep) * self.row
        return data + self.moments + n_lockstep * self.state + rows + self.scratch


def needs_of(dataset: Dataset, size: int, executor: Executor) -> Needs:
    """What a selection needs, with the state kept unless the data is sparser than that.

    A state that is smaller than the data is faster to update than to compute from the data.
    """
    needs = Needs(dataset, size, executor)
    kept = needs.moments + needs.state + needs.n_rows(1) * needs.row
    if dataset.is_sparse and kept > needs.values:
        return SparseNeeds(dataset, size, executor)
    return needs


def plan_memory(
    dataset: Dataset,
    n_paths: int,
    size: int,
    executor: Executor,
    limit: int | str | None,
    *,
    of_queries: bool = False,
) -> MemoryPlan:
    """The fastest way to run a selection within a memory limit.

    Rows are kept before X is: without X each pass reads storage, and there are fewer passes than
    rounds; without rows each round computes all rows of the features selected so far.

    Parameters
    ----------
    dataset, size, executor
        As in `Needs`.
    n_paths
        Paths to run.
    limit
        Bytes, or text such as "8GB"; None means what the executor says.
    of_queries
        Whether the Gram rows of every query are needed, however sparse the data is.

    Raises
    ------
    UsageError
        If even the state of one path does not fit.
    """
    available = executor.memory_bytes if limit is None else parse_memory(limit)
    needs = (Needs if of_queries else needs_of)(dataset, size, executor)
    streamable = [True] if dataset.in_memory else [True, False]
    for keep_rows in (True, False):
        for resident in streamable:
            for n_lockstep in range(n_paths, 0, -1):
                n_bytes = needs.total(resident, keep_rows, n_lockstep)
                if n_bytes <= available:
                    n_rows = needs.n_rows(n_lockstep, keep_rows)
                    keep_state = needs.keep_state
                    return MemoryPlan(resident, keep_rows, n_lockstep, keep_state, n_rows, n_bytes)
    least = needs.total(streamable[-1], False, 1)
    raise UsageError(
        f"selecting {size} of {dataset.n_features} features over {dataset.n_queries:,} queries "
        f"needs at least {format_bytes(least)} of memory ({format_bytes(needs.state)} of it state "
        f"per query), but there is {format_bytes(available)}. Raise memory_limit, add workers, or "
        "select fewer features."
    )
