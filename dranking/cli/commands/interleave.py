"""`dranking interleave`: which of two rankers the clicks on interleaved pages prefer."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from dranking.cli.options.shared import Json, Overwrite
from dranking.cli.output import note, print_facts, print_json, print_line
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.topics import Commands
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.clicks.interleaving.preference_sequence import PreferenceSequence

interleave = Commands(
    help="Compare two rankers by clicks on interleaved pages.\n\nPages are made by "
    "dranking.clicks.interleaving.lists on the serving side.",
    no_args_is_help=True,
)


@interleave.callback()
def _interleave() -> None:
    """Keep `analyse` a subcommand, though it is the only one."""


@interleave.command()
@grouped
def analyse(
    credits: Annotated[
        Place,
        typer.Argument(
            help="Credits, a row for each page: a parquet, CSV or ndjson file, or a folder of such "
            "files.",
            metavar="CREDITS",
        ),
    ],
    figure: Annotated[
        Place | None, typer.Option(help="Draw the sequence of intervals, such as sequence.svg.")
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="Probability that the interval misses the mean at some look.")
    ] = 0.05,
    margin: Annotated[
        float,
        typer.Option(
            help="Preference for b beyond 1/2 that is worth a change: when b can no longer be that "
            "much better, the comparison is futile."
        ),
    ] = 0.01,
    until: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="First day (UTC) that does not count. Default: the last day of the credits, which "
            "may not be over.",
        ),
    ] = None,
    user_column: Annotated[str, typer.Option(help="Column of the user's id.")] = "user",
    time_column: Annotated[str, typer.Option(help="Column of the time of the page.")] = "time",
    credit_column: Annotated[
        str, typer.Option(help="Column of the credit: 0 all for a, 1 all for b, 1/2 neither.")
    ] = "credit",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Say which ranker users prefer, by an interval that may be looked at every day.

    Every user is one unit: the mean credit of the pages of the user's first day.
    """
    from dranking.clicks.interleaving.credit_files import CreditColumns, read_credits
    from dranking.clicks.interleaving.preference_sequence import (
        first_days,
        plot_preference,
        preference_sequence,
    )
    from dranking.tuning.curves import check_figure, save_figure

    if figure is not None:
        check_figure(figure, overwrite)
    names = CreditColumns(user_column, time_column, credit_column)
    units = first_days(read_credits(credits, names), None if until is None else until.date())
    sequence = preference_sequence(units, alpha, margin)
    if figure is not None:
        save_figure(plot_preference(sequence), figure, overwrite=overwrite)
        note(f"figure written to {figure}")
    if as_json:
        print_json(sequence.as_json())
    else:
        _print(sequence)


def _print(sequence: PreferenceSequence) -> None:
    """Print the interval, the interval in a week, and what is decided."""
    found = sequence.as_json()
    low, high = found["interval"]
    week = found["in_a_week"]
    facts = {
        "users": found["n_users"],
        "pages that count": found["n_pages"],
        "pages of later days of users": found["n_later_pages"],
        f"pages from {found['until']} on": found["n_open_pages"],
        "preference for b": f"{found['mean']:.4f} [{low:.4f}, {high:.4f}]",
        "in a week": f"+- {week['half_width']:.4f}, {week['n_users']:,} users "
        f"({found['users_a_day']:,.0f} a day)",
    }
    print_facts("interleaving: 0 prefers a, 1 prefers b, 1/2 neither", facts)
    print_line(_verdict(sequence))


def _verdict(sequence: PreferenceSequence) -> str:
    text = {
        "b": "users prefer b: the interval excludes 1/2",
        "a": "users prefer a: the interval excludes 1/2",
        "futile": f"b is not better by {sequence.margin:g}: to go on is futile",
        "changed": "the preference has changed: two intervals of the sequence contradict each "
        "other; begin anew",
        "open": f"undecided: the interval includes 1/2, and b may be better by {sequence.margin:g}",
    }[sequence.verdict]
    if sequence.decided_after is None:
        return f"{text}."
    at = str(sequence.units.arrival[sequence.decided_after - 1])[:16].replace("T", " ")
    return f"{text}, since {sequence.decided_after:,} users ({at} UTC)."
