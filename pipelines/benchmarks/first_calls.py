"""Wall seconds of the first and of the second call of each command after an installation.

Each command has an empty cache of compiled code of its own, so that its first call compiles all
that the command needs. The second call finds the compiled code. The data is a small table, so that
the figures show what every user waits for, whatever the data.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

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

SECONDS = 15.0
"""The most that a first call may take on a quiet machine."""

TARGETS = {"report": 30.0, "quickstart": 25.0, "warm": math.inf}
"""The commands that may take longer; `warm` compiles everything."""

PREPARED = {
    "ingest": "ingest table.txt --output table.zarr --overwrite",
    "select": "select table.zarr --n-features 3 --output model.json --overwrite",
    "tune": "tune table.zarr --folds 3 --regularization 2^0..2^4 --output tuned.json --overwrite",
    "stats build": "stats build table.zarr --output statistics --overwrite",
    "clicks build": "clicks build log.parquet --arm-column arm --output clicks.store --overwrite",
    "clicks propensities": "clicks propensities clicks.store --output propensities.json "
    "--overwrite",
    "clicks label": "clicks label clicks.store table.zarr --propensities propensities.json "
    "--output labelled.zarr --overwrite",
}
"""The commands whose results other commands read, in this order."""

ALSO_PREPARED = (
    "stats build table.zarr --output two-blocks",
    "stats append two-blocks later.txt",
    "retrain prepared.toml",
)
"""Commands for what other commands read beside it: a store that can lose a block, a registry."""

COMMANDS = {
    **PREPARED,
    "evaluate": "evaluate model.json table.zarr",
    "evaluate --clicks": "evaluate model.json table.zarr --clicks clicks.store "
    "--propensities propensities.json --metric clicks@5",
    "predict": "predict model.json table.zarr --output scores",
    "compare": "compare model.json tuned.json table.zarr",
    "report": "report model.json table.zarr --train table.zarr --output report.html",
    "bounds": "bounds model.json table.zarr",
    "export": "export model.json --format sql --output model.sql",
    "info": "info table.zarr",
    "stats append": "stats append statistics later.txt",
    "stats expire": "stats expire two-blocks --blocks 0",
    "stats relabel": "stats relabel statistics labelled.zarr",
    "retrain": "retrain retrain.toml",
    "registry list": "registry list registry",
    "interleave analyse": "interleave analyse credits.parquet",
    "train rankrls": "train rankrls table.zarr --output rankrls.json",
    "train ranksvm": "train ranksvm table.zarr --output ranksvm.json",
    "train ranksvm --loss hinge": "train ranksvm table.zarr -o hinge.json --loss hinge",
    "train spd": "train spd table.zarr --epochs 1 --output spd.json",
    "train lcra": "train lcra table.zarr --unlabelled table.zarr --epochs 1 -o lcra.json",
    "train max-margin": "train max-margin table.zarr --output margin.json",
    "train bilinear": "train bilinear texts.parquet --labels --steps 2000 --output bilinear",
    "warm": "warm",
    "quickstart": "quickstart",
}
"""All commands that compute something."""

CONFIGURATION = """
[data]
train = ["table.txt"]
holdout = ["later.txt"]

[model]
kind = "greedy-rankrls"
regularization = "2^0..2^4"
n_features = 3

[tune]
criterion = "lqo-squared_error"

[gate]
metric = "ndcg@10"

[registry]
location = "{registry}"

[run]
work = "{registry}-work"
"""

N_QUERIES, QUERY_SIZE, N_FEATURES = 200, 10, 12

Array = NDArray[np.float64]


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
        write_inputs(folder / "prepared")
        for command in (*PREPARED.values(), *ALSO_PREPARED):
            call(command, folder / "prepared", folder / "cache")
        for topic in options.topics:
            target = TARGETS.get(topic, SECONDS)
            rounds = [
                (first_use(folder, topic, cache), first_use(folder, topic, cache))
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


def first_use(folder: Path, topic: str, cache: Path) -> Call:
    """Run a command in a copy of the prepared folder, which earlier calls have not changed."""
    with tempfile.TemporaryDirectory(prefix="use-", dir=folder) as name:
        use = Path(name) / "use"
        shutil.copytree(folder / "prepared", use)
        return call(COMMANDS[topic], use, cache)


def write_inputs(folder: Path) -> None:
    """Write two tables, a log of clicks on the first, texts, credits and two configurations."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    grades = write_table(folder / "table.txt", rng, 0)
    write_table(folder / "later.txt", rng, N_QUERIES)
    write_log(folder / "log.parquet", rng, grades)
    write_texts(folder / "texts.parquet", rng)
    write_credits(folder / "credits.parquet", rng)
    for name, registry in (("prepared.toml", "registry"), ("retrain.toml", "new-registry")):
        (folder / name).write_text(CONFIGURATION.format(registry=registry))


def write_table(path: Path, rng: np.random.Generator, first_query: int) -> Array:
    """LETOR text of `N_QUERIES` queries, with ids of the documents; returns their grades."""
    X = rng.normal(size=(N_QUERIES * QUERY_SIZE, N_FEATURES)).round(3)
    grades: Array = np.clip(np.round(X[:, 1] - X[:, 2] + rng.normal(size=len(X))), 0, 2)
    with path.open("w", encoding="ascii") as file:
        for row, (x, grade) in enumerate(zip(X.tolist(), grades, strict=True)):
            values = " ".join(f"{i}:{value}" for i, value in enumerate(x, start=1))
            query = first_query + row // QUERY_SIZE
            file.write(f"{grade:.0f} qid:{query} {values} #docid = d{row}\n")
    return grades


def write_log(path: Path, rng: np.random.Generator, grades: Array) -> None:
    """Twenty sessions of each query, half of them with the list moved up by one by a second arm."""
    n_sessions = 20
    query, session, place = (
        axis.ravel()
        for axis in np.meshgrid(
            np.arange(N_QUERIES), np.arange(n_sessions), np.arange(QUERY_SIZE), indexing="ij"
        )
    )
    moved = session % 2 == 1
    document = query * QUERY_SIZE + (place + moved) % QUERY_SIZE
    chance = np.array([0.05, 0.4, 0.9])[grades[document].astype(int)] / (place + 1)
    table = {
        "session": [f"{q}-{s}" for q, s in zip(query, session, strict=True)],
        "query": query.astype(str),
        "document": [f"d{d}" for d in document],
        "position": place + 1,
        "clicked": rng.random(len(place)) < chance,
        "time": np.datetime64("2026-11-01", "s") + session.astype("timedelta64[h]"),
        "arm": np.where(moved, "b", "a"),
    }
    pq.write_table(pa.table(table), path)


def write_texts(path: Path, rng: np.random.Generator) -> None:
    """Texts of random words out of a thousand, of ten labels with words of their own."""
    n, length = 400, 40
    labels = rng.integers(0, 10, n)
    words = rng.integers(0, 500, (n, length)) + np.where(
        rng.random((n, length)) < 0.3, 500 + 50 * labels[:, None], 0
    )
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    pq.write_table(
        pa.table({"id": [f"t{i}" for i in range(n)], "text": texts, "label": labels}), path
    )


def write_credits(path: Path, rng: np.random.Generator) -> None:
    """Credits of interleaved pages of ten days."""
    n = 3_000
    hours = np.sort(rng.integers(0, 240, n)).astype("timedelta64[h]")
    table = {
        "user": rng.integers(0, 2_000, n),
        "time": pa.array(np.datetime64("2026-11-01", "us") + hours, pa.timestamp("us", "UTC")),
        "credit": rng.choice([0.0, 0.5, 1.0], n),
    }
    pq.write_table(pa.table(table), path)


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
