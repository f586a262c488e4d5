"""Logs for tests: rows, files of every form, and what a store holds."""

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from hypothesis import strategies as st

from dranking.clicks.counting import build
from dranking.clicks.counting.click_log import ClickLog

NAMES = (
    "session",
    "query",
    "document",
    "position",
    "clicked",
    "time",
    "user",
    "arm",
    "context",
    "weight",
)
TIMES = (
    "2026-10-31T22:30:00Z",
    "2026-10-31T23:59:59.5",
    "2026-11-01 00:00:00",
    "2026-11-01T01:30:00+02:00",
    "2026-11-01T23:00:00-0300",
    "2026-11-02T10:00:00+00:00",
    "2026-11-02",
)
ROW = st.fixed_dictionaries(
    {
        "session": st.sampled_from(["s1", "s2", "s3", "s4", None]),
        "query": st.sampled_from(["cats", "kissa ä", "", "dogs, big"]),
        "document": st.sampled_from(["1", "2", "d"]),
        "position": st.sampled_from([1, 2, 3, 3, -2, -1, None]),
        "clicked": st.booleans(),
        "time": st.sampled_from([*TIMES, None]),
        "user": st.sampled_from(["u1", "u2"]),
        "arm": st.sampled_from(["a", ""]),
        "context": st.sampled_from(["tv", ""]),
        "weight": st.sampled_from([0.0, 0.5, 2.0, 12.25]),
    }
)


@st.composite
def logs(draw):
    """Rows whose user is that of their session."""
    rows = draw(st.lists(ROW, min_size=1, max_size=30))
    users = draw(st.lists(st.sampled_from(["u1", "u2"]), min_size=5, max_size=5))
    for row in rows:
        row["user"] = users[int((row["session"] or "s0")[1])]
    return without_taken(rows)


def without_taken(rows):
    """The rows without those at a place of a session where another document is."""
    there = {}
    names = ("session", "query", "context", "arm", "position")
    return [
        row
        for row in rows
        if there.setdefault(tuple(row[n] for n in names), row["document"]) == row["document"]
    ]


def build_with_texts(logs, place, log=None, **options):
    """`build_clicks` with the texts of queries, so that counts have them as plain loops have."""
    wanted = replace(log or ClickLog(), keep_queries=True)
    return build.build_clicks(logs, place, wanted, **options)


def write_log(path, rows, form):
    """Write rows to a file: parquet with small row groups, JSON lines or CSV."""
    path = path.with_suffix(f".{form}")
    columns = {name: [row[name] for row in rows] for name in NAMES}
    if form == "ndjson":
        records = [dict(row) for row in rows]
        for number, record in enumerate(records):
            if record["document"].isdecimal() and number % 3:
                record["document"] = (int if number % 3 == 1 else float)(record["document"])
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path
    if all(row["document"].isdecimal() for row in rows):
        columns["document"] = [int(document) for document in columns["document"]]
    table = pa.table(columns)
    for name in NAMES:
        if pa.types.is_null(table.schema.field(name).type):
            at = table.schema.get_field_index(name)
            kind = pa.int64() if name == "position" else pa.string()
            table = table.set_column(at, name, table[name].cast(kind))
    if form == "csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=3)
    return path


def content(store):
    """Counts and sessions of a store, as `tests.reference.click_logs.count_log` returns them."""
    counts, sessions = {}, defaultdict(int)
    for bucket in store.buckets:
        part = store.counts(bucket)
        counts |= rows_of(part)
        for night in part.nights.astype(str).tolist():
            own = store.within(night, night).counts(bucket)
            for query, number in zip(own.query_ids.tolist(), own.sessions, strict=True):
                sessions[query, night] += int(number)
    return counts, dict(sessions)


def rows_of(part, more=None):
    """The rows of counts by key; `more` (n_rows,) is another part of the keys."""
    assert np.lexsort(
        (part.position, part.arm, part.night, part.context, part.document, part.query)
    ).tolist() == list(range(len(part.query)))
    none = np.zeros(len(part.query))
    weights = none if part.weight_sum is None else part.weight_sum
    squares = none if part.weight_square_sum is None else part.weight_square_sum
    found = {}
    for i in range(len(part.query)):
        key = (
            str(part.query_ids[part.query[i]]),
            str(part.document_ids[part.document[i]]),
            part.contexts[part.context[i]],
            str(part.nights[part.night[i]]),
            part.arms[part.arm[i]],
            int(part.position[i]),
        )
        key = key if more is None else (*key, int(more[i]))
        assert key not in found
        sums = [int(part.impressions[i]), int(part.clicks[i]), weights[i], squares[i]]
        found[key] = sums
    return found
