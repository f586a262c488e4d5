"""Options on logs of clicks: their columns, their form, and the sessions that count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from dranking.files.key_values import names_in

if TYPE_CHECKING:
    from dranking.clicks.counting.click_log import ClickLog
    from dranking.clicks.logs.columns import LogColumns


@dataclass(frozen=True, kw_only=True)
class LogColumnOptions:
    """Names of the columns of a log; ``a.b`` is field b of the structure a."""

    TOPIC: ClassVar[str] = "Columns of the log"

    session_column: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Column of session ids; a session is what one user saw together."
        ),
    ] = "session"
    query_column: Annotated[str, typer.Option(metavar="NAME", help="Column of queries.")] = "query"
    document_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column of document ids, or of lists of them.")
    ] = "document"
    position_column: Annotated[str, typer.Option(metavar="NAME", help="Column of positions.")] = (
        "position"
    )
    first_position: Annotated[
        int, typer.Option(min=0, max=1, help="Number of the first position: 1, or 0.")
    ] = 1
    clicked_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column of clicks: true or false, 1 or 0.")
    ] = "clicked"
    time_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column of times; in UTC unless they have a zone.")
    ] = "time"
    clicked_ids: Annotated[
        bool,
        typer.Option("--clicked-ids", help="Lists only: clicks are lists of clicked documents."),
    ] = False
    user_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of users, if any.")
    ] = None
    arm_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of arms: rankers served side by side, if any."),
    ] = None
    weight_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of weights of clicks, such as dwell, if any."),
    ] = None
    context_columns: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Columns of the context, such as device, if any."),
    ] = ""
    filter_columns: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Columns of filters, if any: a query with other filters is another query.",
        ),
    ] = ""

    @property
    def columns(self) -> LogColumns:
        """The columns by role."""
        from dranking.clicks.logs.columns import LogColumns

        return LogColumns(
            session=self.session_column,
            query=self.query_column,
            document=self.document_column,
            position=self.position_column,
            first_position=self.first_position,  # type: ignore[arg-type] # 0 or 1: typer checks it
            clicked=self.clicked_column,
            time=self.time_column,
            clicked_ids=self.clicked_ids,
            user=self.user_column,
            arm=self.arm_column,
            weight=self.weight_column,
            context=tuple(names_in(self.context_columns)),
            filters=tuple(names_in(self.filter_columns)),
        )


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Options on the form of a log, and on the sessions that count."""

    form: Annotated[
        Literal["rows", "lists", "ubi"],
        typer.Option(
            help="rows: a row for each result that was shown. lists: a row for each session, with "
            "lists. ubi: OpenSearch's User Behavior Insights."
        ),
    ] = "rows"
    click_actions: Annotated[
        str, typer.Option(metavar="NAMES", help="ubi only: actions that are clicks.")
    ] = "click"
    pages: Annotated[
        Literal["first", "all"],
        typer.Option(
            help="ubi only: leave results of later pages out, or count all, with the page as a "
            "context."
        ),
    ] = "first"
    page_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="ubi only: column of the number of the page, the first is 1. Default: by from and "
            "size of the query.",
        ),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="CONDITION",
            help="Read only rows that fulfil a condition on columns, such as \"device == 'tv'\".",
        ),
    ] = None
    max_clicks: Annotated[
        int | None, typer.Option(min=0, help="Drop sessions with more clicks than this.")
    ] = None
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="First night to keep, such as 2026-11-01.")
    ] = None
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Last night to keep.")] = None
    min_sessions: Annotated[
        int,
        typer.Option(
            min=1, help="Leave a query out of each night in which it has fewer sessions than this."
        ),
    ] = 1
    max_unmatched: Annotated[
        float,
        typer.Option(min=0, max=1, help="Largest share of events that cannot be used."),
    ] = 0.05
    keep_queries: Annotated[
        bool, typer.Option("--keep-queries", help="Keep query texts in place of salted hashes.")
    ] = False
    users: Annotated[
        bool,
        typer.Option(
            "--users",
            help="Count by user also: intervals of propensities and values then allow for users "
            "who come back.",
        ),
    ] = False
    salt: Annotated[
        str | None,
        typer.Option(help="Salt of hashes of users and queries. Default: random, or the store's."),
    ] = None
    buckets: Annotated[
        int | None,
        typer.Option(min=1, help="Buckets of a new store. Default: by the number of events."),
    ] = None

    def log(self, columns: LogColumns) -> ClickLog:
        """The log as `build_clicks` takes it."""
        from dranking.clicks.counting.click_log import ClickLog
        from dranking.clicks.logs.columns import UbiRules

        return ClickLog(
            form=self.form,
            columns=columns,
            ubi=UbiRules(tuple(names_in(self.click_actions)), self.pages, self.page_column),
            where=self.where,
            max_clicks=self.max_clicks,
            since=self.since,
            until=self.until,
            min_sessions=self.min_sessions,
            max_unmatched=self.max_unmatched,
            keep_queries=self.keep_queries,
            users=self.users,
            salt=self.salt,
            n_buckets=self.buckets,
        )
