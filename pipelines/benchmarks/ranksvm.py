"""Time of RankSVM to its optimum, against a public solver, and of one pass against a read of X.

The peer is the distributed trust-region Newton rankSVM built on LIBLINEAR (Lee and Lin: Large-scale
linear RankSVM, 2014), run as one process where its program is named (`--tron`). The peer prints the
processor seconds of its solver, without the time of reading the data. Our seconds are counted in
the same way, on one thread. Both solvers stop by their own default, and the benchmark compares the
objectives that they reach.

A pass is a product with the second derivative of the objective: X v, two sweeps over the sorted
documents of each query, and X' g. The floor of a pass is one read of X, measured in the same
rounds. A pass costs O(l log l) for a query of l documents. To show this, the benchmark groups the
same documents into larger and larger queries: the number of pairs grows in proportion to l, the
time hardly grows.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

import dranking as dr
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import ThreadExecutor
from dranking.pairwise.losses import SQUARED_HINGE
from dranking.pairwise.objective import PairwiseObjective
from pipelines.benchmarks.greedy import Arrays, Size, make_arrays, read_all
from pipelines.benchmarks.harness import (
    Figure,
    Sample,
    figure,
    interleaved,
    main,
    parser,
    processor_seconds,
    skipped,
)
from pipelines.benchmarks.pairwise import write_text

LAMBDA = 1e-3
SIZES = (Size(70_000, 46, 40, {}, {}), Size(200_000, 136, 50, {}, {}))
QUICK = (Size(7_000, 46, 40, {}, {}),)
QUERY_SIZES = (20, 200, 2_000)
TRON = "trust-region Newton rankSVM on LIBLINEAR"


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Figures of solutions at both sizes, and of passes over queries of growing size."""
    figures: list[Figure] = []
    for size in QUICK if options.quick else SIZES:
        arrays = make_arrays(size)
        figures += solution(f"{size}", arrays)
        figures += against_tron(f"{size}", arrays, options.tron)
        figures += one_pass(f"{size}", arrays)
    return figures + query_growth(make_arrays((QUICK if options.quick else SIZES)[0]))


def solution(at: str, arrays: Arrays) -> list[Figure]:
    """Seconds to the default tolerance on all cores, and the distance from the optimum there."""
    dataset = arrays.dataset()
    optimum = dr.RankSVM(LAMBDA, tol=1e-9).fit(dataset).objective_
    fitted = dr.RankSVM(LAMBDA).fit(dataset)
    times = interleaved({"ours": lambda: dr.RankSVM(LAMBDA).fit(dataset)})
    return [
        figure(f"time to the optimum, {at}", times["ours"], "s"),
        figure(f"Newton steps, {at}", fitted.n_iter_, ""),
        figure(f"objective above the optimum, {at}", fitted.objective_ / optimum - 1, "",
               at_most=1e-4),
    ]  # fmt: skip


def against_tron(at: str, arrays: Arrays, tron: str | None) -> list[Figure]:
    """Seconds of one core and the objective, against those of the peer."""
    over, gap = f"time over the peer's, one core, {at}", f"objective off the peer's, {at}"
    if not tron:
        why = "the program of the peer is not there; name the program with --tron"
        return [
            skipped(over, "x", why, peer=TRON, target=1.5),
            skipped(gap, "", why, peer=TRON, target=1e-4),
        ]
    dataset, core = arrays.dataset(), ThreadExecutor(1)
    fitted = dr.RankSVM(LAMBDA).fit(dataset)
    found: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        text = write_text(arrays, Path(folder, "train.txt"))
        times = interleaved(
            {
                "ours": lambda: dr.RankSVM(LAMBDA).fit(dataset, executor=core),
                TRON: lambda: found.append(run_tron(tron, text, fitted.n_pairs_)),
            },
            clock=processor_seconds,
        )
    theirs = Sample(tuple(seconds for seconds, _ in found[1:]))  # without the warm-up
    objective = found[-1][1]
    return [
        figure(f"processor time to the optimum, one core, {at}", times["ours"], "s"),
        figure(f"processor time of the peer, {at}", theirs, "s", peer=TRON),
        figure(over, times["ours"] / theirs, "x", peer=TRON, at_most=1.5),
        figure(gap, abs(fitted.objective_ / objective - 1), "", peer=TRON, at_most=1e-4),
    ]


def run_tron(program: str, text: Path, n_pairs: float) -> tuple[float, float]:
    """Train with the peer; return the seconds of its solver and its objective in our terms.

    The peer minimises ``|w|^2 / 2 + C sum of squared hinges``. With C = 1 / (lambda n_pairs), this
    is our objective divided by lambda.
    """
    cost = 1.0 / (LAMBDA * n_pairs)
    command = [program, "-c", repr(cost), str(text), str(text.with_suffix(".model"))]
    log = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return (
        float(re.findall(r"total_sec\s*=\s*(\S+)", log)[-1]),
        LAMBDA * float(re.findall(r"\bf\s+(\S+)", log)[-1]),
    )


def one_pass(at: str, arrays: Arrays) -> list[Figure]:
    """Figures of a pass against one read of X."""
    times = interleaved(
        {"pass": passes_over(arrays.dataset()), "read": partial(read_all, arrays.X)}
    )
    return [
        figure(f"time of a pass, {at}", times["pass"], "s"),
        figure(f"a pass over a read of X, {at}", times["pass"] / times["read"], "x"),
    ]


def query_growth(arrays: Arrays) -> list[Figure]:
    """Figures of passes over the same documents in queries of other sizes."""
    m = len(arrays.y)
    passes, n_pairs = {}, {}
    for size in QUERY_SIZES:
        dataset = Arrays(arrays.X, arrays.y, np.append(np.arange(0, m, size), m)).dataset()
        passes[str(size)] = passes_over(dataset)
        n_pairs[str(size)] = PairwiseObjective(dataset, LAMBDA, get_executor()).n_pairs
    times = interleaved(passes)
    first = str(QUERY_SIZES[0])
    return [
        row
        for size in map(str, QUERY_SIZES[1:])
        for row in (
            figure(
                f"pairs, queries of {size} against {first}", n_pairs[size] / n_pairs[first], "x"
            ),
            figure(f"time, queries of {size} against {first}", times[size] / times[first], "x"),
        )
    ]


def passes_over(dataset: Dataset) -> partial[object]:
    """A call that multiplies by the second derivative at weights near the optimum."""
    objective = PairwiseObjective(dataset, LAMBDA, get_executor())
    weights = dr.RankSVM(LAMBDA, tol=1e-2).fit(dataset).coef_
    tangents = objective.at(SQUARED_HINGE, weights).tangents
    return partial(objective.curvature, SQUARED_HINGE, tangents, weights)


def options() -> argparse.ArgumentParser:
    """The parser of the command line."""
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--tron", metavar="PROGRAM", help="the peer's training program")
    return options


if __name__ == "__main__":
    main(measure, options())
