"""Wall seconds of the first and of the second call of each command after an installation.

Each command has an empty cache of compiled code of its own, so that its first call compiles all
that the command needs. The second call finds the compiled code. The data is a small table, so that
the figures show what every user waits for, whatever the data.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipelines.benchmarks.harness import (
    Figure,
    Sample,
    add_topics,
    figure,
    main,
    note,
    parser,
    processor_seconds,
)

SECONDS, QUICKSTART_SECONDS = 10.0, 20.0
"""The most that a first call may take on a quiet machine."""

TEXT = "ingest table.txt --output table.zarr --overwrite"
SELECT = "select table.zarr --n-features 3 --output model.json --overwrite"
COMMANDS = {
    "ingest": TEXT,
    "select": SELECT,
    "tune": "tune table.zarr --folds 3 --regularization 2^0..2^4 --output tuned.json --overwrite",
    "evaluate": "evaluate model.json table.zarr",
    "predict": "predict model.json table.zarr --output scores --overwrite",
    "compare": "compare model.json tuned.json table.zarr",
    "report": "report model.json table.zarr --train table.zarr --output report.html --overwrite",
    "bounds": "bounds model.json table.zarr",
    "export": "export model.json --format sql --output model.sql --overwrite",
    "info": "info table.zarr",
    "stats build": "stats build table.zarr --output statistics --overwrite",
    "train rankrls": "train rankrls table.zarr --output rankrls.json --overwrite",
    "train ranksvm": "train ranksvm table.zarr --output ranksvm.json --overwrite",
    "train ranksvm --loss hinge": "train ranksvm table.zarr -o hinge.json --loss hinge --overwrite",
    "train spd": "train spd table.zarr --epochs 1 --output spd.json --overwrite",
    "train lcra": "train lcra table.zarr --unlabelled table.zarr --epochs 1 -o lcra.json "
    "--overwrite",
    "train max-margin": "train max-margin table.zarr --output margin.json --overwrite",
    "quickstart": "quickstart",
}
"""The commands in an order in which each finds the files that it reads."""

N_QUERIES, QUERY_SIZE, N_FEATURES = 200, 10, 12


class Call(NamedTuple):
    """What one call of a command took, in seconds, and the first line that it said."""

    wall: float
    processor: float
    said: str


def measure(options: argparse.Namespace) -> list[Figure]:
    """Wall seconds of both calls of each command, over `--rounds` rounds."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="dranking-first-calls-") as name:
        folder = Path(name)
        write_table(folder / "table.txt")
        for command in (TEXT, SELECT, COMMANDS["tune"]):  # what the other commands read
            call(command, folder, folder / "cache")
        for topic in options.topics:
            target = QUICKSTART_SECONDS if topic == "quickstart" else SECONDS
            rounds = [
                (call(COMMANDS[topic], folder, cache), call(COMMANDS[topic], folder, cache))
                for cache in (folder / f"cache-{topic}-{i}" for i in range(options.rounds))
            ]
            seconds = [f"{one.wall:.1f}" for pair in rounds for one in pair]
            note(f"{topic} took {', '.join(seconds)} s and said: {rounds[0][0].said}")
            for which, calls in zip(("first", "second"), zip(*rounds, strict=True), strict=True):
                figures += figures_of(f"{topic}, {which} call", calls, target)
    return figures


def figures_of(name: str, calls: Sequence[Call], target: float) -> list[Figure]:
    """Wall seconds, which have a target, and processor seconds of calls."""
    walls, processors = (Sample(values) for values in list(zip(*calls, strict=True))[:2])
    return [
        figure(name, walls, "s", at_most=target),
        figure(f"{name}, processor", processors, "s"),
    ]


def write_table(path: Path) -> None:
    """LETOR text of `N_QUERIES` queries, with ids of the documents."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_QUERIES * QUERY_SIZE, N_FEATURES)).round(3)
    grades = np.clip(np.round(X[:, 1] - X[:, 2] + rng.normal(size=len(X))), 0, 2)
    with path.open("w", encoding="ascii") as file:
        for row, (x, grade) in enumerate(zip(X.tolist(), grades, strict=True)):
            values = " ".join(f"{i}:{value}" for i, value in enumerate(x, start=1))
            file.write(f"{grade:.0f} qid:{row // QUERY_SIZE} {values} #docid = d{row}\n")


def call(command: str, folder: Path, cache: Path) -> Call:
    """Run a command in a folder, with its own cache of compiled code."""
    begun, worked = time.perf_counter(), processor_seconds()
    done = subprocess.run(
        [sys.executable, "-m", "dranking", *shlex.split(command)],
        cwd=folder,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - begun
    if done.returncode:
        raise RuntimeError(f"dranking {command}: {done.stderr}")
    return Call(wall, processor_seconds() - worked, done.stderr.partition("\n")[0])


if __name__ == "__main__":
    main(measure, add_topics(parser("First and second calls of each command."), COMMANDS))
