"""How many challengers that are no better the gate of nightly retraining promotes in a year.

    python -m pipelines.reproduce.nightly_gate [MQ2008_FOLDER] [--years 2000]

Every year has 365 nights, and a challenger each. Tests of a day, a month or a quarter have the
levels of `dranking.retrain.registry.ledger`; *bets* is the gate (`dranking.retrain.gate.bets`), and
*Student* is a t-test at the same levels, for comparison. Differences of a challenger to the
champion have a mean of 0 over all queries and come from a pool (`pools`):

- *normal*, of deviation .1; *tied*, where 80 % of the queries do not change; *log-normal losses*;
- *rare losses*: 95 % of the queries gain .026, and 5 % lose .5;
- *MQ2008*: differences of NDCG@10 between RankRLS models of different lambdas, centred (with a
  folder only).

The queries are

- *fresh*: others for every test, on which no champion was chosen;
- *reused*: the same all year. A challenger has .9 of the champion's deviation on a query, and so
  most of the luck that the champion had there;
- *direction*: the same all year, and a challenger changes by half of the champion's last change,
  which won on these queries, and by something new;
- *chosen*: as *direction*, and the first champion was chosen by hand on these queries, as the best
  of 20 that are equal.

*Many* reused queries, in a tenth of the years, are 5,000, in all of these ways but the first.

Better challengers, in a tenth of the years, on reused queries of MQ2008 (or normal ones): *some*,
where one in ten is better by .02, and *ageing*, where a challenger is better by .0005 for each day
since the champion was promoted. The gain is the champion's true quality at the end of the year.

The gate on clicks (*clicks*) tests by a lower end that bets on clicks, with the spread of the
queries added in squares (`dranking.clicks.off_policy.rare_clicks`), and is compared with Student's
test on the values of the queries. Two documents are exchanged, queries have unequal traffic (Zipf),
and clicks have a rate of .1 to .001, in a tenth of the years. A click at position 10 counts as much
as ten at position 1, so that values are rare and large where these two are exchanged: gains, if the
challenger moves the tenth document *up*, and losses, if the champion has it first and the
challenger moves it *down*. The relevance of both documents has one distribution over queries. In
*few good queries*, in a fortieth of the years, the lower document is good for few queries and the
other one for all alike, with the same mean; no log knows of good queries that it lacks. Queries
have so many sessions that the code covers both documents. The margin of the interval is that of
Student's test; the gate has the wider one of the bootstrap-t. Power is that against the exchange of
two documents of which the one that the challenger puts first is clicked twice as often.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.cli.output import print_json, print_table, progress_shown
from dranking.clicks.off_policy.rare_clicks import end_of_bets, widened
from dranking.engine.progress import report
from dranking.ingestion.open import open_dataset
from dranking.models.evaluation import evaluate
from dranking.rankrls.estimator import RankRLS
from pipelines.reproduce.gate_years import BUDGET, NIGHTS, WAYS, Array, Figures, Mask, simulate
from pipelines.reproduce.letor import fold_files
from pipelines.script import run_script

SIZES: Final = (30, 200, 1000)
MANY: Final = 5_000
CLICK_SIZES: Final = (50, 200, 1000)

ALIKE: Final = (0.5, 0.5)
FEW: Final = {"few good": (2.0, 0.2), "1 in 20": (1e4, 1e-4)}
"""First parameters of the beta distributions of relevance over queries, of both documents."""

ClickCase: TypeAlias = tuple[list[dict[str, Any]], float, int, tuple[float, float]]
"""Rows of both moves, rate of clicks, lower position, and shapes of the relevance."""


def pools(folder: Path | None) -> dict[str, Array]:
    """Differences of mean 0 in [-1, 1], by the name of their distribution."""
    shares = (np.arange(100_000) + 0.5) / 100_000
    normal = special.ndtri(shares)
    losses = np.minimum(0.06 * np.exp(normal), 1.0)
    found = {
        "normal": 0.1 * normal,
        "tied": np.where(
            shares < 0.8, 0.0, 0.2 * special.ndtri(np.maximum(shares - 0.8, 1e-9) * 5)
        ),
        "log-normal losses": losses.mean() - losses,
        "rare losses": np.where(shares < 0.05, -0.5, 0.5 * 0.05 / 0.95),
    }
    if folder is not None:
        train, validation, test = fold_files(folder, 1)
        data, judged = open_dataset(train), open_dataset(validation + test)
        models = (RankRLS(regularization=x).fit(data).to_model() for x in (1.0, 1e3, 1e5))
        tables = [evaluate(m, judged, ["ndcg@10"], "standard").per_query for m in models]
        a, b, c = (table.values["ndcg@10"] for table in tables)
        pairs = [pair[np.isfinite(pair)] for pair in (a - b, b - c, a - c)]
        found["MQ2008"] = np.concatenate([sign * (p - p.mean()) for p in pairs for sign in (1, -1)])
    return {name: values.astype(np.float32) for name, values in found.items()}


def click_sessions(n_queries: int, position: int) -> NDArray[np.int64]:
    """(n_queries,) sessions of queries with Zipf traffic.

    Each query has enough for the code to cover a document at a position that 1 in `position` looks
    at (`dranking.clicks.off_policy.off_policy.LEAST_EXAMINED`).
    """
    by_rank = 1000 / np.arange(1, n_queries + 1) ** 0.7
    return np.maximum(by_rank, max(position, 2)).astype(np.int64)


def click_ends(
    clicks: NDArray[np.int64],
    sessions: NDArray[np.int64],
    position: int,
    sign: float,
    level: float,
) -> dict[str, Array]:
    """(n_samples,) lower ends of the difference of pages with two documents exchanged, by test.

    `clicks` (2, n_samples, n_queries) are those on the documents at positions 1 and `position` of
    all `sessions`; `sign` is 1 if the challenger moves the second one up, and -1 if it moves it
    down.
    """
    looks, n_queries = np.array([1.0, 1.0 / position]), len(sessions)
    shares, traffic = sessions / sessions.sum(), float(sessions.sum())
    degrees = 1 / np.square(shares).sum() - 1
    per_click = sign * (1 - looks[1]) * np.array([-1.0, 1.0]) / looks
    values = np.tensordot(per_click, clicks, 1) / sessions
    mean = values @ shares
    influence = shares * (values - mean[:, None]) / (1 - shares)
    variance = (n_queries - 1) / n_queries * np.square(influence).sum(axis=1)
    margin = special.stdtrit(degrees, 1 - level) * np.sqrt(variance)
    totals = clicks.sum(axis=2).T
    end = end_of_bets(per_click, totals, np.zeros(2), looks * traffic, 0.0, traffic, level)
    of_clicks = totals @ np.square(per_click) / traffic**2
    return {
        "clicks": widened(mean, end, margin, variance, of_clicks),
        "Student": mean - margin,
    }


def clicks_win(
    rng: np.random.Generator,
    n_samples: int,
    n_queries: int,
    rate: float,
    position: int,
    level: float,
    shapes: tuple[float, float] = ALIKE,
    better: tuple[float, float] = (1.0, 1.0),
) -> dict[str, Mask]:
    """(2, n_samples) whether each test promotes a page with two documents exchanged, by test.

    They are at positions 1 and `position`, and the challenger moves the second one up, or down; k
    is looked at with probability 1 / k. The rates of clicks of queries have a beta distribution
    with the mean `rate` and the first parameter of `shapes` for each document, times `better` for
    the second document that moves up, and for that which moves down.
    """
    sessions = click_sessions(n_queries, position)
    rates = [rng.beta(a, a / rate - a, size=(n_samples, n_queries)) for a in shapes]
    first = rng.binomial(sessions, rates[0])
    second = {
        times: rng.binomial(sessions, np.minimum(times * rates[1], 1.0) / position)
        for times in dict.fromkeys(better)
    }
    won: dict[str, list[Mask]] = {"clicks": [], "Student": []}
    for sign, times in zip((1.0, -1.0), better, strict=True):
        clicks = np.stack([first, second[times]])
        for rule, ends in click_ends(clicks, sessions, position, sign, level).items():
            won[rule].append(ends > 0)
    return {rule: np.stack(each) for rule, each in won.items()}


def a_year(counts: Figures) -> str:
    """Mean over years, and half of its 95 % interval."""
    margin = 1.96 * counts.std(ddof=1) / np.sqrt(len(counts))
    return f"{counts.mean():.3f} +- {margin:.3f}"


def false_promotions(
    found: Mapping[str, Array], n_years: int, sizes: Sequence[int], ways: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Rows about challengers that are no better: false promotions a year by test and size."""
    for number, (name, pool) in enumerate(found.items()):
        for every in ("day", "month"):
            report("distributions", number + 1, len(found))
            rows: dict[str, dict[str, Any]] = {
                way: {"queries": way, "differences": name, "tests": every} for way in ways
            }
            for n_queries in sizes:
                for years in simulate(pool, n_years, n_queries, every, ways=ways):
                    rows[years.way][f"{years.rule}, {n_queries}"] = a_year(years.false)
            yield from rows.values()


def better_challengers(pool: Array, n_years: int) -> Iterator[dict[str, Any]]:
    """Rows about better challengers: their promotions a year, false ones, and the gain."""
    for case in ("some", "ageing"):
        for n_queries in SIZES:
            for every in ("day", "month", "quarter"):
                row: dict[str, Any] = {"case": case, "queries": n_queries, "tests": every}
                for years in simulate(pool, n_years, n_queries, every, ways=["reused"], case=case):
                    row[f"{years.rule}: better"] = a_year(years.true)
                    row[f"{years.rule}: no better"] = a_year(years.false)
                    row[f"{years.rule}: gain"] = f"{years.quality.mean():.4f}"
                yield row


def click_promotions(n_years: int, cases: Iterable[ClickCase]) -> Iterator[dict[str, Any]]:
    """Rows about the gate on clicks: false promotions a year of daily tests."""
    for rows, rate, position, shapes in cases:
        for n_queries in CLICK_SIZES:
            rng = np.random.default_rng(0)
            counts = {rule: np.zeros((2, n_years)) for rule in ("clicks", "Student")}
            for _ in range(NIGHTS):
                for rule, won in clicks_win(
                    rng, n_years, n_queries, rate, position, BUDGET / NIGHTS, shapes
                ).items():
                    counts[rule] += won
            for rule, promotions in counts.items():
                for row, of_row in zip(rows, promotions, strict=True):
                    row[f"{rule}, {n_queries}"] = a_year(of_row)
        yield from rows


def click_power(n_samples: int) -> Iterator[dict[str, Any]]:
    """Rows about the gate on clicks: power against a document that is clicked twice as often."""
    for rows, rate, position, shapes in click_cases():
        for every, n_tests in (("day", NIGHTS), ("month", 12)):
            for n_queries in CLICK_SIZES[1:]:
                rng, level = np.random.default_rng(0), BUDGET / n_tests
                of_case = (rate, position, level, shapes, (2.0, 0.5))
                for rule, won in clicks_win(rng, n_samples, n_queries, *of_case).items():
                    for row, of_row in zip(rows, won, strict=True):
                        row[f"{every}: {rule}, {n_queries}"] = f"{of_row.mean():.2f}"
        yield from rows


def click_cases() -> Iterator[ClickCase]:
    """Documents whose relevance has one distribution over queries."""
    for position, rate in product((2, 10), (0.1, 0.01, 0.001)):
        of_case = {"positions": f"1, {position}", "clicks": rate}
        yield [of_case | {"moves": moves} for moves in ("up", "down")], rate, position, ALIKE


def few_good_cases() -> Iterator[ClickCase]:
    """Documents of equal mean relevance, the lower one of which is good for few queries."""
    for position, (name, rate) in product(
        (2, 10), (("few good", 0.1), ("few good", 0.01), ("1 in 20", 0.05))
    ):
        of_case = {"positions": f"1, {position}", "clicks": rate, "relevance": name}
        rows = [of_case | {"whose": whose} for whose in ("challenger's", "champion's")]
        yield rows, rate, position, FEW[name]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the simulation and print its tables."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.nightly_gate", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("folder", type=Path, nargs="?", metavar="MQ2008_FOLDER")
    parser.add_argument("--years", type=int, default=2_000)
    parser.add_argument("--json", action="store_true", help="print one JSON object, no tables")
    given = parser.parse_args(arguments)
    tables: dict[str, list[dict[str, Any]]] = {}
    with progress_shown():
        found = pools(given.folder)
        rows = list(false_promotions(found, given.years, SIZES, WAYS))
        for way in WAYS:
            tables[way] = [row for row in rows if row["queries"] == way]
        fewer = max(given.years // 10, 2)
        tables["many"] = list(false_promotions(found, fewer, [MANY], WAYS[1:]))
        pool = found.get("MQ2008", found["normal"])
        tables["better"] = list(better_challengers(pool, fewer))
        tables["clicks"] = list(click_promotions(fewer, click_cases()))
        tables["few good queries"] = list(
            click_promotions(max(given.years // 40, 2), few_good_cases())
        )
        tables["power on clicks"] = list(click_power(given.years))
    if given.json:
        print_json({"years": given.years, "budget": BUDGET, **tables})
        return
    for name, rows in tables.items():
        title = f"{name}: promotions a year in {given.years} years, budget {BUDGET}"
        print_table(title, list(rows[0]), [[str(cell) for cell in row.values()] for row in rows])


if __name__ == "__main__":
    run_script(main)
