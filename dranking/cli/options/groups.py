"""Groups of queries for which `evaluate`, `compare` and `report` measure apart."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.errors import DataError, UsageError
from dranking.files.places import Place, as_place

By: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Also measure the queries of each value of this column of the data or judgements, "
        "which is constant within a query; or FILE:COLUMN, a table with a row for each query.",
    ),
]


def groups_option(by: str | None, data: Place | None, columns: ColumnOptions) -> Any:
    """Groups of queries of an option; the name of a column of data with features as it is."""
    from dranking.metrics.query_groups import read_query_groups
    from dranking.metrics.scores.read_scores import is_judgement_file

    if by is None:
        return None
    file, _, column = by.rpartition(":")
    if file:
        return read_query_groups(as_place(file), column, columns.qid_column)
    if data is None:
        raise UsageError(f"--by {by}: there is no DATA with this column; give FILE:COLUMN.")
    if is_judgement_file(data, columns.id_and_grade, [by]):
        try:
            return read_query_groups(data, by, columns.qid_column)
        except DataError as error:
            raise DataError(f"{error} Or name a table of queries: --by FILE:COLUMN.") from error
    return by
