"""`dranking compare`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from dranking.cli.measured_rankers import Measuring, names_of, split_paths
from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.comparison import ComparisonOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.runs import RunOptions
from dranking.cli.options.scorers import ScoreColumn, check_no_model, ranks_by_column
from dranking.cli.options.shared import Json
from dranking.cli.output import print_json, progress_shown
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.ranker_tables import print_rankers, print_two
from dranking.errors import UsageError
from dranking.files.places import Place


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
    runs: RunOptions = RunOptions(),
    how: ComparisonOptions = ComparisonOptions(),
    form: Annotated[
        Literal["text", "markdown", "latex"],
        typer.Option("--format", help="Print the table of all rankers in this form."),
    ] = "text",
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
    from dranking.metrics.comparison.many_rankers import compare_ranker_values

    rankers, data = split_paths(paths)
    check_no_model(data)
    by_column = score_column is not None and len(rankers) == 1
    if not by_column:
        ranks_by_column(data, score_column, rankers, "give A and DATA alone")
    scored: list[Place | str] = [*rankers, *([score_column] if by_column and score_column else [])]
    if len(scored) < 2:
        raise UsageError(
            f"{paths[0]}: two rankers or more are compared: give A B DATA. DATA is left out where "
            "all of them are values of every query from evaluate --per-query."
        )
    if runs.by is not None and form != "text":
        raise UsageError("--by goes with --format text and with --json; leave out --format.")
    how.check(len(scored))
    pairwise = len(scored) == 2 and how.test == "sign-flip" and form == "text"
    names = [] if pairwise else names_of(scored)
    measuring = Measuring(runs, columns, execution)
    tables, groups = measuring.values(scored, data, None if by_column else score_column)
    name = groups and groups.name
    with progress_shown():
        if pairwise:
            two = compare_values(*tables, groups=groups, **how.drawn)
            title = f"A = {scored[0]}, B = {scored[1]}"
            shown = partial(print_two, two, title, name)
            facts = two.as_json()
        else:
            named = dict(zip(names, tables, strict=True))
            many = compare_ranker_values(named, groups=groups, test=how.test, **how.drawn)
            shown = partial(print_rankers, many, form, name)
            facts = many.as_json()
    if as_json:
        print_json(facts)
    else:
        shown()
