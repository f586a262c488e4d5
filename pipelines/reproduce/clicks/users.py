"""Simulated users of ranked lists, for the reproductions on clicks: clicks as counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

DEPTH = 10
RATES = np.array([0.05, 0.4, 0.9])
"""Rate of clicks, once examined, on documents of grade 0, 1 and 2."""


class Users(Protocol):
    """Users of one kind."""

    def clicks(self, n: int, rates: Array, draw: np.random.Generator) -> Integers:
        """Clicks at each position by `n` users of each list; rates are (..., n_positions)."""
        ...


@dataclass(frozen=True)
class PositionUsers:
    """P(click) = a_k r + b_k at position k, independent of the other documents."""

    a: tuple[float, ...]
    b: tuple[float, ...] = (0.0,) * DEPTH

    def clicks(self, n: int, rates: Array, draw: np.random.Generator) -> Integers:
        """Clicks at each position by `n` users of each list; rates are (..., n_positions)."""
        size = rates.shape[-1]
        rates = np.array(self.a[:size]) * rates + np.array(self.b[:size])
        return draw.binomial(n, rates)


@dataclass(frozen=True)
class CascadeUsers:
    """Users who look from the top down; they may stop after a click, or without one.

    Examination of a position then depends on the documents above, so that no position-based model
    is right (Craswell et al. 2008).
    """

    stop_after_click: float = 0.5
    stop_otherwise: float = 0.2

    def clicks(self, n: int, rates: Array, draw: np.random.Generator) -> Integers:
        """Clicks at each position by `n` users of each list; rates are (..., n_positions)."""
        found = np.zeros(rates.shape, np.int64)
        looking = np.full(rates.shape[:-1], n)
        for k in range(rates.shape[-1]):
            found[..., k] = draw.binomial(looking, rates[..., k])
            satisfied = draw.binomial(found[..., k], self.stop_after_click)
            bored = draw.binomial(looking - found[..., k], self.stop_otherwise)
            looking = looking - satisfied - bored
        return found


class Query(NamedTuple):
    """A query: its id, ids of its documents, and their rates of clicks."""

    id: str
    documents: Sequence[str]
    rates: Array


def served(
    queries: Sequence[Query],
    rankings: Sequence[Sequence[Integers]],
    users: Users,
    sessions: int,
    draw: np.random.Generator,
) -> ClickCounts:
    """Counts of clicks on the top of several rankers served side by side.

    Parameters
    ----------
    queries
        The queries, sorted by id.
    rankings
        For each ranker, the order of the documents of each query.
    users, draw
        Who clicks, and the source of chance.
    sessions
        Sessions of each query, divided equally among the rankers.
    """
    names = np.unique([name for query in queries for name in query.documents])
    n = sessions // len(rankings)
    parts = []
    for number, query in enumerate(queries):
        index = np.searchsorted(names, query.documents)
        for arm, orders in enumerate(rankings):
            top = orders[number][:DEPTH]
            clicks = users.clicks(n, query.rates[top], draw)
            columns = (number, index[top], 0, 0, arm, np.arange(1, len(top) + 1), n, clicks)
            parts.append(np.stack(np.broadcast_arrays(*columns)))
    rows = np.concatenate(parts, axis=1)
    rows = rows[:, np.lexsort(rows[5::-1])]
    return ClickCounts(
        np.array([query.id for query in queries]),
        names,
        ("",),
        tuple(f"ranker {arm}" for arm in range(len(rankings))),
        np.array(["2026-01-01"], "datetime64[D]"),
        *(np.ascontiguousarray(column) for column in rows),
    )
