"""How many challengers that are no better the gate of nightly retraining promotes in a year.

    python -m pipelines.reproduce.nightly_gate [MQ2008_FOLDER] [--years 2000] [--queries 200]

Every year has 365 nights and one set of judged queries, which all nights reuse. A model's measure
on a query is its true quality and a deviation on the query. The challenger of a night deviates on a
query by .9 of the champion's deviation and a part of its own, so that the measures of both
correlate by .9 and are equally wide: it is trained on nearly the same data as the champion. It
inherits most of the luck that the champion had on these queries. With ``--luck own``, models
correlate by .9 because of a part that is common to all of them; a challenger then has nothing of
the champion's luck, and has to beat all of it. Parts of their own are drawn from the differences of
NDCG@10 between RankRLS models of different lambdas on the queries of MQ2008 (without a folder from
a normal distribution), centred and scaled. The challenger truly differs from the champion by

- (a) 0;
- (b) .01 in one night of ten, else 0;
- (c) a normal amount of mean -.005 and deviation .005.

Gates: *naive* accepts a mean difference of at least 0 whose 95 % interval begins above -.01; *one
test* accepts at a level of 2.5 % every night; *ledger* is the gate's default, with the levels of
`dranking.retrain.registry.ledger`; *Bonferroni* spends 1/365 of the budget each night, which the
ledger does too if every night has a test; *weekly* is the ledger with one test every seven nights;
*decaying* spends the same budget with levels proportional to 1 / night; *rotate* is the ledger with
``gate.rotate = 4``, each test on a quarter of the queries that no champion was chosen on, until
none is left; *e-LOND* bounds the share of false promotions by .1 with bets on the differences. All
others use Student's t, than which the interval of the gate is never narrower. Promotions of equal
models count as false. The champion's true quality is that after each quarter of the year.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.cli.output import print_json, print_table, progress_shown
from dranking.engine.progress import report
from dranking.ingestion.open import open_dataset
from dranking.metrics.comparison.confidence_sequences import BETS
from dranking.models.evaluation import evaluate
from dranking.rankrls.estimator import RankRLS
from dranking.retrain.gate.false_discoveries import lond_level
from dranking.retrain.registry.ledger import next_level
from pipelines.reproduce.letor import fold_files
from pipelines.script import run_script

NIGHTS: Final = 365
BUDGET: Final = 0.5
RATE: Final = 0.1
PARTS: Final = 4
DEVIATION: Final = 0.3
"""Standard deviation of NDCG@10 over queries, about that of MQ2008."""

CORRELATION: Final = 0.9

QUARTERS: Final = (0.25, 0.5, 0.75, 1.0)

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Levels: TypeAlias = Sequence[float]
Luck: TypeAlias = Literal["inherited", "own"]


@dataclass
class Gate:
    """A gate in all simulated years.

    Attributes
    ----------
    name
        Name in the table.
    accepts
        Function of night and (n_years, n_queries) measured differences to (n_years,) decisions.
    deviations
        (n_years, n_queries) the champions' deviations.
    inherited
        Share of the champion's deviations that a challenger has, too.
    quality
        (n_years,) the champions' true quality, 0 at the beginning.
    false, true
        (n_years,) numbers of promotions of challengers that are no better, and that are better.
    """

    name: str
    accepts: Callable[[int, Array], Mask]
    deviations: Array
    inherited: float
    quality: Array = field(init=False)
    false: Array = field(init=False)
    true: Array = field(init=False)

    def __post_init__(self) -> None:
        self.quality, self.false, self.true = (np.zeros(len(self.deviations)) for _ in range(3))

    def judge(self, night: int, own: Array, better_by: Array) -> None:
        """Measure challengers with (n_years, n_queries) own deviations; promote the accepted."""
        deviations = self.inherited * self.deviations + own
        differences = deviations - self.deviations
        accepted = self.accepts(night, differences + better_by[:, None])
        self.deviations = np.where(accepted[:, None], deviations, self.deviations)
        self.quality += np.where(accepted, better_by, 0.0)
        self.false += accepted & (better_by <= 0)
        self.true += accepted & (better_by > 0)


def mean_and_error(differences: Array) -> tuple[Array, Array]:
    """Means of differences over the last axis, and their standard errors."""
    error = differences.std(axis=-1, ddof=1) / np.sqrt(differences.shape[-1])
    return differences.mean(axis=-1), error


def naive(night: int, differences: Array) -> Mask:
    """No loss on average, and an interval above -.01."""
    mean, error = mean_and_error(differences)
    upper = float(special.stdtrit(differences.shape[-1] - 1, 0.975))
    return (mean >= 0) & (mean - upper * error >= -0.01)


def at_levels(levels: Levels) -> Callable[[int, Array], Mask]:
    """One-sided t-tests at the level of each night."""

    def accepts(night: int, differences: Array) -> Mask:
        mean, error = mean_and_error(differences)
        accepted: Mask = (
            mean > special.stdtrit(differences.shape[-1] - 1, 1 - levels[night]) * error
        )
        return accepted

    return accepts


class Rotation:
    """The ledger on parts of the queries: the next part when a champion was chosen on one."""

    def __init__(self, n_years: int, levels: Levels) -> None:
        self._part = np.zeros(n_years, dtype=np.intp)
        self._test = at_levels(levels)

    def __call__(self, night: int, differences: Array) -> Mask:
        """Decisions of a night, as of `Gate.accepts`."""
        n_years, n_queries = differences.shape
        size = n_queries // PARTS
        parts = differences[:, : size * PARTS].reshape(n_years, PARTS, size)
        judged = parts[np.arange(n_years), np.minimum(self._part, PARTS - 1)]
        accepted = self._test(night, judged) & (self._part < PARTS)
        self._part += accepted
        return accepted


class Lond:
    """e-LOND of `dranking.retrain.gate.false_discoveries`, on all years at once."""

    def __init__(self, n_years: int) -> None:
        self._promoted = np.zeros(n_years, dtype=np.intp)

    def __call__(self, night: int, differences: Array) -> Mask:
        """Decisions of a night, as of `Gate.accepts`."""
        levels = np.array([lond_level(RATE, night + 1, r) for r in range(night + 1)])
        accepted = e_values(differences) >= 1.0 / levels[self._promoted]
        self._promoted += accepted
        return accepted


def e_values(differences: Array) -> Array:
    """(n_years,) e-values of `difference_e_value` for equal weights; -1 to 1 is kept to."""
    bounded = differences.clip(-1.0, 1.0)
    capitals = [np.exp(np.log1p(bet * bounded).sum(axis=1)) for bet in BETS]
    means: Array = np.mean(capitals, axis=0)
    return means


def ledger_levels(every: int = 1) -> list[float]:
    """Levels of the ledger with a test every few nights; 0 for nights without a test."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    spent: list[tuple[datetime, float]] = []
    levels = [0.0] * NIGHTS
    for night in range(0, NIGHTS, every):
        now = start + timedelta(days=night)
        levels[night] = next_level(BUDGET, spent, now)
        spent.append((now, levels[night]))
    return levels


def gates(deviations: Array, inherited: float) -> list[Gate]:
    """The gates of the table; arguments as the attributes of `Gate`."""
    n_years = len(deviations)
    decaying = 1.0 / np.arange(1, NIGHTS + 1)
    rules: dict[str, Callable[[int, Array], Mask]] = {
        "naive": naive,
        "one test": at_levels([0.025] * NIGHTS),
        "ledger": at_levels(ledger_levels()),
        "Bonferroni": at_levels([BUDGET / 365] * NIGHTS),
        "weekly": at_levels(ledger_levels(every=7)),
        "decaying": at_levels((BUDGET * decaying / decaying.sum()).tolist()),
        "rotate": Rotation(n_years, ledger_levels()),
        "e-LOND": Lond(n_years),
    }
    return [Gate(name, rule, deviations, inherited) for name, rule in rules.items()]


def better_by(case: str, rng: np.random.Generator, n_years: int) -> Array:
    """True differences of a night's challengers to the champion."""
    if case == "a":
        return np.zeros(n_years)
    if case == "b":
        return 0.01 * (rng.random(n_years) < 0.1)
    return rng.normal(-0.005, 0.005, n_years)


def simulate(
    case: str, pool: Array, n_years: int, n_queries: int, luck: Luck = "inherited", seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Rows of the table for one case: figures per year and gate.

    Parameters
    ----------
    case
        "a", "b" or "c".
    pool
        Deviations of mean 0 and deviation 1, from which those of models are drawn.
    n_years, n_queries
        Simulated years, and judged queries of each.
    luck
        Whether challengers inherit luck of the champion, or have their own.
    seed
        Of the draws.
    """
    rng = np.random.default_rng(seed)
    inherited = CORRELATION if luck == "inherited" else 0.0
    first = 1.0 if luck == "inherited" else np.sqrt(1.0 - CORRELATION)
    own = first * np.sqrt(1.0 - inherited**2)

    def draw() -> Array:
        drawn: Array = rng.choice(pool, size=(n_years, n_queries)) * DEVIATION
        return drawn

    compared = gates(first * draw(), inherited)
    ends = [round(share * NIGHTS) - 1 for share in QUARTERS]
    quality: dict[str, list[float]] = {gate.name: [] for gate in compared}
    for night in range(NIGHTS):
        report(f"case {case}", night + 1, NIGHTS)
        deviations, better = own * draw(), better_by(case, rng, n_years)
        for gate in compared:
            gate.judge(night, deviations, better)
            if night in ends:
                quality[gate.name].append(float(gate.quality.mean()))
    for gate in compared:
        margin = 1.96 * float(gate.false.std(ddof=1)) / float(np.sqrt(n_years))
        yield {
            "case": case,
            "gate": gate.name,
            "false promotions a year": float(gate.false.mean()),
            "+-": margin,
            "true promotions a year": float(gate.true.mean()),
            "quality by quarter": quality[gate.name],
        }


def deviations_of_models(folder: Path | None) -> Array:
    """Differences of models on queries, scaled to mean 0 and deviation 1."""
    if folder is None:
        pool = np.random.default_rng(0).normal(size=10_000)
    else:
        train, validation, test = fold_files(folder, 1)
        data, judged = open_dataset(train), open_dataset(validation + test)
        models = (RankRLS(regularization=x).fit(data).to_model() for x in (1.0, 1e3, 1e5))
        tables = [evaluate(m, judged, ["ndcg@10"], "standard").per_query for m in models]
        values = [table.values["ndcg@10"] for table in tables]
        pool = np.concatenate([values[0] - values[1], values[1] - values[2], values[0] - values[2]])
        pool = pool[np.isfinite(pool)]
    scaled: Array = (pool - pool.mean()) / pool.std()
    return scaled


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the simulation and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.nightly_gate", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("folder", type=Path, nargs="?", metavar="MQ2008_FOLDER")
    parser.add_argument("--years", type=int, default=2_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--luck", choices=get_args(Luck), default="inherited")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    given = parser.parse_args(arguments)
    with progress_shown():
        pool = deviations_of_models(given.folder)
        size = given.years, given.queries
        rows = [row for case in "abc" for row in simulate(case, pool, *size, given.luck)]
    if given.json:
        print_json(
            {"years": given.years, "queries": given.queries, "luck": given.luck, "rows": rows}
        )
        return
    title = f"{given.years} years of {NIGHTS} nights on {given.queries} queries, budget {BUDGET}"
    cells = [[_text(value) for value in row.values()] for row in rows]
    print_table(title, list(rows[0]), cells)


def _text(value: str | float | list[float]) -> str:
    """A cell of the table."""
    if isinstance(value, list):
        return " ".join(f"{each:.4f}" for each in value)
    return value if isinstance(value, str) else f"{value:.4f}"


if __name__ == "__main__":
    run_script(main)
