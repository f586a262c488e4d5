"""Sums of the results of shards, added where the shards ran.

A *shard* is a fixed part of the data that is trained on its own. After an epoch, the arrays of all
shards are added in the fixed tree of `tree_sum` by tasks on the workers, so the bits of the sum
depend on the number of shards alone, and the driver receives few sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from dranking.engine.executor import Executor, Task
from dranking.engine.tree_sum import Subtree, combine_by_tasks, joined_runs, run_sum, total_of

Split: TypeAlias = Callable[[Any, float], tuple[Any, Any]]
"""Takes the result of a shard and the shard's share. Returns the arrays to sum (an array, a
`csr_array`, a number or a tuple of them) and a few facts about the shard."""


def summed_shard(
    function: Callable[..., Any], split: Split, shard: int, share: float
) -> Callable[..., Any]:
    """The function of the task of a shard, whose result `sum_shards` takes.

    Parameters
    ----------
    function
        Trains the shard.
    split
        Divides the result of the shard.
    shard, share
        Number of the shard, and share of the shard in all data; the shares sum to 1.
    """
    return partial(_leaf, function, split, shard, share)


def sum_shards(
    executor: Executor, tasks: Sequence[Task], n_features: int, name: str
) -> tuple[Any, list[Any]]:
    """Wait for all shards, in order, and sum their arrays.

    Tasks add up 16 shards each, and so on, as `tree_sum.combining_tasks` says for `n_features`.

    Returns
    -------
    The sum, and the facts of each shard in order.
    """
    left = combine_by_tasks(executor, _join, tasks, n_features, f"mix-{name}")
    run, facts = _join(*executor.gather(left))
    return total_of(run), facts


def _leaf(
    function: Callable[..., Any], split: Split, shard: int, share: float, *args: Any
) -> tuple[list[Subtree], list[Any]]:
    """The arrays of a shard as a run of one leaf, and the facts."""
    arrays, facts = split(function(*args), share)
    return run_sum([arrays], shard), [facts]


def _join(*parts: tuple[list[Subtree], list[Any]]) -> tuple[list[Subtree], list[Any]]:
    """Add the arrays of neighbouring shards as far as the tree adds them, and list the facts."""
    runs, facts = zip(*parts, strict=True)
    return joined_runs(runs), list(chain.from_iterable(facts))
