"""What a greedy selection takes on a cluster, before it runs: the formulas of cluster/COSTS.md.

Dense data, forward search, one lambda, features not split. How many passes fetch rows and how many
updates of the state there are depends on which picks are foretold right; a selection that ran says
how many there were. Given these, messages and tasks are exact. Bytes are not, but where a pass
fetches one row: the picks of a pass, and of an update, are taken to be even, and what was sent for
picks that were foretold wrong is left out. What is kept is what `plan_memory` counts; times follow
from the rates of a machine.
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
from dranking.engine.tile_sizes import tile_ranges
from dranking.engine.traffic import Traffic
from dranking.engine.tree_sum import sums_by_tasks
from dranking.rankers.gram.sample import is_summed
from dranking.rankers.greedy.prefetch import MOST_ROWS, PICKS_EXPONENT, ROWS
from dranking.rankers.leave_query_out.memory_plan import Needs

STATE_ROWS = 12
"""An update reads and writes the state, and where it must not change in place copies it: as much as
so many Gram rows."""

PROCESS_BYTES = 300 * 10**6
"""Memory of a worker that has loaded the package, and no data."""


class Rates(NamedTuple):
    """What a worker of one thread does, and how long Dask takes.

    The defaults were measured on a core of a busy virtual machine with an Intel Xeon, and rounded:
    orders of magnitude. ``python -m pipelines.cluster_costs --measure`` takes those of a machine.

    Attributes
    ----------
    read
        Bytes of X a second from storage, decoded.
    products
        Multiplications a second in Gram rows.
    memory
        Bytes a second while the state is updated.
    task_seconds
        Of the scheduler for every task, one after the other.
    step_seconds
        Until the driver has the answer of a step of a round, whatever its tasks do.
    """

    read: float = 5.5e8
    products: float = 2.3e9
    memory: float = 3.2e9
    task_seconds: float = 2e-3
    step_seconds: float = 1.5e-2


@dataclass
class Cluster:
    """Workers of one thread each, for `Needs`; nothing runs on them.

    Attributes
    ----------
    n_slots
        How many.
    """

    n_slots: int
    in_process: bool = False
    memory_limit: int | None = None

    @property
    def memory_bytes(self) -> int:
        """Not known."""
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
    """The sizes of a data set that is not there: queries of one size, blocks as ingest makes them.

    Parameters
    ----------
    n_documents, n_features, n_queries
        At least one document per query.
    """

    def __init__(self, n_documents: int, n_features: int, n_queries: int) -> None:
        self.feature_names = default_feature_names(n_features)
        self.blocks = tuple(_blocks(n_documents, n_features, n_queries))

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """There are none."""
        raise NotImplementedError


@dataclass(frozen=True)
class SelectionForecast:
    """What a selection takes. Letters are those of cluster/COSTS.md.

    Attributes
    ----------
    dataset
        The data, or a `Sketch` of it; dense: m documents x n features, q queries.
    n_selected
        Features to select, k.
    n_workers
        Workers of one thread each, w.
    prefetch
        Rows that a pass fetches at most, J; None means as many as a selection does by itself.
    n_row_passes
        Passes that fetch rows; None means that J rows serve J^0.6 picks.
    n_updates
        Updates of the state; None means one for each pass that fetches rows.
    resident, keep_rows
        Whether X, and the Gram rows of every query, stay in memory: see `MemoryPlan`.
    rates
        Of a machine.
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
    def n_tiles(self) -> int:
        """T."""
        return len(tile_ranges(self.dataset, self.n_workers))

    @property
    def has_sample(self) -> bool:
        """Whether a sample foretells rows."""
        return self.resident and is_summed(self.n_tiles, self.dataset.n_features)

    @cached_property
    def rows_fetched(self) -> list[int]:
        """How many rows each pass fetches, one pass after the other.

        Never more than there are picks left.
        """
        most = self.prefetch or (MOST_ROWS if self.has_sample else ROWS)
        n_picks = max(1.0, most**PICKS_EXPONENT)
        if self.n_row_passes is not None:
            n_picks = self.n_selected / self.n_row_passes
        n_passes = self.n_row_passes or ceil(self.n_selected / n_picks - 1e-9)
        left = [self.n_selected - p * n_picks for p in range(n_passes)]
        return [min(most, ceil(each - 1e-9)) for each in left]

    @property
    def updates(self) -> list[tuple[int, int]]:
        """By how many picks each update of the state goes on, and how many there are then.

        As long as picks are foretold right there is an update for each pass that fetches rows.
        """
        n_updates = self.n_updates or len(self.rows_fetched)
        ends = [round(p * self.n_selected / n_updates) for p in range(n_updates + 1)]
        return [(end - start, end) for start, end in pairwise(ends)]

    @property
    def n_passes(self) -> int:
        """P: one for the moments, those that fetch rows, and each update where none are kept."""
        return 1 + len(self.rows_fetched) + (0 if self.keep_rows else len(self.updates))

    @property
    def bytes_read(self) -> int:
        """From storage, decoded, by all workers: 4 m n, or 4 m n P where X does not stay."""
        return self._x_bytes * (1 if self.resident else self.n_passes)

    @cached_property
    def traffic(self) -> dict[str, Traffic]:
        """What tiles and the driver send each other, by its purpose as in `Tiles.traffic`."""
        n = self.dataset.n_features
        numbers = {
            "moments": [0],
            "sum-moments": [2 * n + 1],
            "initial-scores": [2 * n + 1],
            "gram-rows": [2 * J if self.keep_rows else J for J in self.rows_fetched],
            "sum-gram-rows": [n * J for J in self.rows_fetched],
            "update": [p * n + (p + 2) * t + 1 for p, t in self.updates],
            "sum-scores": [n + 1, *(p * (n + 1) for p, _ in self.updates)],
        }
        if self.keep_rows:
            numbers["rows"] = [0]
        if self.has_sample:
            numbers |= {"sample": [0], "sum-sample": [n * n]}
        n_tiles = self.n_tiles
        return {
            name: Traffic(len(each), len(each) * n_tiles, 8 * n_tiles * sum(each))
            for name, each in numbers.items()
        }

    @property
    def n_messages(self) -> int:
        """One to or from every tile for every operation."""
        return sum(each.n_messages for each in self.traffic.values())

    @property
    def bytes_sent(self) -> int:
        """Bytes of the arrays and numbers in the messages."""
        return sum(each.n_bytes for each in self.traffic.values())

    @property
    def worker_bytes(self) -> int:
        """Memory of each worker: its share of what `plan_memory` counts, and its process."""
        needs = Needs(self.dataset, self.n_selected, Cluster(self.n_workers))
        total = needs.total(self.resident, self.keep_rows, 1)
        return PROCESS_BYTES + ceil(total / self.n_workers)

    @property
    def work_seconds(self) -> float:
        """Seconds of one worker that all of it takes, were it alone.

        Less where an update is of several picks, which share what is read.
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
        """One for every message, those that combine sums, and those that load X where it stays."""
        sums = sum(t.n_operations for name, t in self.traffic.items() if name.startswith("sum-"))
        a_sum = sum(sums_by_tasks(self.n_tiles, self.dataset.n_features))
        return self.n_messages + sums * a_sum + (self.n_tiles if self.resident else 0)

    @property
    def dask_seconds(self) -> float:
        """Seconds that Dask takes: its scheduler for the tasks, the driver for its answers."""
        rounds = sum(each.n_operations for each in self.traffic.values())
        return self.n_tasks * self.rates.task_seconds + rounds * self.rates.step_seconds

    @property
    def seconds_per_round(self) -> float:
        """Mean over the rounds."""
        n_busy = min(self.n_workers, self.n_tiles)
        return (self.work_seconds / n_busy + self.dask_seconds) / self.n_selected

    @property
    def _x_bytes(self) -> int:
        return 4 * self.dataset.n_documents * self.dataset.n_features


def n_state_rows(k: int) -> int:
    """Gram rows whose size is moved in memory by k updates of the state."""
    return sum(t + STATE_ROWS for t in range(1, k + 1))


def _blocks(n_documents: int, n_features: int, n_queries: int) -> Iterator[BlockInfo]:
    """Whole queries, as many as a block may hold."""
    size = n_documents / n_queries
    per_block = max(1, int(MAX_BLOCK_DOCUMENTS / size))
    for first in range(0, n_queries, per_block):
        last = min(first + per_block, n_queries)
        m = round(last * size) - round(first * size)
        yield BlockInfo(m, last - first, m * n_features)
