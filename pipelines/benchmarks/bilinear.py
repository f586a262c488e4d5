"""Speed and memory of the bilinear steps against the eager algorithm on a dense W, one core.

The documents are those of 20 Newsgroups, as in the reproduction. Both sides continue from the same
W, after some thousand steps, with the same tuples. Only the steps are timed, in processor time; a
timed call takes enough steps that the contents of the caches at its start hardly matter. The peer
keeps W as one dense float32 array, adds to it in place and shrinks all of it every T steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.bilinear.kernels.shrinkage import entrywise
from dranking.bilinear.kernels.sparse_weights import SparseWeights
from dranking.bilinear.kernels.steps import BilinearRun, Steps, frequent_first
from dranking.bilinear.kernels.window import Tuples
from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.texts.make_collection import collection
from dranking.bilinear.texts.preferences import SameClass, same_class
from dranking.bilinear.tuples import tuple_sampler
from dranking.errors import DataError
from dranking.kernels.machine.compile import kernel
from dranking.pairwise.kernels.differences import subtract_sparse
from dranking.rankrls.kernels.gram.sparse import Csr, csr_of
from pipelines.benchmarks.harness import (
    Figure,
    figure,
    interleaved,
    main,
    parser,
    processor_seconds,
    skipped,
)
from pipelines.reproduce.bilinear.corpora import newsgroups

STEPS = Steps(learning_rate=200.0, constant=False, regularization=1e-5, period=100, grows=True)
PEER = "eager dense algorithm, numba"
WARM_UP = 4_000
TIMED = 2_000
AGAINST_DENSE = ((10_000, 1.0), (30_000, 5.0))
FLAT = (10_000, 100_000)
FLAT_WORDS = 64
QUICK_AGAINST_DENSE = ((1_000, 1.0), (3_000, 5.0))
QUICK_FLAT = (1_000, 5_000)


class Steppers:
    """Steps of this project and of the peer, from the same W and on the same tuples."""

    def __init__(self, documents: Collection) -> None:
        preferences: SameClass = same_class(documents)
        self._sampler = tuple_sampler(preferences)
        self._documents = documents.vectors
        n_words = documents.n_words
        start = sparse.eye_array(n_words, format="csr", dtype=np.float32)
        self.weights = SparseWeights(start, order=frequent_first(self._documents))
        self._run = BilinearRun(self.weights, STEPS, entrywise(n_words))
        self._run.take(self._documents, self._documents, self._draw(0, WARM_UP))
        self._round = {"ours": 0, "peer": 0}

    def ours(self) -> None:
        """Take the next steps of this project."""
        self._run.take(self._documents, self._documents, self._next("ours"))

    def peer(self) -> Callable[[], None]:
        """Return a function that takes the peer's next steps, from this project's current W."""
        W = self.weights.to_csr().toarray()
        longest = 2 * int(np.diff(self._documents.indptr).max())
        room = np.empty(longest, dtype=np.int32), np.empty(longest)
        vectors = csr_of(self._documents)
        t = WARM_UP

        def take() -> None:
            nonlocal t
            t = eager_steps(W, vectors, self._next("peer"), STEPS, t, *room)

        return take

    def _next(self, side: str) -> Tuples:
        self._round[side] += 1
        return self._draw(self._round[side], TIMED)

    def _draw(self, key: int, n: int) -> Tuples:
        return self._sampler.draw(np.random.default_rng(key), n)


@kernel
def eager_steps(
    W: NDArray[np.float32],
    documents: Csr,
    tuples: Tuples,
    steps: Steps,
    t: int,
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
) -> int:
    """Take steps on a dense W, shrunk as a whole after every period; return the number of steps."""
    rates = 0.0
    for k in range(len(tuples.query)):
        n = subtract_sparse(documents, tuples.better[k], tuples.worse[k], columns, values)
        first, last = documents.indptr[tuples.query[k]], documents.indptr[tuples.query[k] + 1]
        margin = 0.0
        for i in range(first, last):
            row, product = W[documents.indices[i]], 0.0
            for j in range(n):
                product += row[columns[j]] * values[j]
            margin += documents.data[i] * product
        t += 1
        eta = steps.learning_rate / np.sqrt(t)
        rates += eta
        if margin < 1.0:
            for i in range(first, last):
                row, c = W[documents.indices[i]], eta * documents.data[i]
                for j in range(n):
                    row[columns[j]] += c * values[j]
        if t % steps.period == 0:
            shrink(W.reshape(-1), np.float32(steps.regularization * rates))
            rates = 0.0
    return t


@kernel
def shrink(values: Any, threshold: Any) -> None:
    """Soft-threshold values in place."""
    zero = np.float32(0.0)
    for i in range(len(values)):
        values[i] = max(values[i] - threshold, zero) + min(values[i] + threshold, zero)


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Measure speed against the dense algorithm, and with ten times as many words."""
    try:
        return measured(options)
    except DataError as error:
        names = [f"times the speed, D = {n:,}" for n, _ in AGAINST_DENSE]
        return [skipped(name, "x", str(error), peer=PEER) for name in names]


def measured(options: argparse.Namespace) -> Sequence[Figure]:
    """Return all figures."""
    figures: list[Figure] = []
    for n_words, target in QUICK_AGAINST_DENSE if options.quick else AGAINST_DENSE:
        figures += against_dense(newsgroups(options.data, n_words).train, target)
    few, many = QUICK_FLAT if options.quick else FLAT
    sides = {str(n): Steppers(short(newsgroups(options.data, n).train)) for n in (few, many)}
    alternatives = {name: side.ours for name, side in sides.items()}
    times = interleaved(alternatives, clock=processor_seconds)
    name = f"time of a step, D = {many:,} against {few:,}, {FLAT_WORDS} words a document"
    return [*figures, figure(name, times[str(many)] / times[str(few)], "x", at_most=1.5)]


def against_dense(documents: Collection, target: float) -> list[Figure]:
    """Return the speed against the dense algorithm, and the bytes of W."""
    steppers = Steppers(documents)
    alternatives = {"ours": steppers.ours, "peer": steppers.peer()}
    times = interleaved(alternatives, clock=processor_seconds)
    at = f"D = {documents.n_words:,}"
    weights = steppers.weights
    stored = weights.to_csr()
    share = len(stored.data) / int(np.count_nonzero(stored.data))
    is_asked = documents.n_words == AGAINST_DENSE[0][0]
    return [
        figure(f"microseconds a step, {at}", times["ours"] / _steps(times["ours"]), "us"),
        figure(f"times the speed, {at}", times["peer"] / times["ours"], "x", peer=PEER,
               at_least=target),
        figure(f"bytes an entry, {at}", weights.nbytes / weights.n_stored, "B",
               at_most=20 if is_asked else None),
        figure(f"entries stored per nonzero, {at}", share, "x", at_most=1.25),
        figure(f"megabytes of W at most, {at}", weights.peak_bytes / 1e6, "MB",
               at_most=154 if is_asked else None),
    ]  # fmt: skip


def _steps(sample: Any) -> Any:
    """Return the number of timed steps in millions, once for each value of a sample."""
    return type(sample)((TIMED / 1e6,) * len(sample.values))


def short(documents: Collection) -> Collection:
    """Return the documents with at least `FLAT_WORDS` words, cut to that many random words."""
    rng = np.random.default_rng(0)
    vectors = documents.vectors
    rows = np.flatnonzero(np.diff(vectors.indptr) >= FLAT_WORDS)
    kept = np.concatenate(
        [
            np.sort(rng.choice(np.arange(a, b), FLAT_WORDS, replace=False))
            for a, b in zip(vectors.indptr[rows], vectors.indptr[rows + 1], strict=True)
        ]
    )
    indptr = FLAT_WORDS * np.arange(len(rows) + 1)
    parts = vectors.data[kept], vectors.indices[kept], indptr
    chosen = sparse.csr_array(parts, shape=(len(rows), documents.n_words))
    lengths = np.sqrt(chosen.power(2).sum(axis=1))
    chosen.data /= np.repeat(lengths, FLAT_WORDS)
    return collection(chosen, labels=documents.classes[rows])


if __name__ == "__main__":
    main(measure, parser("Speed and memory of bilinear steps against the eager dense algorithm."))
