"""Trust bias by moments beside the joint likelihood, from more and more documents.

    python -m pipelines.reproduce.trust_bias [--repeats 20] [--json]

Documents are shown at two positions, equally often at both, and clicked with probability r at the
first and a r + b at the second, with a = .5, b = .1 and r spread evenly from .05 to .6. The clicks
of a document do not determine r, and no function of them is sufficient for r whatever a and b are,
so that no likelihood conditional on it exists; the likelihood has to take an r for each document.
Its maximum over a, b and all r is compared with the moments of
`dranking.clicks.propensities.trust_bias`. With impressions per document fixed and documents without
end, the first stays wrong (Neyman and Scott, Consistent estimates based on partially consistent
observations, Econometrica 16, 1948); the second becomes exact.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dranking.cli.output import print_json, print_table, progress_shown
from dranking.clicks.hashes import query_keys
from dranking.clicks.propensities.contrasts import Contrasts
from dranking.clicks.propensities.trust_bias import trust_bias
from dranking.engine.executor import ThreadExecutor
from dranking.engine.progress import report
from pipelines.script import run_script

A: Final = 0.5
B: Final = 0.1
LOWEST, HIGHEST = 0.05, 0.6
CASES: Final = ((5, 2_000), (5, 20_000), (20, 2_000), (20, 20_000), (200, 2_000))
"""Impressions of a document at each position, and documents."""

GRID = np.linspace(0.0005, 0.9995, 400)
"""Values of r over which the likelihood of a document is maximised."""

Array = NDArray[np.float64]


def made_clicks(rng: np.random.Generator, n: int, n_documents: int) -> Array:
    """(n_documents, 2) clicks at both positions."""
    r = rng.uniform(LOWEST, HIGHEST, n_documents)
    return rng.binomial(n, np.stack([r, A * r + B], axis=1)).astype(np.float64)


def by_likelihood(clicks: Array, n: int) -> Array:
    """(a, b) at the maximum of the likelihood over a, b and an r for each document."""
    kinds, times = np.unique(clicks, axis=0, return_counts=True)
    first, second = kinds[:, :1], kinds[:, 1:]
    at_first = first * np.log(GRID) + (n - first) * np.log1p(-GRID)

    def loss(point: Array) -> float:
        rate = np.clip(np.exp(point[0]) * GRID + point[1], 1e-9, 1 - 1e-9)
        each = at_first + second * np.log(rate) + (n - second) * np.log1p(-rate)
        return -float(times @ each.max(axis=1))

    how = {"xatol": 1e-4, "fatol": 1e-3, "maxiter": 400}
    found = minimize(loss, [np.log(A), B], method="Nelder-Mead", options=how).x
    return np.array([np.exp(found[0]), found[1]])


def by_moments(clicks: Array, n: int) -> Array:
    """(a, b) of the second position as `dranking clicks propensities --trust-bias` finds them."""
    size = len(clicks)
    numbers = np.arange(size)
    contrasts = Contrasts(
        query=numbers,
        context=np.zeros(size, np.int64),
        impressions=np.full((size, 2), float(n)),
        clicks=clicks,
        query_keys=query_keys(np.array([f"q{i}" for i in range(size)])),
        contexts=("",),
    )
    a, b, _ = trust_bias([contrasts], None, 2, (20, 0), ThreadExecutor(1))
    return np.array([a[1], b[1]])


def errors(n: int, n_documents: int, repeats: int) -> dict[str, Any]:
    """Mean errors of both estimates in repeated logs, with their margins."""
    found: dict[str, list[Array]] = {"likelihood": [], "moments": []}
    for seed in range(repeats):
        report(f"{n} impressions, {n_documents:,} documents", seed + 1, repeats)
        clicks = made_clicks(np.random.default_rng(seed), n, n_documents)
        found["likelihood"].append(by_likelihood(clicks, n))
        found["moments"].append(by_moments(clicks, n))
    row: dict[str, Any] = {"impressions": n, "documents": n_documents}
    for name, values in found.items():
        error = np.array(values) - [A, B]
        margin = 1.96 * error.std(axis=0, ddof=1) / np.sqrt(repeats)
        for i, letter in enumerate("ab"):
            row[f"{letter} by {name}"] = float(error[:, i].mean())
            row[f"{letter} by {name}, +-"] = float(margin[i])
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the simulation and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.trust_bias", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--repeats", type=int, default=20, help="logs of each size")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    given = parser.parse_args(arguments)
    with progress_shown():
        rows = [errors(*case, given.repeats) for case in CASES]
    if given.json:
        print_json({"a": A, "b": B, "repeats": given.repeats, "rows": rows})
        return
    columns = ["impressions", "documents", *(f"{x} by {y}" for x in "ab" for y in METHODS)]
    print_table(f"errors of a = {A} and b = {B}", columns, [_cells(row, columns) for row in rows])


METHODS: Final = ("likelihood", "moments")


def _cells(row: dict[str, Any], columns: Sequence[str]) -> list[str]:
    counts = [f"{row[name]:,}" for name in columns[:2]]
    return counts + [f"{row[name]:+.4f} +- {row[name + ', +-']:.4f}" for name in columns[2:]]


if __name__ == "__main__":
    run_script(main)
