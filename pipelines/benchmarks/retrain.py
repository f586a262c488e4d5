"""A night with 1 % new data against a full build: cost, bytes read, the same bits.

    python -m pipelines.benchmarks.retrain --json [--quick]

The data is a stream of 100 parts of LETOR text, and the last part is new. Greedy RankRLS is
retrained once on the work of 99 earlier nights, and once from nothing. The data stages are
validate, ingest and statistics; the other stages cost the same in both cases. Audit events of the
interpreter count the opened files, and these events also see that the full build opens the files
that the night must not open.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dranking.cli.output import note
from dranking.retrain.config.config import RetrainConfig
from dranking.retrain.outcome import Outcome
from dranking.retrain.registry.registry import MODEL_NAME, Registry
from dranking.retrain.runner import retrain
from dranking.retrain.sources.sources import find_sources
from pipelines.benchmarks.harness import REPEATS, Figure, Sample, figure, main, parser

DATA_STAGES = ("validate", "ingest", "statistics")
N_PARTS = 100
N_FEATURES = 46
N_DOCUMENTS = 20  # in each query
LIMIT = 0.05


class Night(NamedTuple):
    """A retraining run.

    Attributes
    ----------
    outcome
        The outcome of the run, and the cost of its stages.
    model
        Features and weights in the model file.
    old_bytes
        Bytes of the opened files that hold old features: sources, and data sets ingested of them.
    """

    outcome: Outcome
    model: tuple[Any, Any]
    old_bytes: int

    def data_cost(self, what: str) -> float:
        """The `seconds` or `processor_seconds` of the data stages."""
        return sum(getattr(self.outcome.costs[stage], what) for stage in DATA_STAGES)


def measure(options: argparse.Namespace) -> list[Figure]:
    n_queries = 5 if options.quick else 100
    with tempfile.TemporaryDirectory() as folder:
        nights, builds = interleaved_runs(Path(folder), n_queries, options.rounds)
    size = f"{N_PARTS * n_queries * N_DOCUMENTS:,} documents, {N_FEATURES} features"
    return figures(size, nights, builds, None if options.quick else LIMIT)


def figures(
    size: str, nights: Sequence[Night], builds: Sequence[Night], limit: float | None
) -> list[Figure]:
    """Figures of the runs; the limit applies to the data stages of nights."""
    found = []
    for what in ("seconds", "processor_seconds"):
        unit = what.replace("_", " ")
        ours, peer = (Sample(tuple(n.data_cost(what) for n in runs)) for runs in (nights, builds))
        found += [
            figure(f"data stages of a night, {unit}", ours, "s"),
            figure(f"data stages of a full build, {unit}", peer, "s"),
            figure(
                f"data stages of a night with 1 % new data, by {unit}",
                ours / peer,
                "x",
                peer=f"a full build, {size}",
                at_most=limit,
            ),
        ]
    same = all(night.model == build.model for night, build in zip(nights, builds, strict=True))
    return [
        *found,
        figure("same model as from scratch, bit for bit", float(same), "yes", at_least=1),
        figure(
            "old features opened by a night",
            float(max(night.old_bytes for night in nights)),
            "bytes",
            at_most=0,
        ),
        figure(
            "old features opened by a full build",
            float(min(build.old_bytes for build in builds)),
            "bytes",
            at_least=1,  # shows that the count sees opened files
        ),
    ]


def interleaved_runs(
    folder: Path, n_queries: int, n_rounds: int
) -> tuple[list[Night], list[Night]]:
    """Run nights and full builds in turn, each in directories of its own."""
    for part in range(N_PARTS - 1):
        write_part(folder / "incoming" / f"{part:03d}.txt", part, n_queries)
    write_part(folder / "holdout.txt", N_PARTS, 10)
    note(f"{N_PARTS - 1} nights at once, {n_queries} queries each")
    retrain(config(folder, "base"))
    old = find_sources([f"{folder}/incoming/*.txt"], config(folder, "base").data)
    write_part(folder / "incoming" / f"{N_PARTS - 1:03d}.txt", N_PARTS - 1, n_queries)

    nights, builds = [], []
    for count in range(1, n_rounds + 1):
        shutil.copytree(folder / "base", folder / "night")
        for name, runs in (("night", nights), ("build", builds)):
            places = [Path(source.name) for source in old]
            places += [folder / name / "work" / "parts" / source.key / "blocks" for source in old]
            with bytes_opened(places) as opened:
                outcome = retrain(config(folder, name))
            runs.append(Night(outcome, model_in(folder / name), sum(opened)))
            shutil.rmtree(folder / name)
            seconds = runs[-1].data_cost("seconds")
            note(f"round {count} of {n_rounds}: data stages of the {name} {seconds:.3f} s")
    return nights, builds


def config(folder: Path, name: str) -> RetrainConfig:
    """The configuration of runs that work in the folder `name`."""
    return RetrainConfig.model_validate(
        {
            "data": {"train": f"{folder}/incoming/*.txt", "holdout": f"{folder}/holdout.txt"},
            "model": {"regularization": 1.0, "n_features": 10},
            "gate": {"false_promotions_per_year": 1000.0, "max_drift": None},
            "export": {"report": False},
            "registry": {"location": f"{folder}/{name}/registry"},
            "run": {"work": f"{folder}/{name}/work"},
        }
    )


def model_in(folder: Path) -> tuple[Any, Any]:
    """Features and weights of the champion."""
    registry = Registry(folder / "registry")
    content = json.loads(registry.read(registry.resolve("champion"), MODEL_NAME))
    return content["feature_names"], content["weights"]


def write_part(path: Path, seed: int, n_queries: int) -> None:
    """Write queries as LETOR text that looks like MQ2008: many zeros, six decimals."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    shape = (n_queries, N_DOCUMENTS, N_FEATURES)
    values = np.round(rng.random(shape) * (rng.random(shape) < 0.6), 6)
    weights = np.linspace(1, 0, N_FEATURES)
    grades = np.digitize(values @ weights + rng.normal(0, 0.5, shape[:2]), [7.5, 9.0])
    with path.open("w") as file:
        for query, (rows, of_query) in enumerate(zip(values, grades, strict=True)):
            for row, grade in zip(rows.tolist(), of_query.tolist(), strict=True):
                words = " ".join(f"{index}:{value:.6f}" for index, value in enumerate(row, start=1))
                file.write(f"{grade} qid:{seed * n_queries + query} {words}\n")


_watched: list[tuple[tuple[str, ...], list[int]]] = []
"""The watched folders, and the list that takes the sizes of files opened there."""


@contextmanager
def bytes_opened(places: Sequence[Path]) -> Iterator[list[int]]:
    """Collect the sizes of files in some folders that this process opens inside the context."""
    _watch()
    sizes: list[int] = []
    _watched.append((tuple(str(place.absolute()) for place in places), sizes))
    try:
        yield sizes
    finally:
        _watched.pop()


@cache
def _watch() -> None:
    """Install `_note_open` as an audit hook, once, because a hook cannot be removed."""
    sys.addaudithook(_note_open)


def _note_open(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _watched or not isinstance(arguments[0], (str, Path)):
        return
    path = str(Path(arguments[0]).absolute())
    for places, sizes in _watched:
        if path.startswith(places) and Path(path).is_file():
            sizes.append(Path(path).stat().st_size)


def options() -> argparse.ArgumentParser:
    """The parser of the command line."""
    found = parser(__doc__.splitlines()[0])
    found.add_argument("--rounds", type=int, default=REPEATS, help="default: %(default)s")
    return found


if __name__ == "__main__":
    main(measure, options())
