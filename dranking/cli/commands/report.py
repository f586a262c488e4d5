"""`dranking report`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, TypeAlias

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.scorers import open_judged, open_scorer, ranks_by_column
from dranking.cli.options.shared import Convention, Data, Json, Output, Overwrite, metric_option
from dranking.cli.output import note, print_json, print_line
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.typed_command import typed_command
from dranking.files.places import Place, is_local
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file
from dranking.redaction import redacted

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
        help="Compare MODEL with the ranking by this column of the data. With --champion: the "
        "column of scores in its CSV or parquet.",
    ),
]
Train: TypeAlias = Annotated[
    Place | None,
    typer.Option(
        help="The training data of MODEL. The page then also shows risk bounds and, for greedy "
        "RankRLS and RankRLS, sizes, stability and the regularisation path. A statistics "
        "store gives all of these except the bounds."
    ),
]


@grouped
def report(
    context: typer.Context,
    model: Annotated[Place, typer.Argument(help="A model file.", metavar="MODEL")],
    data: Data,
    output: Output,
    champion: Champion = None,
    score_column: ChampionColumn = None,
    train: Train = None,
    metric: Annotated[str, metric_option("The main metric")] = "ndcg@10",
    convention: Convention = "standard",
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Ranking model",
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a report about a model as one HTML page.

    The page shows figures, weights, wins and losses on judged data, and needs no other file.
    """
    from dranking.models.linear.model import load_model
    from dranking.models.scorers import read_alike
    from dranking.report.describe import describe
    from dranking.report.page import render
    from dranking.report.sections import page_of

    if champion is not None:
        ranks_by_column(data, score_column, [champion], "leave out --champion")
    check_output_file(output, overwrite)
    with execution.running(overwrite) as executor:
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
            metric=metric,
            convention=convention,
            executor=executor,
        )
        files = {"model": model, "champion": champion, "judged data": data, "training data": train}
        facts = _origin(typed_command(context), files)
        content = replace(content, facts={**content.facts, **facts})
        atomic_write(output, render(page_of(content, title)), overwrite=overwrite)
    if as_json:
        trained_on = {role: overlap.as_json() for role, overlap in content.overlaps.items()}
        print_json({"output": str(output), "trained_on": trained_on})
    else:
        for role, overlap in content.overlaps.items():
            print_line(f"{role}: {overlap.text}")
        note(f"report written to {output}")


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
