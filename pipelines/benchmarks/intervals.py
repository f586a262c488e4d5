"""Seconds of the interval of a comparison, for queries of equal and of nearly equal weights.

    python -m pipelines.benchmarks.intervals --json [--quick]

Equal weights have sums of their own (`dranking.metrics.comparison.significance._equal_moments`).
Weights that differ by a billionth take the general way, and give the same interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import numpy as np

from dranking.metrics.comparison.significance import mean_test
from pipelines.benchmarks.harness import Figure, figure, interleaved, main, parser

SIZES, QUICK = {1_000: 10_000, 10_000: 10_000, 100_000: 1_000}, {1_000: 1_000}
"""Bootstrap samples of each number of queries."""


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Time of the general way over that of equal weights, for each number of queries."""
    figures = []
    for n, n_resamples in (QUICK if options.quick else SIZES).items():
        rng = np.random.default_rng(0)
        differences, weights = rng.normal(size=n), np.ones(n)
        test = partial(mean_test, differences, n_resamples=n_resamples)
        spent = interleaved(
            {
                "equal": partial(test, weights),
                "nearly equal": partial(test, weights + 1e-9 * rng.random(n)),
            }
        )
        name = f"interval, {n:,} queries, {n_resamples:,} samples"
        figures += [
            figure(f"{name}: equal weights", spent["equal"], "s"),
            figure(
                f"{name}: nearly equal weights over equal ones",
                spent["nearly equal"] / spent["equal"],
                "",
                at_least=1.25,
            ),
        ]
    return figures


if __name__ == "__main__":
    main(measure, parser("Intervals of comparisons, for equal and nearly equal weights."))
