"""`select`: which features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dranking.cli.groups import given, grouped
from dranking.cli.options import (
    Data,
    Json,
    MemoryLimit,
    Output,
    Overwrite,
    Regularization,
    Scheduler,
)
from dranking.cli.output import note, print_json, print_table, progress_shown
from dranking.cli.selection_options import Candidates, Scoring, Spending
from dranking.data.atomic import check_output_file


@grouped
def select(
    data: Data,
    n_features: Annotated[int, typer.Option(help="How many features to select.")],
    output: Output,
    candidates: Candidates,
    scoring: Scoring,
    spending: Spending,
    regularization: Regularization = 1.0,
    patience: Annotated[
        int | None,
        typer.Option(help="End after so many rounds without a new smallest error, without them."),
    ] = None,
    prefetch: Annotated[
        int | None, typer.Option(help="Gram rows fetched in one pass over the data (8).")
    ] = None,
    memory_limit: MemoryLimit = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the search here after each round, and go on from it."),
    ] = None,
    scheduler: Scheduler = "threads",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Select features by greedy RankRLS and write the sparse model."""
    from dranking.data.open import open_dataset
    from dranking.engine.cluster import open_executor
    from dranking.rankers.greedy import GreedyRankRLS

    check_output_file(output, overwrite)
    searched = given(scoring, **candidates.parameters(), **spending.parameters(), prefetch=prefetch)
    with progress_shown(), open_executor(scheduler, memory_limit=memory_limit) as executor:
        ranker = GreedyRankRLS(
            n_features=n_features,
            regularization=regularization,
            patience=patience,
            checkpoint=checkpoint,
            **searched,
        )
        ranker.fit(open_dataset(data), executor=executor)
    ranker.to_model().save(output, overwrite=overwrite)
    if as_json:
        print_json(_selection(ranker))
    else:
        _print_selection(ranker)
        note(f"model written to {output}")


def _selection(ranker: Any) -> dict[str, Any]:
    return {
        "selected": ranker.selected_,
        "names": [ranker.feature_names_[i] for i in ranker.selected_],
        "lqo_error": ranker.lqo_error_.tolist(),
        "regularization": ranker.regularization,
        **({} if ranker.cost_ is None else {"cost": ranker.cost_}),
    }


def _print_selection(ranker: Any) -> None:
    """The rounds, with the weights that the features have in the end."""
    names = [ranker.feature_names_[i] for i in ranker.selected_]
    rounds = range(1, len(names) + 1)
    gained = ["no" if r in ranker.path_.without_gain else "yes" for r in range(len(names))]
    weights = ranker.coef_[ranker.selected_].tolist()
    print_table(
        f"{len(names)} of {ranker.n_features_in_} features, lambda {ranker.regularization:g}",
        ["round", "feature", "leave-query-out error", "gain", "final weight"],
        list(zip(rounds, names, ranker.lqo_error_.tolist(), gained, weights, strict=True)),
    )
    if ranker.cost_ is not None:
        note(f"they cost {ranker.cost_:g}")
