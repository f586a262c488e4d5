"""`train`: rankers on all features."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from dranking.cli.numbers import Grid
from dranking.cli.options import (
    Data,
    Json,
    Output,
    Overwrite,
    RegularizationOrGrid,
    Scheduler,
)
from dranking.cli.output import print_json, print_table, progress_shown
from dranking.data.atomic import check_output_file
from dranking.errors import UsageError


class TrainModel(StrEnum):
    """Models that `train` fits."""

    rankrls = "rankrls"
    ranksvm = "ranksvm"
    ranklogistic = "ranklogistic"
    spd = "spd"
    lcra = "lcra"


class Loss(StrEnum):
    """What is minimised over pairs."""

    squared_hinge = "squared-hinge"
    hinge = "hinge"
    logistic = "logistic"
    squared = "squared"


def train(
    model: Annotated[TrainModel, typer.Argument(help="Which ranker.")],
    data: Data,
    output: Output,
    regularization: RegularizationOrGrid = None,
    loss: Annotated[
        Loss | None,
        typer.Option(help="Of ranksvm (squared-hinge, hinge), spd and lcra; else their default."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Of spd and lcra.")] = None,
    seed: Annotated[int, typer.Option(help="Of spd and lcra.")] = 0,
    scheduler: Scheduler = "threads",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Train a ranker on all features.

    Of several lambdas, rankrls takes the one with the least exact leave-query-out error.
    """
    from dranking.data.open import open_dataset
    from dranking.engine.cluster import open_executor

    check_output_file(output, overwrite)
    started = time.perf_counter()
    ranker = _ranker(model, regularization or Grid(), loss, {"n_epochs": epochs, "seed": seed})
    with progress_shown(), open_executor(scheduler) as executor:
        ranker.fit(open_dataset(data), executor=executor)
    ranker.to_model().save(output, overwrite=overwrite)
    facts: dict[str, Any] = {
        "model": model.value,
        "n_features": ranker.n_features_in_,
        "objective": ranker.objective_,
        "seconds": time.perf_counter() - started,
    }
    if hasattr(ranker, "regularization_"):
        facts["regularization"] = ranker.regularization_
    if as_json:
        print_json(facts)
    else:
        print_table(f"{output}", ["", "value"], list(facts.items()))


def _ranker(
    model: TrainModel, regularization: Grid, loss: Loss | None, stochastic: dict[str, Any]
) -> Any:
    """The estimator that is asked for; what is not said has its own default."""
    import dranking as dr

    if len(regularization) > 1:
        if model is not TrainModel.rankrls:
            raise UsageError(f"{model} takes one lambda, not {len(regularization)}.")
        return dr.RankRLSCV(regularization)
    options: dict[str, Any] = {"regularization": regularization[0]} if regularization else {}
    takes_loss = model in (TrainModel.ranksvm, TrainModel.spd, TrainModel.lcra)
    if loss is not None:
        if not takes_loss:
            raise UsageError(f"{model} has a loss of its own; leave out --loss.")
        options["loss"] = loss.value
    if model in (TrainModel.spd, TrainModel.lcra):
        options |= {name: value for name, value in stochastic.items() if value is not None}
    rankers = {
        TrainModel.rankrls: dr.RankRLS,
        TrainModel.ranksvm: dr.RankSVM,
        TrainModel.ranklogistic: dr.RankLogistic,
        TrainModel.spd: dr.SPD,
        TrainModel.lcra: dr.LCRA,
    }
    return rankers[model](**options)
