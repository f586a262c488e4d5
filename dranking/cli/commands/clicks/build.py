"""`dranking clicks`: click stores, made of logs of clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import typer

from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.shared import Json, Output, Overwrite, Scratch, names_in
from dranking.cli.output import note, print_facts, print_json, print_table
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.topics import Commands
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.clicks.counting.click_log import ClickFacts, ClickLog
    from dranking.clicks.logs.columns import LogColumns
    from dranking.clicks.store.click_store import ClickStore

clicks = Commands(
    help="Learn from clicks: counts from logs, propensities, labels.\n\nbuild makes a click "
    "store: what was shown and clicked of each query, document and position, night by night.",
    no_args_is_help=True,
)

Store: TypeAlias = Annotated[Place, typer.Argument(help="A click store.", metavar="STORE")]


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


@clicks.command()
@grouped
def build(
    logs: Annotated[
        list[Place],
        typer.Argument(
            help="Logs: parquet, JSON lines (.ndjson, .jsonl, .json) or CSV (.csv, .tsv), also .gz "
            "of text; or folders of them.",
            metavar="LOGS...",
        ),
    ],
    output: Output,
    log: LogOptions = LogOptions(),
    columns: LogColumnOptions = LogColumnOptions(),
    data: Annotated[
        Place | None,
        typer.Option(
            help="Data set with document ids: impressions of documents that it lacks are counted "
            "and left out, and refused above --max-unmatched. Its tables have default columns."
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="DAYS", help="Number of nights to keep, back from the newest, such as 28d."
        ),
    ] = None,
    append: Annotated[
        bool,
        typer.Option(
            "--append", help="Add nights, and later events of open sessions, to the store."
        ),
    ] = False,
    longest_session: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Longest time from the first to the last event of a session: an append adds later "
            "events to the sessions that may not have been over.",
        ),
    ] = "2h",
    scratch: Scratch = None,
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Count the impressions and clicks of logs, night by night.

    A session belongs to the night (in UTC) in which it began. A result that is clicked twice in a
    session counts once. Ids of sessions are not kept, those of users and queries as salted hashes.
    """
    from dranking.clicks.counting.build import build_clicks
    from dranking.ingestion.open import open_dataset

    with execution.running(overwrite) as executor:
        store, found = build_clicks(
            logs,
            output,
            log.log(columns.columns),
            data=None if data is None else open_dataset(data),
            window=window,
            append=append,
            longest_session=longest_session,
            overwrite=overwrite,
            scratch=scratch,
            executor=executor,
            tell=note,
        )
    if not found.n_events and (n_taken := found.notes["files_taken_before"]):
        note(f"{output}: all {n_taken:,} files were counted before; nothing is changed")
    facts = {"n_events": found.n_events, **_facts(store)}
    if as_json:
        more = {"unmatched_share": found.unmatched_share, **found._asdict()}
        print_json({**facts, **more})
    else:
        print_facts(str(output), facts, "count")
        _print_found(found)


@clicks.command()
@grouped
def info(
    store: Store,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="First night, such as 2026-11-01.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Last night.")] = None,
    as_json: Json = False,
) -> None:
    """Describe a click store, or some of its nights.

    In the table of arms, a session counts once for each of its queries.
    """
    from dranking.clicks.store.arm_totals import arm_totals
    from dranking.clicks.store.click_store import open_click_store

    opened = open_click_store(store, since, until)
    manifest = opened.manifest
    facts = {
        **_facts(opened),
        "n_buckets": manifest.n_buckets,
        "keep_queries": manifest.keep_queries,
        "has_users": manifest.has_users,
        "has_weights": manifest.has_weights,
        "longest_session": manifest.longest_session,
        "n_open_events": sum(file.n_rows for file in opened.manifest.open_files),
        "n_files_counted": len(manifest.taken),
    }
    nights = [
        {
            "night": night.date,
            "n_sessions": night.n_sessions,
            "n_queries": sum(table.n_queries for table in night.tables),
            "n_impressions": sum(table.n_impressions for table in night.tables),
            "n_clicks": sum(table.n_clicks for table in night.tables),
        }
        for night in manifest.nights
    ]
    arms = arm_totals(opened)
    if as_json:
        more = {"arms": [arm._asdict() for arm in arms], "nights": nights}
        print_json({**facts, "context_columns": manifest.context_columns, **more})
        return
    print_facts(str(store), facts)
    rows = [[name or "(no arm)", *rest] for name, *rest in arms]
    print_table("arms", ["arm", "sessions", "impressions", "clicks"], rows)
    columns = ["night", "sessions", "queries", "impressions", "clicks"]
    print_table("nights", columns, [list(night.values()) for night in nights])


def _facts(store: ClickStore) -> dict[str, Any]:
    nights = store.nights.astype(str).tolist()
    return {
        "n_nights": len(nights),
        "first_night": nights[0] if nights else None,
        "last_night": nights[-1] if nights else None,
        "n_sessions": store.n_sessions,
        "n_queries": store.n_queries,
        "n_impressions": store.n_impressions,
        "n_clicks": store.n_clicks,
        "n_rows": store.n_rows,
    }


def _print_found(found: ClickFacts) -> None:
    """Rows of the table of problems and notes of a log; numbers that are 0 are left out."""
    from dranking.clicks.logs.events import NOTES, PROBLEMS

    rows = [["left out", n, PROBLEMS[name]] for name, n in found.problems.items() if n]
    rows += [["noted", n, NOTES[name]] for name, n in found.notes.items() if n]
    if rows:
        print_table(f"the log ({found.unmatched_share:.2%} left out)", ["", "count", "what"], rows)
