"""The leave-query-out criterion as the rounds of a selection see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.rankers.gram.rows import TotalRows
from dranking.rankers.leave_query_out.dense import DenseCriterion
from dranking.rankers.leave_query_out.dense_block import HeldOutMeasure
from dranking.rankers.leave_query_out.kept_rows import KeptCriterion
from dranking.rankers.leave_query_out.memory_plan import MemoryPlan
from dranking.rankers.leave_query_out.sparse import SparseCriterion

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class PathState(Protocol):
    """The criterion along one path."""

    def add(self, selected: Indices, next_picks: Callable[[], Sequence[int]]) -> None:
        """Select the last of these features, whose Gram row was fetched.

        `next_picks()` names features that will likely be selected after it, in order, whose rows
        were fetched: a state may run ahead.
        """
        ...

    def ask(self, candidates: Indices) -> None:
        """Say which candidates are scored next; before any path's scores are asked for."""
        ...

    def scores(self) -> tuple[Array, float]:
        """(n_candidates,) LQO error with each candidate asked for, and the present one."""
        ...

    def measure(self, selected: Indices, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions over all blocks."""
        ...


class ReversibleState(PathState, Protocol):
    """The criterion along a path that may turn back."""

    def reset(self) -> None:
        """Select nothing."""
        ...

    def removals(self, selected: Indices) -> tuple[Array, float]:
        """(t,) LQO error without each of these features in turn, and with all of them."""
        ...


class Criterion(Protocol):
    """Opens paths that share their passes over the data."""

    def open(self, regularizations: Sequence[float]) -> tuple[TotalRows, Sequence[PathState]]:
        """Gram rows and, for each lambda, a state with no feature selected."""
        ...


def criterion_of(tiles: Tiles, plan: MemoryPlan, size: int, of_kept: bool = False) -> Criterion:
    """The criterion of a data set, in the form that was planned.

    Parameters
    ----------
    tiles
        The data.
    plan
        What is kept.
    size
        Features to select at most.
    of_kept
        Whether scores come from the Gram rows of the features kept: see `KeptState`.
    """
    if of_kept:
        return KeptCriterion(tiles, plan)
    if plan.n_states > 0:
        return DenseCriterion(tiles, plan, size)
    return SparseCriterion(tiles, plan)
