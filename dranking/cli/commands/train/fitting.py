"""What the subcommands of `train` share: fit a linear ranker, write its model, say how it went."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dranking.cli.options import Data, Json, MemoryLimit, Output, Overwrite
from dranking.cli.output import print_json, print_table
from dranking.cli.where import Where
from dranking.files.commit import check_output_file


@dataclass(frozen=True, kw_only=True)
class Job(Where):
    """What is trained on, where, and what becomes of the model: options of every subcommand."""

    data: Data
    output: Output
    memory_limit: MemoryLimit = None
    overwrite: Overwrite = False
    as_json: Json = False


def train_linear(name: str, ranker: Any, job: Job, **others: Path | None) -> None:
    """Fit a ranker that ends in a `LinearModel`, and write that.

    Parameters
    ----------
    name
        What the model is called on the command line.
    ranker
        The estimator, not fitted.
    job
        The data, and where the model goes.
    others
        Further data that `fit` takes, by keyword; None is left out.
    """
    from dranking.data.open import open_dataset

    check_output_file(job.output, job.overwrite)
    started = time.perf_counter()
    with job.running(job.overwrite, memory_limit=job.memory_limit) as executor:
        opened = {key: open_dataset(path) for key, path in others.items() if path is not None}
        ranker.fit(open_dataset(job.data), **opened, executor=executor)
    ranker.to_model().save(job.output, overwrite=job.overwrite)
    facts: dict[str, Any] = {
        "model": name,
        "n_features": ranker.n_features_in_,
        "objective": ranker.objective_,
        "seconds": time.perf_counter() - started,
    }
    if hasattr(ranker, "regularization_"):
        facts["regularization"] = ranker.regularization_
    print_trained(facts, job)


def print_trained(facts: dict[str, Any], job: Job) -> None:
    """Print model, number of features, objective and seconds, as JSON or as a table."""
    if job.as_json:
        print_json(facts)
    else:
        print_table(f"{job.output}", ["", "value"], list(facts.items()))
