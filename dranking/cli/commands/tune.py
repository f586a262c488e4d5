"""`dranking tune`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import typer

from dranking.cli.column_options import ColumnOptions
from dranking.cli.execution_options import ExecutionOptions
from dranking.cli.max_margin_options import Margins, Solver, with_solver
from dranking.cli.number_options import Grid, Steps, parse_grid, parse_steps
from dranking.cli.option_groups import given, grouped
from dranking.cli.options import (
    Convention,
    Data,
    Forms,
    Json,
    MemoryLimit,
    Output,
    Overwrite,
    Regularizations,
    names_in,
)
from dranking.cli.output import note, print_json, print_table
from dranking.cli.pairwise_options import (
    Pairs,
    Projection,
    Unlabelled,
    Views,
    in_groups,
    parse_views,
)
from dranking.errors import UsageError
from dranking.files.output_checks import check_output_file
from dranking.files.places import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dranking.data.dataset import Dataset
    from dranking.engine.executor import Executor
    from dranking.tuning.choice import GridPoint
    from dranking.tuning.result import TuningResult

TuneModel: TypeAlias = Literal[
    "greedy-rankrls",
    "rankrls",
    "ranksvm",
    "ranksvm-hinge",
    "ranklogistic",
    "max-margin",
    "spd",
    "lcra",
]


@dataclass(frozen=True)
class Others:
    """Hyperparameters other than lambda."""

    TOPIC: ClassVar[str] = "Models spd and lcra"

    mu: Annotated[
        Grid | None,
        typer.Option(
            parser=parse_grid,
            metavar="GRID",
            help="lcra only: strengths of the co-regularisation to try. Default: 0.1.",
        ),
    ] = None
    eta0: Annotated[
        Steps | None,
        typer.Option(
            parser=parse_steps,
            metavar="GRID",
            help="spd and lcra only: first step lengths 1 / (lambda t0) to try; inf is pure "
            "Pegasos, auto follows from the data. Default: auto.",
        ),
    ] = None


@grouped
def tune(
    train_data: Data,
    output: Output,
    regularization: Regularizations,
    others: Others,
    *,
    validation: Annotated[
        Place | None, typer.Option(help="Validation data. Alternatives: --folds, --criterion.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Cross-validate over this many folds of queries.")
    ] = None,
    model: Annotated[TuneModel, typer.Option(help="The ranker.")] = "greedy-rankrls",
    normalize: Annotated[
        str,
        typer.Option(
            help="Scalings of the features to choose from, such as none,log,query-minmax; see "
            "ingest --normalize. Default: the data as it is.",
            metavar="NAME,...",
        ),
    ] = "",
    forms: Forms = "",
    max_features: Annotated[
        int | None, typer.Option(help="Largest number of features to try. Default: all.")
    ] = None,
    metric: Annotated[str, typer.Option(help="Metric to choose by: map, ndcg@10, ...")] = "map",
    criterion: Annotated[
        str | None,
        typer.Option(
            help="Choose by leave-query-out predictions, without validation data: lqo-map, "
            "lqo-ndcg@10, ...; or lqo-squared_error, for which a statistics store is enough."
        ),
    ] = None,
    convention: Convention = "standard",
    rule: Annotated[
        Literal["best", "one-standard-error"] | None,
        typer.Option(
            help="The best setting, or the fewest features within one standard error of the best. "
            "Default: one-standard-error from 20 held-out queries on, without --feature-penalty.",
        ),
    ] = None,
    feature_penalty: Annotated[
        float, typer.Option(help="Penalty on the score for every feature.")
    ] = 0.0,
    seed: Annotated[
        int, typer.Option(help="Random seed of the folds, and of spd, lcra and max-margin.")
    ] = 0,
    loss: Annotated[
        Literal["hinge", "squared-hinge", "logistic", "squared", "pairwise", "ap", "ndcg"] | None,
        typer.Option(
            help="Loss. spd and lcra: hinge, squared-hinge, logistic or squared, default hinge; "
            "max-margin: pairwise, ap or ndcg, default ap."
        ),
    ] = None,
    pairs: Pairs,
    projection: Projection,
    views: Views,
    margins: Margins,
    solver: Solver,
    unlabelled: Unlabelled = None,
    figure: Annotated[
        Place | None, typer.Option(help="Draw the validation curves (.svg or .png).")
    ] = None,
    memory_limit: MemoryLimit = None,
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Choose hyperparameters and train the model with them.

    Hyperparameters are lambda, the number of features, mu and eta0. They are chosen on validation
    data, by cross-validation, or by leave-query-out predictions.
    """
    from dranking.tuning.curves import check_figure, plot_curves, save_figure
    from dranking.tuning.folds import QueryKFold
    from dranking.tuning.search import tune as search

    check_output_file(output, overwrite)
    if sum(way is not None for way in (validation, folds, criterion)) != 1:
        raise UsageError("give exactly one of --validation, --folds and --criterion.")
    if forms and normalize:
        raise UsageError("--forms are forms of raw features: give --forms or --normalize.")
    if criterion is not None:
        metric = _lqo_metric(criterion)
    if figure is not None:
        check_figure(figure, overwrite)
    options = given(pairs, loss=loss) | given(projection) | given(margins) | given(solver)
    options |= _views(views)
    grid = given(regularization=regularization, mu=others.mu, eta0=others.eta0)
    if normalize:
        grid["normalize"] = names_in(normalize)
    with execution.running(overwrite, memory_limit=memory_limit) as executor:
        held_out: Any = columns.open_if_given(validation)
        if folds is not None:
            held_out = QueryKFold(folds, seed)
        if criterion is not None:
            held_out = "leave-query-out"
        result = search(
            _in_forms(columns.open(train_data), forms, executor),
            grid,
            validation=held_out,
            model=model,
            parameters=_parameters(model, options, seed, convention),
            unlabelled=columns.open_if_given(unlabelled),
            max_features=max_features,
            measure=metric,
            convention=convention,
            rule=rule,
            feature_penalty=feature_penalty,
            executor=executor,
        )
    result.model.save(output, overwrite=overwrite)
    if figure is not None:
        save_figure(plot_curves(result), figure, overwrite=overwrite)
    if as_json:
        print_json(result.as_json())
        return
    _print_tuned(result, metric, "leave-query-out" if criterion is not None else "validation")
    note(f"model written to {output}")


def _in_forms(train: Dataset, forms: str, executor: Executor) -> Dataset:
    """The training data with its features in several forms, if the option is given."""
    if not forms:
        return train
    from dranking.data.forms import with_forms
    from dranking.engine.map_blocks import blocks_on

    return with_forms(train, names_in(forms), blocks_on(executor))


def _lqo_metric(criterion: str) -> str:
    """The metric of a criterion such as lqo-map."""
    prefix, dash, metric = criterion.partition("-")
    if prefix != "lqo" or not dash:
        raise UsageError(
            f"--criterion {criterion!r} is not lqo-METRIC, such as lqo-map or lqo-squared_error."
        )
    return metric


def _views(views: Views) -> dict[str, Any]:
    """The options of views as parameters of the estimator."""
    parsed = parse_views(views.views) if views.views else None
    return {**given(views), **given(views=parsed)}


def _parameters(
    model: TuneModel, options: dict[str, Any], seed: int, convention: str
) -> dict[str, Any]:
    """Parameters of the estimator: its options, and what follows from options of the search."""
    if model in ("spd", "lcra"):
        return in_groups(options) | {"random_state": seed}
    if model == "max-margin":
        # Losses of lists follow the convention that the metric is measured under.
        return with_solver(options | {"convention": convention}) | {"random_state": seed}
    return options


def _print_tuned(result: TuningResult, metric: str, measured_by: str) -> None:
    """Print the best setting of every lambda, and mark the best and the chosen setting."""
    from dranking.tuning.result import json_value

    others = [name for name in ("mu", "eta0") if name in result.chosen]
    scalings = ["normalize"] if "normalize" in result.chosen else []
    by_line: dict[Any, list[GridPoint]] = {}
    for point in result.grid:
        by_line.setdefault((point.get("normalize"), point["regularization"]), []).append(point)
    rows = []
    for (scaling, value), points in by_line.items():
        first = (*([scaling] if scalings else []), f"{value:g}")
        shown = _shown_points(result, points)
        if not shown:
            rows.append((*first, *("" for _ in others), "", "diverged", "", ""))
        for point, mark in shown:
            tuned = ("auto" if point[name] is None else f"{point[name]:g}" for name in others)
            error = json_value(point["standard_error"])
            score = (point["score"], "" if error is None else error)
            rows.append((*first, *tuned, point["n_features"], *score, mark))
    headings = [*scalings, "lambda", *others, "features", "score", "std. error", ""]
    print_table(f"{measured_by} {metric}", headings, rows)


def _shown_points(result: TuningResult, points: Sequence[GridPoint]) -> list[tuple[GridPoint, str]]:
    """The points of one lambda that are printed, each with its mark; none if all diverged."""
    from dranking.metrics.measures import higher_is_better

    sign = 1 if higher_is_better(result.measure) else -1
    marked = []
    for point in points:
        marks = [
            mark
            for mark, of in (("best", result.best), ("chosen", result.chosen))
            if point.items() >= of.items()
        ]
        if marks:
            marked.append((point, ", ".join(marks)))
    measured = [point for point in points if not math.isnan(point["score"])]
    if marked or not measured:
        return marked
    return [(max(measured, key=lambda point: sign * point["score"]), "")]
