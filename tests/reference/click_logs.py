"""Counts of clicks by plain loops over the rows of a log."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta


def moment(text):
    """A time in UTC; a text without a zone is in UTC."""
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def problem_of(row):
    """What is wrong with a row, or None; the first that holds, in this order."""
    if any(row[name] in (None, "") for name in ("session", "document", "query")):
        return "missing_ids"
    if row["position"] is None:
        return "missing_positions"
    if row["position"] < 1:
        return "positions_of_0" if row["position"] == 0 else "negative_positions"
    if row["time"] is None:
        return "unreadable_times"
    return None


def sessions_of(rows):
    """The usable rows of each session, and the problems of the others."""
    found = Counter()
    by_session = defaultdict(list)
    for row in rows:
        problem = problem_of(row)
        if problem:
            found[problem] += 1
        else:
            by_session[row["session"]].append(row)
    return by_session, found


def count_log(rows, *, max_clicks=None, since="", until="9999", min_sessions=1, users=False):
    """Counts of a log with one row for each result that was shown.

    Returns counts {(query, document, context, night, arm, position[, user]): [impressions, clicks,
    sum of weights, sum of squares]}, sessions {(query, night): number}, and what was found.
    """
    by_session, found = sessions_of(rows)
    counts = defaultdict(lambda: [0, 0, 0.0, 0.0])
    sessions = Counter()
    for of_session in by_session.values():
        times = [moment(row["time"]) for row in of_session]
        night = min(times).date().isoformat()
        results = {}
        for row in of_session:
            key = tuple(row[n] for n in ("query", "document", "context", "arm", "position"))
            results.setdefault(key, []).append(row)
        found["repeated_events"] += len(of_session) - len(results)
        n_clicks = sum(any(row["clicked"] for row in same) for same in results.values())
        if not since <= night <= until:
            found["sessions_of_other_nights"] += 1
            continue
        if max_clicks is not None and n_clicks > max_clicks:
            found["sessions_over_max_clicks"] += 1
            continue
        found["sessions_over_midnight"] += max(times).date().isoformat() > night
        found["long_sessions"] += max(times) - min(times) > timedelta(hours=2)
        found["sessions"] += 1
        for query in {key[0] for key in results}:
            sessions[query, night] += 1
        for (query, document, context, arm, position), same in results.items():
            key = (query, document, context, night, arm, position)
            total = counts[(*key, same[0]["user"]) if users else key]
            total[0] += 1
            weights = [row["weight"] for row in same if row["clicked"]]
            if weights:
                total[1] += 1
                total[2] += max(weights)
                total[3] += max(weights) ** 2
    rare = {key for key, number in sessions.items() if number < min_sessions}
    found["rare_queries"] = len(rare)
    counts = {key: total for key, total in counts.items() if (key[0], key[3]) not in rare}
    sessions = {key: n for key, n in sessions.items() if key not in rare}
    return counts, sessions, +found
