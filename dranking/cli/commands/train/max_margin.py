"""`dranking train max-margin`: margins that depend on the position of a mistake in the list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import typer

from dranking.cli.commands.train.epochs import Estimator, Monitoring, train_epochs
from dranking.cli.commands.train.training_job import TrainingJob
from dranking.cli.options.max_margin import Margins, StoppingSolver, with_solver
from dranking.cli.options.pairwise import Steps
from dranking.cli.parsing.option_groups import given, grouped
from dranking.errors import UsageError


@dataclass(frozen=True)
class ListSteps(Steps):
    """Options of the solver sgd, which samples pairs or lists."""

    TOPIC: ClassVar[str] = Steps.TOPIC

    steps_per_epoch: Annotated[
        int | None,
        typer.Option(
            help="Steps of an epoch. Default: one per document (pairs) or per query (lists), with "
            "a minimum."
        ),
    ] = None


@grouped
def max_margin(
    *,
    loss: Annotated[
        Literal["pairwise", "ap", "ndcg"],
        typer.Option(help="Loss: of lists, ap (1 - AP) or ndcg (1 - NDCG); or pairwise."),
    ] = "ap",
    estimator: Estimator,
    margins: Margins,
    solver: StoppingSolver,
    steps: ListSteps,
    monitoring: Monitoring,
    job: TrainingJob,
) -> None:
    """Train a position-sensitive max-margin ranker.

    Margins are largest where mistakes cost most, at the top of the list. Options about epochs,
    --validation and --learning-curve apply only to --solver sgd.
    """
    import dranking as dr

    if monitoring.learning_curve is not None and solver.solver != "sgd":
        raise UsageError("--learning-curve draws epochs, and only --solver sgd has epochs.")
    options = given(margins) | given(solver) | given(steps) | given(estimator, loss=loss)
    # The loss of a list has the gains and discounts of the metric that validates the model.
    options["convention"] = monitoring.convention
    ranker = dr.MaxMarginRanker(**with_solver(options))
    train_epochs("max-margin", ranker, job, monitoring)
