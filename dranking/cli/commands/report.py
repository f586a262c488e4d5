"""`dranking report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from dranking.cli.measured_rankers import Measuring, names_of, split_paths
from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.comparison import ComparisonOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.runs import RunOptions
from dranking.cli.options.scorers import (
    check_no_model,
    is_model,
    open_judged,
    open_scorer,
    ranks_by_column,
)
from dranking.cli.options.shared import Json, Output, Overwrite
from dranking.cli.output import note, print_json, print_line, progress_shown
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.typed_command import typed_command
from dranking.errors import UsageError
from dranking.files.places import Place, is_local
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file
from dranking.redaction import redacted

if TYPE_CHECKING:
    from dranking.metrics.overlap import Overlap
    from dranking.report.content import Content

DEFAULT_METRIC = "ndcg@10"
"""Main metric of the page of a model."""

Champion: TypeAlias = Annotated[
    Place | None,
    typer.Option(
        help="What to compare MODEL with: another model, a folder of scores, a TREC run, or "
        "CSV or parquet with qid, docid and score."
    ),
]
ChampionColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Compare MODEL with the ranking by this column of the data. With --champion, or for "
        "scores: the column of scores in their CSV or parquet.",
    ),
]
Train: TypeAlias = Annotated[
    Place | None,
    typer.Option(
        help="The training data of MODEL. The page then also shows risk bounds and, for greedy "
        "RankRLS and RankRLS whose features are columns of this data, and no forms of them, sizes, "
        "stability, importance and the regularisation path. A statistics store gives all of "
        "these except the bounds and the importance."
    ),
]


@grouped
def report(
    context: typer.Context,
    paths: Annotated[
        list[Place],
        typer.Argument(
            help="A model and judged data; or a run, or several models, scores and runs as compare "
            "takes them, and judged data or judgements (qrels).",
            metavar="MODEL|RUN... [DATA]",
        ),
    ],
    output: Output,
    champion: Champion = None,
    score_column: ChampionColumn = None,
    train: Train = None,
    runs: RunOptions = RunOptions(),
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    how: ComparisonOptions = ComparisonOptions(),
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a report about a model, about a run, or about several rankers as one HTML page.

    The page of a model shows figures, weights, wins and losses on judged data. The page of several
    rankers shows means, all pairs with tests at one level, wins and losses, and the queries on
    which they differ most. Neither needs any other file.
    """
    from dranking.report.page import check_page_name

    rankers, data = split_paths(paths)
    check_no_model(data)
    check_page_name(output)
    if champion is not None:
        ranks_by_column(data, score_column, [champion], "leave out --champion")
    check_output_file(output, overwrite)
    if not rankers:
        raise UsageError(f"{paths[0]}: a model or a run, and DATA behind it, are needed.")
    command = typed_command(context)
    if len(rankers) == 1 and how != ComparisonOptions():
        raise UsageError(
            "--confidence, --resamples, --seed and --test are for the page of several rankers."
        )
    measuring = Measuring(runs, columns, execution)
    if data is not None and len(rankers) == 1 and _has_own_page(rankers[0], data, columns, runs.by):
        runs.check_no_run()
        runs.check_no_grades("the page of a model")
        content = _content_of_model(
            rankers[0], data, champion, score_column, train, measuring, overwrite, command
        )
        _write_model(content, title, output, overwrite)
        trained_on = content.overlaps
    else:
        if champion is not None or train is not None:
            raise UsageError(
                "--champion and --train go with one linear model and rows with features; several "
                "rankers stand beside each other before DATA."
            )
        trained_on = _report_rankers(
            rankers, data, output, score_column, measuring, how, title, overwrite, command
        )
    if as_json:
        found = {role: overlap.as_json() for role, overlap in trained_on.items()}
        print_json({"output": str(output), "trained_on": found})
    else:
        for role, overlap in trained_on.items():
            print_line(f"{role}: {overlap.text}")
        note(f"report written to {output}")


def _has_own_page(path: Place, data: Place, columns: ColumnOptions, by: str | None) -> bool:
    """Whether a path is a model that is judged on rows with features."""
    from dranking.metrics.scores.read_scores import is_judgement_file

    return is_model(path) and not is_judgement_file(data, columns.id_and_grade, [by or ""])


def _report_rankers(
    rankers: Sequence[Place],
    data: Place | None,
    output: Place,
    score_column: str | None,
    measuring: Measuring,
    how: ComparisonOptions,
    title: str | None,
    overwrite: bool,
    command: str,
) -> Mapping[str, Overlap]:
    """Write the page of several rankers, or of one run; how many queries each was trained on."""
    from dranking.metrics.comparison.many_rankers import compare_ranker_values
    from dranking.metrics.per_query import PerQuery
    from dranking.models.evaluation import Evaluation
    from dranking.report.page import render
    from dranking.report.ranker_page import page_of_rankers, page_of_values

    names = names_of(rankers)
    if len(rankers) > 1:
        how.check(len(rankers))
    found, groups = measuring.values(rankers, data, score_column, overwrite)
    files = {**dict(zip(names, rankers, strict=True)), "judged data": data}
    rules = measuring.runs.rules
    counts = {
        f"documents of {name}": one.counts.text(rules)
        for name, one in zip(names, found, strict=True)
        if isinstance(one, Evaluation) and one.counts
    }
    facts = {**counts, **_origin(command, files)}
    if groups is not None:
        facts["segments"] = groups.name
    trained_on: Mapping[str, Overlap | None]
    with progress_shown():
        if len(rankers) > 1:
            named = dict(zip(names, found, strict=True))
            result = compare_ranker_values(named, groups=groups, test=how.test, **how.drawn)
            page = page_of_rankers(result, title or "Comparison of rankers", facts)
            trained_on = result.trained_on
        else:
            [one] = found
            one = Evaluation(one) if isinstance(one, PerQuery) else one
            page = page_of_values(replace(one, groups=groups), title or names[0], facts)
            trained_on = {names[0]: one.trained_on}
        atomic_write(output, render(page), overwrite=overwrite)
    return {name: overlap for name, overlap in trained_on.items() if overlap is not None}


def _content_of_model(
    model: Place,
    data: Place,
    champion: Place | None,
    score_column: str | None,
    train: Place | None,
    measuring: Measuring,
    overwrite: bool,
    command: str,
) -> Content:
    """What the page of a model shows, beside a champion if there is one."""
    from dranking.models.linear.model import load_model
    from dranking.models.scorers import read_alike
    from dranking.report.describe import describe

    columns = measuring.columns
    with measuring.execution.running(overwrite) as executor:
        fitted = columns.permitting(load_model(model))
        rival = score_column
        if champion is not None:
            rival = open_scorer(champion, columns, data, score_column)
        is_apart = rival is not None and not read_alike(fitted, rival)
        is_alone = rival is None or is_apart
        content = describe(
            fitted,
            open_judged(data, [fitted] if is_alone else [fitted, rival], columns),
            champion=rival,
            champion_data=open_judged(data, [rival], columns) if is_apart else None,
            train=None if train is None else columns.open_training_of(fitted, train),
            metric=measuring.runs.metrics or DEFAULT_METRIC,
            convention=measuring.runs.convention or "standard",
            by=measuring.runs.groups(data, columns),
            executor=executor,
        )
    files = {"model": model, "champion": champion, "judged data": data, "training data": train}
    return replace(content, facts={**content.facts, **_origin(command, files)})


def _write_model(content: Content, title: str | None, output: Place, overwrite: bool) -> None:
    """Write the page of a model."""
    from dranking.report.page import render
    from dranking.report.sections import page_of

    page = page_of(content, title or "Ranking model")
    atomic_write(output, render(page), overwrite=overwrite)


def _origin(command: str, files: Mapping[str, Place | None]) -> dict[str, str]:
    """Dates, files and the command, for the footer of the page."""
    return {
        **{f"file of the {use}": _dated(path) for use, path in files.items() if path is not None},
        "page written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "command": command,
    }


def _dated(path: Place) -> str:
    """A place without secrets and, for a local file, the time when it was written."""
    if not is_local(path) or not path.exists():
        return redacted(str(path))
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return f"{path}, written {written:%Y-%m-%d %H:%M} UTC"
