"""Iterative parameter mixing: shards of a data set train on their own and are averaged each epoch.

A *shard* is a fixed part of the blocks of a data set. In an epoch each shard is one task. The task
visits the shard's blocks in random order, and takes on each block a number of steps in proportion
to the block's mass; blocks that do not stay in memory are read one block ahead. Shards, orders and
steps follow from the data, the number of shards, the seed and the epoch, never from the workers.

McDonald, Hall, Mann: Distributed training strategies for the structured perceptron, 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.block_tasks import submit_with_blocks
from dranking.engine.executor import Executor, Task
from dranking.engine.shard_sums import Split, sum_shards, summed_shard

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Prepare: TypeAlias = Callable[[QueryBlock], Any]
Visits: TypeAlias = list[tuple[int, int]]  # block, number of steps

BYTES_PER_VALUE = {False: 4, True: 8}  # dense, sparse

MAX_ROUNDS = 32
VISIT_STEPS = 300
"""An epoch visits each block of small data in memory up to MAX_ROUNDS times, and takes about
VISIT_STEPS steps or more in a visit: in long visits the weights would fit one block after the
other."""

SMALL_BYTES = 256 * 2**20
"""Largest size of small data. In larger data, a block is a small part of the data, and an epoch
visits the block once."""


class Source(NamedTuple):
    """A data set from whose blocks the steps of an epoch draw.

    Attributes
    ----------
    dataset
        The data set.
    prepare
        Function that makes of a block the object that the steps use; it must be picklable.
    mass
        (n_blocks,) mass of each block, to which the number of steps on the block is proportional.
    """

    dataset: Dataset
    prepare: Prepare
    mass: Array

    @property
    def n_bytes(self) -> int:
        """Memory of all blocks, in bytes."""
        return self.bytes_of(range(self.dataset.n_blocks))

    def bytes_of(self, blocks: Iterable[int]) -> int:
        """Memory of some blocks, in bytes."""
        value = BYTES_PER_VALUE[self.dataset.is_sparse]
        return value * sum(self.dataset.blocks[block].n_values for block in blocks)

    @property
    def is_small(self) -> bool:
        """Whether all blocks together are small data."""
        return self.n_bytes <= SMALL_BYTES


class Segment(NamedTuple):
    """Steps on one block of each source.

    Attributes
    ----------
    indices, blocks
        Block numbers and the prepared blocks, one block of each source.
    n_steps
        Steps to take.
    """

    indices: tuple[int, ...]
    blocks: tuple[Any, ...]
    n_steps: int


class Shards:
    """Sources divided into shards, on an executor.

    Parameters
    ----------
    sources
        Data sets to draw from; the mass of the first source determines the sizes of the shards.
    n_shards
        Number of shards, at most; there are no more shards than blocks with mass in the first
        source.
    executor
        The executor that runs the tasks.
    resident
        Read and prepare blocks once and keep them where they are used; else every epoch reads the
        blocks. Blocks in memory are always resident. For small data, the order of the steps depends
        on `resident`.

    Attributes
    ----------
    shares
        (n_shards,) share of each shard in the mass of the first source; sums to 1.
    bytes_read
        Bytes read from storage so far, decoded.
    """

    def __init__(
        self, sources: Sequence[Source], n_shards: int, executor: Executor, *, resident: bool
    ) -> None:
        self._executor, self._resident = executor, resident
        self.bytes_read = 0
        self._sources = list(sources)
        n_shards = min(n_shards, int(np.count_nonzero(sources[0].mass)))
        self._blocks = [_divide(source.mass, n_shards) for source in sources]
        mass = np.array([sources[0].mass[blocks].sum() for blocks in self._blocks[0]])
        self.shares: Array = mass / mass.sum()
        self._data = [
            [self._hold(source, blocks) for blocks in shards]
            for source, shards in zip(self._sources, self._blocks, strict=True)
        ]

    def steps_of_shards(self, n_steps: int) -> Ints:
        """(n_shards,) number of steps that each shard takes in an epoch."""
        return apportion(self.shares, n_steps)

    def most_steps(self, n_steps: int) -> int:
        """Number of steps in an epoch of the shard with the most steps."""
        return int(self.steps_of_shards(n_steps).max())

    def run(
        self,
        function: Callable[..., Any],
        n_steps: int,
        key: tuple[int, ...],
        *args: Any,
        n_sources: int | None = None,
        n_rounds: int | None = None,
        name: str,
    ) -> list[Any]:
        """Run one epoch, ``function(segments, *args)`` on every shard; results in order of shards.

        Parameters
        ----------
        function
            Takes an iterator of `Segment`.
        n_steps
            Steps of the epoch, over all shards.
        key
            Seed and epoch, which determine the random order of the blocks.
        n_sources
            Number of sources to use, from the first; None means all.
        n_rounds
            Visits to each block, with one step or more each; None means that the number follows
            from the size of the data, and that blocks may be passed over for one epoch.
        """
        tasks = self._submit(function, n_steps, key, args, n_sources, n_rounds, name)
        return self._executor.gather(tasks)

    def mix(
        self,
        function: Callable[..., Any],
        split: Split,
        n_steps: int,
        key: tuple[int, ...],
        *args: Any,
        n_sources: int | None = None,
        n_rounds: int | None = None,
        name: str,
    ) -> tuple[Any, list[Any]]:
        """Run one epoch like `run`, and sum its arrays over the shards; see `sum_shards`.

        Parameters
        ----------
        split
            Divides the result of a shard; the share is the shard's share in the mass.

        Returns
        -------
        The sum, and the facts of each shard in order.
        """
        leaves = [
            summed_shard(function, split, shard, share)
            for shard, share in enumerate(self.shares.tolist())
        ]
        tasks = self._submit(leaves, n_steps, key, args, n_sources, n_rounds, name)
        return sum_shards(self._executor, tasks, 1, name)

    def _submit(
        self,
        functions: Callable[..., Any] | Sequence[Callable[..., Any]],
        n_steps: int,
        key: tuple[int, ...],
        args: Sequence[Any],
        n_sources: int | None,
        n_rounds: int | None,
        name: str,
    ) -> list[Task]:
        """Start a task for every shard, which calls one function, or the function of the shard."""
        used = range(len(self._sources) if n_sources is None else n_sources)
        rounds = [n_rounds or self._n_rounds(self._sources[i], n_steps) for i in used]
        tasks = []
        for shard, steps in enumerate(self.steps_of_shards(n_steps).tolist()):
            least = 0 if n_rounds is None else 1
            visits = [self._visits(i, shard, rounds[i], steps, key, least) for i in used]
            data = [self._data[i][shard] for i in used]
            for i, place, visited in zip(used, data, visits, strict=True):
                if isinstance(place, Stream):
                    self.bytes_read += self._sources[i].bytes_of(block for block, _ in visited)
            function = functions if callable(functions) else functions[shard]
            tasks.append(
                self._executor.submit(_run_shard, function, visits, *data, *args, name=name)
            )
        return tasks

    def _n_rounds(self, source: Source, n_steps: int) -> int:
        """Number of times that an epoch visits each block of a source."""
        if not (source.is_small and (self._resident or source.dataset.in_memory)):
            return 1
        n_rounds = n_steps // (VISIT_STEPS * int(np.count_nonzero(source.mass)))
        return min(max(1, n_rounds), MAX_ROUNDS)

    def _hold(self, source: Source, blocks: Ints) -> Task | Stream:
        dataset, prepare, _ = source
        if dataset.in_memory or self._resident:
            numbers = blocks.tolist()
            if not dataset.in_memory:
                self.bytes_read += source.bytes_of(numbers)
            return submit_with_blocks(
                self._executor, _prepare, dataset, numbers, None, numbers, prepare, name="load"
            )
        return Stream(dataset.for_blocks(blocks.tolist()), prepare)

    def _visits(
        self, index: int, shard: int, n_rounds: int, n_steps: int, key: tuple[int, ...], least: int
    ) -> Visits:
        """Visits with at least one step to the blocks of a shard, each round in random order.

        A visit that would have fewer steps than `least` has `least` steps.
        """
        source, blocks = self._sources[index], self._blocks[index][shard]
        rng = np.random.default_rng((*key, index, shard))
        order = np.concatenate([rng.permutation(blocks) for _ in range(n_rounds)])
        steps = np.maximum(apportion(source.mass[order], n_steps), least)
        return [(b, n) for b, n in zip(order.tolist(), steps.tolist(), strict=True) if n]


class Stream(NamedTuple):
    """Blocks that are read at each visit."""

    dataset: Dataset
    prepare: Prepare


def apportion(mass: Array, total: int) -> Ints:
    """Divide a whole number in proportion to `mass` (n,); each part is off by less than 1."""
    borders = np.rint(np.cumsum(mass) / mass.sum() * total).astype(np.int64)
    borders[-1] = total
    parts: Ints = np.diff(borders, prepend=0)
    return parts


def _divide(mass: Array, n_shards: int) -> list[Ints]:
    """Deal the blocks with mass to the shards in turn; shards share blocks if there are too few."""
    blocks = np.flatnonzero(mass)
    return [
        blocks[shard::n_shards] if shard < len(blocks) else blocks[[shard % len(blocks)]]
        for shard in range(n_shards)
    ]


def _prepare(
    blocks: Iterable[QueryBlock], numbers: Sequence[int], prepare: Prepare
) -> dict[int, Any]:
    return {b: prepare(block) for b, block in zip(numbers, blocks, strict=True)}


def _run_shard(function: Callable[..., Any], visits: list[Visits], *data_and_args: Any) -> Any:
    data, args = data_and_args[: len(visits)], data_and_args[len(visits) :]
    feeds = [
        _read(source, v) if isinstance(source, Stream) else _look_up(source, v)
        for source, v in zip(data, visits, strict=True)
    ]
    return function(_segments(feeds), *args)


def _look_up(held: dict[int, Any], visits: Visits) -> Iterator[tuple[int, Any, int]]:
    return ((b, held[b], n) for b, n in visits)


def _read(stream: Stream, visits: Visits) -> Iterator[tuple[int, Any, int]]:
    """Blocks in the order of the visits; the next block is read and prepared ahead."""
    if not visits:
        return
    with ThreadPoolExecutor(1, thread_name_prefix="dranking-read") as reader:

        def read(position: int) -> Any:
            return stream.prepare(stream.dataset.block(visits[position][0]))

        coming = reader.submit(read, 0)
        for position, (block, n_steps) in enumerate(visits):
            prepared = coming.result()
            if position + 1 < len(visits):
                coming = reader.submit(read, position + 1)
            yield block, prepared, n_steps


def _segments(feeds: Sequence[Iterator[tuple[int, Any, int]]]) -> Iterator[Segment]:
    """Divide the visits of all feeds into segments; all feeds have the same total of steps."""
    current = [next(feed, None) for feed in feeds]
    left = [visit[2] if visit else 0 for visit in current]
    while visits := [visit for visit in current if visit is not None]:
        n_steps = min(left)
        yield Segment(tuple(v[0] for v in visits), tuple(v[1] for v in visits), n_steps)
        for i, feed in enumerate(feeds):
            left[i] -= n_steps
            if left[i] == 0:
                current[i] = next(feed, None)
                visit = current[i]
                left[i] = visit[2] if visit else 0
