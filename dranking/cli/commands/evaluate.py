"""`dranking evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dranking.cli.commands.bilinear import evaluate_collection, print_evaluation
from dranking.cli.options.clicks import ClickOptions, print_values
from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions, check_in_process
from dranking.cli.options.runs import RunOptions, runs_beside_judgements
from dranking.cli.options.scorers import (
    JudgedData,
    ScoreColumn,
    Scores,
    check_no_model,
    data_or_first,
    open_judged,
    open_scorer,
    ranks_by_column,
)
from dranking.cli.options.shared import (
    Json,
    Overwrite,
    Queries,
)
from dranking.cli.output import interval_text, note, print_json, print_line, print_table
from dranking.cli.parsing.option_groups import grouped
from dranking.errors import UsageError
from dranking.files.places import Place
from dranking.files.writing.output_checks import check_output_file

if TYPE_CHECKING:
    from dranking.metrics.per_query import PerQuery
    from dranking.models.evaluation import Evaluation


@grouped
def evaluate(
    model: Scores,
    data: JudgedData = None,
    runs: RunOptions = RunOptions(),
    per_query: Annotated[
        Place | None, typer.Option(help="Write the values of every query to this parquet file.")
    ] = None,
    score_column: ScoreColumn = None,
    queries: Queries = None,
    qrels: Annotated[
        Place | None,
        typer.Option(help="Bilinear models only: judgments. Default: the labels of the documents."),
    ] = None,
    on_clicks: ClickOptions = ClickOptions(),
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Measure how well a model, or scores from elsewhere, rank judged data.

    Beside judgements of documents (TREC qrels) in the place of data, the scores are a run of any
    depth, and documents and queries count as in trec_eval.

    With --clicks, the data needs no labels: expected clicks and DCG are estimated from clicks.
    """
    from dranking.models.evaluation import evaluate as measure
    from dranking.models.load import is_bilinear

    on_clicks.check(per_query)
    if runs.by is not None and on_clicks.clicks is not None:
        raise UsageError("--by averages measures of judged queries; leave it out with --clicks.")
    if per_query is not None:
        check_output_file(per_query, overwrite)
    by_column = ranks_by_column(data, score_column, [model], "give DATA alone")
    column = score_column if by_column else None
    judged = data_or_first(model, data, column is not None)
    check_no_model(judged)
    of_texts = column is None and is_bilinear(model)
    run = None
    if column is None and not of_texts and on_clicks.clicks is None:
        run = runs_beside_judgements(
            [model], judged, columns, score_column, further=[runs.by or ""]
        )
    how = runs.how(is_run=run is not None)
    if run is not None:
        given = {"--queries": queries, "--qrels": qrels, **execution.given}
        check_in_process(given, "a run beside judgements")
        [scores], judgements = run
        groups, rules = runs.groups(judged, columns), runs.rules
        result = measure(scores, judgements, runs.metrics, how, rules=rules, by=groups)
        _print_result(result, per_query, overwrite, runs, as_json)
        return
    runs.check_no_run()
    if of_texts:
        check_in_process({"--by": runs.by, **execution.given}, "a bilinear model")
        found = evaluate_collection(model, judged, queries, qrels, runs.metrics, how)
        _write(per_query, found.per_query, overwrite)
        print_evaluation(found, as_json)
        return
    with execution.running(overwrite) as executor:
        scorer = column or open_scorer(model, columns, judged, score_column)
        if on_clicks.clicks is not None:
            print_values(on_clicks.values(scorer, judged, runs.metrics, columns, executor), as_json)
            return
        rows = open_judged(judged, [scorer], columns)
        groups = runs.groups(judged, columns)
        result = measure(scorer, rows, runs.metrics, how, by=groups, executor=executor)
    _print_result(result, per_query, overwrite, runs, as_json)


def _write(path: Place | None, values: PerQuery, overwrite: bool) -> None:
    """Write the values of every query, if there is a path."""
    from dranking.metrics.per_query import write_per_query

    if path is not None:
        write_per_query(path, values, overwrite)
        note(f"values of every query written to {path}")


def _print_result(
    result: Evaluation, per_query: Place | None, overwrite: bool, runs: RunOptions, as_json: bool
) -> None:
    """Write the values of queries; print the mean of each metric, and how many queries count."""
    _write(per_query, result.per_query, overwrite)
    if as_json:
        print_json(result.as_json())
        return
    n, excluded = result.n_queries, result.summary.excluded
    rows = [
        (name, mean, interval_text(*result.intervals[name]), n - excluded[name])
        for name, mean in result.metrics.items()
    ]
    title = f"{n:,} queries, {result.per_query.convention} convention"
    print_table(title, ["metric", "mean", "95%", "queries that count"], rows)
    for name in result.metrics if result.groups else ():
        _print_groups(result, name)
    if result.trained_on is not None:
        print_line(result.trained_on.text)
    if result.counts is not None:
        print_line(result.counts.text(runs.rules))


def _print_groups(result: Evaluation, metric: str) -> None:
    """Print the mean of a metric for each group of queries, and for all."""
    from dranking.metrics.comparison.significance import rough_text
    from dranking.metrics.query_groups import and_all

    by = result.groups.name if result.groups else ""
    rows = [
        (
            label,
            one.metrics[metric],
            interval_text(*one.intervals[metric]),
            f"{one.n_queries - one.excluded[metric]}{rough_text(one.n_effective(metric))}",
        )
        for label, one in and_all(result.by, result)
    ]
    print_table(f"{metric} by {by}", [by, "mean", "95%", "queries that count"], rows)
