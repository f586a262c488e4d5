"""Time of RankSVM to its optimum, and of one pass of it against a read of X.

A pass is a product with the second derivative of the objective: X v, two sweeps over the sorted
documents of each query, X' g. Its floor is one read of X, measured in the same rounds. That it
costs O(l log l) for a query of l documents shows where the same documents are grouped into ever
larger queries: the number of pairs grows in proportion to l, the time hardly.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import numpy as np

import dranking as dr
from dranking.data.dataset import Dataset
from dranking.engine.executor import get_executor
from dranking.losses.pairwise import SQUARED_HINGE
from dranking.rankers.pairwise_objective import PairwiseObjective
from pipelines.benchmarks.greedy import Arrays, Size, make_arrays, read_all
from pipelines.benchmarks.harness import Figure, figure, interleaved, main, parser

LAMBDA = 1e-3
SIZES = (Size(70_000, 46, 40, {}, {}), Size(200_000, 136, 50, {}, {}))
QUICK = (Size(7_000, 46, 40, {}, {}),)
QUERY_SIZES = (20, 200, 2_000)


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Solutions at both sizes, and passes over queries of growing size."""
    figures: list[Figure] = []
    for size in QUICK if options.quick else SIZES:
        arrays = make_arrays(size)
        figures += solution(f"{size}", arrays)
        figures += one_pass(f"{size}", arrays)
    return figures + query_growth(make_arrays((QUICK if options.quick else SIZES)[0]))


def solution(at: str, arrays: Arrays) -> list[Figure]:
    """Seconds to the default tolerance, and how far from the optimum that is."""
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


def one_pass(at: str, arrays: Arrays) -> list[Figure]:
    """A pass against one read of X."""
    times = interleaved(
        {"pass": passes_over(arrays.dataset()), "read": partial(read_all, arrays.X)}
    )
    return [
        figure(f"time of a pass, {at}", times["pass"], "s"),
        figure(f"a pass over a read of X, {at}", times["pass"] / times["read"], "x"),
    ]


def query_growth(arrays: Arrays) -> list[Figure]:
    """The same documents in queries of other sizes."""
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
    """A product with the second derivative at weights near the optimum."""
    objective = PairwiseObjective(dataset, LAMBDA, get_executor())
    weights = dr.RankSVM(LAMBDA, tol=1e-2).fit(dataset).coef_
    tangents = objective.at(SQUARED_HINGE, weights).tangents
    return partial(objective.curvature, SQUARED_HINGE, tangents, weights)


if __name__ == "__main__":
    main(measure, parser("RankSVM: time to the optimum, and of a pass."))
