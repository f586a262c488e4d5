"""How often the drift gate of nightly retraining rejects data without drift, and finds drift.

    python -m pipelines.reproduce.drift [LETOR_FOLDER] [--splits 400] [--json]

Queries are drawn without replacement and split into the champion's training data and a new part, so
that nothing but chance lies between the two sides. Made queries have documents that are alike, as
those of one query are; MQ2008 and MQ2007 are taken where LETOR_FOLDER has them. For each pair of
sizes the table has the share of splits that are rejected

- by a population stability index above .25 in any feature, a rule of thumb for independent rows;
- by `dranking.retrain.workflows.drift.drift_between` at a level of 5 %, with a 95 % interval;
- by the rule of the gate, which also tolerates an index of .25;
- by the rule of the gate, after one feature of the new part was shifted by one standard deviation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dranking.cli.output import print_json, print_table, progress_shown
from dranking.data.dataset import Dataset
from dranking.data.open import open_dataset
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.progress import report
from dranking.retrain.workflows.drift import drift_between
from dranking.retrain.workflows.profiles import profile_edges, profile_of
from pipelines.reproduce.letor import find_data_sets, fold_files
from pipelines.script import run_script

SIZES = ((300, 300), (300, 30), (60, 60), (40, 8), (8, 8))
LEVEL, TOLERATED, N_PERMUTATIONS = 0.05, 0.25, 999

Matrix: TypeAlias = NDArray[np.float32]
Queries: TypeAlias = Sequence[Matrix]


def made_queries(rng: np.random.Generator, n: int = 800, n_features: int = 20) -> list[Matrix]:
    """Queries of 5 to 40 documents, whose features vary between queries more than within."""
    sizes = rng.integers(5, 41, n)
    means = rng.normal(size=(n, n_features))
    return [
        (mean + 0.5 * rng.normal(size=(size, n_features))).astype(np.float32)
        for mean, size in zip(means, sizes, strict=True)
    ]


def letor_queries(folder: Path) -> list[Matrix]:
    """The features of every query of a LETOR data set."""
    train, validation, test = fold_files(folder, 1)
    data = open_dataset(train + validation + test)
    queries: list[Matrix] = []
    for number in range(data.n_blocks):
        block = data.block(number)
        queries += np.split(np.asarray(block.features), block.query_ptr[1:-1].tolist())
    return queries


def as_data(queries: Queries) -> Dataset:
    """Queries as a data set without grades that matter."""
    X = np.concatenate(queries)
    qid = np.repeat(np.arange(len(queries)), [len(rows) for rows in queries])
    return from_arrays(X, np.zeros(len(X)), qid)


def rejections(
    before: Queries, after: Queries, executor: Executor, seed: int
) -> tuple[bool, bool, bool]:
    """Whether the rule of thumb, the test alone, and the rule of the gate reject a part."""
    data = as_data(before)
    edges = profile_edges(data)
    shifts = drift_between(
        profile_of(data, edges, executor),
        profile_of(as_data(after), edges, executor),
        level=LEVEL,
        n_permutations=N_PERMUTATIONS,
        seed=seed,
    ).values()
    return (
        any(shift.index > TOLERATED for shift in shifts),
        any(shift.index > shift.limit for shift in shifts),
        any(shift.index > max(shift.limit, TOLERATED) for shift in shifts),
    )


def shifted(queries: Queries, rng: np.random.Generator) -> list[Matrix]:
    """Queries after one feature that varies was shifted by one standard deviation."""
    deviation = np.concatenate(queries).std(axis=0)
    feature = rng.choice(np.flatnonzero(deviation > 0))
    shift = np.zeros(len(deviation), dtype=np.float32)
    shift[feature] = deviation[feature]
    return [rows + shift for rows in queries]


def study(name: str, queries: Queries, n_splits: int) -> Iterator[dict[str, Any]]:
    """One row of the table for each pair of sizes that the data has queries for."""
    executor = get_executor("threads")
    for n_before, n_after in SIZES:
        if n_before + n_after > len(queries):
            continue
        counts = np.zeros(4, dtype=int)
        for seed in range(n_splits):
            report(f"{name}, {n_before} against {n_after}", seed + 1, n_splits)
            rng = np.random.default_rng(seed)
            chosen = rng.permutation(len(queries))[: n_before + n_after]
            before, after = (
                [queries[q] for q in side] for side in (chosen[:n_before], chosen[n_before:])
            )
            counts[:3] += rejections(before, after, executor, seed)
            counts[3] += rejections(before, shifted(after, rng), executor, seed)[2]
        interval = stats.binomtest(int(counts[1]), n_splits).proportion_ci()
        shares = counts / n_splits
        yield {
            "data": name,
            "queries": f"{n_before} against {n_after}",
            "index above .25": shares[0],
            "test at 5 %": shares[1],
            "interval": [float(interval.low), float(interval.high)],
            "gate": shares[2],
            "gate, one feature shifted": shares[3],
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.drift", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("folder", type=Path, nargs="?", metavar="LETOR_FOLDER")
    parser.add_argument("--splits", type=int, default=400)
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    given = parser.parse_args(arguments)
    data: dict[str, Queries] = {"made": made_queries(np.random.default_rng(0))}
    if given.folder is not None:
        folders = find_data_sets(given.folder)
        data |= {name: letor_queries(folder) for name, folder in folders.items()}
    with progress_shown():
        rows = [row for name, queries in data.items() for row in study(name, queries, given.splits)]
    if given.json:
        print_json({"splits": given.splits, "rows": rows})
    else:
        print_table(f"share of {given.splits} splits rejected", list(rows[0]), _cells(rows))


def _cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Rows of the printed table, shares as percentages."""
    return [[_cell(value) for value in row.values()] for row in rows]


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " to ".join(map(_cell, value))
    return f"{value:.1%}"


if __name__ == "__main__":
    run_script(main)
