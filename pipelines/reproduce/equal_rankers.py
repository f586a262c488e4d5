"""How often tests of all pairs call equal rankers different, with equal and with unequal noise.

    python -m pipelines.reproduce.equal_rankers [--samples N] [--json]

Ten rankers have the same mean on every query, whose difficulty is Gaussian; to it each ranker adds
Gaussian noise, two of them more than the others. In each sample of 50 queries, Tukey's randomised
test and random signs with Holm's correction test all pairs at level .05. The study counts the
samples in which a test calls the two noisy rankers different, and those in which it calls any pair
different, which should be .05 of them at most.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dranking.cli.output import print_json, print_table
from dranking.metrics.comparison.randomised_tests import holm, sign_flip_tests, tukey_hsd
from pipelines.script import run_script

N_QUERIES, N_RANKERS, N_NOISY = 50, 10, 2
NOISES = (1.0, 3.0, 10.0)
"""Noise of the first two rankers over that of the others."""
LEVEL = 0.05
N_ORDERS, N_SIGNS = 199, 1999
"""Random orders of Tukey's test, and random signs: Holm's correction needs more than 45 / .05."""
SEED = 1


class Row(NamedTuple):
    """Shares of the samples in which a test calls rankers different."""

    noise: float
    test: str
    noisy_pair: float
    any_pair: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.equal_rankers",
        description=(__doc__ or "").split("\n", 1)[0],
    )
    parser.add_argument("--samples", type=int, default=1000, help="samples of each noise")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    options = parser.parse_args(arguments)
    rows = list(study(options.samples))
    if options.json:
        print_json({"level": LEVEL, "rows": [row._asdict() for row in rows]})
        return
    headings = ["noise of two of ten", "test", "the two differ", "some pair differs"]
    print_table(f"{options.samples:,} samples, level {LEVEL}", headings, rows)


def study(n_samples: int) -> Iterator[Row]:
    """Yield a row for each noise and test."""
    pairs = list(combinations(range(N_RANKERS), 2))
    weights = np.ones(N_QUERIES)
    for noise in NOISES:
        rng = np.random.default_rng((SEED, int(noise)))
        deviations = np.where(np.arange(N_RANKERS) < N_NOISY, noise, 1.0)
        found = np.zeros((2, n_samples, 2), dtype=np.bool_)
        for i in range(n_samples):
            values = rng.normal(size=(N_QUERIES, 1))
            values = values + rng.normal(size=(N_QUERIES, N_RANKERS)) * deviations
            of_all = tukey_hsd(values, weights, seed=i, n_resamples=N_ORDERS)
            tukey = np.array([of_all[pair] for pair in pairs])
            differences = np.column_stack([values[:, a] - values[:, b] for a, b in pairs])
            signs = holm(sign_flip_tests(differences, weights, seed=i, n_resamples=N_SIGNS))
            for test, p_values in enumerate((tukey, signs)):
                rejected = p_values <= LEVEL
                found[test, i] = rejected[0], rejected.any()  # the first pair is the noisy one
        for name, shares in zip(("tukey-hsd", "sign-flip"), found.mean(axis=1), strict=True):
            yield Row(noise, name, float(shares[0]), float(shares[1]))


if __name__ == "__main__":
    run_script(main)
