"""Speed in memory against the exact peers, and passes over X against a mere read of X."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

import dranking as dr
from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.moments import QueryMoments
from dranking.rankrls.gram.rows import GramRows
from pipelines.benchmarks import greedy
from pipelines.benchmarks.greedy import Size, make_arrays, select
from pipelines.benchmarks.harness import (
    SHORT,
    Figure,
    Sample,
    figure,
    interleaved,
    skipped,
)
from pipelines.benchmarks.scale import rlscore_peer

SIZES = (
    Size(70_000, 46, 40, {10: 12.0}, {}),
    Size(200_000, 136, 50, {10: 30.0, 46: 20.0}, {}),
)
QUICK = (Size(2_000, 20, 40, {3: 0.0}, {}),)

PEERS = {"nfold": ("GreedyNFoldRLS", 1_000.0), "loo": ("GreedyRLS (leave-one-out)", 40.0)}
"""Learners of RLScore, and the promised speed of our selection in times theirs."""

READ = "read of the same blocks by the same threads"
DECODE = "decoding the same blocks"
PASSES = {1: 1.6, 8: 4.0}
"""Rows of a pass -> promised time of the pass, in times that of a mere read."""


def figures(quick: bool, rounds: int, *, rlscore: Path | None = None) -> dict[str, Figure]:
    """Figures of selections, then of passes."""
    sizes = QUICK if quick else SIZES
    found: list[Figure] = []
    for size in sizes:
        arrays = make_arrays(size)
        for k in size.faster:
            is_short = k == min(size.faster)
            found += greedy.speed(size, arrays, k, SHORT * rounds if is_short else rounds)
    found += against_rlscore(sizes[0], min(sizes[0].faster), rlscore, rounds)
    largest = make_arrays(sizes[-1]).dataset()
    found += passes_in_memory(sizes[-1], largest, rounds)
    found += passes_from_storage(sizes[-1], largest, rounds)
    return {item.name: item for item in found}


def against_rlscore(size: Size, k: int, python: Path | None, rounds: int) -> list[Figure]:
    """Times of the learners of RLScore, each in a process of its own that takes the time."""
    at = f"{size}, k = {k}"
    if python is None:
        why = "RLScore is not there; name a Python that has it with --rlscore"
        return [
            skipped(f"times faster than {name}, {at}", "x", why, peer=name, target=target)
            for name, target in PEERS.values()
        ]
    arrays = make_arrays(size)
    dataset = arrays.dataset()
    [path] = select(k, dataset).paths
    rows: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "data.npz")
        np.savez(file, **arrays._asdict())
        for learner, (name, target) in PEERS.items():
            seconds: list[float] = []
            ours: list[float] = []
            for _ in range(rounds):
                answer = run_rlscore(python, learner, file, k)
                seconds.append(answer["seconds"])
                times = interleaved({"ours": lambda: select(k, dataset)}, 1, warm_up=False)
                ours += times["ours"].values
            theirs = Sample(tuple(seconds))
            n_same = sum(a == b for a, b in zip(path.selected, answer["selected"], strict=True))
            faster = theirs / Sample(tuple(ours))
            rows += [
                figure(f"time of {name}, {at}", theirs, "s", peer=name),
                figure(f"times faster than {name}, {at}", faster, "x", peer=name, at_least=target),
                figure(f"picks in common with {name}, {at}", n_same, "", peer=name),
            ]
    return rows


def run_rlscore(python: Path, learner: str, data: Path, k: int) -> dict[str, Any]:
    """Run `rlscore_peer`, and return the object that it prints."""
    command = [str(python), rlscore_peer.__file__, learner, str(data), str(k)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def passes_in_memory(size: Size, dataset: Dataset, rounds: int) -> list[Figure]:
    """Time of a Gram pass over X in memory, in times that of a mere read."""
    tiles = Tiles(dataset, get_executor("threads"))
    calls = gram_passes(tiles) | {"read": lambda: tiles.gather(tiles.map_blocks(read, name="read"))}
    times = interleaved(calls, 2 * rounds)
    return [
        figure(
            f"Gram pass in memory, J = {n_rows}, {size}",
            times[f"J = {n_rows}"] / times["read"],
            "x",
            peer=READ,
            at_most=limit,
        )
        for n_rows, limit in PASSES.items()
    ] + [figure(f"pure read, {size}", size_of(dataset) / 1e9 / times["read"], "GB/s")]


def passes_from_storage(size: Size, dataset: Dataset, rounds: int) -> list[Figure]:
    """Rate of a Gram pass over a dataset directory, as a share of the rate of decoding alone."""
    with tempfile.TemporaryDirectory() as folder:
        blocks = (dataset.block(b) for b in range(dataset.n_blocks))
        stored = dr.write_dataset(blocks, Path(folder, "data"))
        tiles = Tiles(stored, get_executor("threads"), resident=False)
        calls = gram_passes(tiles) | {
            "decode": lambda: tiles.gather(tiles.map_blocks(nothing, name="decode"))
        }
        times = interleaved(calls, rounds)
    rows = [
        figure(
            f"rate of a Gram pass from storage, J = {n_rows}, {size}",
            times["decode"] / times[f"J = {n_rows}"],
            "x",
            peer=DECODE,
            at_least=0.5,
        )
        for n_rows in PASSES
    ]
    rate = size_of(dataset) / 1e9 / times["decode"]
    return [*rows, figure(f"decoding alone, {size}", rate, "GB/s")]


def gram_passes(tiles: Tiles) -> dict[str, Callable[[], object]]:
    """For each J of `PASSES`, a call that fetches J rows into memory that was used before."""
    gram = GramRows(tiles, QueryMoments(tiles), max(PASSES))

    def fetch(n_rows: int) -> None:
        wanted = list(range(n_rows))
        gram.fetch(wanted)
        gram.drop(wanted)

    return {f"J = {n_rows}": lambda n_rows=n_rows: fetch(n_rows) for n_rows in PASSES}


def read(block: QueryBlock) -> float:
    """The sum of the features of a block."""
    return float(_sum(block.features.ravel()))


@njit(nogil=True, fastmath=True)  # type: ignore[untyped-decorator]
def _sum(values: NDArray[np.float32]) -> np.float32:
    total = np.float32(0.0)
    for value in values:
        total += value
    return total


def nothing(block: QueryBlock) -> int:
    """Read a block, and do nothing with it."""
    return block.n_documents


def size_of(dataset: Dataset) -> int:
    """Size of X as float32, in bytes."""
    return 4 * dataset.n_documents * dataset.n_features
