"""`dranking select`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.selection import Candidates, Passing, Scoring, Spending, features_in
from dranking.cli.options.shared import (
    Data,
    Json,
    NormalizeFit,
    Output,
    Overwrite,
    Regularization,
)
from dranking.cli.output import note, print_json, print_table
from dranking.cli.parsing.option_groups import given, grouped
from dranking.errors import UsageError
from dranking.files.writing.output_checks import check_output_file


@grouped
def select(
    data: Data,
    n_features: Annotated[int, typer.Option(help="Number of features to select.")],
    output: Output,
    candidates: Candidates,
    scoring: Scoring,
    spending: Spending,
    passing: Passing,
    regularization: Regularization = 1.0,
    normalize: NormalizeFit = "none",
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many rounds without a new smallest error, and drop these rounds."
        ),
    ] = None,
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Select features by greedy RankRLS and write the sparse model."""
    from dranking.models.trained_queries import check_queries_place
    from dranking.rankrls.greedy.estimator import GreedyRankRLS
    from dranking.rankrls.greedy.options import Costs, Forms, Passes, Rescore, Search

    check_output_file(output, overwrite)
    check_queries_place(output)
    if candidates.forms and normalize != "none":
        raise UsageError("--forms are forms of raw features: give --forms or --normalize.")
    with execution.running(overwrite, memory_limit=passing.memory_limit) as executor:
        ranker = GreedyRankRLS(
            n_features=n_features,
            regularization=regularization,
            start=features_in(candidates.start),
            forbidden=features_in(candidates.forbid),
            search=Search(**given(**scoring.search_options, **candidates.draws, patience=patience)),
            rescore=Rescore(**given(**scoring.rescore_options)),
            feature_costs=Costs(**spending.costs()),
            forms=Forms(**given(**candidates.feature_forms)),
            normalize=normalize,
            checkpoint=passing.checkpoint,
            passes=Passes(passing.prefetch, passing.feature_blocks),
        )
        ranker.fit(columns.open(data), executor=executor)
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
        **({} if ranker.search.kind == "forward" else {"rounds": _rounds(ranker)}),
    }


def _rounds(ranker: Any) -> list[dict[str, Any]]:
    """Names of the features that every round added and dropped."""
    kept = ranker.path_.kept
    return [
        {
            "added": _names(ranker, after, before),
            "dropped": _names(ranker, before, after),
            "n_features": len(after),
            "lqo_error": error,
        }
        for before, after, error in zip([[], *kept], kept, ranker.lqo_error_.tolist(), strict=False)
    ]


def _names(ranker: Any, features: list[int], others: list[int]) -> list[str]:
    """Names of the features that are not among the others."""
    return [ranker.feature_names_[i] for i in features if i not in set(others)]


def _print_selection(ranker: Any) -> None:
    """Print the rounds; a forward search shows the final weights beside them."""
    n_columns, n_features = len(ranker.coef_), ranker.n_features_in_
    among = "" if n_columns == n_features else f"{n_columns} columns of "
    n_queries = ranker.fitted_model().provenance["data"]["n_queries"]
    title = (
        f"{len(ranker.selected_)} of {among}{n_features} features, lambda "
        f"{ranker.regularization:g}; errors are sums over {n_queries:,} queries"
    )
    if ranker.search.kind == "forward":
        _print_picks(ranker, title)
    else:
        _print_rounds(ranker, title)
    if ranker.cost_ is not None:
        note(f"total cost of the features: {ranker.cost_:g}")


def _print_picks(ranker: Any, title: str) -> None:
    names = [ranker.feature_names_[i] for i in ranker.selected_]
    rounds = range(1, len(names) + 1)
    gained = ["no" if r in ranker.path_.without_gain else "yes" for r in range(len(names))]
    weights = ranker.coef_[ranker.selected_].tolist()
    print_table(
        title,
        ["round", "feature", "leave-query-out error", "gain", "final weight"],
        list(zip(rounds, names, ranker.lqo_error_.tolist(), gained, weights, strict=True)),
    )


def _print_rounds(ranker: Any, title: str) -> None:
    rows = []
    for number, done in enumerate(_rounds(ranker), start=1):
        added, dropped = done["added"], done["dropped"]
        change = f"+ {added[0]}" if added else f"- {dropped[0]}"
        if len(added) > 1:
            change = f"+ {len(added)} features"
        rows.append((number, change, done["n_features"], done["lqo_error"]))
    print_table(title, ["round", "change", "features", "leave-query-out error"], rows)
    weights = sorted(zip(ranker.selected_, ranker.coef_[ranker.selected_], strict=True))
    names = [(ranker.feature_names_[i], float(w)) for i, w in weights]
    print_table("selected", ["feature", "weight"], names)
