"""Names of what is counted of a log beside its events: problems, notes, and kinds of clicks."""

from __future__ import annotations

from typing import Final

FUTURE: Final = "times_in_the_future"
"""Problem of a time that is after the last one that a log can have."""

ABSENT: Final = "absent_documents"
"""Problem of a document that the data lacks, in the nights that are kept."""

PROBLEMS: Final = {
    "unreadable_lines": "lines that cannot be read",
    "lists_of_other_lengths": "lists of other lengths than the list of documents",
    "missing_ids": "session, query or document is missing",
    "ids_of_other_types": "ids that are neither text nor whole numbers",
    "missing_positions": "positions that are missing or no whole numbers",
    "positions_of_0": "positions of 0, in a log that counts from 1",
    "negative_positions": "positions that are negative",
    "positions_too_deep": "positions below the 10,000th",
    "unreadable_times": "times that are missing or cannot be read",
    FUTURE: "times more than a day after the build",
    "unreadable_clicks": "clicks that are neither true nor false",
    "unreadable_weights": "clicks whose weight is negative, infinite or no number",
    "clicks_without_impressions": "clicks on results that the session was not shown",
    "contradicting_positions": "events whose position is not that in the list of results (those of "
    "later pages: --page-column)",
    "places_taken": "results at a place of a session where it has another document",
    ABSENT: "impressions of documents that the data lacks (--data)",
}
"""Problems by which an event is left out; the text of each stands in tables and errors."""

FOUND_LATER: Final = (
    "clicks_without_impressions",
    "contradicting_positions",
    "places_taken",
    ABSENT,
)
"""Problems that show only after events were read; `ClickFacts.n_events` holds these events
anyway."""

NOTES: Final = {
    "files_taken_before": "files that the store has counted before",
    "filtered_rows": "rows that the filter leaves out",
    "other_actions": "events of actions that are no clicks",
    "times_in_other_zones": "times in other zones than UTC",
    "later_pages": "results of later pages, left out (--pages all counts them)",
    "repeated_events": "events that repeat one of the same session",
    "sessions_over_midnight": "sessions that go on after the midnight of their night",
    "long_sessions": "sessions longer than --longest-session (appends may count them twice)",
    "sessions_over_max_clicks": "sessions dropped, with more clicks than allowed",
    "sessions_of_other_nights": "sessions of nights that were not asked for",
    "sessions_before_window": "sessions of nights before the window (--window)",
    "rare_queries": "queries left out of a night, with fewer sessions in it than asked for",
}
"""Other numbers that are reported, because they explain the counts; no event is wrong."""

POSITIONS_FROM_0, AT_0 = "positions_from_0", "positions_at_0"
"""Names, among the counts of what was found, of the number of positions that logs have which count
from 0, and of those that are 0."""

ALONE, ALONE_LOST, ALONE_WRONG = "clicks_alone", "clicks_alone_lost", "clicks_alone_wrong"
"""Names of the number of clicks that came alone, of those that were left out as they were read, and
of those that contradict a list."""

CLICKS, CLICKS_LOST, READ = "clicks", "clicks_lost", "read"
"""Names of the number of clicks on results that came with them, of those that were left out as they
were read, and of events that were read before a problem of reading was found."""
