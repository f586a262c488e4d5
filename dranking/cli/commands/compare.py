"""`dranking compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.runs import RunOptions, chosen_metrics, runs_beside_judgements
from dranking.cli.options.scorers import (
    ScoreColumn,
    open_judged,
    open_scorer,
    ranks_by_column,
)
from dranking.cli.options.shared import ConventionIfGiven, Json, MetricsIfGiven
from dranking.cli.output import format_value, note, print_json, print_line, print_table
from dranking.cli.parsing.option_groups import grouped
from dranking.errors import UsageError
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.engine.executor import Executor
    from dranking.metrics.comparison.compare import Comparison
    from dranking.metrics.conventions import Convention
    from dranking.metrics.scores.rows import Rows


@grouped
def compare(
    a: Annotated[
        Place,
        typer.Argument(
            help="A model; scores: a folder that predict wrote, a TREC run, or CSV or parquet with "
            "qid, docid and score; or a parquet file from evaluate --per-query.",
            metavar="A",
        ),
    ],
    b: Annotated[
        Place,
        typer.Argument(help="Another of these; or DATA with --score-column.", metavar="B"),
    ],
    data: Annotated[
        Place | None,
        typer.Argument(
            help="Judged data, or judgements (qrels); needed for a model or scores.",
            metavar="[DATA]",
        ),
    ] = None,
    score_column: ScoreColumn = None,
    metrics: MetricsIfGiven = None,
    convention: ConventionIfGiven = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the bootstrap interval.")] = 0.95,
    resamples: Annotated[
        int, typer.Option(min=1, help="Number of bootstrap samples and random signs.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Random seed of bootstrap and permutations.")] = 0,
    runs: RunOptions = RunOptions(),
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    as_json: Json = False,
) -> None:
    """Compare two models, or scores from elsewhere, query by query.

    Beside judgements of documents (TREC qrels) in the place of data, A and B are runs of any depth.

    Differences are A - B, with bootstrap-t intervals, the p-values that belong to them, and the
    permutation test of the signs. Fewer than 20 queries, or queries of unequal
    weights that count for fewer than 20 equal ones, cause a warning.
    """
    from dranking.metrics.comparison.compare import compare_values

    by_column = ranks_by_column(data, score_column, [a, b], "give A and DATA alone")
    judged = b if by_column else data
    scored: list[Place | str] = [a, score_column if by_column and score_column else b]
    name = None if by_column else score_column
    beside = None if by_column else _runs([a, b], judged, columns, name)
    how = runs.convention(convention, is_run=beside is not None)
    if beside is None:
        runs.check_no_run()
    else:
        runs.check_options(scheduler=execution.scheduler)
    with execution.running() as executor:
        if beside is None:
            tables = [_per_query(s, name, judged, metrics, how, columns, executor) for s in scored]
        else:
            found, judgements = beside
            given = zip((a, b), found, strict=True)
            tables = [_of_run(*run, judgements, metrics, how, runs) for run in given]
        result = compare_values(*tables, seed=seed, n_resamples=resamples, confidence=confidence)
    if as_json:
        print_json(result.as_json())
    else:
        _print(result, f"A = {a}, B = {scored[1]}", confidence)


def _print(result: Comparison, title: str, confidence: float) -> None:
    """Print a row for each metric, and how many queries each model was trained on."""
    from dranking.metrics.comparison.compare import interval_text

    rows = [
        (
            m.metric,
            m.mean_a,
            m.mean_b,
            f"{m.difference:+.4f} {interval_text(m)}",
            f"{format_value(m.p_value)} ({format_value(m.p_holm)})",
            format_value(m.p_permutation),
            f"{m.wins} / {m.ties} / {m.losses}",
            m.n_queries,
        )
        for m in result.metrics
    ]
    interval = f"A - B [{confidence:.0%}]"
    headings = ["metric", "A", "B", interval, "p (Holm)", "p of signs", "win / tie / loss"]
    headings.append("queries that count")
    print_table(f"{title}: {result.n_queries:,} queries", headings, rows)
    for name, overlap in result.trained_on.items():
        if overlap is not None:
            print_line(f"{name.upper()}: {overlap.text}")


def _runs(
    paths: list[Place], data: Place | None, columns: ColumnOptions, score_column: str | None
) -> tuple[list[Any], Rows] | None:
    """Runs, or values of every query of evaluate --per-query, and judgements; None for rows."""
    from dranking.metrics.per_query import is_per_query, read_per_query

    values = {path: read_per_query(path) for path in paths if data and is_per_query(path)}
    if len(values) == len({*paths}):
        return None
    return runs_beside_judgements(paths, data, columns, score_column, values)


def _of_run(
    path: Place,
    run: Any,
    judgements: Rows,
    metrics: str | None,
    convention: Convention,
    runs: RunOptions,
) -> Any:
    """Values of every query of a run: as they were read, or measured on judgements."""
    from dranking.metrics.per_query import PerQuery
    from dranking.models.evaluation import evaluate as measure

    if isinstance(run, PerQuery):
        return run
    found = measure(run, judgements, chosen_metrics(metrics), convention, rules=runs.rules)
    if found.counts is not None:
        note(f"{path}: {found.counts.text(runs.rules)}")
    return found


def _per_query(
    scored: Place | str,
    score_column: str | None,
    data: Place | None,
    metrics: str | None,
    convention: Convention,
    columns: ColumnOptions,
    executor: Executor,
) -> Any:
    """Values of every query: read from parquet, or measured on the data."""
    from dranking.metrics.per_query import is_per_query, read_per_query
    from dranking.models.evaluation import evaluate as measure

    if not isinstance(scored, str) and is_per_query(scored):
        return read_per_query(scored)
    if data is None:
        raise UsageError(f"{scored}: judged data is needed to measure it: give A B DATA.")
    scorer: Any = scored
    if not isinstance(scored, str):
        scorer = open_scorer(scored, columns, data, score_column)
    dataset = open_judged(data, [scorer], columns)
    return measure(scorer, dataset, chosen_metrics(metrics), convention, executor=executor)
