"""Processor time of numerical certificates, as a share of the fits that they certify.

    python -m pipelines.benchmarks.certificates --json [--quick]

Every fit is timed together with the functions that serve its certificate alone, in the same run, so
that what slows the machine down slows both. A function that tasks call counts the processor time of
its thread; a function of the driver counts that of the process, and with it that of its tasks. One
line of a compiled loop, which keeps the least Schur complement of a candidate beside its score, is
timed apart: the loop with and without this line, times the number of calls of the fit. So is the
bound of rounding in the sum of the losses of pairs, as a share of that sum.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dranking as dr
from dranking.data.dataset import Dataset
from dranking.kernels.machine.compile import frozen, kernel
from dranking.max_margin.losses import listwise
from dranking.pairwise import hinge, minimise, pair_blocks
from dranking.pairwise.kernels.differences import Rows, as_rows, dot, subtract
from dranking.pairwise.kernels.sgd import HINGE, Batch, loss_and_slope, pair_losses
from dranking.rankrls import checked_weights, grid_errors, normal_equations
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.greedy import forward
from dranking.rankrls.kernels.lqo.state import add_scores
from dranking.rankrls.leave_query_out import dense
from pipelines.benchmarks.greedy import Size, make_arrays
from pipelines.benchmarks.harness import (
    REPEATS,
    Figure,
    Sample,
    figure,
    interleaved,
    main,
    note,
    parser,
)

Array = NDArray[np.float64]

SIZE, QUICK = Size(200_000, 136, 50, {}, {}), Size(3_000, 20, 50, {}, {})
SELECTED = 10
LAMBDAS = tuple(2.0**power for power in range(-15, 16, 5))
LARGEST_SHARE = 0.03
N_CALLS = 500
"""Calls of `pair_losses` that are timed together."""


class Part(NamedTuple):
    """A function that serves a certificate alone.

    Attributes
    ----------
    owner, name
        Module or class, and the name there by which the function is called.
    in_tasks
        Whether tasks call it, rather than the driver.
    """

    owner: Any
    name: str
    in_tasks: bool = False


GREEDY = (
    Part(forward, "settled"),
    Part(forward.ForwardSearch, "certify"),
    Part(dense, "squared_losses", in_tasks=True),
)
GRID = (
    Part(grid_errors, "moved_residuals", in_tasks=True),
    Part(grid_errors, "products_of_rows", in_tasks=True),
    Part(grid_errors, "moved_errors"),
    Part(grid_errors, "share_of_exact"),
    Part(normal_equations.DirectSolver, "check"),
    Part(checked_weights, "exact_weights"),  # computes the weights too
)
RIDGE = (Part(normal_equations.DirectSolver, "check"),)
LOSSES = (Part(pair_blocks, "pair_losses", in_tasks=True),)
LISTS = (Part(listwise, "_rounding_of_list", in_tasks=True),)
GAP = (Part(minimise._Scaled, "gap"), Part(hinge, "corner_of"))


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """The share of each fit's certificate."""
    size = QUICK if options.quick else SIZE
    documents = make_arrays(size).dataset()
    n_queries = sum(block.n_queries for block in documents.blocks)
    with tempfile.TemporaryDirectory() as folder:
        store = build_statistics(documents, Path(folder, "store"))
        greedy = dr.GreedyRankRLS(SELECTED)
        fits: list[tuple[str, Any, Dataset, tuple[Part, ...]]] = [
            ("GreedyRankRLS", greedy, documents, GREEDY),
            ("GreedyRankRLS, statistics", greedy, store, GREEDY),
            ("RankRLS", dr.RankRLS(), documents, RIDGE),
            ("RankRLSCV", dr.RankRLSCV(LAMBDAS), documents, GRID),
            ("RankRLSCV, statistics", dr.RankRLSCV(LAMBDAS), store, GRID),
            ("RankSVM", dr.RankSVM(), documents, GAP),
            ("RankSVM with hinges", dr.RankSVM(loss="hinge"), documents, GAP),
            ("SPD", dr.SPD(), documents, LOSSES),
            ("steps on lists", dr.MaxMarginRanker(solver="sgd"), documents, LISTS),
        ]
        line = line_of_scores(size.n_features, n_queries * SELECTED)
        bound = share_of_bound(size.n_features)
        rows = []
        for name, ranker, dataset, parts in fits:
            extra = line if parts is GREEDY else 0.0
            counted = bound if parts is LOSSES else 1.0
            share, seconds = share_of(lambda r=ranker, d=dataset: r.fit(d), parts, extra, counted)
            rows += [
                figure(f"certificate, {name}, {size}", share, "of the fit", at_most=LARGEST_SHARE),
                figure(f"processor time of the fit, {name}, {size}", seconds, "s"),
            ]
    return rows


def share_of(
    fit: Callable[[], object], parts: Sequence[Part], extra: float = 0.0, counted: float = 1.0
) -> tuple[Sample, Sample]:
    """Processor seconds of parts of a fit, plus `extra`, over those of the fit; those of the fit.

    The share `counted` of the parts serves the certificate. One call before the rounds compiles.
    """
    fit()
    shares, seconds = [], []
    for number in range(REPEATS):
        with timed(parts) as spent:
            start = time.process_time()
            fit()
            seconds.append(time.process_time() - start)
        shares.append((counted * sum(spent) + extra) / seconds[-1])
        note(f"round {number + 1} of {REPEATS}: {shares[-1]:.5f} of {seconds[-1]:.3f} s")
    return Sample(tuple(shares)), Sample(tuple(seconds))


@contextmanager
def timed(parts: Sequence[Part]) -> Iterator[list[float]]:
    """A list that receives the processor seconds of every outermost call of the parts."""
    spent: list[float] = []
    here = threading.local()
    with ExitStack() as stack:
        for part in parts:
            original = getattr(part.owner, part.name)
            clock = time.thread_time if part.in_tasks else time.process_time
            setattr(part.owner, part.name, _watched(original, clock, spent, here))
            stack.callback(setattr, part.owner, part.name, original)
        yield spent


def _watched(
    function: Callable[..., Any],
    clock: Callable[[], float],
    spent: list[float],
    here: threading.local,
) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if getattr(here, "is_inside", False):
            return function(*args, **options)
        here.is_inside, start = True, clock()
        try:
            return function(*args, **options)
        finally:
            spent.append(clock() - start)
            here.is_inside = False

    return call


def line_of_scores(n_features: int, n_calls: int) -> float:
    """Processor seconds of the line for the certificate in so many calls of `add_scores`."""
    rng = np.random.default_rng(0)
    state, scores = rng.random((4, n_features)) + 1.0, np.zeros(n_features + 1)
    least = np.full(n_features, np.inf)

    times = interleaved(
        {
            "with": lambda: _repeat_scores(state, scores, least, n_calls),
            "without": lambda: _repeat_bare_scores(state, scores, n_calls),
        },
        clock=time.process_time,
    )
    return max(times["with"].median - times["without"].median, 0.0)


def share_of_bound(n_features: int) -> float:
    """Share of the bound of rounding in the processor time of `pair_losses`.

    Of 1,000 pairs, a quarter is bounded; of the pairs of larger blocks, fewer are.
    """
    rng, n_pairs = np.random.default_rng(0), 1_000
    rows = as_rows(rng.random((5_000, n_features), dtype=np.float32))
    better, worse = rng.integers(0, 5_000, (2, n_pairs))
    batch = Batch(better, worse, np.ones(n_pairs))
    masses, weights = np.ones(n_pairs), frozen(np.ones(n_features))

    def repeat(losses: Callable[..., object]) -> None:
        for _ in range(N_CALLS):
            losses(rows, batch, masses, HINGE, weights, weights)

    times = interleaved(
        {"with": lambda: repeat(pair_losses), "without": lambda: repeat(_bare_pair_losses)},
        clock=time.process_time,
    )
    return max(1.0 - times["without"].median / times["with"].median, 0.0)


@kernel
def _bare_pair_losses(
    rows: Rows, batch: Batch, masses: Array, loss: int, weights: Array, sizes: Array
) -> tuple[float, float]:
    """`pair_losses` without the bound."""
    losses, without = 0.0, 0.0
    for k in range(len(batch.better)):
        n = subtract(rows, batch.better[k], batch.worse[k])
        value, _ = loss_and_slope(loss, batch.labels[k], dot(rows, 0, n, weights))
        losses += masses[k] * value
        value, _ = loss_and_slope(loss, batch.labels[k], 0.0)
        without += masses[k] * value
    return losses, without


@kernel
def _repeat_scores(state: Array, scores: Array, least: Array, n_calls: int) -> None:
    for _ in range(n_calls):
        add_scores(state, 1.0, scores, least)


@kernel
def _repeat_bare_scores(state: Array, scores: Array, n_calls: int) -> None:
    for _ in range(n_calls):
        _add_bare_scores(state, 1.0, scores)


@kernel
def _add_bare_scores(state: Array, error: float, scores: Array) -> None:
    """`add_scores` without the line that finds the least Schur complement of each candidate."""
    s, r, u, v = state[0], state[1], state[2], state[3]
    for i in range(len(s)):
        a = np.divide(r[i], s[i])
        scores[i] += error - 2.0 * a * u[i] + a * a * v[i]
    scores[len(s)] += error


if __name__ == "__main__":
    main(measure, parser(__doc__.splitlines()[0]))
