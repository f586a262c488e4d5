"""What a greedy selection takes on a cluster, before it runs: the formulas of cluster/COSTS.md.

The formulas hold for dense data, forward search, one lambda and one feature block. The number of
passes that fetch rows and the number of updates of the state depend on which upcoming picks are
predicted right; a selection that ran says how many there were. Given these numbers, messages and
tasks are exact. Bytes are exact only if a pass fetches one row: otherwise all passes, and all
updates, are taken to have the same number of picks, and bytes sent for wrong predictions are left
out. Memory is what `plan_memory` counts; times follow from the rates of a machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import MAX_BLOCK_DOCUMENTS, BlockInfo, QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.tables.feature_names import default_feature_names
from dranking.engine.executor import Task
from dranking.engine.tile_layout import tile_ranges
from dranking.engine.tiles import Traffic
from dranking.engine.tree_sum import combining_tasks, n_subtrees
from dranking.rankrls.gram.sample import is_summed
from dranking.rankrls.greedy.prefetch import MOST_ROWS, ROWS
from dranking.rankrls.leave_query_out.memory_plan import Needs

STATE_ROWS = 12
"""Size of the state that an update reads, writes and copies, in Gram rows."""

PICKS_EXPONENT = 0.6
"""J rows fetched together serve about J^0.6 picks; `dranking.rankrls.greedy.prefetch.BEST_SHARE`
says on which data."""

PROCESS_BYTES = 300 * 10**6
"""Memory of a worker that has loaded the package and no data."""


class Rates(NamedTuple):
    """Rates of a worker with one thread, and times of Dask.

    The defaults were measured on a core of a busy virtual machine with an Intel Xeon, and rounded:
    they are orders of magnitude. ``python -m pipelines.cluster_costs --measure`` measures the rates
    of a machine.

    Attributes
    ----------
    read
        Bytes of X read from storage per second, decoded.
    products
        Multiplications in Gram rows per second.
    memory
        Bytes per second during updates of the state.
    task_seconds
        Time of the scheduler for every task; tasks are scheduled one after the other.
    step_seconds
        Time until the driver has the answer of a step of a round, without the time of its tasks.
    """

    read: float = 5.5e8
    products: float = 2.3e9
    memory: float = 3.2e9
    task_seconds: float = 1.1e-3
    step_seconds: float = 1.5e-2


@dataclass
class Cluster:
    """Workers of one thread each, as an executor for `Needs`; nothing runs on the workers.

    Attributes
    ----------
    n_slots
        Number of workers.
    """

    n_slots: int
    in_process: bool = False
    memory_limit: int | None = None

    @property
    def memory_bytes(self) -> int:
        """The memory of the workers is not known."""
        raise NotImplementedError

    def submit(self, function: Any, /, *args: Any, name: str, slot: int | None = None) -> Task:
        """Nothing runs here."""
        raise NotImplementedError

    def gather(self, tasks: Any) -> list[Any]:
        """Nothing runs here."""
        raise NotImplementedError

    def cancel(self, tasks: Any) -> None:
        """Nothing runs here."""
        raise NotImplementedError


class Sketch(Dataset):
    """The sizes of a data set without the data: equal queries, in blocks as `ingest` makes them.

    Parameters
    ----------
    n_documents, n_features, n_queries
        Sizes; at least one document per query.
    """

    def __init__(self, n_documents: int, n_features: int, n_queries: int) -> None:
        self.feature_names = default_feature_names(n_features)
        self.blocks = tuple(_blocks(n_documents, n_features, n_queries))

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """A sketch has no data."""
        raise NotImplementedError


@dataclass(frozen=True)
class SelectionForecast:
    """What a selection takes. Letters are those of cluster/COSTS.md.

    Attributes
    ----------
    dataset
        The data, or a `Sketch` of the data; dense: m documents x n features, q queries.
    n_selected
        Number of features to select, k.
    n_workers
        Number of workers, w, with one thread each.
    prefetch
        Largest number of rows that a pass fetches, J; None means the number that a selection
        chooses.
    n_row_passes
        Number of passes that fetch rows; None means that J rows serve J^0.6 picks.
    n_updates
        Number of updates of the state; None means one for each pass that fetches rows.
    resident, keep_rows
        Whether X, and the Gram rows of every query, stay in memory: see `MemoryPlan`.
    rates
        Rates of the machines.
    """

    dataset: Dataset
    n_selected: int
    n_workers: int
    prefetch: int | None = None
    n_row_passes: int | None = None
    n_updates: int | None = None
    resident: bool = True
    keep_rows: bool = True
    rates: Rates = Rates()  # noqa: RUF009 - it is immutable

    @cached_property
    def _tiles(self) -> list[tuple[int, int]]:
        return tile_ranges(self.dataset, self.n_workers)

    @property
    def n_tiles(self) -> int:
        """Number of tiles, T."""
        return len(self._tiles)

    @cached_property
    def n_partial_sums(self) -> int:
        """Number of partial sums that all tiles send for one sum, S."""
        return sum(n_subtrees(*blocks) for blocks in self._tiles)

    @property
    def has_sample(self) -> bool:
        """Whether a sample of the documents guesses Gram rows."""
        return self.resident and is_summed(self.n_tiles, self.dataset.n_features)

    @cached_property
    def rows_fetched(self) -> list[int]:
        """Number of rows that each pass fetches: never more than the picks that are left."""
        most = self.prefetch or (MOST_ROWS if self.has_sample else ROWS)
        n_picks = max(1.0, most**PICKS_EXPONENT)
        if self.n_row_passes is not None:
            n_picks = self.n_selected / self.n_row_passes
        n_passes = self.n_row_passes or ceil(self.n_selected / n_picks - 1e-9)
        left = [self.n_selected - p * n_picks for p in range(n_passes)]
        return [min(most, ceil(each - 1e-9)) for each in left]

    @property
    def updates(self) -> list[tuple[int, int]]:
        """For each update of the state, its number of picks, and the number of picks so far.

        While predictions are right there is one update for each pass that fetches rows.
        """
        n_updates = self.n_updates or len(self.rows_fetched)
        ends = [round(p * self.n_selected / n_updates) for p in range(n_updates + 1)]
        return [(end - start, end) for start, end in pairwise(ends)]

    @property
    def n_passes(self) -> int:
        """P: one pass for the moments, passes that fetch rows, and updates if rows are not kept."""
        return 1 + len(self.rows_fetched) + (0 if self.keep_rows else len(self.updates))

    @property
    def bytes_read(self) -> int:
        """Bytes read from storage by all workers, decoded: 4 m n, or 4 m n P if X does not stay."""
        return self._x_bytes * (1 if self.resident else self.n_passes)

    @cached_property
    def traffic(self) -> dict[str, Traffic]:
        """Messages between tiles and driver, by purpose as in `Tiles.traffic`."""
        n = self.dataset.n_features
        numbers = {
            "moments": [0],
            "sum-moments": [2 * n + 1],
            "initial-scores": [2 * n + 1],
            "gram-rows": [2 * J if self.keep_rows else J for J in self.rows_fetched],
            "sum-gram-rows": [n * J for J in self.rows_fetched],
            "update": [p * n + (p + 2) * t + 1 for p, t in self.updates],
            # A score is a number of 8 bytes, and the loss of its digits one of 4.
            "sum-scores": [1.5 * n + 1, *(p * (1.5 * n + 1) for p, _ in self.updates)],
            "pivots": [0],
        }
        if self.keep_rows:
            numbers["rows"] = [0]
        if self.has_sample:
            numbers |= {"sample": [0], "sum-sample": [n * n]}
        n_tiles = self.n_tiles
        return {
            name: Traffic(len(each), len(each) * n_tiles, int(8 * sum(each)) * self._n_arrays(name))
            for name, each in numbers.items()
        }

    def _n_arrays(self, name: str) -> int:
        """Number of times that an operation sends its arrays: a tile sends S / T partial sums."""
        return self.n_partial_sums if name.startswith("sum-") else self.n_tiles

    @property
    def n_messages(self) -> int:
        """Number of messages: one to or from every tile for every operation."""
        return sum(each.n_messages for each in self.traffic.values())

    @property
    def bytes_sent(self) -> int:
        """Bytes of the arrays and numbers in the messages."""
        return sum(each.n_bytes for each in self.traffic.values())

    @property
    def worker_bytes(self) -> int:
        """Memory of each worker: a share of what `plan_memory` counts, and the process."""
        needs = Needs(self.dataset, self.n_selected, Cluster(self.n_workers))
        total = needs.total(self.resident, self.keep_rows, 1)
        return PROCESS_BYTES + ceil(total / self.n_workers)

    @property
    def work_seconds(self) -> float:
        """Seconds that the whole work takes on one worker.

        Updates of several picks take less, as the picks share what is read.
        """
        k, rates = self.n_selected, self.rates
        n_rows = 1 + sum(self.rows_fetched)
        if not self.keep_rows:
            n_rows += sum(t for _, t in self.updates)
        row_bytes = 8 * self.dataset.n_queries * self.dataset.n_features
        return (
            self.bytes_read / rates.read
            + n_rows * self._x_bytes / 4 / rates.products
            + n_state_rows(k) * row_bytes / rates.memory
        )

    @property
    def n_tasks(self) -> int:
        """Number of tasks: for every message, to combine sums, and to load X if X stays.

        A task that maps and sums stands for two messages: the task for a sample, and for rows that
        are not kept.
        """
        sums = sum(t.n_operations for name, t in self.traffic.items() if name.startswith("sum-"))
        combining = sum(combining_tasks(self.n_tiles, self.dataset.n_features))
        n_maps = int(self.resident) - int(self.has_sample)
        n_maps -= 0 if self.keep_rows else len(self.rows_fetched)
        return self.n_messages + (sums + 1) * combining + n_maps * self.n_tiles

    @property
    def dask_seconds(self) -> float:
        """Seconds that Dask takes: the scheduler for tasks, and the driver to get answers."""
        rounds = sum(each.n_operations for each in self.traffic.values())
        return self.n_tasks * self.rates.task_seconds + rounds * self.rates.step_seconds

    @property
    def seconds_per_round(self) -> float:
        """Mean seconds of a round."""
        n_busy = min(self.n_workers, self.n_tiles)
        return (self.work_seconds / n_busy + self.dask_seconds) / self.n_selected

    @property
    def _x_bytes(self) -> int:
        return 4 * self.dataset.n_documents * self.dataset.n_features


def n_state_rows(k: int) -> int:
    """Memory traffic of k updates of the state, in Gram rows."""
    return sum(t + STATE_ROWS for t in range(1, k + 1))


def _blocks(n_documents: int, n_features: int, n_queries: int) -> Iterator[BlockInfo]:
    """Blocks of whole queries, each with as many queries as it may hold."""
    size = n_documents / n_queries
    per_block = max(1, int(MAX_BLOCK_DOCUMENTS / size))
    for first in range(0, n_queries, per_block):
        last = min(first + per_block, n_queries)
        m = round(last * size) - round(first * size)
        yield BlockInfo(m, last - first, m * n_features)
