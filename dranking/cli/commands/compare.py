"""`dranking compare`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions, check_in_process
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
from dranking.cli.ranker_tables import print_rankers
from dranking.errors import UsageError
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.engine.executor import Executor
    from dranking.metrics.comparison.compare import Comparison
    from dranking.metrics.conventions import Convention
    from dranking.metrics.scores.rows import Rows


@grouped
def compare(
    paths: Annotated[
        list[Place],
        typer.Argument(
            help="Two rankers or more: models; scores: a folder that predict wrote, a TREC run, or "
            "CSV or parquet with qid, docid and score; or parquet files from evaluate --per-query. "
            "Then DATA, judged data or judgements (qrels), needed for models and scores.",
            metavar="A B... [DATA]",
        ),
    ],
    score_column: ScoreColumn = None,
    metrics: MetricsIfGiven = None,
    convention: ConventionIfGiven = None,
    confidence: Annotated[
        float, typer.Option(help="Confidence of the bootstrap intervals.")
    ] = 0.95,
    resamples: Annotated[
        int, typer.Option(min=1, help="Number of bootstrap samples and random signs.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Random seed of bootstrap and permutations.")] = 0,
    test: Annotated[
        Literal["sign-flip", "tukey-hsd"],
        typer.Option(
            help="Test of all pairs of rankers: random signs with Holm's correction, or Tukey's "
            "randomised test, for rankers of equal noise alone."
        ),
    ] = "sign-flip",
    form: Annotated[
        Literal["text", "markdown", "latex"],
        typer.Option("--format", help="Print the table of all rankers in this form."),
    ] = "text",
    runs: RunOptions = RunOptions(),
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    as_json: Json = False,
) -> None:
    """Compare two models or more, or scores from elsewhere, query by query.

    Beside judgements of documents (TREC qrels) in the place of data, the scores are runs of any
    depth.

    For two, differences are A - B, with bootstrap-t intervals, the p-values that belong to them,
    and the permutation test of the signs. For more, or with --format or --test, all pairs are
    tested at one level, and the letters behind a mean name the rankers that are worse. Fewer than
    20 queries, or queries of unequal weights that count for fewer than 20 equal ones, cause a
    warning.
    """
    from dranking.metrics.comparison.compare import compare_values
    from dranking.metrics.comparison.many_rankers import check_rankers, compare_ranker_values

    rankers, data = _split(paths)
    by_column = score_column is not None and len(rankers) == 1
    if not by_column:
        ranks_by_column(data, score_column, rankers, "give A and DATA alone")
    scored: list[Place | str] = [*rankers, *([score_column] if by_column and score_column else [])]
    if len(scored) < 2:
        raise UsageError(
            f"{paths[0]}: two rankers or more are compared: give A B DATA. DATA is left out where "
            "all of them are values of every query from evaluate --per-query."
        )
    check_rankers(len(scored), test, resamples, confidence)
    pairwise = len(scored) == 2 and test == "sign-flip" and form == "text"
    names = [] if pairwise else _names(scored)
    name = None if by_column else score_column
    beside = None if by_column else _runs(rankers, data, columns, name)
    how = runs.convention(convention, is_run=beside is not None)
    if beside is None:
        runs.check_no_run()
    else:
        check_in_process(execution.given, "a run beside judgements")
    with execution.running() as executor:
        if beside is None:
            tables = [_per_query(s, name, data, metrics, how, columns, executor) for s in scored]
        else:
            found, judgements = beside
            given = zip(rankers, found, strict=True)
            tables = [_of_run(*run, judgements, metrics, how, runs) for run in given]
        drawn: dict[str, Any] = {"seed": seed, "n_resamples": resamples, "confidence": confidence}
        if pairwise:
            two = compare_values(*tables, **drawn)
            shown = partial(_print, two, f"A = {scored[0]}, B = {scored[1]}", confidence)
            facts = two.as_json()
        else:
            named = dict(zip(names, tables, strict=True))
            many = compare_ranker_values(named, test=test, **drawn)
            shown, facts = partial(print_rankers, many, form), many.as_json()
    if as_json:
        print_json(facts)
    else:
        shown()


def _split(paths: list[Place]) -> tuple[list[Place], Place | None]:
    """The rankers, and the data behind them; none where all hold values of every query."""
    from dranking.metrics.per_query import is_per_query

    if all(map(is_per_query, paths)):
        return paths, None
    return paths[:-1], paths[-1]


def _names(scored: list[Place | str]) -> list[str]:
    """Names of rankers: the names of their files where these differ, otherwise their paths."""
    short = [each if isinstance(each, str) else each.name for each in scored]
    names = short if len({*short}) == len(short) else [str(each) for each in scored]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} stands among the rankers {names.count(name)} times.")
    return names


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
