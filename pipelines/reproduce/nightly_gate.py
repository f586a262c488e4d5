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

The gate on clicks tests by an interval, which is never narrower than Student's. Its false
promotions are those of Student's test on the values of two pages with exchanged positions, queries
of unequal traffic (Zipf), and clicks with a rate of .1 to .001, in a tenth of the years. A click
at position 10 counts as much as ten at position 1, so that values are rare and large where these
two are exchanged: gains, if the challenger moves the tenth document *up*, and losses, if the
champion has it first and the challenger moves it *down*.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy import special

from dranking.cli.output import print_json, print_table, progress_shown
from dranking.engine.progress import report
from dranking.ingestion.open import open_dataset
from dranking.models.evaluation import evaluate
from dranking.rankrls.estimator import RankRLS
from pipelines.reproduce.gate_years import BUDGET, NIGHTS, WAYS, Array, Figures, Mask, simulate
from pipelines.reproduce.letor import fold_files
from pipelines.script import run_script

SIZES: Final = (30, 200, 1000)
MANY: Final = 5_000


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


def clicks_win(
    rng: np.random.Generator, n_years: int, n_queries: int, rate: float, position: int
) -> Mask:
    """(2, n_years) whether Student's test promotes a page with two equal documents exchanged.

    They are at positions 1 and `position`, and the challenger moves the second one up, or down; k
    is looked at with probability 1 / k. The rates of clicks of queries have the mean `rate`, and
    query i has 1000 / i^.7 sessions.
    """
    looks = 1.0, 1.0 / position
    sessions = np.maximum(1000 / np.arange(1, n_queries + 1) ** 0.7, 2).astype(np.int64)
    rates = rng.beta(0.5, 0.5 / rate - 0.5, size=(2, n_years, n_queries))
    clicks = [rng.binomial(sessions, look * r) / look for look, r in zip(looks, rates, strict=True)]
    values = (1 - looks[1]) * (clicks[1] - clicks[0]) / sessions
    shares = sessions / sessions.sum()
    mean = values @ shares
    influence = shares * (values - mean[:, None]) / (1 - shares)
    error = np.sqrt((n_queries - 1) / n_queries * np.square(influence).sum(axis=1))
    degrees = 1 / np.square(shares).sum() - 1
    means = np.stack([mean, -mean])
    won: Mask = means > special.stdtrit(degrees, 1 - BUDGET / NIGHTS) * error
    return won


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


def click_promotions(n_years: int) -> Iterator[dict[str, Any]]:
    """Rows about the gate on clicks: false promotions a year of daily tests."""
    for position, rate in product((2, 10), (0.1, 0.01, 0.001)):
        rows: list[dict[str, Any]] = [
            {"positions": f"1, {position}", "moves": moves, "clicks": rate}
            for moves in ("up", "down")
        ]
        for n_queries in (50, 200, 1000):
            rng = np.random.default_rng(0)
            counts = np.zeros((2, n_years))
            for _ in range(NIGHTS):
                counts += clicks_win(rng, n_years, n_queries, rate, position)
            for row, promotions in zip(rows, counts, strict=True):
                row[f"{n_queries} queries"] = a_year(promotions)
        yield from rows


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
        tables["clicks"] = list(click_promotions(fewer))
    if given.json:
        print_json({"years": given.years, "budget": BUDGET, **tables})
        return
    for name, rows in tables.items():
        title = f"{name}: promotions a year in {given.years} years, budget {BUDGET}"
        print_table(title, list(rows[0]), [[str(cell) for cell in row.values()] for row in rows])


if __name__ == "__main__":
    run_script(main)
