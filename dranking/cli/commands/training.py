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


class TrainModel(StrEnum):
    """Models that `train` fits."""

    rankrls = "rankrls"


def train(
    model: Annotated[TrainModel, typer.Argument(help="Which ranker.")],
    data: Data,
    output: Output,
    regularization: RegularizationOrGrid = Grid([1.0]),
    scheduler: Scheduler = "threads",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Train a ranker on all features.

    Of several lambdas, the one with the least exact leave-query-out error is taken.
    """
    from dranking.data.open import open_dataset
    from dranking.engine.cluster import open_executor
    from dranking.rankers.rankrls import RankRLS
    from dranking.rankers.rankrls_cv import RankRLSCV

    check_output_file(output, overwrite)
    started = time.perf_counter()
    several = len(regularization) > 1
    ranker = RankRLSCV(regularization) if several else RankRLS(regularization[0])
    with progress_shown(), open_executor(scheduler) as executor:
        ranker.fit(open_dataset(data), executor=executor)
    ranker.to_model().save(output, overwrite=overwrite)
    facts: dict[str, Any] = {
        "model": model.value,
        "n_features": ranker.n_features_in_,
        "objective": ranker.objective_,
        "seconds": time.perf_counter() - started,
    }
    if several:
        facts["regularization"] = ranker.regularization_
    if as_json:
        print_json(facts)
    else:
        print_table(f"{output}", ["", "value"], list(facts.items()))
