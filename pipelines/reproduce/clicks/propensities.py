"""How well propensities are harvested from simulated clicks, and where they must be refused.

    python -m pipelines.reproduce.clicks.propensities [--logs 2000] [--json]

Users look at position k with probability 1 / k and click documents of three rates (.05, .4, .9).

- "independent arms": four rankers that order 20 documents of each query at random, for some numbers
  of queries and sessions: root mean square error over positions 2 to 10, and the share of 95 %
  intervals (bootstrap over queries) that hold the propensity, over all logs.
- "nights": one ranker a night, seven nights, 200 sessions a query and night, compared with
  `nights_are_arms`: rankers that draw their orders anew each night, and rankers that order by the
  labels that all clicks before gave (ratio, true propensities), with 200 and with 20 sessions.
  Relative error of the propensity of position 10: mean, lowest and highest of some logs.
- "gap": arms that never show a document above and below position 5: the error that is raised.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.cli.output import print_json, print_line, print_table, progress_shown
from dranking.clicks.counts import ClickCounts
from dranking.clicks.labels.labels import LabelRules, labels_of
from dranking.clicks.labels.prior import fit_prior
from dranking.clicks.propensities.harvest import HarvestRules, harvest_propensities
from dranking.clicks.propensities.propensities import power_propensities
from dranking.engine.progress import report
from dranking.errors import ClickWarning, DataError
from pipelines.reproduce.clicks.arms import RANDOM, Setting, made_log
from pipelines.reproduce.clicks.users import DEPTH, RATES, PositionUsers, Query, served
from pipelines.script import run_script

N_QUERIES, N_DOCUMENTS, N_ARMS, SESSIONS = 200, 20, 4, 200
SIZES = ((200, 200), (200, 20), (50, 200), (20, 200))
"""Queries, and sessions of each, of the logs of independent arms."""

N_NIGHTS, NIGHT_LOGS = 7, 20
TRUE = np.array([1 / k for k in range(1, DEPTH + 1)])
USERS = PositionUsers(tuple(TRUE.tolist()))

Orders = list[NDArray[np.int64]]


def made_queries(draw: np.random.Generator) -> list[Query]:
    """Queries with documents of three rates of clicks."""
    names = [f"d{number:02d}" for number in range(N_DOCUMENTS)]
    rates = draw.choice(RATES, (N_QUERIES, N_DOCUMENTS), p=[0.8, 0.13, 0.07])
    return [Query(f"q{number:03d}", names, rates[number]) for number in range(N_QUERIES)]


def random_orders(draw: np.random.Generator) -> Orders:
    """An order of the documents of each query."""
    return [draw.permutation(N_DOCUMENTS) for _ in range(N_QUERIES)]


def independent_arms(n_logs: int, n_queries: int, sessions: int) -> dict[str, float]:
    """Error and coverage over logs of arms that are independent of clicks."""
    setting = Setting((USERS,) * N_ARMS, (RANDOM,) * N_ARMS, n_queries, sessions)
    errors, held = [], []
    for seed in range(n_logs):
        counts = made_log(setting, np.random.default_rng([n_queries, sessions, seed]))
        curve = harvest_propensities(counts, HarvestRules(seed=seed)).curves[0]
        low, high = np.array(curve.a_intervals).T
        errors.append((np.array(curve.a) - TRUE)[1:])
        held.append(((low <= TRUE) & (TRUE <= high))[1:])
        report(f"{n_queries} queries, {sessions} sessions", seed + 1, n_logs)
    return {"rmse": float(np.sqrt(np.mean(np.square(errors)))), "coverage": float(np.mean(held))}


def night_errors(sessions: int, learns: bool) -> list[float]:
    """Relative errors at the deepest position where nights are compared."""
    found = []
    for seed in range(NIGHT_LOGS):
        draw = np.random.default_rng([seed, sessions, learns])
        queries, orders, nights = made_queries(draw), random_orders(draw), []
        for night in range(N_NIGHTS):
            counts = served(queries, [orders], USERS, sessions, draw)
            nights.append(replace(counts, night=counts.night + night))
            everything = joined(nights)
            orders = learned_orders(everything, draw) if learns else random_orders(draw)
        rules = HarvestRules(nights_are_arms=True, n_replicates=2)
        curve = harvest_propensities(everything, rules).curves[0]
        found.append(curve.a[-1] / TRUE[-1] - 1)
    return found


def learned_orders(counts: ClickCounts, draw: np.random.Generator) -> Orders:
    """The documents of each query by the labels of all clicks so far; unseen ones at random."""
    given = fit_prior(counts, power_propensities(1.0, DEPTH))
    labels = labels_of(counts, given, LabelRules())
    prior = given.prior.mean if given.prior else 0.0
    scores = np.full((N_QUERIES, N_DOCUMENTS), prior) + 1e-9 * draw.random((N_QUERIES, N_DOCUMENTS))
    scores[labels.query, labels.document] = labels.values
    return list(np.argsort(-scores, axis=1))


def joined(nights: Sequence[ClickCounts]) -> ClickCounts:
    """The counts of several nights of the same queries and documents."""
    rows: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in nights])
        for name in ("query", "document", "context", "night", "arm", "position")
    }
    order = np.lexsort([*rows.values()][::-1])
    rows |= {
        name: np.concatenate([getattr(each, name) for each in nights])
        for name in ("impressions", "clicks")
    }
    dates = np.datetime64("2026-01-01", "D") + np.arange(len(nights))
    return replace(nights[0], nights=dates, **{name: v[order] for name, v in rows.items()})


def gap() -> str:
    """The error for arms that never show a document both above and below position 5."""
    draw = np.random.default_rng(0)
    arms = []
    for _ in range(N_ARMS):
        halves = [[draw.permutation(5), 5 + draw.permutation(5)] for _ in range(N_QUERIES)]
        arms.append([np.concatenate(each) for each in halves])
    try:
        harvest_propensities(served(made_queries(draw), arms, USERS, SESSIONS, draw))
    except DataError as error:
        return str(error)
    return "not refused"


def reproduce(n_logs: int) -> dict[str, Any]:
    """All figures."""
    nights = {
        f"{kind}, {sessions} sessions": night_errors(sessions, kind == "learning rankers")
        for kind in ("random orders", "learning rankers")
        for sessions in (200, 20)
    }
    return {
        "independent arms": {
            f"{n_queries} queries, {sessions} sessions": independent_arms(
                n_logs, n_queries, sessions
            )
            for n_queries, sessions in SIZES
        },
        "nights": {
            name: {"mean": float(np.mean(e)), "lowest": min(e), "highest": max(e)}
            for name, e in nights.items()
        },
        "gap": gap(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments, run everything and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.clicks.propensities",
        description=(__doc__ or "").split("\n", 1)[0],
    )
    parser.add_argument("--logs", type=int, default=2_000)
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    options = parser.parse_args(arguments)
    with progress_shown(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ClickWarning)  # of nights as arms, and of few queries
        found = reproduce(options.logs)
    if options.json:
        print_json(found)
        return
    rows = [(name, *each.values()) for name, each in found["independent arms"].items()]
    print_table("independent arms", ["log", "root mean square error", "coverage"], rows)
    rows = [(name, *(f"{v:+.1%}" for v in each.values())) for name, each in found["nights"].items()]
    headings = ["rankers", "mean", "lowest", "highest"]
    print_table("relative error at position 10, nights compared", headings, rows)
    print_line(found["gap"])


if __name__ == "__main__":
    run_script(main)
