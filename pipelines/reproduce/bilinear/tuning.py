"""Chooses C and lambda for the reproduction of the bilinear paper on training documents alone.

    python -m pipelines.reproduce.bilinear.tuning DATA_FOLDER --corpus mnist
        --learning-rate 20 40 80 --regularization 5e-6 1e-5 [--steps 100000] [--json]

Some of the training documents, drawn at random, are held out. For each pair of the grid, a sparse W
is trained on the other training documents, and then refitted. Held-out documents rank each other.
Test documents are not read.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from dranking.bilinear.estimator import BilinearRanker
from dranking.bilinear.evaluation import evaluate_bilinear
from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.texts.preferences import same_class
from dranking.cli.output import note, print_json, print_table, progress_shown
from pipelines.reproduce.bilinear.corpora import Corpus, mnist, newsgroups
from pipelines.reproduce.bilinear.table import N_EPOCHS, Setting
from pipelines.script import run_script

N_VALIDATION = 2_000
"""Number of validation documents."""


class Trial(NamedTuple):
    """Results of a pair of the grid on held-out documents, before and after the refit."""

    learning_rate: float
    regularization: float
    density: float
    sparse_map: float
    sparse_error: float
    map: float
    error: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the options, try every pair, and print the pairs, the best first."""
    options = parse(arguments)
    corpus = {"20ng": newsgroups, "mnist": mnist}[options.corpus](options.data)
    parts = split(corpus.train)
    trials = []
    with progress_shown():
        for learning_rate, lam in product(options.learning_rate, options.regularization):
            trials.append(tried(parts, Setting(learning_rate, lam), options.steps))
            note(f"{options.corpus}: {trials[-1]}")
    trials.sort(key=lambda trial: trial.error)
    if options.json:
        print_json({"corpus": options.corpus, "trials": [trial._asdict() for trial in trials]})
    else:
        print_table(
            f"{options.corpus}, {N_VALIDATION:,} for validation", list(Trial._fields), trials
        )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the corpora")
    parser.add_argument("--corpus", choices=["20ng", "mnist"], required=True)
    parser.add_argument("--learning-rate", type=float, nargs="+", required=True, help="values of C")
    parser.add_argument(
        "--regularization", type=float, nargs="+", required=True, help="values of lambda"
    )
    parser.add_argument(
        "--steps", type=int, default=100_000, help="steps of each training (100,000)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(arguments)


def split(documents: Collection) -> Corpus:
    """Divide documents at random into training documents and validation documents."""
    order = np.random.default_rng(0).permutation(documents.n_documents)
    n = min(N_VALIDATION, documents.n_documents // 2)
    return Corpus(documents.take(np.sort(order[n:])), documents.take(np.sort(order[:n])))


def tried(parts: Corpus, setting: Setting, n_steps: int) -> Trial:
    """Train and refit with one setting; return the results."""
    with TemporaryDirectory() as folder:
        options = {
            "learning_rate": setting.learning_rate,
            "n_steps": n_steps,
            "n_epochs": N_EPOCHS,
            "checkpoint": Path(folder, "sparse"),
        }
        both = [
            BilinearRanker(setting.regularization, refit=refit, **options)
            for refit in (False, True)
        ]
        (density, *sparse), (_, *refitted) = [results(ranker, parts) for ranker in both]
    return Trial(*setting, density, *sparse, *refitted)


def results(ranker: BilinearRanker, parts: Corpus) -> tuple[float, float, float]:
    """Return the density, and MAP and error on the held-out documents."""
    model = ranker.fit(parts.train).to_model()
    result = evaluate_bilinear(model, parts.test, same_class(parts.test))
    return model.density, result.metrics["map"], result.error


if __name__ == "__main__":
    run_script(main)
