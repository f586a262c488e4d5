"""What trainings of several epochs share: their options, validation and learning curve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from dranking.cli.commands.train.fitting import Job, train_linear
from dranking.cli.commands.train.learning_curve import check_learning_curve, save_learning_curve
from dranking.cli.numbers import parse_step
from dranking.cli.options import Convention, RegularizationIfGiven


@dataclass(frozen=True)
class Estimator:
    """Parameters of one training that `tune` chooses or has options of its own for."""

    regularization: RegularizationIfGiven = None
    eta0: Annotated[
        float | None,
        typer.Option(
            parser=parse_step,
            metavar="ETA0",
            help="First step length, 1 / (lambda t0); inf for pure Pegasos; follows from the data "
            "if left out.",
        ),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(help="End after so many epochs without a better metric; keep the best model."),
    ] = None
    metric: Annotated[str | None, typer.Option(help="What --validation measures (ndcg@10).")] = None
    convention: Convention = "standard"
    seed: Annotated[int, typer.Option(help="Of all random draws.")] = 0
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the training here each epoch or round, and go on from it."),
    ] = None


@dataclass(frozen=True)
class Watched:
    """How the training is followed."""

    validation: Annotated[
        Path | None, typer.Option(help="Data to evaluate the model on after each epoch.")
    ] = None
    learning_curve: Annotated[
        Path | None,
        typer.Option(
            help="Draw (.png, .svg) or write (.csv, .json) objective and metric of each epoch."
        ),
    ] = None


def train_watched(
    name: str, ranker: Any, job: Job, watched: Watched, **others: Path | None
) -> None:
    """Train, with the learning curve as it is wanted."""
    curve = watched.learning_curve
    if curve is not None:
        check_learning_curve(curve, job.overwrite)
    train_linear(name, ranker, job, validation=watched.validation, **others)
    if curve is not None:
        save_learning_curve(ranker, curve, job.overwrite)
