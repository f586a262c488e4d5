"""Selections over sparse data: seconds, memory, and the same results as over dense data.

The floor of a round is a pass that sums the moments of the features over all queries. This pass
reads each nonzero and finds the mean and the spread of each feature in each query where the feature
occurs, as every round must. Beyond the floor, a round computes the scores: one number for each
query and candidate.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.dataset import Dataset
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.choose_executor import get_executor
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.moments import TotalMoments
from dranking.rankrls.greedy.path import Selection, SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out.memory_plan import plan_memory
from pipelines.benchmarks.harness import Figure, Sample, figure, interleaved, peak_memory

DENSE = "the same selection over dense data"
SPARE_BYTES = 500_000_000
BYTES_PER_NONZERO = 8  # a float32 and its column


class Size(NamedTuple):
    """The size of a made data set, its selection, and the columns of the dense comparison."""

    n_documents: int
    n_features: int
    density: float
    documents_per_query: int
    k: int
    candidates: int
    n_columns: int

    def __str__(self) -> str:
        return f"{self.n_documents:,} x {self.n_features:,} at {self.density:.1%}, k = {self.k}"


FULL = Size(200_000, 20_000, 0.005, 50, 10, 2_000, 250)
QUICK = Size(6_000, 2_000, 0.02, 20, 4, 200, 40)


class SparseArrays(NamedTuple):
    """Ranking data with features as a CSR array."""

    X: sparse.csr_array
    y: NDArray[np.float64]
    qid: NDArray[np.int64]

    def dataset(self) -> Dataset:
        """These arrays as query blocks."""
        return from_arrays(*self)


def make_arrays(size: Size, seed: int = 0) -> SparseArrays:
    """Values are nonzero with one probability; grades come from a twentieth of the features."""
    rng = np.random.default_rng(seed)
    m, n = size.n_documents, size.n_features
    expected = m * n * size.density
    gaps = rng.geometric(size.density, int(expected + 8.0 * np.sqrt(expected)) + 8)
    places = np.cumsum(gaps) - 1
    places = places[places < m * n]
    indptr = np.searchsorted(places, n * np.arange(m + 1))
    data = rng.exponential(size=len(places)).astype(np.float32)
    X = sparse.csr_array((data, (places % n).astype(np.int32), indptr), shape=(m, n))
    weights = np.where(rng.random(n) < 0.05, rng.normal(size=n), 0.0)
    signal = X @ weights
    signal = signal / signal.std() + rng.normal(size=m)
    y = np.digitize(signal, [0.5, 1.5, 2.5]).astype(np.float64)
    return SparseArrays(X, y, np.arange(m) // size.documents_per_query)


def select(k: int, candidates: int | None, dataset: Dataset) -> Selection:
    """A selection of k features for lambda = 1."""
    return select_paths(dataset, [1.0], SelectionRules(k, candidates=candidates))


def sum_moments(dataset: Dataset) -> None:
    """Sum the moments in one pass."""
    TotalMoments(Tiles(dataset, get_executor("threads")))


def load_dataset(size: Size) -> Dataset:
    """Make the data in memory, and compile all kernels by a small selection."""
    select(2, None, make_arrays(QUICK).dataset())
    return make_arrays(size).dataset()


def figures(quick: bool, rounds: int = 3) -> dict[str, Figure]:
    """Figures of speed and memory, and equality with dense data on some columns."""
    size = QUICK if quick else FULL
    arrays = make_arrays(size)
    found = [*speed(size, arrays.dataset(), rounds), *equality(size, arrays)]
    n_nonzeros = arrays.X.nnz
    del arrays
    found += memory(size, n_nonzeros)
    return {item.name: item for item in found}


def speed(size: Size, dataset: Dataset, rounds: int) -> list[Figure]:
    """Seconds of a selection with all candidates, with random candidates, and of the floor."""
    passes: dict[int | None, int] = {}

    def run(candidates: int | None) -> None:
        passes[candidates] = select(size.k, candidates, dataset).n_passes

    drawn = f"{size.candidates:,} candidates"
    asked = {"all candidates": None, drawn: size.candidates}
    times = interleaved(
        {"moments": partial(sum_moments, dataset)}
        | {name: partial(run, candidates) for name, candidates in asked.items()},
        rounds,
    )
    rows = []
    for name, candidates in asked.items():
        at = f"{name}, {size}"
        floor = Sample(tuple(passes[candidates] * one for one in times["moments"].values))
        rows += [
            figure(f"time, {at}", times[name], "s"),
            figure(f"passes over X, {at}", passes[candidates], ""),
            figure(f"over the floor of its passes, {at}", times[name] / floor, "x"),
        ]
    return rows


def memory(size: Size, n_nonzeros: int) -> list[Figure]:
    """Peak memory above the process and the loaded data."""
    allowed = 4 * BYTES_PER_NONZERO * n_nonzeros + SPARE_BYTES
    state = 8 * (size.n_documents // size.documents_per_query) * size.n_features
    rows = []
    for name, candidates in (("all", None), (f"{size.candidates:,}", size.candidates)):
        peak = peak_memory(partial(load_dataset, size), partial(select, size.k, candidates))
        at = f"{name} candidates, {size}"
        rows += [
            figure(f"peak memory, {at}", peak / 1e6, "MB", at_most=allowed / 1e6),
            figure(
                f"peak memory over one array of queries x features, {at}",
                peak / state,
                "x",
                at_most=0.5
                if state > SPARE_BYTES
                else None,  # for small data the process itself counts
            ),
        ]
    return rows


def equality(size: Size, arrays: SparseArrays) -> list[Figure]:
    """Figures of a selection from the most frequent columns, sparse against dense."""
    frequency = np.bincount(arrays.X.indices, minlength=size.n_features)
    columns = np.sort(np.argsort(-frequency, kind="stable")[: size.n_columns])
    part = arrays.X[:, columns]
    sparse_part = arrays._replace(X=part).dataset()
    dense_part = from_arrays(part.toarray(), arrays.y, arrays.qid)
    plan = plan_memory(sparse_part, 1, size.k, get_executor("threads"), None)
    [ours] = select(size.k, None, sparse_part).paths
    [dense] = select(size.k, None, dense_part).paths
    n_same = sum(a == b for a, b in zip(ours.selected, dense.selected, strict=True))
    off = np.abs(np.array(ours.lqo_error) / np.array(dense.lqo_error) - 1.0).max()
    at = f"{size.n_columns} columns of {size}"
    return [
        figure(f"runs without a state per query, {at}", float(plan.n_states == 0), "", at_least=1),
        figure(f"picks in common, {at}", n_same, "", peer=DENSE, at_least=size.k),
        figure(f"criterion off by, {at}", float(off), "", peer=DENSE, at_most=1e-9),
    ]
