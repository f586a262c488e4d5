"""Selection from simulated clicks on MQ2008, through the command line.

    python -m pipelines.reproduce.clicks LETOR_FOLDER [--seeds 10] [--json]

Four rankers, each trained on eight judged queries, are served side by side; users see their ten
best documents, look at position k with probability 1 / k, and then click documents of grade 0, 1, 2
with probability .05, .4, .9. `dranking clicks propensities`, `clicks label`, `select` (ten
features, lambda 8) and `evaluate` follow, on the five folds. NDCG@10 is of test queries with a
relevant document; intervals are of the mean over seeds (rankers and clicks), for the given queries.

- "naive CTR", "ips" and "ratio" are the estimators of `clicks label`; "harvested" has propensities
  that were estimated from the same clicks, the others have the true ones.
- Other users, at 2,000 and 20,000 sessions: with trust bias (a correction with the true a and b,
  one estimated, and none); misspecified propensities (k^-.5 and k^-1.5 are assumed); cascade users,
  for whom no position-based model is right.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dranking.cli.app import run
from dranking.cli.output import print_json, print_table, progress_shown
from dranking.clicks.store.write_store import write_click_store
from dranking.data.dataset import Dataset
from dranking.engine.progress import report
from dranking.errors import DrankingError
from dranking.ingestion.open import open_dataset
from dranking.rankrls.estimator import RankRLS
from pipelines.reproduce.clicks.users import (
    DEPTH,
    RATES,
    CascadeUsers,
    PositionUsers,
    Query,
    Users,
    served,
)
from pipelines.reproduce.letor import find_data_sets, fold_files

SESSIONS = (20, 200, 2_000, 20_000)
OTHER_SESSIONS = (2_000, 20_000)
N_RANKERS, N_JUDGED = 4, 8
SELECTION = ("--n-features", "10", "--regularization", "8")

EXAMINED = tuple(1 / k for k in range(1, DEPTH + 1))
TRUSTED = PositionUsers(
    a=tuple(0.9 / k for k in range(1, DEPTH + 1)),
    b=tuple(0.1 / k**1.5 for k in range(1, DEPTH + 1)),
)


class Way(NamedTuple):
    """A way from clicks to labels: name, options of `propensities`, and the estimator."""

    name: str
    propensities: tuple[str, ...]
    estimator: str


TRUE = ("--eta", "1", "--depth", str(DEPTH))
HARVESTED = ("--replicates", "2")
NAIVE = Way("naive CTR", TRUE, "ctr")
MAIN = (
    NAIVE,
    Way("ips", TRUE, "ips"),
    Way("ratio", TRUE, "ratio"),
    Way("ratio, harvested", HARVESTED, "ratio"),
)
OTHERS: dict[str, tuple[Users, tuple[Way, ...]]] = {
    "trust bias": (
        TRUSTED,
        (
            NAIVE,
            Way("ratio, trust ignored", HARVESTED, "ratio"),
            Way("ratio, a and b given", ("--table", "TABLE"), "ratio"),
            Way("ratio, a and b harvested", ("--trust-bias", *HARVESTED), "ratio"),
        ),
    ),
    "misspecified": (
        PositionUsers(EXAMINED),
        (
            Way("ratio, k^-.5 assumed", ("--eta", "0.5", "--depth", str(DEPTH)), "ratio"),
            Way("ratio, k^-1.5 assumed", ("--eta", "1.5", "--depth", str(DEPTH)), "ratio"),
        ),
    ),
    "cascade": (
        CascadeUsers(),
        (NAIVE, Way("ratio, harvested", HARVESTED, "ratio")),
    ),
}


def command(*arguments: object) -> dict[str, Any]:
    """Run a command with `--json` and return what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*map(str, arguments), "--json"])
    if code:
        raise DrankingError(f"dranking {' '.join(map(str, arguments))}: {err.getvalue()}")
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


class Fold(NamedTuple):
    """Data of a fold on disk, and its training queries."""

    train: Path
    test: Path
    queries: Sequence[Query]
    features: Sequence[NDArray[np.float32]]


def read_fold(folder: Path, number: int, work: Path) -> Fold:
    """Ingest training and test part of a fold."""
    train, _, test = fold_files(folder, number)
    places = work / f"train{number}.zarr", work / f"test{number}.zarr"
    for files, place in zip((train, test), places, strict=True):
        command("ingest", *files, "--output", place)
    data = open_dataset(places[0])
    found = sorted(_queries(data), key=lambda each: each[0].id)
    return Fold(*places, [query for query, _ in found], [features for _, features in found])


def _queries(data: Dataset) -> Iterator[tuple[Query, NDArray[np.float32]]]:
    for block in data.read_blocks():
        names = block.doc_ids.to_pylist() if block.doc_ids is not None else []
        for q, (start, end) in enumerate(zip(block.query_ptr, block.query_ptr[1:], strict=False)):
            rates = RATES[block.relevance[start:end].astype(int)]
            query = Query(str(block.query_ids[q]), names[start:end], rates)
            yield query, np.asarray(block.features[start:end])


def logging_rankings(fold: Fold, draw: np.random.Generator) -> list[list[NDArray[np.int64]]]:
    """The orders of all training documents by rankers trained on a few judged queries each."""
    useful = [i for i, query in enumerate(fold.queries) if np.ptp(query.rates) > 0]
    rankings = []
    for _ in range(N_RANKERS):
        judged = draw.choice(useful, N_JUDGED, replace=False)
        X = np.concatenate([fold.features[i] for i in judged])
        y = np.concatenate([fold.queries[i].rates for i in judged])
        qid = np.repeat(np.arange(N_JUDGED), [len(fold.features[i]) for i in judged])
        weights = RankRLS(1.0).fit(X, y, qid=qid).coef_
        rankings.append([np.argsort(-(rows @ weights), kind="stable") for rows in fold.features])
    return rankings


def logging_ndcg(fold: Fold, rankings: Sequence[Sequence[NDArray[np.int64]]]) -> float:
    """Mean NDCG@10 of the served lists over training queries with a relevant document."""
    values = []
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    for orders in rankings:
        for query, order in zip(fold.queries, orders, strict=True):
            gains = np.exp2(np.searchsorted(RATES, query.rates)) - 1
            best = np.sort(gains)[::-1][:DEPTH]
            if best[0] > 0:
                top = gains[order[:DEPTH]]
                values.append(top @ discounts[: len(top)] / (best @ discounts[: len(best)]))
    return float(np.mean(values))


def learned(fold: Fold, store: Path, way: Way, work: Path) -> float:
    """NDCG@10 of the selection from clicks, through the command line."""
    given = [str(work / "table.csv") if each == "TABLE" else each for each in way.propensities]
    file, labelled = work / "propensities.json", work / "labelled.zarr"
    command("clicks", "propensities", store, "--output", file, "--overwrite", *given)
    options = ("--propensities", file, "--estimator", way.estimator, "--overwrite")
    command("clicks", "label", store, fold.train, "--output", labelled, *options)
    return ndcg_of(labelled, fold.test, work)


def ndcg_of(data: Path, test: Path, work: Path) -> float:
    """NDCG@10 on test queries of the features selected on the data."""
    model = work / "model.json"
    command("select", data, *SELECTION, "--output", model, "--overwrite")
    found = command("evaluate", model, test, "--metric", "ndcg@10")
    return float(found["metrics"]["ndcg@10"])


Cells = dict[tuple[str, int, str], list[float]]


def one_seed(fold: Fold, seed: int, work: Path, cells: Cells) -> None:
    """Add the figures of one seed on one fold to the cells."""
    draw = np.random.default_rng(seed)
    rankings = logging_rankings(fold, draw)
    cells["position-based", 0, "logging rankers"].append(logging_ndcg(fold, rankings))
    runs: list[tuple[str, int, Users, tuple[Way, ...]]] = [
        ("position-based", sessions, PositionUsers(EXAMINED), MAIN) for sessions in SESSIONS
    ]
    runs += [
        (name, sessions, users, ways)
        for name, (users, ways) in OTHERS.items()
        for sessions in OTHER_SESSIONS
    ]
    store = work / "clicks.store"
    for name, sessions, users, ways in runs:
        counts = served(fold.queries, rankings, users, sessions, draw)
        write_click_store(counts, store, overwrite=True)
        for way in ways:
            cells[name, sessions, way.name].append(learned(fold, store, way, work))


def reproduce(folder: Path, n_seeds: int) -> dict[str, Any]:
    """All figures: the mean over folds of each seed, its mean and interval over seeds."""
    of_folds: list[Cells] = []
    full = []
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        rows = [f"{k},{TRUSTED.a[k - 1]},{TRUSTED.b[k - 1]}" for k in range(1, DEPTH + 1)]
        (work / "table.csv").write_text("\n".join(["position,a,b", *rows]) + "\n")
        for number in range(1, 6):
            fold = read_fold(folder, number, work)
            full.append(ndcg_of(fold.train, fold.test, work))
            cells: Cells = defaultdict(list)
            for seed in range(n_seeds):
                one_seed(fold, 1_000 * number + seed, work, cells)
                report("seeds", (number - 1) * n_seeds + seed + 1, 5 * n_seeds)
            of_folds.append(cells)
    judged = float(np.mean(full))
    found = []
    for key in of_folds[0]:
        values = np.mean([cells[key] for cells in of_folds], axis=0)
        name, sessions, way = key
        half = stats.t.ppf(0.975, n_seeds - 1) * stats.sem(values) if n_seeds > 1 else np.nan
        mean = float(values.mean())
        found.append(
            {"users": name, "sessions": sessions, "way": way, "ndcg@10": mean, "half": float(half)}
        )
    return {"full_judgements": judged, "n_seeds": n_seeds, "cells": found}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments, run everything and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.clicks", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("folder", type=Path, metavar="LETOR_FOLDER", help="with MQ2008")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    options = parser.parse_args(arguments)
    with progress_shown():
        found = reproduce(find_data_sets(options.folder)["MQ2008"], options.seeds)
    if options.json:
        print_json(found)
        return
    rows = [
        (
            c["users"],
            c["sessions"],
            c["way"],
            f"{c['ndcg@10']:.4f} +- {c['half']:.4f}",
            f"{c['ndcg@10'] - found['full_judgements']:+.4f}",
        )
        for c in found["cells"]
    ]
    title = f"NDCG@10, full judgements {found['full_judgements']:.4f}, {options.seeds} seeds"
    print_table(title, ["users", "sessions", "labels", "NDCG@10", "to full"], rows)
