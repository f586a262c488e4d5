"""Roles of the columns of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dranking.errors import UsageError

LogForm: TypeAlias = Literal["rows", "lists", "ubi"]


@dataclass(frozen=True)
class UbiRules:
    """Rules by which logs of the form `ubi` are read.

    Attributes
    ----------
    click_actions
        Values of ``action_name`` that are clicks.
    pages
        "first" leaves results of later pages out: who looks at them found nothing on the first one.
        "all" counts them, with positions from 1 on each page, and makes the page a context.
    page
        Column of the number of the page, the first is 1; None for that of ``from`` and ``size`` in
        the text of ``query``.

    Raises
    ------
    UsageError
        If `pages` is neither "first" nor "all".
    """

    click_actions: tuple[str, ...] = ("click",)
    pages: Literal["first", "all"] = "first"
    page: str | None = None

    def __post_init__(self) -> None:
        if self.pages not in ("first", "all"):
            raise UsageError(f"pages is {self.pages!r}; it is 'first' or 'all'.")


@dataclass(frozen=True)
class LogColumns:
    """Names of the columns of a log; ``a.b`` is the field b of the structure a.

    Attributes
    ----------
    session
        Ids of sessions: of whatever one user saw together, such as one page of results.
    query, document
        Query texts or ids, and ids of documents (`lists`: lists of them, in the order shown).
    position
        Positions; in `lists`, None or a column that is absent means the order of the list.
    clicked
        Whether the result was clicked: true and false or 0 and 1. In `lists`, a list of these.
    time
        Times: timestamps, ISO 8601 texts, or numbers of seconds, milliseconds, microseconds or
        nanoseconds since 1970. Without a zone they are in UTC.
    clicked_ids
        `lists` only: `clicked` holds the ids of the clicked documents.
    user, arm, weight
        Ids of users, names of arms, and weights of clicks; None for none.
    context
        Columns whose values make the context.
    first_position
        Number of the first position: 1, or 0 in logs that count from 0.
    filters
        Columns of filters, texts or lists of texts: a query with other filters is another one, with
        the id ``text | value | value``. Without any value the id is the text.

    Raises
    ------
    UsageError
        If the first position is neither 0 nor 1.
    """

    session: str = "session"
    query: str = "query"
    document: str = "document"
    position: str | None = "position"
    clicked: str = "clicked"
    time: str = "time"
    clicked_ids: bool = False
    user: str | None = None
    arm: str | None = None
    weight: str | None = None
    context: tuple[str, ...] = ()
    first_position: Literal[0, 1] = 1
    filters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.first_position not in (0, 1):
            raise UsageError(f"first_position is {self.first_position}; it is 1 or 0.")

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of all columns that rows of events are made of."""
        names = (self.session, self.query, self.document, self.position, self.clicked, self.time)
        more = (self.user, self.arm, self.weight, *self.context, *self.filters)
        return tuple(dict.fromkeys(name for name in (*names, *more) if name is not None))


def has_column(schema: pa.Schema, name: str) -> bool:
    """Whether a table has a column, or a structure with the field that ``a.b`` names."""
    if name in schema.names:
        return True
    top, *below = name.split(".")
    if top not in schema.names:
        return False
    kind = schema.field(top).type
    for part in below:
        if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            return False
        kind = kind.field(part).type
    return True


def column_of(table: pa.Table, name: str | None) -> pa.Array:
    """A column as one array; nulls if there is none."""
    if name is None or not has_column(table.schema, name):
        return pa.nulls(table.num_rows)
    values: Any = table.column(name if name in table.column_names else name.split(".")[0])
    if name not in table.column_names:
        for part in name.split(".")[1:]:
            values = pc.struct_field(values, part)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
