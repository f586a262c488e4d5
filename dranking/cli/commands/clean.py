"""`dranking clean`."""

from __future__ import annotations

from typing import Annotated

import typer

from dranking.cli.options.shared import Json
from dranking.cli.output import note, print_json
from dranking.cli.parsing.option_groups import grouped
from dranking.files.places import Place


@grouped
def clean(
    directory: Annotated[
        Place,
        typer.Argument(
            help="A data set, statistics store, bilinear model or folder of scores, also one that "
            "was never finished, or the folder that was given as --scratch of dranking ingest, "
            "whose other files stay.",
            metavar="DIRECTORY",
        ),
    ],
    days: Annotated[
        float,
        typer.Option(
            min=0,
            help="Keep younger files: a writer may be at work, or a reader may have them open. "
            "Unfinished output of other hosts beside a local directory goes after 12 hours.",
        ),
    ] = 7.0,
    as_json: Json = False,
) -> None:
    """Delete files that killed writers left in a directory, and files of its former content.

    Readers never see such files. Every write to the directory deletes those older than a week.
    """
    from dranking.files.writing.clean import clean as clean_directory

    n_files = clean_directory(directory, days * 24 * 3600)
    if as_json:
        print_json({"n_deleted": n_files})
    else:
        note(f"{n_files:,} files deleted in {directory}")
