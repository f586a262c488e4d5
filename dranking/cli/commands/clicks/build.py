"""`dranking clicks`: click stores, made of logs of clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from dranking.cli.options.click_logs import LogColumnOptions, LogOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.shared import Json, Output, Overwrite, Scratch
from dranking.cli.output import note, print_facts, print_json, print_table
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.topics import Commands
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.clicks.counting.click_log import ClickFacts
    from dranking.clicks.store.click_store import ClickStore

clicks = Commands(
    help="Learn from clicks: counts from logs, propensities, labels.\n\nbuild makes a click "
    "store: what was shown and clicked of each query, document and position, night by night.",
    no_args_is_help=True,
)

Store: TypeAlias = Annotated[Place, typer.Argument(help="A click store.", metavar="STORE")]


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
    from dranking.clicks.logs.problems import NOTES, PROBLEMS

    rows = [["left out", n, PROBLEMS[name]] for name, n in found.problems.items() if n]
    rows += [["noted", n, NOTES[name]] for name, n in found.notes.items() if n]
    if rows:
        print_table(f"the log ({found.unmatched_share:.2%} left out)", ["", "count", "what"], rows)
