"""`dranking tune`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.max_margin import Margins, Solver, with_solver
from dranking.cli.options.pairwise import (
    Pairs,
    Projection,
    Views,
    in_groups,
    parse_views,
)
from dranking.cli.options.shared import (
    Data,
    Forms,
    Json,
    MemoryLimit,
    Output,
    Overwrite,
    Regularizations,
    names_in,
)
from dranking.cli.options.tune import DEFAULT_MODEL, Comparison, OfModels, TuneModel
from dranking.cli.output import note, print_json, print_line, print_table
from dranking.cli.parsing.option_groups import given, grouped
from dranking.errors import UsageError
from dranking.files.places import Place
from dranking.files.writing.output_checks import check_output_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dranking.data.dataset import Dataset
    from dranking.engine.executor import Executor
    from dranking.tuning.choice import GridPoint
    from dranking.tuning.result import TuningResult

Model: TypeAlias = Annotated[
    TuneModel,
    typer.Option(
        is_eager=True,
        help="The ranker. --model NAME --help shows the options of another ranker.",
    ),
]
Scalings: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Scalings of the features to choose from, such as none,log,query-minmax; see "
        "ingest --normalize. Default: the data as it is.",
        metavar="NAME,...",
    ),
]


@grouped
def tune(
    train_data: Data,
    output: Output,
    regularization: Regularizations,
    *,
    model: Model = DEFAULT_MODEL,
    normalize: Scalings = "",
    forms: Forms = "",
    figure: Annotated[
        Place | None, typer.Option(help="Draw the validation curves (.svg or .png).")
    ] = None,
    by: Comparison,
    of_models: OfModels,
    pairs: Pairs,
    projection: Projection,
    views: Views,
    margins: Margins,
    solver: Solver,
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
    from dranking.tuning.search import tune as search

    check_output_file(output, overwrite)
    _check_together(by, normalize, forms)
    metric = by.metric if by.criterion is None else _lqo_metric(by.criterion)
    if figure is not None:
        check_figure(figure, overwrite)
    options = given(pairs) | given(projection) | given(margins) | given(solver) | _views(views)
    options |= given(loss=of_models.loss, tol=of_models.tol, max_iter=of_models.max_iter)
    others = of_models.unlabelled
    grid = given(regularization=regularization, mu=of_models.mu, eta0=of_models.eta0)
    if normalize:
        grid["normalize"] = names_in(normalize)
    with execution.running(overwrite, memory_limit=memory_limit) as executor:
        train = columns.open(train_data)
        result = search(
            _in_forms(train, forms, executor),
            grid,
            validation=_validation(by, columns, train),
            model=model,
            parameters=_parameters(model, options, by.seed, by.convention),
            unlabelled=None if others is None else columns.open_later(others, train),
            max_features=of_models.max_features,
            metric=metric,
            convention=by.convention,
            rule=by.rule,
            feature_penalty=by.feature_penalty,
            executor=executor,
        )
    result.model.save(output, overwrite=overwrite)
    if figure is not None:
        save_figure(plot_curves(result), figure, overwrite=overwrite)
    if as_json:
        print_json(result.as_json())
        return
    _print_tuned(result, metric, "validation" if by.criterion is None else "leave-query-out")
    if result.trained_on is not None:
        print_line(f"validation: {result.trained_on.text}")
    note(f"model written to {output}")


def _check_together(by: Comparison, normalize: str, forms: str) -> None:
    """Raise UsageError for options that do not go together, or one that is lacking."""
    if sum(way is not None for way in (by.validation, by.folds, by.criterion)) != 1:
        raise UsageError("give exactly one of --validation, --folds and --criterion.")
    if forms and normalize:
        raise UsageError("--forms are forms of raw features: give --forms or --normalize.")


def _in_forms(train: Dataset, forms: str, executor: Executor) -> Dataset:
    """The training data with its features in several forms, if the option is given."""
    if not forms:
        return train
    from dranking.data.forms_dataset import with_forms
    from dranking.engine.map_blocks import blocks_on

    return with_forms(train, names_in(forms), blocks_on(executor))


def _validation(by: Comparison, columns: ColumnOptions, train: Dataset) -> Any:
    """The data or folds on which settings are compared, as `dranking.tune` takes them."""
    from dranking.tuning.folds import QueryKFold

    if by.folds is not None:
        return QueryKFold(by.folds, by.seed)
    return "leave-query-out" if by.validation is None else columns.open_later(by.validation, train)


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
    from dranking.metrics.measures.by_name import higher_is_better

    sign = 1 if higher_is_better(result.metric) else -1
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
