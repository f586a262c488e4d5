"""`train spd` and `lcra`: rankers that learn from sampled pairs, step by step."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dranking.cli.commands.train.fitting import given, train_linear
from dranking.cli.options import (
    Data,
    Json,
    Output,
    Overwrite,
    RegularizationIfGiven,
    Scheduler,
)


class Loss(StrEnum):
    """Losses of a pair."""

    hinge = "hinge"
    squared_hinge = "squared-hinge"
    logistic = "logistic"
    squared = "squared"


def spd(
    data: Data,
    output: Output,
    regularization: RegularizationIfGiven = None,
    loss: Annotated[Loss, typer.Option(help="Of a pair.")] = Loss.hinge,
    epochs: Annotated[int | None, typer.Option(help="Passes, of a step per document.")] = None,
    seed: Annotated[int, typer.Option(help="Of all random draws.")] = 0,
    scheduler: Scheduler = "threads",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Stochastic pairwise descent."""
    import dranking as dr

    ranker = dr.SPD(
        loss=loss.value, seed=seed, **given(regularization=regularization, n_epochs=epochs)
    )
    train_linear(
        "spd", ranker, data, output, scheduler=scheduler, overwrite=overwrite, as_json=as_json
    )


def lcra(
    data: Data,
    output: Output,
    regularization: RegularizationIfGiven = None,
    loss: Annotated[Loss, typer.Option(help="Of a pair.")] = Loss.hinge,
    epochs: Annotated[int | None, typer.Option(help="Passes, of a step per document.")] = None,
    seed: Annotated[int, typer.Option(help="Of all random draws.")] = 0,
    scheduler: Scheduler = "threads",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Co-regularised ranking: few labels, many unlabelled documents, views that shall agree."""
    import dranking as dr

    ranker = dr.LCRA(
        loss=loss.value, seed=seed, **given(regularization=regularization, n_epochs=epochs)
    )
    train_linear(
        "lcra", ranker, data, output, scheduler=scheduler, overwrite=overwrite, as_json=as_json
    )
