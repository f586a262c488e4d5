"""How often intervals of a mean difference cover it, for few and many queries.

    python -m pipelines.reproduce.intervals [--samples N] [--resamples N] [--json]

A comparison of two rankers is a mean of differences over queries. The study draws samples of n
differences from distributions of known mean, makes 95 % intervals of each sample in five ways, and
counts the samples whose interval contains the mean. An interval that cannot be made counts as one
that does not contain the mean. `dranking.metrics.comparison.significance.mean_interval`, which
commands and gate use, is the symmetric bootstrap-t. A second table has its coverage for queries of
different weights, and a third table says how often Student's one-sided test rejects a mean of 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.cli.output import print_json, print_table
from dranking.metrics.comparison.significance import (
    degrees_of_freedom,
    effective_queries,
    mean_interval,
)
from pipelines.script import run_script

Array = NDArray[np.float64]

CONFIDENCE = 0.95
SIZES = (5, 10, 20, 50, 100, 200)
SEED = 2


class Distribution(NamedTuple):
    """A distribution of differences: its name, its mean, and a function that draws from it."""

    name: str
    mean: float
    draw: Callable[[np.random.Generator, tuple[int, int]], Array]


def _tied(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.where(rng.random(shape) < 0.8, 0.0, rng.normal(0.5, 1.0, shape))


def _discrete(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.choice([-0.2, 0.0, 0.2, 0.4, 1.0], shape, p=[0.2, 0.4, 0.2, 0.15, 0.05])


DISTRIBUTIONS = (
    Distribution("normal", 0.0, lambda rng, shape: rng.normal(size=shape)),
    Distribution("skewed", 0.5, lambda rng, shape: rng.gamma(0.5, size=shape)),
    Distribution("discrete", 0.11, _discrete),
    Distribution("tied", 0.1, _tied),
)
"""Gaussian; gamma of shape 1/2, whose skewness is 2.8; five values, as differences of P@5 have;
Gaussian around 1/2 for a fifth of the queries and 0 for the others."""

WEIGHTS: Mapping[str, Callable[[np.random.Generator, int], Array]] = {
    "ranks": lambda rng, n: 1.0 / np.arange(1.0, n + 1.0),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "one": lambda rng, n: np.append(np.ones(n - 1), 1000.0),
}
"""Weights of n queries: 1 / i for query i, exponentials of Gaussians of deviation 1, and one query
that weighs as much as 1,000 others."""

LEVELS = (0.05, 0.005, 0.0005)
"""Levels of the one-sided tests."""

REJECTION_CELLS = (
    ("equal", 20),
    ("ranks", 20),
    ("ranks", 200),
    ("lognormal", 50),
    ("lognormal", 200),
    ("one", 50),
)
"""Weights and numbers of queries of the one-sided tests."""


class Row(NamedTuple):
    """Coverage of one kind of interval.

    Attributes
    ----------
    distribution, n_queries, method
        What was drawn, how many differences at a time, and the kind of interval.
    coverage
        Share of the samples whose interval contains the mean of the distribution.
    width
        Median over the samples of the width over the width of Student's interval.
    none
        Share of the samples without an interval, or with one of width 0.
    """

    distribution: str
    n_queries: int
    method: str
    coverage: float
    width: float
    none: float


class RejectionRow(NamedTuple):
    """Rejections of a mean of 0 by Student's one-sided test on Gaussian differences of mean 0.

    Attributes
    ----------
    weights, n_queries, n_effective
        Kind of weights, number of queries, and `effective_queries` of the weights.
    ratios
        For each level of `LEVELS`, the share of rejections over the level, with n - 1 degrees of
        freedom and with `degrees_of_freedom`.
    """

    weights: str
    n_queries: int
    n_effective: float
    ratios: tuple[tuple[float, float], ...]


class WeightedRow(NamedTuple):
    """Coverage of `mean_interval` for queries of different weights.

    Attributes
    ----------
    weights, distribution, n_queries
        What was drawn, and how many differences at a time.
    n_effective
        Median over the samples of `effective_queries`.
    coverage
        Share of the samples whose interval contains the mean of the distribution.
    """

    weights: str
    distribution: str
    n_queries: int
    n_effective: float
    coverage: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and print its table."""
    options = parse_arguments(arguments)
    rows = list(study(options.samples, options.resamples))
    weighted = list(weighted_study(options.samples, options.resamples))
    rejections = list(rejection_study(200 * options.samples))
    if options.json:
        found = {"rows": rows, "weighted": weighted, "rejections": rejections}
        tables = {name: [row._asdict() for row in table] for name, table in found.items()}
        print_json({"confidence": CONFIDENCE, **tables})
    else:
        print_rows(rows)
        print_weighted(weighted)
        print_rejections(rejections)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the script."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.intervals",
        description=(__doc__ or "").split("\n", 1)[0],
    )
    parser.add_argument("--samples", type=int, default=2000, help="samples of each cell")
    parser.add_argument("--resamples", type=int, default=1000, help="bootstrap samples of each")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    return parser.parse_args(arguments)


def study(n_samples: int, n_resamples: int) -> Iterator[Row]:
    """Yield the rows of all distributions and sizes."""
    for distribution in DISTRIBUTIONS:
        for n in SIZES:
            samples = distribution.draw(np.random.default_rng((SEED, n)), (n_samples, n))
            found = [intervals(sample, n_resamples, seed) for seed, sample in enumerate(samples)]
            student = np.array([each["t"] for each in found])
            for method in found[0]:
                ends = np.array([each[method] for each in found])
                yield _row(distribution, n, method, ends, student)


def weighted_study(n_samples: int, n_resamples: int) -> Iterator[WeightedRow]:
    """Yield the rows of all kinds of weights, distributions and sizes from 20 on."""
    for name, draw in WEIGHTS.items():
        for distribution in DISTRIBUTIONS:
            for n in SIZES[2:]:
                rng = np.random.default_rng((SEED, n))
                covers, effective = np.zeros(n_samples), np.zeros(n_samples)
                for i in range(n_samples):
                    weights = draw(rng, n)
                    sample = distribution.draw(rng, (1, n))[0]
                    low, high = mean_interval(
                        sample, weights, seed=i, n_resamples=n_resamples, confidence=CONFIDENCE
                    )
                    covers[i] = low <= distribution.mean <= high
                    effective[i] = effective_queries(weights)
                size = float(np.median(effective))
                yield WeightedRow(name, distribution.name, n, size, float(covers.mean()))


def rejection_study(n_samples: int) -> Iterator[RejectionRow]:
    """Yield the rows of equal weights and of all kinds of weights, one draw of weights for each."""
    equal = {"equal": lambda rng, n: np.ones(n)}
    for name, n in REJECTION_CELLS:
        rng = np.random.default_rng((SEED, n))
        weights = (equal | WEIGHTS)[name](rng, n)
        shares = weights / weights.sum()
        t = np.concatenate([_t_values(rng, shares, rows) for rows in _batches(n_samples)])
        n_effective = effective_queries(weights)
        degrees = (n - 1, degrees_of_freedom(n_effective))
        ratios = tuple(
            tuple(float((special.stdtr(d, -t) < level).mean() / level) for d in degrees)
            for level in LEVELS
        )
        yield RejectionRow(name, n, n_effective, ratios)


def _t_values(rng: np.random.Generator, shares: Array, n_samples: int) -> Array:
    """Student's t of samples of Gaussian differences, with the jackknife error."""
    n = len(shares)
    samples = rng.normal(size=(n_samples, n))
    mean = samples @ shares
    moves = shares / (1.0 - shares) * (samples - mean[:, None])
    t: Array = mean / np.sqrt((n - 1) / n * np.square(moves).sum(axis=1))
    return t


def _batches(n_samples: int) -> Iterator[int]:
    for start in range(0, n_samples, 20_000):
        yield min(20_000, n_samples - start)


def _row(distribution: Distribution, n: int, method: str, ends: Array, student: Array) -> Row:
    """Coverage and width from the (n_samples, 2) ends of two kinds of intervals."""
    low, high = ends.T
    mean = distribution.mean
    covers = (low <= mean + 1e-12) & (mean - 1e-12 <= high)
    usable = high > low
    widths = (high - low)[usable] / np.ptp(student, axis=1)[usable]
    width = float(np.median(widths)) if usable.any() else np.nan
    return Row(distribution.name, n, method, float(covers.mean()), width, float(1 - usable.mean()))


def intervals(sample: Array, n_resamples: int, seed: int) -> Mapping[str, tuple[float, float]]:
    """Ends of five intervals of the mean of a sample; the bootstrap ones share nothing but a seed.

    Efron and Tibshirani, An introduction to the bootstrap, 1993, chapters 12 to 14.
    """
    n, mean = len(sample), float(sample.mean())
    error = float(sample.std(ddof=1)) / np.sqrt(n)
    half = float(special.stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * error
    drawn = sample[np.random.default_rng(seed).integers(0, n, size=(n_resamples, n))]
    means, errors = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / np.sqrt(n)
    tails = np.array([0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    moved = errors > 1e-12
    t = np.quantile((means[moved] - mean) / errors[moved], tails) if moved.any() else np.zeros(2)
    symmetric = mean_interval(
        sample, np.ones(n), seed=seed, n_resamples=n_resamples, confidence=CONFIDENCE
    )
    return {
        "percentile": _ends(np.quantile(means, tails)),
        "t": (mean - half, mean + half),
        "BCa": _ends(np.quantile(means, _bca_levels(sample, means, tails))),
        "bootstrap-t": (mean - float(t[1]) * error, mean - float(t[0]) * error),
        "symmetric bootstrap-t": symmetric,
    }


def _ends(pair: Array) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


def _bca_levels(sample: Array, means: Array, tails: Array) -> Array:
    """Quantiles of bootstrap means that bound the BCa interval, equation 14.10."""
    n, mean = len(sample), sample.mean()
    below = ((means < mean).mean() + (means <= mean).mean()) / 2
    bias = float(special.ndtri(np.clip(below, 1e-6, 1 - 1e-6)))
    influence = (sample - mean) / (n - 1)
    spread = float(np.square(influence).sum())
    acceleration = float((influence**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    z = bias + special.ndtri(tails)
    levels: Array = special.ndtr(bias + z / (1 - acceleration * z))
    return levels


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table of coverages for each distribution."""
    methods = list(dict.fromkeys(row.method for row in rows))
    for name in dict.fromkeys(row.distribution for row in rows):
        cells: dict[int, list[Any]] = {}
        for row in rows:
            if row.distribution == name:
                cells.setdefault(row.n_queries, [row.n_queries]).append(f"{row.coverage:.3f}")
                last = row
                if row.method == methods[-1]:
                    cells[row.n_queries] += [f"{last.width:.2f}", f"{last.none:.3f}"]
        columns = ["queries", *methods, "width", "no spread"]
        print_table(
            f"{name} differences: share of intervals with the mean", columns, list(cells.values())
        )


def print_weighted(rows: Sequence[WeightedRow]) -> None:
    """Print one table with the coverage of every kind of weights, a column for a distribution."""
    cells: dict[tuple[str, int], list[Any]] = {}
    for row in rows:
        start = [row.weights, row.n_queries, f"{row.n_effective:.1f}"]
        cells.setdefault((row.weights, row.n_queries), start).append(f"{row.coverage:.3f}")
    columns = ["weights", "queries", "effective", *(each.name for each in DISTRIBUTIONS)]
    title = "queries of different weights: share of symmetric bootstrap-t intervals with the mean"
    print_table(title, columns, list(cells.values()))


def print_rejections(rows: Sequence[RejectionRow]) -> None:
    """Print one table with the rejections of every level, over the level."""
    cells = [
        [
            row.weights,
            row.n_queries,
            f"{row.n_effective:.1f}",
            *(f"{plain:.2f}, {effective:.2f}" for plain, effective in row.ratios),
        ]
        for row in rows
    ]
    columns = ["weights", "queries", "effective", *(f"{level:g}" for level in LEVELS)]
    title = "one-sided tests: rejections over the level, with n - 1 and with effective degrees"
    print_table(title, columns, cells)


if __name__ == "__main__":
    run_script(main)
