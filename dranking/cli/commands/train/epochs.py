"""The subcommands of `train` with epochs: their options, validation and learning curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from dranking.cli.commands.train.learning_curve import check_learning_curve, save_learning_curve
from dranking.cli.commands.train.training_job import TrainingJob, train_linear
from dranking.cli.options.shared import (
    Convention,
    NormalizeFit,
    RegularizationIfGiven,
    metric_option,
)
from dranking.cli.parsing.numbers import parse_step
from dranking.errors import UsageError
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset


@dataclass(frozen=True)
class Estimator:
    """Parameters of the estimator that `tune` chooses, or for which `tune` has other options."""

    regularization: RegularizationIfGiven = None
    eta0: Annotated[
        float | None,
        typer.Option(
            parser=parse_step,
            metavar="ETA0",
            help="First step length, 1 / (lambda t0); inf for pure Pegasos. Default: a value that "
            "follows from the data.",
        ),
    ] = None
    random_state: Annotated[int, typer.Option("--seed", help="Random seed.")] = 0
    normalize: NormalizeFit = "none"
    checkpoint: Annotated[
        Place | None,
        typer.Option(
            help="Directory that stores the training after every epoch or round. If the directory "
            "exists, the training continues from there."
        ),
    ] = None


@dataclass(frozen=True)
class Monitoring:
    """Validation after every epoch, and the learning curve."""

    TOPIC: ClassVar[str] = "Validation"

    validation: Annotated[
        Place | None, typer.Option(help="Data to evaluate the model on after every epoch.")
    ] = None
    metric: Annotated[str, metric_option("Metric of --validation")] = "ndcg@10"
    convention: Convention = "standard"
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many epochs without a better metric on --validation, and keep "
            "the best model."
        ),
    ] = None
    learning_curve: Annotated[
        Place | None,
        typer.Option(
            help="Draw (.png, .svg) or write (.csv, .json) the objective and metric of every epoch."
        ),
    ] = None


def train_epochs(
    name: str,
    ranker: Any,
    job: TrainingJob,
    monitoring: Monitoring,
    unlabelled: Place | None = None,
) -> None:
    """Call `train_linear`, and write the learning curve if `monitoring` names a file.

    Parameters
    ----------
    name, ranker, job
        As in `train_linear`.
    monitoring
        Validation of the training, and the file of the learning curve.
    unlabelled
        Further data of `LCRA`.

    Raises
    ------
    UsageError
        If `monitoring` has a patience, but no validation data.
    """
    import dranking as dr

    curve = monitoring.learning_curve
    if curve is not None:
        check_learning_curve(curve, job.overwrite)
    if monitoring.patience is not None and monitoring.validation is None:
        raise UsageError("--patience needs data to measure on; give --validation.")

    def others(train: Dataset) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if monitoring.validation is not None:
            found["validation"] = dr.Validation(
                job.open_later(monitoring.validation, train),
                monitoring.metric,
                monitoring.convention,
                monitoring.patience,
            )
        if unlabelled is not None:
            found["unlabelled"] = job.open_later(unlabelled, train)
        return found

    train_linear(name, ranker, job, others)
    if curve is not None:
        save_learning_curve(ranker.learning_curve_, monitoring.metric, curve, job.overwrite)
