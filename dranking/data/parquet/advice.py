"""The command that brings the rows of files together, where they cannot be read in place."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dranking.data.roles import QID, RELEVANCE, Columns
from dranking.data.tables.columns import Layout
from dranking.errors import MOST_NAMES
from dranking.files.places import AnyPlace

OUTPUT = "ordered.zarr"

OTHERS = "..."

MOST_IN_COMMAND = 20
"""Largest number of names that an option of the command has in full."""


def ingest_advice(
    sources: Sequence[AnyPlace], columns: Columns, where: str | None, layout: Layout
) -> str:
    """Advice on files that are read in place, and whose rows of one query lie apart.

    Parameters
    ----------
    sources, columns, where
        What the caller opened.
    layout
        The columns that were found.
    """
    roles = layout.roles
    command = ["dranking", "ingest", *map(str, sources)]
    options = {
        "--where": where,
        "--qid-column": None if roles.qid == QID else roles.qid,
        "--relevance-column": None if roles.relevance == RELEVANCE else roles.relevance,
        "--docid-column": roles.docid if "docid" in columns.chosen else None,
        "--weight-column": roles.weight if "weight" in columns.chosen else None,
        "--folder-features": _first(columns.folder_features),
        "--exclude": _first(columns.exclude),
    }
    if columns.features is not None or columns.needed is not None:
        options["--features"] = _first(layout.columns)
        del options["--exclude"]
    for option, value in options.items():
        command += [option, value] if value else []
    command += ["--no-relevance"] if roles.relevance is None else []
    is_short = any((value or "").endswith(f",{OTHERS}") for value in options.values())
    others = f", where {OTHERS} stands for the names of the other columns" if is_short else ""
    files = "the files and their condition" if where else "the files"
    return (
        f"bring them together once, and give {OUTPUT} in place of {files}: "
        f"{shlex.join([*command, '--output', OUTPUT])}{others} (in Python, dr.ingest)."
    )


def _first(names: Sequence[str]) -> str:
    """Names of columns as the value of an option; dots stand for many behind the first."""
    if len(names) <= MOST_IN_COMMAND:
        return ",".join(names)
    return ",".join([*names[:MOST_NAMES], OTHERS])
