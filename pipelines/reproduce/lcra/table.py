"""The table of the LCRA paper on any LETOR data set, over repeated random splits.

    python -m pipelines.reproduce.lcra LETOR_FOLDER [--splits 20] [--table FILE.csv] [--json]

LETOR_FOLDER holds parts S1.txt to S5.txt, or folders Fold1 to Fold5 (one fold has every query), or
.txt files. The protocol is that of the paper: features are scaled to [0, 1] within each query; 70 %
of the queries train and 30 % test; 20 % of the training queries keep their labels; there are two
random views; five folds of the labelled queries choose lambda, mu and eta0; the measure is test
MAP. One split says little, so the study takes many splits, which are the same for all methods. The
paired differences are tested by Student's t-test, which treats the splits as independent, and by a
t-test that is corrected for the queries that splits share. The 95 % confidence intervals are
corrected too.

"Attainable" is the mean of the best test MAP of all settings of the grid: no way of choosing
parameters could give more. This figure flatters methods with more settings to choose from.

Tsivtsivadze, Hofmann, Heskes: Large Scale Co-Regularized Ranking, 2012. The paper
prints one figure for each data set of LETOR 3.0, without a spread; the errata stand in
`dranking/pairwise/THEORY.md`.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dranking.cli.output import note, print_json, print_table, progress_shown
from dranking.engine.progress import report
from dranking.errors import UsageError
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file
from pipelines.reproduce.lcra.protocol import (
    METHODS,
    Difference,
    Grid,
    Judged,
    Outcome,
    compared,
    map_splits,
    read_judged,
    run_method,
    split_queries,
)

GRID = Grid(lambdas=(1e-4, 1e-3, 1e-2, 1e-1), mus=(0.1, 1.0, 10.0), eta0s=(None, 0.01))
QUICK = Grid(lambdas=(1e-3, 1e-1), mus=(0.1,), eta0s=(None,))
PAIRS = (
    ("LCRA-1-5", "SPD"),
    ("LCRA-1-5", "SPD MV"),
    ("LCRA-1-1", "SPD"),
    ("LCRA-1-1", "SPD MV"),
    ("SPD MV", "SPD"),
)
PUBLISHED = {
    "OHSUMED": {"LCRA-1-5": 0.33, "LCRA-1-1": 0.31, "SPD": 0.29, "SPD MV": 0.30},
    "TD2003": {"LCRA-1-5": 0.15, "LCRA-1-1": 0.11, "SPD": 0.10, "SPD MV": 0.11},
    "TD2004": {"LCRA-1-5": 0.14, "LCRA-1-1": 0.12, "SPD": 0.10, "SPD MV": 0.10},
    "NP2003": {"LCRA-1-5": 0.54, "LCRA-1-1": 0.54, "SPD": 0.47, "SPD MV": 0.49},
    "NP2004": {"LCRA-1-5": 0.51, "LCRA-1-1": 0.48, "SPD": 0.44, "SPD MV": 0.45},
    "HP2003": {"LCRA-1-5": 0.60, "LCRA-1-1": 0.57, "SPD": 0.50, "SPD MV": 0.52},
    "HP2004": {"LCRA-1-5": 0.52, "LCRA-1-1": 0.50, "SPD": 0.45, "SPD MV": 0.45},
}

Outcomes = dict[str, list[Outcome]]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    if options.table is not None:
        check_output_file(options.table, overwrite=False)
    judged = read_judged(options.folder)
    with progress_shown():
        outcomes = run_splits(judged, options)
    name = options.folder.resolve().name
    if options.table is not None:
        atomic_write(options.table, as_csv(outcomes).encode(), overwrite=False)
    if options.json:
        print_json(as_json(name, outcomes, options))
        return
    print_tables(name, outcomes)
    if options.table is not None:
        note(f"each split written to {options.table}")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.lcra", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("folder", type=Path, metavar="LETOR_FOLDER")
    parser.add_argument("--splits", type=int, default=20, help="number of random splits (20)")
    parser.add_argument(
        "--labels", type=float, default=0.2, help="share of training queries with labels (0.2)"
    )
    parser.add_argument("--steps", type=int, default=20_000, help="steps of each training (20,000)")
    parser.add_argument("--convention", default="letor4", help="convention of MAP (letor4)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one split each (1)")
    parser.add_argument("--quick", action="store_true", help="a small grid, to try the script")
    parser.add_argument(
        "--table", type=Path, metavar="FILE.csv", help="write the results of every split"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    options = parser.parse_args(arguments)
    if options.splits < 2 or options.jobs < 1 or not 0 < options.labels <= 1:
        raise UsageError(
            "--splits must be at least 2, --jobs at least 1, and --labels above 0 and at most 1."
        )
    return options


def run_splits(judged: Judged, options: argparse.Namespace) -> Outcomes:
    """Run every method on every split."""
    outcomes: Outcomes = {name: [] for name in METHODS}
    found = map_splits(partial(run_split, judged, options), options.splits, options.jobs)
    for done, of_split in enumerate(found, start=1):
        for name, outcome in of_split.items():
            outcomes[name].append(outcome)
        report("splits", done, options.splits)
    return outcomes


def run_split(judged: Judged, options: argparse.Namespace, number: int) -> dict[str, Outcome]:
    """Run every method on a split; the number of the split seeds the views and the pairs."""
    grid = QUICK if options.quick else GRID
    split = split_queries(judged, number, options.labels)
    steps = {"n_epochs": 1, "steps_per_epoch": options.steps}
    parameters = {"sgd": steps, "random_state": number}
    return {name: run_method(name, split, grid, parameters, options.convention) for name in METHODS}


def scores_of(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.score for outcome in outcomes]


def differences_of(outcomes: Outcomes) -> dict[tuple[str, str], Difference]:
    """Differences of the paired methods, first minus second."""
    return {(a, b): compared(scores_of(outcomes[a]), scores_of(outcomes[b])) for a, b in PAIRS}


def summary_of(outcomes: Outcomes) -> dict[str, dict[str, float]]:
    """Mean, spread and attainable mean of the test MAP of each method."""
    return {
        name: {
            "mean": float(np.mean(scores_of(of_method))),
            "spread": float(np.std(scores_of(of_method), ddof=1)),
            "attainable": float(np.mean([outcome.attainable for outcome in of_method])),
        }
        for name, of_method in outcomes.items()
    }


def as_json(name: str, outcomes: Outcomes, options: argparse.Namespace) -> dict[str, Any]:
    """The table, the differences and the results of every split."""
    return {
        "data": name,
        "splits": options.splits,
        "labels": options.labels,
        "steps": options.steps,
        "test_map": summary_of(outcomes),
        "published": PUBLISHED.get(name),
        "differences": [
            {"of": a, "less": b, **difference._asdict()}
            for (a, b), difference in differences_of(outcomes).items()
        ],
        "outcomes": {
            name: [outcome._asdict() for outcome in of_method]
            for name, of_method in outcomes.items()
        },
    }


def as_csv(outcomes: Outcomes) -> str:
    """A row for each split and method: test MAP, attainable MAP, and the setting of the folds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    settings = ("regularization", "mu", "eta0")
    writer.writerow(("split", "method", "test_map", "attainable", *settings))
    for name, of_method in outcomes.items():
        for number, outcome in enumerate(of_method):
            chosen = [outcome.setting.get(key) for key in settings]
            writer.writerow((number, name, outcome.score, outcome.attainable, *chosen))
    return text.getvalue()


def print_tables(name: str, outcomes: Outcomes) -> None:
    """Print the columns of the paper with their spread, and the paired differences."""
    summary = summary_of(outcomes)
    n_splits = len(next(iter(outcomes.values())))
    rows: list[tuple[Any, ...]] = [
        (title, *(summary[method][key] for method in METHODS))
        for title, key in (
            ("mean", "mean"),
            ("standard deviation", "spread"),
            ("attainable mean", "attainable"),
        )
    ]
    if name in PUBLISHED:
        rows.append(("published", *(PUBLISHED[name][method] for method in METHODS)))
    print_table(f"{name}: test MAP of {n_splits} random splits", ["", *METHODS], rows)
    rows = [
        (
            f"{a} less {b}",
            f"{d.mean:+.4f} ± {d.half_width:.4f}",
            f"{d.spread:.4f}",
            d.p_paired,
            d.p_corrected,
            f"{d.wins} / {d.ties} / {d.losses}",
        )
        for (a, b), d in differences_of(outcomes).items()
    ]
    columns = ["", "mean", "s.d.", "p (paired t)", "p (corrected)", "wins / ties / losses"]
    print_table("differences, split by split", columns, rows)
