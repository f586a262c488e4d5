"""`train rankrls`, `ranksvm`, `ranklogistic`: rankers that are fitted to the minimum."""

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
    RegularizationOrGrid,
    Scheduler,
)


class SVMLoss(StrEnum):
    """Losses of `train ranksvm`."""

    squared_hinge = "squared-hinge"
    hinge = "hinge"


def rankrls(
    data: Data,
    output: Output,
    regularization: RegularizationOrGrid = None,
    scheduler: Scheduler = "threads",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Regularised least squares over pairs (RankRLS).

    Of several lambdas, the one with the least exact leave-query-out error is taken.
    """
    import dranking as dr

    grid = regularization or ()
    ranker = dr.RankRLSCV(grid) if len(grid) > 1 else dr.RankRLS(*grid)
    train_linear(
        "rankrls", ranker, data, output, scheduler=scheduler, overwrite=overwrite, as_json=as_json
    )


def ranksvm(
    data: Data,
    output: Output,
    regularization: RegularizationIfGiven = None,
    loss: Annotated[SVMLoss, typer.Option(help="Of a pair.")] = SVMLoss.squared_hinge,
    scheduler: Scheduler = "threads",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Ranking support vector machine over all pairs."""
    import dranking as dr

    ranker = dr.RankSVM(loss=loss.value, **given(regularization=regularization))
    train_linear(
        "ranksvm", ranker, data, output, scheduler=scheduler, overwrite=overwrite, as_json=as_json
    )


def ranklogistic(
    data: Data,
    output: Output,
    regularization: RegularizationIfGiven = None,
    scheduler: Scheduler = "threads",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Logistic loss over all pairs."""
    import dranking as dr

    ranker = dr.RankLogistic(**given(regularization=regularization))
    train_linear(
        "ranklogistic",
        ranker,
        data,
        output,
        scheduler=scheduler,
        overwrite=overwrite,
        as_json=as_json,
    )
