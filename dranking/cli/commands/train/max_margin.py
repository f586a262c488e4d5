"""`train max-margin`: margins that depend on where in the list a mistake is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from dranking.cli.commands.train.fitting import Job
from dranking.cli.commands.train.watching import Estimator, Watched, train_watched
from dranking.cli.groups import given, grouped
from dranking.cli.max_margin_options import Margins, Solver
from dranking.cli.pairwise_options import Steps
from dranking.errors import UsageError


@dataclass(frozen=True)
class ListSteps(Steps):
    """Of sgd, which draws pairs or lists."""

    steps_per_epoch: Annotated[
        int | None,
        typer.Option(
            help="Steps of an epoch; one per document or, of lists, per query if left out, with a "
            "minimum."
        ),
    ] = None


@grouped
def max_margin(
    job: Job,
    margins: Margins,
    solver: Solver,
    steps: ListSteps,
    estimator: Estimator,
    watched: Watched,
    loss: Annotated[
        Literal["pairwise", "ap", "ndcg"],
        typer.Option(help="Of a list, 1 - AP or 1 - NDCG; or of pairs."),
    ] = "ap",
) -> None:
    """Large margins where mistakes cost much: at the top of the list.

    What is of epochs, and followed after each, is of --solver sgd.
    """
    import dranking as dr

    if watched.learning_curve is not None and solver.solver != "sgd":
        raise UsageError("--learning-curve draws epochs, which --solver sgd alone has.")
    options = {**given(margins), **given(solver), **given(steps), **given(estimator, loss=loss)}
    train_watched("max-margin", dr.MaxMarginRanker(**options), job, watched)
