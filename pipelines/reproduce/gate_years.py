"""Years of nights with a gate each, for `pipelines.reproduce.nightly_gate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from typing import Final, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.metrics.comparison.confidence_sequences import BETS
from dranking.retrain.gate.bets import difference_e_value
from dranking.retrain.registry.ledger import Period, next_level, next_test

NIGHTS: Final = 365
BUDGET: Final = 0.5
DEVIATION: Final = 0.3
"""Standard deviation of NDCG@10 over queries, about that of MQ2008."""

KEPT: Final = 0.9
WAYS: Final = ("fresh", "reused", "direction", "chosen")

Array: TypeAlias = NDArray[np.float32]
Figures: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass
class Years:
    """A gate in all simulated years.

    Attributes
    ----------
    rule, way
        Name of the test, "bets" or "Student", and the queries, one of `WAYS`.
    luck, last
        (n_years, n_queries) deviations of the champions from their true quality, and last changes.
    quality, age
        (n_years,) true quality of the champions, and nights since the last promotion.
    false, true
        (n_years,) numbers of promotions of challengers that are no better, and that are better.
    """

    rule: str
    way: str
    luck: Array
    last: Array
    quality: Figures = field(init=False)
    age: Figures = field(init=False)
    false: Figures = field(init=False)
    true: Figures = field(init=False)

    def __post_init__(self) -> None:
        for name in ("quality", "age", "false", "true"):
            setattr(self, name, np.zeros(len(self.luck)))

    def judge(self, level: float, own: Array, better: Figures) -> None:
        """Test challengers with (n_years, n_queries) own deviations, and promote the winners."""
        base, kept = (self.luck if self.way == "reused" else self.last), np.zeros(len(own))
        if self.way == "reused":
            kept[:] = KEPT - 1.0
        elif self.way != "fresh":
            kept[self.last.any(axis=1)] = 0.5
        new = np.ones(len(own)) if self.way == "reused" else np.sqrt(1.0 - kept**2)
        sums = power_sums(own, base, new, kept, better)

        def change(row: int) -> Figures:
            found: Figures = new[row] * own[row].astype(np.float64) + kept[row] * base[row]
            return found

        won = student_wins(sums, own.shape[1], level)
        if self.rule == "bets":
            won = bets_may_win(sums, level)
            for row in np.flatnonzero(won):
                won[row] = bets_win(change(row) + better[row], level)
        for row in np.flatnonzero(won):
            self.last[row] = change(row)
            self.luck[row] += self.last[row]
        self.quality += np.where(won, better, 0.0)
        self.age[won] = 0
        self.false += won & (better <= 0)
        self.true += won & (better > 0)


@numba.njit(cache=True, fastmath=True)
def power_sums(own: Array, base: Array, new: Figures, kept: Figures, better: Figures) -> Figures:
    """(3, n_years) sums of the first three powers of new own + kept base + better, in [-1, 1]."""
    sums = np.zeros((3, len(own)))
    for row in range(len(own)):
        a, b, c = np.float32(new[row]), np.float32(kept[row]), np.float32(better[row])
        first = second = third = 0.0
        for query in range(own.shape[1]):
            x = a * own[row, query] + b * base[row, query] + c
            x = np.float64(min(max(x, np.float32(-1.0)), np.float32(1.0)))
            first += x
            second += x * x
            third += x * x * x
        sums[0, row], sums[1, row], sums[2, row] = first, second, third
    return sums


def bets_may_win(sums: Figures, level: float) -> Mask:
    """(n_years,) whether a bound of the capital of the bets reaches 1 / level.

    The mean capital is at most the largest one, and log(1 + y) <= y - y^2 / 2 + y^3 / 3.
    """
    b = BETS[:, None]
    bound = (b * sums[0] - b**2 / 2 * sums[1] + b**3 / 3 * sums[2]).max(axis=0)
    may: Mask = bound >= -np.log(level) - 0.01
    return may


def bets_win(differences: Figures, level: float) -> bool:
    """Whether the final capital of the bets on differences is at least 1 / level."""
    bounded = np.clip(differences, -1.0, 1.0)
    return difference_e_value(bounded, np.ones(len(bounded))) >= 1.0 / level


def student_wins(sums: Figures, n: int, level: float) -> Mask:
    """(n_years,) whether a one-sided t-test of n differences finds their mean to be above 0."""
    mean = sums[0] / n
    error = np.sqrt(np.maximum(sums[1] / n - mean**2, 0.0) / (n - 1))
    won: Mask = mean > special.stdtrit(n - 1, 1.0 - level) * error
    return won


@cache
def levels_of(every: Period) -> list[float]:
    """Levels of the ledger on the nights of a second year; 0 for nights without a test."""
    tests: list[tuple[date, float]] = []
    for night in range(2 * 365):
        day = date(2026, 1, 1) + timedelta(days=night)
        if next_test(BUDGET, tests, day, every) == day:
            tests.append((day, next_level(BUDGET, tests, day, every)))
    levels = dict(tests)
    return [levels.get(date(2027, 1, 1) + timedelta(days=n), 0.0) for n in range(NIGHTS)]


def simulate(
    pool: Array,
    n_years: int,
    n_queries: int,
    every: Period,
    *,
    ways: Sequence[str] = WAYS,
    case: str = "equal",
) -> list[Years]:
    """The years of both gates for each way, with the same draws.

    Parameters
    ----------
    pool
        Differences of mean 0.
    n_years, n_queries, every
        Simulated years, judged queries of each, and period of the tests.
    ways
        The queries, of `WAYS`.
    case
        "equal" for challengers that are no better, "some" or "ageing".
    """
    rng, shape = np.random.default_rng(0), (n_years, n_queries)

    def draw() -> Array:
        found: Array = pool[rng.integers(len(pool), size=shape, dtype=np.int32)]
        return found

    luck = rng.standard_normal(shape, dtype=np.float32) * np.float32(DEVIATION)
    best, nothing = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
    for _ in range(20 if "chosen" in ways else 0):
        other = draw()
        better = other.mean(axis=1) > best.mean(axis=1)
        best[better] = other[better]
    gates = [
        Years(rule, way, luck.copy(), (best if way == "chosen" else nothing).copy())
        for way in ways
        for rule in ("bets", "Student")
    ]
    for level in levels_of(every):
        for years in gates:
            years.age += 1
        if level:
            own = draw()
            some = 0.02 * (rng.random(n_years) < 0.1) if case == "some" else np.zeros(n_years)
            for years in gates:
                years.judge(level, own, 0.0005 * years.age if case == "ageing" else some)
    return gates
