"""`dranking compare`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import typer

from dranking.cli.measured_rankers import Measuring, names_of, split_paths
from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.groups import By
from dranking.cli.options.runs import RunOptions
from dranking.cli.options.scorers import ScoreColumn, check_no_model, ranks_by_column
from dranking.cli.options.shared import ConventionIfGiven, Json, MetricsIfGiven
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
    by: By = None,
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
    if by is not None and form != "text":
        raise UsageError("--by goes with --format text and with --json; leave out --format.")
    check_rankers(len(scored), test, resamples, confidence)
    pairwise = len(scored) == 2 and test == "sign-flip" and form == "text"
    names = [] if pairwise else names_of(scored)
    measuring = Measuring(metrics, convention, runs, columns, execution, by)
    tables, groups = measuring.values(scored, data, None if by_column else score_column)
    drawn: dict[str, Any] = {"seed": seed, "n_resamples": resamples, "confidence": confidence}
    drawn["groups"] = groups
    with progress_shown():
        if pairwise:
            two = compare_values(*tables, **drawn)
            title = f"A = {scored[0]}, B = {scored[1]}"
            shown = partial(print_two, two, title, groups and groups.name)
            facts = two.as_json()
        else:
            named = dict(zip(names, tables, strict=True))
            many = compare_ranker_values(named, test=test, **drawn)
            shown = partial(print_rankers, many, form, groups and groups.name)
            facts = many.as_json()
    if as_json:
        print_json(facts)
    else:
        shown()
