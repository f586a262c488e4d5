"""`dranking tune`."""

from __future__ import annotations

import math
from dataclasses import replace
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
    Json,
    MemoryLimit,
    Output,
    Overwrite,
    Regularizations,
)
from dranking.cli.options.tune import DEFAULT_MODEL, Comparison, OfModels, TuneModel
from dranking.cli.output import note, print_json, print_line, print_table
from dranking.cli.parsing.option_groups import given, grouped
from dranking.errors import UsageError
from dranking.files.key_values import names_in
from dranking.files.places import Place
from dranking.files.writing.output_checks import check_output_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dranking.data.dataset import Dataset
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
SearchedForms: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Forms of each feature of which a selection picks one: raw, log, query-minmax, rank, "
        "standard, minmax, quantile; and hinge and product, of which it picks any number. Default: "
        "several sets of forms are tried, and products; raw with --regularization.",
        metavar="FORM,...",
    ),
]


@grouped
def tune(
    train_data: Data,
    output: Output,
    *,
    regularization: Regularizations = None,
    model: Model = DEFAULT_MODEL,
    normalize: Scalings = "",
    forms: SearchedForms = "",
    figure: Annotated[
        Place | None, typer.Option(help="Draw the validation curves (.svg or .png).")
    ] = None,
    checkpoint: Annotated[
        Place | None,
        typer.Option(
            help="Folder that holds the models and scores of each fold that is done. If it exists, "
            "the search goes on from there."
        ),
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

    Without options, greedy RankRLS is searched: the forms of the features, products, lambda, up to
    20 features, and picks that are rescored, by folds of queries, which are made twice. Other
    rankers need --regularization.
    """
    from dranking.models.trained_queries import check_queries_place
    from dranking.tuning.curves import check_figure, plot_curves, save_figure
    from dranking.tuning.search import tune as search

    check_output_file(output, overwrite)
    check_queries_place(output)
    _check_together(by, normalize, forms)
    metric = by.metric if by.criterion is None else _lqo_metric(by.criterion)
    if figure is not None:
        check_figure(figure, overwrite)
    options = given(pairs) | given(projection) | given(margins) | given(solver) | _views(views)
    options |= given(loss=of_models.loss, tol=of_models.tol, max_iter=of_models.max_iter)
    grid = given(regularization=regularization, mu=of_models.mu, eta0=of_models.eta0)
    if normalize:
        grid["normalize"] = names_in(normalize)
    if forms:
        grid["forms"] = [",".join(names_in(forms))]
    with execution.running(overwrite, memory_limit=memory_limit) as executor:
        train = columns.open(train_data)
        if of_models.unlabelled is not None:
            options["unlabelled"] = columns.open_later(of_models.unlabelled, train)
        result = search(
            train,
            grid,
            validation=_validation(by, columns, train, is_default="regularization" not in grid),
            model=model,
            parameters=_parameters(model, options, by.seed, by.convention),
            max_features=of_models.max_features,
            metric=metric,
            convention=by.convention,
            rule=by.rule,
            time_limit=of_models.time,
            checkpoint=checkpoint,
            executor=executor,
        )
    result.model.save(output, overwrite=overwrite)
    if figure is not None:
        save_figure(plot_curves(result), figure, overwrite=overwrite)
    if as_json:
        print_json(result.as_json())
        return
    _print_tuned(result)
    note(f"model written to {output}")


def _check_together(by: Comparison, normalize: str, forms: str) -> None:
    """Raise UsageError for options that do not go together, or one that is lacking."""
    if sum(way is not None for way in (by.validation, by.folds, by.criterion)) > 1:
        raise UsageError("give only one of --validation, --folds and --criterion.")
    if forms and normalize:
        raise UsageError("--forms are forms of raw features: give --forms or --normalize.")


def _validation(by: Comparison, columns: ColumnOptions, train: Dataset, *, is_default: bool) -> Any:
    """The data or folds on which settings are compared, as `dranking.tune` takes them."""
    from dranking.tuning.automatic import folds_for

    if by.criterion is not None:
        return "leave-query-out"
    if by.validation is not None:
        return columns.open_later(by.validation, train)
    folds = folds_for(train.n_queries, by.seed, is_default=is_default)
    return folds if by.folds is None else replace(folds, n_folds=by.folds)


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


def _print_tuned(result: TuningResult) -> None:
    """Print the best number of features of every setting, and what is known of the chosen model."""
    points = _best_of_settings(result)
    names = [name for name in SHOWN if any(name in point for point in points)]
    rows: list[tuple[tuple[Any, ...], list[float]]] = []
    for point in points:
        score = "diverged" if math.isnan(point["score"]) else round(point["score"], 9)
        known = not math.isnan(point["standard_error"])
        error = round(point["standard_error"], 9) if known else ""
        others = tuple(_shown(point.get(name, "")) for name in names)
        row = (*others, point["n_features"], score, error, _mark(point, result))
        if not rows or rows[-1][0] != row:
            rows.append((row, []))
        rows[-1][1].append(point["regularization"])
    print_table(
        f"{result.metric} ({result.measured_on}, {result.convention} convention): {result.counted}",
        ["lambda", *names, "features", "score", "std. error", ""],
        [(_range(lambdas), *row) for row, lambdas in rows],
    )
    for line in result.said:
        print_line(line)


SHOWN = ("normalize", "forms", "rescore", "mu", "eta0")
"""Tuned parameters other than lambda, in the order of their columns."""


def _shown(value: Any) -> str:
    if value is None:
        return "auto"
    return value if isinstance(value, str) else f"{value:g}"


def _range(lambdas: Sequence[float]) -> str:
    """The lambdas of a row: lambdas beside each other with the same scores share it."""
    first, last = min(lambdas), max(lambdas)
    return f"{first:g}" if first == last else f"{first:g} to {last:g}"


def _best_of_settings(result: TuningResult) -> list[GridPoint]:
    """The best point of every setting; for the chosen setting, also the chosen point."""
    from dranking.metrics.measures.by_name import higher_is_better
    from dranking.tuning.settings import setting_text

    sign = 1 if higher_is_better(result.metric) else -1
    by_setting: dict[str, list[GridPoint]] = {}
    for point in result.grid:
        by_setting.setdefault(setting_text(point), []).append(point)
    found = []
    for points in by_setting.values():
        measured = [point for point in points if not math.isnan(point["score"])]
        best = max(measured, key=lambda p: sign * p["score"], default=points[0])
        marked = [p for p in measured if _mark(p, result) and p["score"] != best["score"]]
        found += [*marked, best]
    return found


def _mark(point: GridPoint, result: TuningResult) -> str:
    """Whether a point is the best or the chosen one."""
    marks = (("best", result.best), ("chosen", result.chosen))
    own = {
        k: v for k, v in point.items() if k not in ("standard_error", "n_queries", "n_effective")
    }
    return ", ".join(mark for mark, of in marks if own == of)
