"""How often the interval of an off-policy value contains the value, and when there is no value.

    python -m pipelines.reproduce.off_policy MQ2008_FOLDER [--logs 2000] [--json]

Every simulated log has 100 queries, drawn from the queries of MQ2008 with 5 to 20 documents, and 8
pages of ten documents for each, shown in 25 sessions. Users click by the position-based model with
examination 1 / k and relevance .05, .4, .9 for the three grades. The value of a ranker is its mean
over all queries of the pool, from the true relevance. Rankers: RankRLS of 20 other queries, one
feature alone, and a random order, which stays the same for a query.

- *random pages*: every page is a random order, so that nearly everything is covered.
- *pages of one ranker*: the documents are those that a ranker puts first, in random order, 5 of a
  query; what other rankers show is bounded, so that intervals cover more often than they promise.
- *never shown*: the ranker shows documents first that no page has; it must be refused.
- *estimated propensities*: the propensities have random errors of 10 % and the replicates of such
  errors, independent between positions, or one error of all positions but the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import dranking as dr
from dranking.cli.output import print_json, print_table, progress_shown
from dranking.clicks.counts import ClickCounts
from dranking.clicks.off_policy.off_policy import query_values
from dranking.clicks.off_policy.off_policy_value import off_policy_value
from dranking.clicks.off_policy.pages import Pages
from dranking.clicks.off_policy.rewards import Reward
from dranking.clicks.propensities.propensities import Curve, Propensities, power_propensities
from dranking.engine.progress import report
from dranking.errors import DataError
from pipelines.reproduce.letor import find_data_sets, fold_files
from pipelines.script import run_script

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

CUTOFF, N_QUERIES, N_ARMS, SESSIONS = 10, 100, 8, 25
LEAST, MOST = 5, 20
RELEVANCE = np.array([0.05, 0.4, 0.9])
KEPT = 5
ERROR = 0.1
EXAMINED = 1.0 / np.arange(1, CUTOFF + 1)
RESAMPLES, REPLICATES = 1_000, 400


class Pool(NamedTuple):
    """Queries to draw from, as tables with a row for each query.

    Attributes
    ----------
    n_documents
        (n_queries,).
    relevance
        (n_queries, `MOST`) probability of a click on an examined document; 0 beyond the last.
    order
        For each ranker (n_queries, `MOST`) documents, the best first, and then what is beyond the
        last document.
    """

    n_documents: Ints
    relevance: Array
    order: dict[str, Ints]


class Case(NamedTuple):
    """How pages are made, and how propensities are known.

    Attributes
    ----------
    name
        Name in the table.
    shown
        Documents of a query that may be on pages: all, "first" for those that RankRLS puts first,
        or "last" for those that the evaluated ranker puts last.
    error
        Errors of the propensities: None, "independent" or "common".
    """

    name: str
    shown: str = "all"
    error: str | None = None


CASES = (
    Case("random pages"),
    Case("pages of one ranker", shown="first"),
    Case("never shown", shown="last"),
    Case("propensities with independent errors", error="independent"),
    Case("propensities with one common error", error="common"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the simulation and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.off_policy",
        description=(__doc__ or "").split("\n", 1)[0],
    )
    parser.add_argument("folder", type=Path, metavar="MQ2008_FOLDER")
    parser.add_argument("--logs", type=int, default=2_000, help="simulated logs (2,000)")
    parser.add_argument(
        "--cases", type=int, nargs="+", choices=range(1, len(CASES) + 1), help="numbers of cases"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    options = parser.parse_args(arguments)
    pool = read_pool(find_data_sets(options.folder)["MQ2008"])
    with progress_shown():
        cases = [CASES[number - 1] for number in options.cases or range(1, len(CASES) + 1)]
        rows = [row for case in cases for row in simulate(pool, case, options.logs)]
    if options.json:
        print_json({"logs": options.logs, "rows": rows})
        return
    cells = [[v if isinstance(v, str) else f"{v:.3f}" for v in row.values()] for row in rows]
    print_table(f"{options.logs:,} logs of {N_QUERIES} queries", list(rows[0]), cells)


def read_pool(folder: Path) -> Pool:
    """The queries of MQ2008 with `LEAST` to `MOST` documents, without those of the training."""
    data = dr.open_dataset([path for part in fold_files(folder, 1) for path in part])
    blocks = [data.block(i) for i in range(len(data.blocks))]
    sizes = np.concatenate([np.diff(block.query_ptr) for block in blocks])
    grade = np.concatenate([block.relevance for block in blocks])
    features = np.concatenate([block.features for block in blocks])
    query = np.repeat(np.arange(len(sizes)), sizes)
    training = np.isin(query, np.flatnonzero(sizes <= MOST)[:20])
    model = dr.RankRLS(1.0).fit(features[training], grade[training], qid=query[training])
    rng = np.random.default_rng(0)
    scores = {
        "RankRLS": features @ model.coef_,
        "one feature": features[:, 38] + 1e-9 * rng.random(len(grade)),
        "random": rng.random(len(grade)),
    }
    chosen = np.flatnonzero((sizes >= LEAST) & (sizes <= MOST))[20:]
    starts = np.append(0, np.cumsum(sizes))
    place = np.minimum(starts[chosen][:, None] + np.arange(MOST), len(grade) - 1)
    beyond = np.arange(MOST) >= sizes[chosen][:, None]
    relevance = np.where(beyond, 0.0, RELEVANCE[grade[place].astype(int)])
    order = {
        name: np.argsort(np.where(beyond, np.inf, -values[place]), axis=1, kind="stable")
        for name, values in scores.items()
    }
    return Pool(sizes[chosen], relevance, order)


def simulate(pool: Pool, case: Case, n_logs: int) -> Iterator[dict[str, Any]]:
    """A row of the table for each ranker and reward."""
    for name, order in pool.order.items():
        pages = pages_of(order, pool.n_documents)
        found: dict[str, list[tuple[float, float, float] | None]] = {"clicks": [], "dcg": []}
        for seed in range(n_logs):
            rng = np.random.default_rng((seed, CASES.index(case)))
            drawn = rng.integers(len(pool.n_documents), size=N_QUERIES)
            counts = made_counts(pool, drawn, shown_of(pool, case, order)[drawn], rng)
            propensities = known_propensities(case.error, rng)
            for kind, values in found.items():
                values.append(_interval(counts, propensities, kind, pages, drawn))
            report(f"{case.name}, {name}", seed + 1, n_logs)
        for kind, values in found.items():
            true = true_value(pool, order, kind)
            kept = np.array([value for value in values if value is not None]).reshape(-1, 3)
            covers = (kept[:, 0] <= true) & (true <= kept[:, 1])
            yield {
                "pages": case.name,
                "ranker": name,
                "reward": f"{kind}@{CUTOFF}",
                "value": true,
                "refused": 1.0 - len(kept) / n_logs,
                "coverage": float(covers.mean()) if len(kept) else float("nan"),
                "width": float(np.mean(kept[:, 1] - kept[:, 0])) if len(kept) else float("nan"),
                "covered": float(kept[:, 2].mean()) if len(kept) else float("nan"),
            }


def _interval(
    counts: ClickCounts, propensities: Propensities, kind: str, pages: Pages, drawn: Ints
) -> tuple[float, float, float] | None:
    """Ends of the interval, and the covered share; None if the value is refused."""
    reward = Reward("clicks" if kind == "clicks" else "dcg", CUTOFF)
    values = query_values(counts, propensities, reward, _pages_of_drawn(pages, drawn))
    try:
        found = off_policy_value(values, propensities, reward.name, n_resamples=RESAMPLES)
    except DataError:
        return None
    return (*found.interval, found.covered)


def shown_of(pool: Pool, case: Case, order: Ints) -> NDArray[np.bool_]:
    """(n_queries, `MOST`) whether a document may be on pages."""
    there = np.arange(MOST) < pool.n_documents[:, None]
    if case.shown == "all":
        return there
    rank = np.argsort(pool.order["RankRLS"] if case.shown == "first" else order, axis=1)
    if case.shown == "first":
        return there & (rank < KEPT)
    return there & (rank >= CUTOFF)


def made_counts(
    pool: Pool, drawn: Ints, may_show: NDArray[np.bool_], rng: np.random.Generator
) -> ClickCounts:
    """Counts of random pages of the documents that may be shown."""
    keys = rng.random((N_QUERIES, N_ARMS, MOST))
    keys[~np.broadcast_to(may_show[:, None, :], keys.shape)] = np.inf
    page = np.argsort(keys, axis=2)[:, :, :CUTOFF]
    there = np.isfinite(np.take_along_axis(keys, page, axis=2))
    query, arm, position = np.nonzero(there)
    document = page[there]
    clicks = rng.binomial(SESSIONS, EXAMINED[position] * pool.relevance[drawn[query], document])
    order = np.lexsort((position, arm, document, query))
    zeros = np.zeros(len(order), np.int64)
    return ClickCounts(
        query_ids=np.array([f"{i:04d}" for i in range(N_QUERIES)]),
        document_ids=np.array([f"{i:04d}" for i in range(MOST)]),
        contexts=("",),
        arms=tuple(map(str, range(N_ARMS))),
        nights=np.array(["2026-01-01"], "datetime64[D]"),
        query=query[order],
        document=document[order],
        context=zeros,
        night=zeros,
        arm=arm[order],
        position=position[order] + 1,
        impressions=zeros + SESSIONS,
        clicks=clicks[order],
        sessions=np.full(N_QUERIES, N_ARMS * SESSIONS),
    )


def known_propensities(error: str | None, rng: np.random.Generator) -> Propensities:
    """The true propensities, or estimates with errors and the replicates of such errors."""
    if error is None:
        return power_propensities(1.0, CUTOFF)
    n_errors = CUTOFF if error == "independent" else 1
    errors = np.tile(rng.normal(size=(1 + REPLICATES, n_errors)), CUTOFF // n_errors)
    errors[:, 0] = 0.0
    a = EXAMINED * np.exp(ERROR * errors[0])
    replicates = tuple(map(tuple, (a * np.exp(ERROR * errors[1:])).tolist()))
    curve = Curve(a=tuple(a.tolist()), b=(0.0,) * CUTOFF, a_replicates=replicates)
    return Propensities(origin="harvested", curves=(curve,))


def pages_of(order: Ints, n_documents: Ints) -> Pages:
    """First documents of every query of the pool."""
    rank = np.arange(CUTOFF)
    query, place = np.nonzero(rank < n_documents[:, None])
    names = np.array([f"{i:04d}" for i in range(MOST)])
    return Pages(
        np.array([f"{i:04d}" for i in range(len(order))]), query, names[order[query, place]], place
    )


def _pages_of_drawn(pages: Pages, drawn: Ints) -> Pages:
    """The pages of drawn queries, which are numbered anew."""
    starts = np.searchsorted(pages.query, drawn)
    ends = np.searchsorted(pages.query, drawn, side="right")
    sizes = ends - starts
    rows = np.concatenate([np.arange(s, e) for s, e in zip(starts, ends, strict=True)])
    return Pages(
        np.array([f"{i:04d}" for i in range(len(drawn))]),
        np.repeat(np.arange(len(drawn)), sizes),
        pages.document_ids[rows],
        pages.rank[rows],
    )


def true_value(pool: Pool, order: Ints, kind: str) -> float:
    """Mean value over the pool; relevance beyond the last document is 0."""
    values = EXAMINED if kind == "clicks" else 1.0 / np.log2(np.arange(2, CUTOFF + 2))
    top = np.take_along_axis(pool.relevance, order[:, :CUTOFF], axis=1)
    return float((top @ values).mean())


if __name__ == "__main__":
    run_script(main)
