"""How often arms are refused or warned of, that were assigned at random or by users.

    python -m pipelines.reproduce.clicks.arms [--logs 500] [--json]

Logs of 200 queries with 20 documents of three rates (.05, .4, .9), whose ten first are shown; 200
sessions a query. Users look at position k with probability 1 / k, or are cascade users.

- "random orders": four arms, each with an order at random for each query; "good and random": two
  arms, one of which orders by relevance with noise, so that its users stop earlier in a cascade.
- "patient users": a share of the users of one of two arms looks at position k with probability
  k^-.5, and their propensity of position 10 is the larger the more they are. The arms have random
  orders, or good ones, which show more documents at the same position.

The error is that of the propensity of position 10 in the first 20 logs, harvested without a check;
cascade users have no propensities.

Every row has the shares of the logs that are refused, and that are warned of.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.cli.output import print_json, print_table, progress_shown
from dranking.clicks.counts import ClickCounts
from dranking.clicks.propensities.arm_rates import check_rates
from dranking.clicks.propensities.conditional_poisson import maximum
from dranking.clicks.propensities.contrasts import ContrastRules, contrasts_of
from dranking.clicks.store.source import CountsInMemory
from dranking.engine.executor import ThreadExecutor
from dranking.engine.progress import report
from dranking.errors import DataError
from pipelines.reproduce.clicks.users import DEPTH, RATES, CascadeUsers, PositionUsers, Users
from pipelines.script import run_script

N_DOCUMENTS, ERROR_LOGS = 20, 20
POSITIONS = np.arange(1, DEPTH + 1)
ORDINARY = PositionUsers(tuple((1 / POSITIONS).tolist()))


def with_patient(share: float) -> PositionUsers:
    """Users of whom a share looks at position k with probability k^-.5, and all others 1 / k."""
    return PositionUsers(tuple((share / np.sqrt(POSITIONS) + (1 - share) / POSITIONS).tolist()))


class Setting(NamedTuple):
    """The users of each arm, the noise of its ranker beside relevance, and sizes of the log."""

    users: tuple[Users, ...]
    noise: tuple[float, ...]
    n_queries: int = 200
    sessions: int = 200


RANDOM = 1e9
SETTINGS = {
    "valid, random orders": Setting((ORDINARY,) * 4, (RANDOM,) * 4),
    "valid, good and random": Setting((ORDINARY,) * 2, (0.3, RANDOM)),
    "cascade, random orders": Setting((CascadeUsers(),) * 4, (RANDOM,) * 4),
    "cascade, good and random": Setting((CascadeUsers(),) * 2, (0.3, RANDOM)),
    **{
        f"patient users, {share:.0%} of one arm, {name}": Setting(
            (ORDINARY, with_patient(share)), (noise,) * 2
        )
        for name, noise in (("random orders", RANDOM), ("good orders", 0.3))
        for share in (0.25, 0.5, 1.0)
    },
}


def made_log(setting: Setting, draw: np.random.Generator) -> ClickCounts:
    """Counts of the pages of all arms, with as many sessions of each query in each arm."""
    size, n_arms = (setting.n_queries, 1, N_DOCUMENTS), len(setting.users)
    rates = draw.choice(RATES, size, p=[0.8, 0.13, 0.07])
    noise = draw.standard_normal((setting.n_queries, n_arms, N_DOCUMENTS))
    order = np.argsort(-(rates + noise * np.array(setting.noise)[:, None]), axis=2)[..., :DEPTH]
    shown = np.take_along_axis(np.broadcast_to(rates, noise.shape), order, axis=2)
    n = setting.sessions // n_arms
    clicks = [users.clicks(n, shown[:, arm], draw) for arm, users in enumerate(setting.users)]
    query, arm, position = np.indices(order.shape)
    rows = [each.ravel() for each in (query, order, arm, position + 1, np.stack(clicks, axis=1))]
    by = np.lexsort(rows[3::-1])
    query, document, arm, position, clicked = (each[by] for each in rows)
    zeros = np.zeros(len(query), np.int64)
    return ClickCounts(
        np.array([f"q{number:03d}" for number in range(setting.n_queries)]),
        np.array([f"d{number:02d}" for number in range(N_DOCUMENTS)]),
        ("",),
        tuple(f"ranker {number}" for number in range(n_arms)),
        np.array(["2026-01-01"], "datetime64[D]"),
        query,
        document,
        zeros,
        zeros,
        arm,
        position,
        np.full(len(query), n),
        clicked,
    )


def outcome(counts: ClickCounts) -> str:
    """What harvesting does with the arms: "refused", "warned" or "accepted"."""
    source, run = CountsInMemory((counts,)), ThreadExecutor(1)
    try:
        warned = check_rates(source, ContrastRules(), counts.arms, DEPTH, run)
    except DataError:
        return "refused"
    return "warned" if warned else "accepted"


def error_at_the_end(counts: ClickCounts) -> float:
    """Relative error of the propensity of the deepest position, of arms that are not checked."""
    contrasts = contrasts_of(counts, ContrastRules(), DEPTH)
    theta: NDArray[np.float64] = maximum([contrasts], None, DEPTH, ThreadExecutor(1))
    return float(np.exp(theta[-1]) * DEPTH - 1)


def reproduce(n_logs: int) -> dict[str, dict[str, float]]:
    """The shares of the outcomes, and the error at the deepest position, of each setting."""
    found = {}
    for number, (name, setting) in enumerate(SETTINGS.items()):
        outcomes, errors = [], []
        for seed in range(n_logs):
            counts = made_log(setting, np.random.default_rng([number, seed]))
            outcomes.append(outcome(counts))
            if seed < ERROR_LOGS:
                errors.append(error_at_the_end(counts))
            report(name, seed + 1, n_logs)
        shares = {kind: outcomes.count(kind) / n_logs for kind in ("refused", "warned")}
        found[name] = {**shares, "error": float(np.mean(errors))}
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments, run everything and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.clicks.arms",
        description=(__doc__ or "").split("\n", 1)[0],
    )
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    options = parser.parse_args(arguments)
    with progress_shown():
        found: dict[str, Any] = reproduce(options.logs)
    if options.json:
        print_json(found)
        return
    rows = [
        (name, f"{each['refused']:.1%}", f"{each['warned']:.1%}", f"{each['error']:+.1%}")
        for name, each in found.items()
    ]
    print_table(f"{options.logs} logs", ["arms", "refused", "warned", "error at 10"], rows)


if __name__ == "__main__":
    run_script(main)
