"""The subcommands of `train` for linear rankers: fit, write the model, print the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.shared import Data, Json, MemoryLimit, Output, Overwrite
from dranking.cli.output import print_json, print_line, print_table
from dranking.files.writing.output_checks import check_output_file

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset


@dataclass(frozen=True, kw_only=True)
class TrainingJob(ColumnOptions, ExecutionOptions):
    """Options of every subcommand for a linear ranker: data, columns, output, scheduler."""

    data: Data
    output: Output
    memory_limit: MemoryLimit = None
    overwrite: Overwrite = False
    as_json: Json = False


def train_linear(
    name: str,
    ranker: Any,
    job: TrainingJob,
    others: Callable[[Dataset], dict[str, Any]] = lambda train: {},
) -> None:
    """Fit a ranker, write its `LinearModel`, and print the result.

    Parameters
    ----------
    name
        Name of the ranker on the command line.
    ranker
        The estimator, not yet fitted.
    job
        Options of the subcommand.
    others
        Opens further arguments of `fit`, by keyword, beside the training data.
    """
    from dranking.models.linear.query_record import overlap_of
    from dranking.models.trained_queries import check_queries_place

    check_output_file(job.output, job.overwrite)
    check_queries_place(job.output)
    started = time.perf_counter()
    with job.running(job.overwrite, memory_limit=job.memory_limit) as executor:
        train = job.open(job.data)
        further = others(train)
        ranker.fit(train, **further, executor=executor)
        overlap = None
        if (judged := further.get("validation")) is not None:
            overlap = overlap_of(ranker, judged.data.query_ids(), judged.data, executor)
    ranker.to_model().save(job.output, overwrite=job.overwrite)
    facts: dict[str, Any] = {
        "model": name,
        "n_features": ranker.n_features_in_,
        "objective": ranker.objective_,
        "seconds": time.perf_counter() - started,
    }
    if hasattr(ranker, "regularization_"):
        facts["regularization"] = ranker.regularization_
    if getattr(ranker, "non_negative", ()):
        at_zero = [str(ranker.feature_names_[i]) for i in ranker.at_zero_]
        facts["at_zero"] = at_zero if job.as_json else ", ".join(at_zero) or "none"
    if overlap is not None and job.as_json:
        facts["trained_on"] = overlap.as_json()
    print_trained(facts, job)
    if overlap is not None and not job.as_json:
        print_line(f"validation: {overlap.text}")


def print_trained(facts: dict[str, Any], job: TrainingJob) -> None:
    """Print facts about a trained model, as JSON or as a table."""
    if job.as_json:
        print_json(facts)
    else:
        print_table(f"{job.output}", ["", "value"], list(facts.items()))
