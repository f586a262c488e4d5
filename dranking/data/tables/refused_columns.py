"""Columns of a table of which no features can be made, in errors."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dranking.data.roles import RESERVED
from dranking.data.tables.ids import is_text
from dranking.errors import MOST_NAMES, DataError, listed

TABLE, DASK_FRAME = "the table", "the dask DataFrame"
"""The name of tables that are no files, in errors."""


def not_features(refused: Sequence[pa.Field], where: str) -> DataError:
    """The error for columns of which no features can be made."""
    names = [field.name for field in refused]
    reasons = [
        "the name of ids, grades or weights" if field.name in RESERVED else str(field.type)
        for field in refused
    ]
    shown = listed([f"{name!r} ({reason})" for name, reason in zip(names, reasons, strict=True)])
    leave_out, choose = how_to_leave_out(names, where)
    texts = [
        field.name for field in refused if field.name not in RESERVED and is_category(field.type)
    ]
    categories = f" {of_categories(texts)}" if texts else ""
    return DataError(
        f"{where}: {len(names)} column(s) cannot be features: {shown}. Features are "
        f"integers, floats, decimals or booleans. Leave these columns out with {leave_out}, or "
        f"name the features with {choose}.{categories}"
    )


def is_category(kind: pa.DataType) -> bool:
    """Whether values are texts, or encoded by a dictionary as categories are."""
    return bool(pa.types.is_dictionary(kind)) or is_text(kind)


def of_categories(names: Sequence[str]) -> str:
    """What makes features of columns of categories."""
    shown = "[...]" if len(names) > MOST_NAMES else list(names)
    return f"pandas.get_dummies(table, columns={shown}) makes columns of 0 and 1 of categories."


def how_to_leave_out(names: Sequence[str], where: str) -> tuple[str, str]:
    """The ways to leave columns out of a table, and to name the features."""
    more = ["..."] if len(names) > MOST_NAMES else []
    shown = f"[{', '.join([*map(repr, names[:MOST_NAMES]), *more])}]"
    if where == DASK_FRAME:
        choose = "frame[[...]], beside grades and ids; dranking.ingest reads columns of lists"
        return f"frame.drop(columns={shown})", choose
    if where == TABLE:
        return (
            f"table.drop(columns={shown}) or dr.from_table(table, dr.Columns(exclude=...))",
            "dr.Columns(features=[...])",
        )
    return (
        f"--exclude {','.join([*names[:MOST_NAMES], *more])} (Columns(exclude=[...]), for retrain "
        "data.exclude)",
        "--features (Columns(features=[...]), for retrain data.features)",
    )
