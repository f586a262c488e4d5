"""Scores of one query from a wide DataFrame, beside LightGBM's, and contributions of features.

python -m pipelines.benchmarks.serving --json [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import numpy as np
import pandas as pd

from dranking.models.linear.model import LinearModel
from pipelines.benchmarks.harness import (
    REPEATS,
    Figure,
    figure,
    interleaved,
    main,
    parser,
    processor_seconds,
    skipped,
)

N_DOCUMENTS, N_COLUMNS, N_FEATURES = 100, 1_000, 20
CALLS = 20
"""Calls that are timed together."""

NAME = f"predict: {N_DOCUMENTS} documents, {N_FEATURES} of {N_COLUMNS:,} columns"
PEER = "LightGBM, 20 trees, one thread"


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Processor time of a linear model's scores, as a share of that of boosted trees."""
    if find_spec("lightgbm") is None:
        return [skipped(NAME, "ratio", "no LightGBM", peer=PEER, target=1.0)]
    rng = np.random.default_rng(0)
    names = [f"f{i}" for i in range(N_COLUMNS)]
    query = pd.DataFrame(rng.normal(size=(N_DOCUMENTS, N_COLUMNS)), columns=names)
    chosen = tuple(names[:: N_COLUMNS // N_FEATURES])
    model = LinearModel(feature_names=chosen, weights=(1.0,) * N_FEATURES)
    trees = _trees(query, rng.integers(3, size=N_DOCUMENTS))
    seconds = interleaved(
        {"ours": _repeated(lambda: model.predict(query)), "trees": _repeated(lambda: trees(query))},
        2 if options.quick else REPEATS,
        clock=processor_seconds,
    )
    return [
        figure(NAME, seconds["ours"] / seconds["trees"], "ratio", peer=PEER, at_most=1.0),
        figure(f"{NAME}, one call", seconds["ours"] / (CALLS / 1_000), "ms"),
    ]


def _repeated(call: Callable[[], object]) -> Callable[[], None]:
    def calls() -> None:
        for _ in range(CALLS):
            call()

    return calls


def _trees(query: pd.DataFrame, grades: np.ndarray) -> Callable[[pd.DataFrame], object]:
    """The `predict` of a LightGBM model of all columns."""
    import lightgbm

    data = lightgbm.Dataset(query, grades, group=[len(query)])
    fixed = {"objective": "lambdarank", "verbose": -1, "num_threads": 1}
    return lightgbm.train(fixed, data, 20).predict


if __name__ == "__main__":
    main(measure, parser(__doc__.splitlines()[0]))
