"""The memory plan of a selection: what is kept in memory, and what is read or computed again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.memory import parse_memory
from dranking.engine.tile_layout import MAX_TILE_BYTES, tile_ranges
from dranking.errors import UsageError
from dranking.files.sizes import format_bytes
from dranking.models.linear.checks import check_whole

MOST_PICKS = 16
"""Largest number of picks in one update of a dense state. With so many picks, the work that the
picks share no longer takes most of the time of the update."""

SURPLUS_ROWS = 4
"""Gram rows kept beside the rows of the selected features, so that a pass may fetch more than one
row even for the last pick."""

BLOCKS_IN_FLIGHT = 6
"""Memory of a streaming task in blocks (measured): the block in use, the next block, the buffers of
decoding, and what the allocator keeps of earlier blocks."""


class MemoryPlan(NamedTuple):
    """The arrays that a selection keeps in memory.

    Attributes
    ----------
    resident
        Whether X stays in memory; else each pass reads X from storage.
    keep_rows
        Whether the Gram rows of every query stay in memory; else each update computes the rows that
        it needs again.
    n_lockstep
        Number of paths (lambdas) that run at the same time.
    n_states
        Number of states per query and feature that a path has at the same time. 2: the present
        state, and the state to which a wrong prediction returns. 1: every update starts from the
        state of no feature. 0: each round computes scores from sparse data. Refits ignore this
        number.
    n_rows
        Largest number of Gram rows held at the same time.
    n_feature_blocks
        Number of parts into which the features are split.
    n_bytes
        Memory in bytes, without data that is in this process's memory already.
    """

    resident: bool
    keep_rows: bool
    n_lockstep: int
    n_states: int
    n_rows: int
    n_feature_blocks: int
    n_bytes: int


class Needs:
    """Bytes that the parts of a selection with a dense state take, over all workers.

    Parameters
    ----------
    dataset
        Labelled queries.
    size
        Largest number of features selected at the same time.
    executor
        The executor that runs the tasks.
    n_feature_blocks
        Number of parts into which the features are split.

    Attributes
    ----------
    n_states
        Possible values of `MemoryPlan.n_states`, the faster first.
    """

    def __init__(
        self, dataset: Dataset, size: int, executor: Executor, n_feature_blocks: int = 1
    ) -> None:
        # With one state, one update must be able to go through all picks. With several feature
        # blocks, an update takes one pick.
        one_is_enough = size <= MOST_PICKS and n_feature_blocks == 1
        self.n_states: Sequence[int] = (2, 1) if one_is_enough else (2,)
        n, queries = dataset.n_features, dataset.n_queries
        # Data in this process is used as it is, but some columns of the data are a copy.
        there = dataset.in_memory and executor.in_process and n_feature_blocks == 1
        value = 8 if dataset.is_sparse else 4
        largest = max(dataset.blocks, key=lambda block: block.n_values)
        self._size, self._n = size, n
        self.values = value * sum(b.n_values for b in dataset.blocks)
        self.data = 0 if there else self.values
        streamed = BLOCKS_IN_FLIGHT * value * largest.n_values
        self.stream = executor.n_slots * streamed // n_feature_blocks
        self.stream += executor.n_slots * dataset.bytes_ahead
        self.moments = 8 * queries * n * (2 if dataset.is_sparse else 3)
        # Every feature block has A_q[S, S], its Cholesky factors and the errors of all queries.
        of_queries = 8 * queries * (size * (size + 1) + 1) * n_feature_blocks
        # A[S, :] and the scores after each pick of an update, per block; and the `PickPredictor`.
        of_blocks = (size + min(size, MOST_PICKS)) * dataset.n_blocks
        sums = 8 * (of_blocks + size + SURPLUS_ROWS) * n
        self._state = 8 * 4 * queries * n
        self.one_state = self._state + of_queries + sums
        # On workers, an update that goes through picks again copies what picks append to.
        added_to = of_queries + 8 * size * n * dataset.n_blocks
        self._copies = 0 if executor.in_process else added_to
        self.row = 8 * queries * n
        fresh = 2 * 8 * largest.n_queries * n * size
        self.scratch = executor.n_slots * fresh // n_feature_blocks

    def n_rows(self, n_lockstep: int, keep_rows: bool = True) -> int:
        """Largest number of Gram rows that `n_lockstep` paths hold."""
        return min(self._n, n_lockstep * self._size + SURPLUS_ROWS) if keep_rows else self._n

    def path(self, n_states: int) -> int:
        """Bytes that a path keeps beside Gram rows."""
        return self.one_state + (n_states - 1) * self._state + self._copies

    def total(self, resident: bool, keep_rows: bool, n_lockstep: int, n_states: int = 2) -> int:
        """Bytes of the whole selection."""
        data = self.data if resident else self.stream
        rows = self.n_rows(n_lockstep) * self.row if keep_rows else self.scratch
        return data + self.moments + n_lockstep * self.path(n_states) + rows


class SparseNeeds(Needs):
    """Like `Needs` for the criterion of sparse data: nothing is kept for a query."""

    def __init__(self, dataset: Dataset, size: int, executor: Executor) -> None:
        super().__init__(dataset, size, executor)
        self.n_states = (0,)
        n = 8 * self._n
        n_tiles = len(tile_ranges(dataset, executor.n_slots))
        copies = 1 if executor.in_process else executor.n_slots
        self.moments = 2 * n
        self.row = n
        # A[S, i] and what S explains of every candidate; the sums of tiles; the `PickPredictor`.
        self._path = (2 * size + 8) * n * copies + (n_tiles + 1) * n + (size + SURPLUS_ROWS) * n
        self.scratch = executor.n_slots * (2 * size + 20) * n

    def n_rows(self, n_lockstep: int, keep_rows: bool = True) -> int:
        """Largest number of Gram rows that `n_lockstep` paths hold."""
        return super().n_rows(n_lockstep)

    def path(self, n_states: int) -> int:
        """Bytes that a path keeps beside Gram rows."""
        return self._path

    def total(self, resident: bool, keep_rows: bool, n_lockstep: int, n_states: int = 2) -> int:
        """Bytes of the whole selection."""
        return super().total(resident, True, n_lockstep, n_states) + self.scratch


def needs_of(dataset: Dataset, size: int, executor: Executor) -> Needs:
    """The needs of a selection: of a dense state, unless sparse data is smaller than the state.

    A state that is smaller than the data is faster to update than to compute from the data. The
    choice does not depend on the executor, because scores with and without a state differ by
    rounding.
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

    A single state is the last resort. Keeping Gram rows has priority over keeping X: without X in
    memory each pass reads storage, and there are fewer passes than rounds; without rows each update
    computes the rows of all selected features again.

    Parameters
    ----------
    dataset, size, executor
        As in `Needs`.
    n_paths
        Number of paths to run.
    limit
        Bytes, or text such as "8GB"; None means the memory of the executor.
    feature_blocks
        Number of parts into which the features are split; None means as many as the workers need.
    refits
        Whether the criterion refits. Refits take the Gram rows of every query, also for sparse
        data.
    whole_queries
        Whether tasks need all features of a query together, so that the features are not split.

    Raises
    ------
    UsageError
        If even the state of one path does not fit, or the features cannot be split into
        `feature_blocks` parts.
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
        # A single state may fit, which is possible only with one feature block.
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
    """Smallest number of feature blocks with which every tile of one block of queries fits.

    The part of X in the tile is at most `MAX_TILE_BYTES`. The tile, with all that is kept beside
    it, fits into the share of memory that a worker has for each of its tasks.
    """
    if dataset.in_memory and executor.in_process:
        return 1  # splitting would copy the data
    largest = max(dataset.blocks, key=lambda block: block.n_values)
    kept = needs.moments + needs.path(max(needs.n_states)) + needs.n_rows(1) * needs.row
    tile = 4 * largest.n_values + kept * largest.n_queries // dataset.n_queries
    share = available if executor.in_process else available // executor.n_slots
    needed = max(-(-4 * largest.n_values // MAX_TILE_BYTES), -(-tile // share))
    return min(needed, dataset.n_features)


def why_not_split(dataset: Dataset, whole_queries: bool) -> str | None:
    """The reason why there is only one feature block; None if there can be more."""
    if not dataset.has_documents:
        return "statistics of queries are not split by features"
    if dataset.is_sparse:
        return "sparse data is not split by features"
    if whole_queries:
        return "back-fitting, floating and backward search take all features of a query together"
    return None


def check_feature_blocks(feature_blocks: int, n_features: int, whole: str | None) -> None:
    """Raise UsageError unless the features can be split into `feature_blocks` parts."""
    check_whole("feature_blocks", feature_blocks)
    if not 1 <= feature_blocks <= n_features:
        raise UsageError(
            f"feature_blocks is {feature_blocks}; the data has {n_features} features, so choose 1 "
            f"to {n_features}."
        )
    if feature_blocks > 1 and whole:
        raise UsageError(f"feature_blocks is {feature_blocks}, but {whole}; omit feature_blocks.")
