"""Time and memory of greedy RankRLS against the paper's Algorithm 1 in NumPy, cache-blocked.

Both sides get float32 features in memory, and the benchmark checks that both select the same
features. The memory floor is the time in which the machine, at the bandwidth measured in the same
rounds, reads and writes once what our form must read and write: X in every pass, the kept Gram rows
and the state of every query.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.choose_executor import get_executor
from dranking.rankrls.greedy.path import Selection, SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from pipelines.benchmarks.algorithm_1 import algorithm_1_blocked
from pipelines.benchmarks.harness import (
    REPEATS,
    Figure,
    Sample,
    figure,
    interleaved,
    main,
    parser,
    peak_memory,
)

PEER = "Algorithm 1, NumPy, cache-blocked"
SELECTED = (10, 46)
BANDWIDTH_BYTES = 2**30


class Size(NamedTuple):
    """The size of a made data set, and the promised figures.

    Attributes
    ----------
    faster
        Number of features to select -> promised speed, in times the speed of the peer.
    memory
        Number of features to select -> promised peak memory, as a multiple of X in float32.
    """

    n_documents: int
    n_features: int
    documents_per_query: int
    faster: dict[int, float]
    memory: dict[int, float]

    def __str__(self) -> str:
        return f"{self.n_documents:,} x {self.n_features}"


SIZES = (Size(70_000, 46, 40, {}, {}), Size(200_000, 136, 50, {10: 20.0}, {46: 3.2}))
COLLINEAR = Size(5_000, 136, 25, {}, {})
QUICK = (Size(7_000, 46, 40, {}, {}), Size(20_000, 136, 50, {}, {}))


class Arrays(NamedTuple):
    """Ranking data as arrays; the documents of a query are adjacent."""

    X: NDArray[np.float32]
    y: NDArray[np.float64]
    query_ptr: NDArray[np.int64]

    def dataset(self) -> Dataset:
        """These arrays as query blocks; X is not copied."""
        sizes = np.diff(self.query_ptr)
        return from_arrays(self.X, self.y, np.repeat(np.arange(len(sizes)), sizes))


def make_arrays(size: Size, seed: int = 0) -> Arrays:
    """Correlated features, and grades 0 to 3 made from a third of the features and noise."""
    rng = np.random.default_rng(seed)
    m, n, per_query = size[:3]
    ends = np.cumsum(rng.integers(per_query // 2, 3 * per_query // 2 + 1, 2 * m // per_query))
    factors = rng.normal(size=(m, 12)).astype(np.float32)
    X = factors @ (rng.normal(size=(12, n)) / 3.0).astype(np.float32)
    X += rng.normal(size=(m, n)).astype(np.float32)
    weights = np.where(rng.random(n) < 1.0 / 3.0, rng.normal(size=n), 0.0)
    signal = X @ weights
    signal = signal / signal.std() + rng.normal(size=m)
    y = np.digitize(signal, [0.5, 1.5, 2.5]).astype(np.float64)
    return Arrays(X, y, np.concatenate(([0], ends[ends < m], [m])))


def select(n_features: int, dataset: Dataset) -> Selection:
    """Our selection for lambda = 1."""
    return select_paths(dataset, [1.0], SelectionRules(n_features))


def select_by_peer(n_features: int, arrays: Arrays) -> Any:
    """The selection of the peer for lambda = 1."""
    return algorithm_1_blocked(*arrays, n_features, 1.0)


def load_dataset(size: Size) -> Dataset:
    """Make the data in memory, and compile all kernels by a small selection."""
    select(2, make_arrays(Size(2_000, size.n_features, 50, {}, {})).dataset())
    return make_arrays(size).dataset()


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Figures of all sizes and numbers of features."""
    figures = collinear(COLLINEAR, COLLINEAR.n_features * 3 // 4)
    for size in QUICK if options.quick else SIZES:
        arrays = make_arrays(size)
        for n_features in SELECTED:
            figures += speed(size, arrays, n_features, REPEATS)
        for n_features in SELECTED:
            figures += memory(size, arrays.X.nbytes, n_features)
    return figures


def speed(size: Size, arrays: Arrays, n_features: int, rounds: int) -> list[Figure]:
    """Times of both sides, and our time as a multiple of the memory floor."""
    dataset = arrays.dataset()
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"] = select(n_features, dataset)

    def peer() -> None:
        found["peer"] = select_by_peer(n_features, arrays)

    stream = np.ones(BANDWIDTH_BYTES // 8)
    times = interleaved({"ours": ours, PEER: peer, "read": partial(read_all, stream)}, rounds)
    selection, expected = found["ours"], found["peer"]
    [path] = selection.paths
    n_same = sum(a == b for a, b in zip(path.selected, expected.selected, strict=True))
    moved = bytes_moved(arrays, n_features, selection.n_passes)
    floor = Sample(tuple(moved / stream.nbytes * seconds for seconds in times["read"].values))
    difference = np.abs(np.array(path.lqo_error) / expected.errors - 1.0).max()
    at = f"{size}, k = {n_features}"
    return [
        figure(f"time, {at}", times["ours"], "s"),
        figure(f"time of the peer, {at}", times[PEER], "s", peer=PEER),
        figure(
            f"times faster, {at}",
            times[PEER] / times["ours"],
            "x",
            peer=PEER,
            at_least=size.faster.get(n_features),
        ),
        figure(f"picks in common, {at}", n_same, "", peer=PEER, at_least=n_features),
        figure(f"criterion off by, {at}", float(difference), "", peer=PEER, at_most=1e-9),
        figure(f"passes over X, {at}", selection.n_passes, ""),
        figure(f"over the memory floor, {at}", times["ours"] / floor, "x"),
    ]


def collinear_arrays(size: Size, n_base: int) -> Arrays:
    """Base columns of raw units from 1e-3 to 1e9; all others are sums and multiples of these."""
    arrays, rng = make_arrays(size), np.random.default_rng(1)
    X = np.exp(arrays.X.astype(np.float64)) * 10.0 ** rng.uniform(-3.0, 9.0, size.n_features)
    X = X.astype(np.float32)
    for j in range(n_base, size.n_features):
        a, b = rng.choice(n_base, 2, replace=False)
        X[:, j] = X[:, a] * np.float32(1.024) if j % 3 == 0 else X[:, a] + X[:, b]
    return Arrays(X, arrays.y, arrays.query_ptr)


def collinear(size: Size, n_base: int) -> list[Figure]:
    """Time and passes for all features of raw data whose columns depend on each other."""
    dataset, k = collinear_arrays(size, n_base).dataset(), size.n_features
    start = time.perf_counter()
    selection = select(k, dataset)
    seconds, at = time.perf_counter() - start, f"collinear, raw, {size}, k = {k}"
    [path] = selection.paths
    return [
        figure(f"passes a pick, {at}", selection.n_passes / k, "", at_most=1.5),
        figure(f"share by which rounding moves errors, {at}", path.relative_rounding, ""),
        figure(f"time, {at}", seconds, "s"),
    ]


def bytes_moved(arrays: Arrays, n_features: int, n_passes: int) -> int:
    """Bytes that a selection must read and write where X does not fit into the cache.

    The count assumes the least number of updates: one update that goes through all picks.
    """
    row = 8 * (len(arrays.query_ptr) - 1) * arrays.X.shape[1]
    rows_moved, state_moved = 2 * n_features, 2 * 4
    return n_passes * arrays.X.nbytes + row * (rows_moved + state_moved)


def read_all(values: NDArray[np.float64]) -> None:
    """Read an array with as many threads as a selection uses."""
    n_threads = get_executor("threads").n_slots
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(np.max, np.array_split(values, n_threads)))


def memory(size: Size, x_bytes: int, n_features: int) -> list[Figure]:
    """Peak memory above the loaded data, as a multiple of X."""
    at = f"{size}, k = {n_features}"
    ours = peak_memory(partial(load_dataset, size), partial(select, n_features))
    figures = [
        figure(
            f"peak memory over X, {at}",
            ours / x_bytes,
            "x",
            at_most=size.memory.get(n_features),
        )
    ]
    if n_features == SELECTED[-1]:
        # The peer reaches its peak in the first rounds.
        theirs = peak_memory(partial(make_arrays, size), partial(select_by_peer, 2))
        figures.append(
            figure(f"peak memory over X of the peer, {at}", theirs / x_bytes, "x", peer=PEER)
        )
    return figures


if __name__ == "__main__":
    main(measure, parser("Greedy RankRLS against Algorithm 1 of its paper."))
