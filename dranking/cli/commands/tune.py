"""`tune`: hyperparameters and the number of features, chosen on data or predictions held out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dranking.cli.options import (
    Convention,
    Data,
    Json,
    MemoryLimit,
    Output,
    Overwrite,
    Regularizations,
    Scheduler,
)
from dranking.cli.output import note, print_json, print_table, progress_shown
from dranking.data.atomic import check_output_file
from dranking.errors import UsageError


class TuneModel(StrEnum):
    """Models that `tune` chooses hyperparameters for."""

    greedy_rankrls = "greedy-rankrls"
    rankrls = "rankrls"
    ranksvm = "ranksvm"
    ranksvm_hinge = "ranksvm-hinge"
    ranklogistic = "ranklogistic"


class Rule(StrEnum):
    """Which setting is chosen from the scores."""

    best = "best"
    one_standard_error = "one-standard-error"


def tune(
    train_data: Data,
    output: Output,
    regularization: Regularizations,
    validation: Annotated[
        Path | None, typer.Option(help="Validation data; or give --folds or --criterion.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Cross-validate over this many folds of queries.")
    ] = None,
    model: Annotated[TuneModel, typer.Option(help="Which ranker.")] = TuneModel.greedy_rankrls,
    max_features: Annotated[
        int | None, typer.Option(help="Largest number of features to try; all if left out.")
    ] = None,
    metric: Annotated[str, typer.Option(help="What to choose by: map, ndcg@10, ...")] = "map",
    criterion: Annotated[
        str | None,
        typer.Option(
            help="Instead of validation data and metric: lqo-map, lqo-ndcg@10, ...; or "
            "lqo-squared_error, for which a statistics store suffices."
        ),
    ] = None,
    convention: Convention = "standard",
    rule: Annotated[Rule, typer.Option(help="Which setting to choose.")] = Rule.best,
    feature_penalty: Annotated[
        float, typer.Option(help="Taken off the score for each feature.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the folds.")] = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the validation curves (.svg or .png).")
    ] = None,
    memory_limit: MemoryLimit = None,
    scheduler: Scheduler = "threads",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Choose lambda and the number of features, and write the model trained with them."""
    from dranking.data.open import open_dataset
    from dranking.engine.cluster import open_executor
    from dranking.tuning.curves import check_figure, plot_curves, save_figure
    from dranking.tuning.search import tune as search

    check_output_file(output, overwrite)
    if criterion is not None:
        metric = _left_out_metric(criterion)
    if figure is not None:
        check_figure(figure, overwrite)
    with progress_shown(), open_executor(scheduler, memory_limit=memory_limit) as executor:
        result = search(
            open_dataset(train_data),
            validation=None if validation is None else open_dataset(validation),
            folds=folds,
            leave_query_out=criterion is not None,
            model=model.value,
            regularizations=regularization,
            max_features=max_features,
            measure=metric,
            convention=convention,
            rule=rule.value,
            feature_penalty=feature_penalty,
            seed=seed,
            executor=executor,
        )
    result.model.save(output, overwrite=overwrite)
    if figure is not None:
        save_figure(plot_curves(result), figure, overwrite=overwrite)
    if as_json:
        print_json(result.as_json())
        return
    _print_tuned(result, metric)
    note(f"model written to {output}")


def _left_out_metric(criterion: str) -> str:
    """The metric of a criterion such as lqo-map."""
    prefix, dash, metric = criterion.partition("-")
    if prefix != "lqo" or not dash:
        raise UsageError(
            f"--criterion {criterion!r} is not lqo-METRIC, such as lqo-map or lqo-squared_error."
        )
    return metric


def _print_tuned(result: Any, metric: str) -> None:
    """The best setting of each lambda, the chosen one marked."""
    from dranking.metrics.measures import higher_is_better

    best = result.best
    sign = 1 if higher_is_better(result.measure) else -1
    rows = []
    for value in dict.fromkeys(row["regularization"] for row in result.grid):
        of_lambda = [row for row in result.grid if row["regularization"] == value]
        top = max(of_lambda, key=lambda row: sign * row["score"])
        chosen = "chosen" if value == best["regularization"] else ""
        if chosen:
            top = next(r for r in of_lambda if r["n_features"] == best["n_features"])
        rows.append((f"{value:g}", top["n_features"], top["score"], chosen))
    print_table(f"validation {metric}", ["lambda", "features", "score", ""], rows)
