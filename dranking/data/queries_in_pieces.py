"""Errors about queries whose rows come in several parts."""

from __future__ import annotations

from typing import Any

from dranking.errors import DataError


def query_in_pieces(query: Any, scaling: str) -> DataError:
    """The error for a query whose rows come in parts, which were scaled apart from each other."""
    return DataError(
        f"query {query} comes again, and the scaling {scaling} of a value depends on all documents "
        "of its query. Bring all rows of a query in one part (for retrain: name the folder of its "
        "files in data.train) and compute statistics anew, or take the scaling log, standard or "
        "quantile from the beginning."
    )


def other_weight(query: Any, weight: float, before: float) -> DataError:
    """The error for a query that comes again with another weight."""
    return DataError(
        f"query {query} comes again with the weight {weight:g}, and had the weight {before:g} "
        "before; a query has one weight. Give all of its rows the same."
    )
