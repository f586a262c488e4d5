"""The decision about training queries that are judged as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dranking.errors import DataError, listed


def left_out(
    names: Sequence[str],
    n_all: int,
    rule: Literal["leave-out", "error"],
    what: Literal["queries", "texts"] = "queries",
) -> tuple[int, tuple[str, ...]]:
    """Number of training queries that are left out, and a note about them.

    Parameters
    ----------
    names
        Names of the training queries that are judged as well.
    n_all
        Number of all training queries.
    rule
        `data.holdout_overlap` of the configuration.
    what
        What the queries are.

    Raises
    ------
    DataError
        If the rule is "error", or all training queries are judged as well.
    """
    n = len(names)
    if not n:
        return 0, ()
    said = f"{n:,} of {n_all:,} training {what} are judged as well ({listed(names)})"
    if rule == "error":
        raise DataError(
            f"{said}. Remove them from data.train or from the judged data, or set "
            'data.holdout_overlap = "leave-out", which leaves them out of the training.'
        )
    if n == n_all:
        raise DataError(f"{said}, so nothing is left to train on. Give other training data.")
    return n, (f"{said}: they are left out of the training",)
