"""Counts from logs equal plain loops, whatever the files, the chunks and the order of rows."""

import csv
import gzip
import hashlib
import io
import json
import secrets
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dranking.clicks.counting import build, session_pass
from dranking.clicks.counting.click_log import ClickLog
from dranking.clicks.logs import files, read, utf8
from dranking.clicks.logs.columns import LogColumns, UbiRules
from dranking.clicks.store.click_store import open_click_store
from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError, UsageError
from tests.clicks.made_logs import build_with_texts as build_clicks
from tests.clicks.made_logs import content, logs, rows_of, write_log
from tests.reference.click_logs import count_log

ALL = LogColumns(user="user", arm="arm", weight="weight", context=("context",))
FORMS = st.lists(st.sampled_from(["parquet", "ndjson", "csv"]), min_size=1, max_size=3)


def output():
    """A new place in memory, where nothing is synchronised to a disk."""
    return f"memory://{secrets.token_hex(8)}/clicks.store"


@contextmanager
def small_chunks():
    """Chunks and buckets of few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_pass, "EVENTS_PER_BUCKET", 7)
        patch.setattr(read, "CHUNK_BYTES", 100)
        patch.setattr(files, "RANGE_BYTES", 1500)
        for module in (files, read):
            patch.setattr(module, "CHUNK_ROWS", 4)
        yield


RULES = st.fixed_dictionaries(
    {
        "max_clicks": st.sampled_from([None, 0, 2]),
        "min_sessions": st.sampled_from([1, 2]),
        "since": st.sampled_from([None, "2026-11-01"]),
        "until": st.sampled_from([None, "2026-11-01"]),
    }
)


@settings(max_examples=40)
@given(rows=logs(), forms=FORMS, rules=RULES, n_buckets=st.integers(1, 3), data=st.data())
def test_counts_equal_plain_loops(rows, forms, rules, n_buckets, data, tmp_path_factory):
    with small_chunks():
        check_counts(rows, forms, rules, n_buckets, data, tmp_path_factory)


def check_counts(rows, forms, rules, n_buckets, data, tmp_path_factory):
    given_rules = {name: value for name, value in rules.items() if value is not None}
    counts, sessions, found = count_log(rows, **given_rules)
    folder = tmp_path_factory.mktemp("logs")
    shuffled = data.draw(st.permutations(rows))
    for number, form in enumerate(forms):
        part = shuffled[number :: len(forms)]
        if part:
            write_log(folder / f"part{number}", part, form)
    log = ClickLog(columns=ALL, max_unmatched=1, n_buckets=n_buckets, users=True, salt="x", **rules)
    if not found["sessions"]:
        with pytest.raises(DataError, match="there is no session"):
            build_clicks(folder, output(), log)
        return
    if not counts:  # all queries are rare
        with pytest.raises(DataError, match="no night would be left"):
            build_clicks(folder, output(), log)
        return
    store, facts = build_clicks(folder, output(), log)
    assert content(store) == (counts, sessions)
    assert facts.n_events == len(rows)
    told = {**facts.problems, **facts.notes}
    for name, number in found.items() - {("sessions", found["sessions"])}:
        assert told[name] == number, name
    assert sum(facts.problems.values()) == sum(found[name] for name in facts.problems)
    assert store.n_impressions == sum(total[0] for total in counts.values())
    assert store.n_clicks == sum(total[1] for total in counts.values())
    assert store.n_queries == len({key[0] for key in counts})
    assert store.n_rows == len(counts)
    assert store.n_sessions == found["sessions"]
    by_user, _, _ = count_log(rows, users=True, **given_rules)
    users = {}
    for bucket in store.buckets:
        users |= rows_of(*store.user_counts(bucket))
    names = {user: hashed(user, "x") for user in ("u1", "u2")}
    assert users == {(*key[:-1], names[key[-1]]): total for key, total in by_user.items()}


@pytest.mark.parametrize("unit", ["seconds", "microseconds"])
@pytest.mark.parametrize(
    ("low", "high"), [(0, 127), (-128, 127), (-(2**31), 2**31 - 1), (0, 2 * 10**9)]
)
def test_times_near_1970_are_moments_like_others(tmp_path, monkeypatch, low, high, unit):
    """Anonymised logs count from 0; columns of such small integers are sent in few bytes."""
    monkeypatch.setattr(build, "latest_time", lambda: 2**62)
    epoch = datetime(1970, 1, 1)
    times = [low, high, (low + high) // 2, low] if unit == "microseconds" or low == 0 else [0, high]
    moments = [epoch + timedelta(microseconds=time) for time in times]
    rows = [
        {**row, "session": f"s{number % 3}", "time": moments[number % len(moments)].isoformat()}
        for number, row in enumerate(ROWS[:10])
    ]
    path = write_log(tmp_path / "log", rows, "parquet")
    table = pq.read_table(path)
    column = [moments[number % len(moments)] for number in range(len(rows))]
    if unit == "seconds":
        column = [(moment - epoch).total_seconds() for moment in column]
    pq.write_table(table.set_column(table.column_names.index("time"), "time", [column]), path)
    counts, sessions, found = count_log(rows)
    store, facts = build_clicks(path, output(), ClickLog(columns=ALL))
    assert content(store) == (counts, sessions)
    assert facts.notes["sessions_over_midnight"] == found["sessions_over_midnight"]


def hashed(user, salt):
    """The hash of a user, as the documentation of the store says."""
    key = hashlib.blake2b(salt.encode(), digest_size=32).digest()
    return int.from_bytes(hashlib.blake2b(user.encode(), digest_size=8, key=key).digest(), "little")


ROWS = [
    {"session": f"s{s}", "query": f"q{s % 3}", "document": f"d{d}", "position": d + 1,
     "clicked": (s + d) % 4 == 0, "time": f"2026-11-0{1 + s % 3}T10:00:00Z", "user": "u1",
     "arm": "a", "context": "tv" if s % 2 else "web", "weight": 1.5}
    for s in range(12) for d in range(4)
]  # fmt: skip


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log", ROWS, "parquet")


def test_a_repeated_event_is_of_the_user_who_is_named_once(tmp_path):
    """The sign of the hash of a user had decided whether the user was kept."""
    names = [f"u{s}" for s in range(12)]
    rows = [
        {**row, "user": user}
        for row in ROWS
        for user in ("", f"u{row['session'][1:]}")  # an empty field is no id
    ]
    log = ClickLog(columns=ALL, users=True, salt="x")
    store, _ = build_clicks(write_log(tmp_path / "log", rows, "csv"), output(), log)
    found = {key[-1] for bucket in store.buckets for key in rows_of(*store.user_counts(bucket))}
    assert found == {hashed(name, "x") for name in names}


@pytest.mark.parametrize("min_sessions", [1, 3])
def test_nights_that_are_appended_are_those_of_one_build(tmp_path, min_sessions):
    """With one session of the second night, q0 is rare in that night."""
    rows = [{**row, "query": "q0" if row["session"] == "s1" else row["query"]} for row in ROWS]
    log_file = write_log(tmp_path / "log", rows, "parquet")
    rules = {"min_sessions": min_sessions}
    whole, _ = build_clicks(log_file, output(), ClickLog(**rules))
    assert whole.n_impressions == 4 * (12 - (min_sessions > 1))
    place = output()
    build_clicks(log_file, place, ClickLog(until="2026-11-01", n_buckets=2, **rules))
    log = ClickLog(since="2026-11-02", **rules)
    appended, facts = build_clicks(log_file, place, log, append=True)
    assert content(appended) == content(whole)
    assert len(appended.buckets) == 2
    assert facts.notes["sessions_of_other_nights"] == 0  # the store knows their sessions
    with pytest.raises(DataError, match="2026-11-01"):
        build_clicks(log_file, place, append=True)
    with pytest.raises(UsageError, match="keep_queries True"):
        build.build_clicks(log_file, place, append=True)


def test_a_window_keeps_the_newest_nights(log_file):
    place = output()
    build_clicks(log_file, place, ClickLog(until="2026-11-02"))
    kept, _ = build_clicks(log_file, place, ClickLog(since="2026-11-03"), append=True, window="2d")
    assert kept.nights.astype(str).tolist() == ["2026-11-02", "2026-11-03"]
    at_once, _ = build_clicks(log_file, output(), window="2d")
    assert content(at_once) == content(kept)
    with pytest.raises(UsageError, match="number of days such as 28d"):
        build_clicks(log_file, output(), window="4 weeks")


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("n_bytes", [400, 1 << 26])
def test_a_night_to_come_is_refused(tmp_path, monkeypatch, log_file, form, n_bytes):
    """A session in the year 2036 had been the newest night, and a window had dropped the others."""
    monkeypatch.setattr(files, "RANGE_BYTES", n_bytes)
    place = output()
    build_clicks(log_file, place, ClickLog(until="2026-11-02"))
    rows = [dict(row) for row in ROWS]
    rows[33] |= {"session": "late", "time": "2036-01-01T00:00:00Z"}
    folder = tmp_path / "logs"
    folder.mkdir()
    write_log(folder / "a", ROWS[:8], form)
    path = write_log(folder / "b", rows, form)
    log = ClickLog(since="2026-11-03")
    told = rf"{path.name}, row 34: the time is more than a day ahead.*1 events.*--until"
    before = content(open_click_store(place))
    with pytest.raises(DataError, match=told):
        build_clicks(folder, place, log, append=True, window="28d")
    with pytest.raises(DataError, match=told):
        build_clicks(folder, place, replace(log, until="2036-01-01"), append=True, window="28d")
    assert content(open_click_store(place)) == before
    store, facts = build_clicks(
        path, place, replace(log, until="2026-11-03"), append=True, window="28d"
    )
    assert store.nights.astype(str).tolist() == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert facts.n_events == len(ROWS)
    assert problems_of(facts) == {"times_in_the_future": 1}


def test_two_documents_at_a_place_in_a_night_not_asked_for_refuse_no_log(tmp_path):
    row = {**ROWS[0], "session": "twice", "time": "2026-11-01T10:00"}
    later = [{**row, "session": f"s{n}", "time": "2026-11-02T10:00"} for n in range(40)]
    path = write_log(tmp_path / "log", [row, {**row, "document": "other"}, *later], "csv")
    with pytest.raises(DataError, match="two documents are at position 1"):
        build_clicks(path, output())
    store, facts = build_clicks(path, output(), ClickLog(since="2026-11-02"))
    assert (store.n_sessions, facts.notes["sessions_of_other_nights"]) == (40, 1)


@pytest.mark.parametrize("position", [1, 2])
def test_two_documents_at_a_place_of_a_session_with_too_many_clicks_refuse_no_log(
    tmp_path, position
):
    """A robot clicks on six documents, all at one place, or at places of their own but for two."""
    row = {**ROWS[0], "session": "robot", "clicked": True}
    clicks = [{**row, "document": f"r{n}", "position": max(1, n * (position - 1))}
              for n in range(6)]  # fmt: skip
    path = write_log(tmp_path / "log", [*ROWS, *clicks], "csv")
    with pytest.raises(DataError, match="two documents are at position 1"):
        build_clicks(path, output(), ClickLog(max_clicks=6))
    store, facts = build_clicks(path, output(), ClickLog(max_clicks=5))
    whole, _ = build_clicks(write_log(tmp_path / "own", ROWS, "csv"), output())
    assert content(store) == content(whole)
    assert facts.notes["sessions_over_max_clicks"] == 1
    assert facts.problems["places_taken"] == 0


@pytest.mark.parametrize("form", ["csv", "ndjson"])
@pytest.mark.parametrize(("at", "which"), [(0, ""), (1, " of those that can be read")])
def test_the_row_is_named_beside_lines_that_cannot_be_read(tmp_path, form, at, which):
    """Lines behind the row were counted, too, so that another row was named."""
    rows = [{**ROWS[0], "time": "2036-01-01T00:00:00Z"}, *ROWS]
    path = write_log(tmp_path / "log", rows, form)
    wrong = ["{", "1,2"][form == "csv"]
    path.write_text(path.read_text() + f"{wrong}\n" * 2 * at)
    with pytest.raises(DataError, match=rf"log\.{form}, row 1{which}: the time"):
        build_clicks(path, output())


@pytest.mark.parametrize(("n_lost", "refused"), [(1, False), (2, True)])
def test_clicks_on_absent_documents_are_a_share_of_the_clicks(tmp_path, n_lost, refused):
    """They are few beside the impressions, whose share is 2 of 210 at most."""
    rows = [
        {**ROWS[0], "session": f"s{n}", "query": "cats", "document": document, "position": place,
         "clicked": place == 1}
        for n in range(21)
        for place, document in enumerate(["gone" if n < n_lost else "1", *"23456789"], 1)
    ]  # fmt: skip
    ids = pa.array([str(n) for n in range(1, 10)])
    data = from_arrays(np.ones((9, 1)), np.zeros(9), pa.array(["cats"] * 9), doc_ids=ids)
    path = write_log(tmp_path / "log", rows, "csv")
    if refused:
        told = r"2 of 21 clicks cannot be used.*\n  2 \(of 21 in the nights kept\): .*lacks"
        with pytest.raises(DataError, match=told):
            build_clicks(path, output(), data=data)
        return
    _, facts = build_clicks(path, output(), data=data)
    assert facts.problems["absent_documents"] == n_lost


def test_the_row_of_a_list_is_named(tmp_path):
    rows = [
        {"session": f"s{n}", "query": "q", "document": ["a", "b"], "clicked": [True, False],
         "time": "2099-01-01" if n == 5 else "2026-11-01"} for n in range(8)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"log\.parquet, row 6: the time .* as 2 events"):
        build_clicks(tmp_path / "log.parquet", output(), ClickLog(form="lists"))


def test_times_of_the_next_hours_count(tmp_path):
    """Clocks of other zones run ahead by half a day."""
    now = datetime.now(UTC)
    times = [now + timedelta(hours=hours) for hours in (0, 23)]
    rows = [
        {**ROWS[0], "session": f"s{n}", "time": time.isoformat(timespec="seconds")}
        for n, time in enumerate(times)
    ]
    path = write_log(tmp_path / "log", rows, "parquet")
    store, _ = build_clicks(path, output())
    assert store.nights.astype(str).tolist() == sorted({str(time.date()) for time in times})


def test_sessions_before_the_window_are_counted(log_file):
    store, facts = build_clicks(log_file, output(), window="1d")
    assert store.nights.astype(str).tolist() == ["2026-11-03"]
    assert facts.notes["sessions_before_window"] == 8


def test_a_filter_reads_the_rows_that_fulfil_it(log_file):
    store, facts = build_clicks(log_file, output(), ClickLog(where="context == 'tv'"))
    counts, _, _ = count_log([row for row in ROWS if row["context"] == "tv"])
    assert store.n_impressions == sum(total[0] for total in counts.values()) == 24
    assert facts.notes["filtered_rows"] == 24
    with pytest.raises(DataError, match="no column 'device'"):
        build_clicks(log_file, output(), ClickLog(where="device == 'tv'"))
    with pytest.raises(UsageError, match="--filter 'context =' cannot be read"):
        build_clicks(log_file, output(), ClickLog(where="context ="))


def test_hashed_queries_are_found_with_the_salt_of_the_store(log_file):
    from dranking.clicks.hashes import hashed_texts

    store, _ = build.build_clicks(log_file, output())
    names = set().union(*(store.query_ids(bucket) for bucket in store.buckets))
    assert names == set(hashed_texts(["q0", "q1", "q2"], store.manifest.salt))
    assert all(len(name) == 32 for name in names)


def test_lists_and_rows_are_one_log(tmp_path, log_file):
    sessions = {}
    for row in ROWS:
        kept = {k: row[k] for k in ("session", "query", "time", "context", "arm", "user")}
        of = sessions.setdefault(row["session"], {**kept, "document": [], "clicked": [], "ids": []})
        of["document"].append(row["document"])
        of["clicked"].append(row["clicked"])
        if row["clicked"]:
            of["ids"] += [row["document"]] * 2
    pq.write_table(pa.Table.from_pylist(list(sessions.values())), tmp_path / "lists.parquet")
    text = "".join(json.dumps(row) + "\n" for row in sessions.values())
    (tmp_path / "lists.ndjson").write_text(text)
    whole, _ = build_clicks(log_file, output())
    for name in ("lists.parquet", "lists.ndjson"):
        flags, _ = build_clicks(tmp_path / name, output(), ClickLog(form="lists"))
        assert content(flags) == content(whole)
        columns = LogColumns(clicked="ids", clicked_ids=True)
        ids, facts = build_clicks(
            tmp_path / name, output(), ClickLog(form="lists", columns=columns)
        )
        assert content(ids) == content(whole)
        assert facts.notes["repeated_events"] == sum(row["clicked"] for row in ROWS)


def test_lists_of_other_lengths_and_foreign_clicks_are_counted(tmp_path):
    rows = [
        {
            "session": "a",
            "query": "q",
            "time": "2026-11-01",
            "document": ["x", "y"],
            "clicked": [1],
        },
        {"session": "b", "query": "q", "time": "2026-11-01", "document": ["x"], "clicked": [1]},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    log = ClickLog(form="lists", max_unmatched=1)
    store, facts = build_clicks(tmp_path, output(), log)
    assert facts.problems["lists_of_other_lengths"] == 2
    assert (store.n_impressions, store.n_clicks, facts.n_events) == (1, 1, 3)
    rows[0]["clicked"], rows[1]["clicked"] = ["z", "y"], []
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    log = ClickLog(form="lists", max_unmatched=1, columns=LogColumns(clicked_ids=True))
    store, facts = build_clicks(tmp_path, output(), log)
    assert facts.problems["clicks_without_impressions"] == 1
    assert (store.n_impressions, store.n_clicks, facts.n_events) == (3, 1, 5)


def ubi_records(rows):
    """Rows as records of queries and events of User Behavior Insights."""
    sessions = {}
    for row in rows:
        sessions.setdefault(row["session"], []).append(row)
    records = []
    for name, shown in sessions.items():
        first = shown[0]
        clicks = [row for row in shown if row["clicked"]]
        records.append(
            {
                "query_id": name,
                "user_query": first["query"],
                "client_id": first["user"],
                "timestamp": first["time"],
                "query_response_hit_ids": [row["document"] for row in shown],
                "query_attributes": {"arm": first["arm"], "device": first["context"]},
            }
        )
        for action, of_action in (("click", clicks + clicks[:1]), ("view", shown)):
            for row in of_action:
                records.append(
                    {
                        "action_name": action,
                        "query_id": name,
                        "client_id": first["user"],
                        "timestamp": row["time"],
                        "event_attributes": {
                            "object": {"object_id": row["document"], "object_id_field": "id"},
                            "position": {"ordinal": row["position"]},
                        },
                    }
                )
    return records


def test_user_behavior_insights_and_own_columns_are_one_log(tmp_path, log_file):
    columns = LogColumns(arm="arm", context=("context",))
    whole, _ = build_clicks(log_file, output(), ClickLog(columns=columns))
    columns = LogColumns(arm="query_attributes.arm", context=("query_attributes.device",))
    log = ClickLog(form="ubi", columns=columns)
    records = ubi_records(ROWS)
    for name, kept in (("queries", 0), ("events", 1)):
        own = [r for r in records if ("action_name" in r) == kept]
        (tmp_path / f"{name}.ndjson").write_text("".join(json.dumps(r) + "\n" for r in own))
        pq.write_table(pa.Table.from_pylist(own), tmp_path / f"{name}.parquet")
    exported = "".join(json.dumps({"_index": "ubi", "_source": r}) + "\n" for r in records)
    (tmp_path / "exported.json").write_text(exported)
    pages = [tmp_path / f"{name}.ndjson" for name in ("events", "queries")]
    tables = [tmp_path / f"{name}.parquet" for name in ("queries", "events")]
    for sources in (pages, tables, tmp_path / "exported.json"):
        store, facts = build_clicks(sources, output(), log)
        assert content(store) == content(whole)
        assert not sum(facts.problems.values())
        assert facts.notes["other_actions"] == 0  # views say again what the lists say


def test_ordinals_may_count_from_0_where_lists_tell_the_positions(tmp_path):
    """Clicks are one event in a hundred, so that the share of all events says nothing of them."""
    rows = [
        {
            "session": f"s{s}", "query": "q", "document": f"d{d}", "position": d,
            "clicked": s % 10 == 0 and d == (1, 1, 2, 3, 4)[s // 10 % 5], "time": "2026-11-01",
            "user": "u", "arm": "", "context": "",
        }
        for s in range(200)
        for d in range(1, 11)
    ]  # fmt: skip
    lower = [{**row, "position": row["position"] - 1} for row in rows]
    for name, of_log in (("from-1", rows), ("from-0", lower)):
        records = [r for r in ubi_records(of_log) if r.get("action_name") != "view"]
        text = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / f"{name}.ndjson").write_text(text)
    usual = ClickLog(form="ubi")
    from_0 = replace(usual, columns=LogColumns(first_position=0))
    expected, _ = build_clicks(tmp_path / "from-1.ndjson", output(), usual)
    found, _ = build_clicks(tmp_path / "from-0.ndjson", output(), from_0)
    assert content(found) == content(expected)
    assert found.n_clicks == 20
    as_it_comes, facts = build_clicks(tmp_path / "from-0.ndjson", output(), usual)
    assert content(as_it_comes) == content(expected)
    assert problems_of(facts) == {}
    with pytest.raises(DataError, match="none of 40 events is at position 0"):
        build_clicks(tmp_path / "from-1.ndjson", output(), from_0)
    other = ubi_records([{**row, "document": f"{row['document']}x"} for row in rows])
    clicks = [record for record in other if record.get("action_name") == "click"]
    shown = [record for record in ubi_records(rows) if "action_name" not in record]
    text = "".join(json.dumps(record) + "\n" for record in (*shown, *clicks))
    (tmp_path / "other.ndjson").write_text(text)
    with pytest.raises(DataError, match=r"40 of 40 clicks cannot .*\n  40: clicks on"):
        build_clicks(tmp_path / "other.ndjson", output(), usual)


def test_events_without_a_query_are_of_the_first_query_of_their_session(tmp_path):
    """A click on a document that the first list alone has; another query follows."""
    shown = ["a", "b"], ["c"]
    records = [
        {"query_id": "s", "user_query": query, "timestamp": f"2026-11-01T10:0{number}:00Z",
         "query_response_hit_ids": hits}
        for number, (query, hits) in enumerate(zip(("cats", "dogs"), shown, strict=True))
    ]  # fmt: skip
    click = {"action_name": "click", "query_id": "s", "timestamp": "2026-11-01T10:05:00Z"}
    records.append({**click, "event_attributes": {"object": {"object_id": "b"}}})
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(r) + "\n" for r in records))
    store, facts = build_clicks(tmp_path, output(), ClickLog(form="ubi"))
    assert problems_of(facts) == {}
    clicked = {key[:2]: total[1] for key, total in content(store)[0].items()}
    assert clicked == {("cats", "a"): 0, ("cats", "b"): 1, ("dogs", "c"): 0}


@pytest.mark.parametrize("form", ["ndjson", "parquet"])
def test_filters_are_parts_of_the_queries(tmp_path, form):
    """Of UBI in fields of a structure, one of them a list, and of rows in columns."""
    filters = {"q0": (["red", "big"], 3), "q1": ([], 4), "q2": (None, None)}
    names = {"q0": "q0 | big,red | 3", "q1": "q1 |  | 4", "q2": "q2"}
    records = ubi_records(ROWS)
    for record in records:
        if "user_query" in record:
            kind, size = filters[record["user_query"]]
            record["query_attributes"] |= {"kind": kind, "size": size}
    path = tmp_path / f"log.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_struct_array(pa.array(records)), path)
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    own = ("query_attributes.kind", "query_attributes.size")
    columns = LogColumns(filters=own, arm="query_attributes.arm")
    store, facts = build_clicks(path, output(), ClickLog(form="ubi", columns=columns))
    assert problems_of(facts) == {}
    assert store.manifest.filter_columns == own
    expected = [{**row, "query": names[row["query"]], "context": ""} for row in ROWS]
    counts = {key: total[:2] for key, total in count_log(expected)[0].items()}
    assert {key: total[:2] for key, total in content(store)[0].items()} == counts
    of_rows = (dict(zip(("kind", "size"), filters[row["query"]], strict=True)) for row in ROWS)
    rows = [{**row, **own} for row, own in zip(ROWS, of_rows, strict=True)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    wanted = ClickLog(columns=LogColumns(filters=("kind", "size"), arm="arm"))
    again, _ = build_clicks(tmp_path / "rows.parquet", output(), wanted)
    assert content(again) == content(store)


def test_filters_that_are_no_texts_are_counted(tmp_path):
    rows = [dict(row, kind="red") for row in ROWS]
    rows[0]["kind"], rows[1]["kind"], rows[2]["query"] = {"a": 1}, "", None
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = ClickLog(columns=LogColumns(filters=("kind",)))
    store, facts = build_clicks(tmp_path, output(), log)
    assert problems_of(facts) == {"ids_of_other_types": 1, "missing_ids": 1}
    assert store.n_queries == 4  # one of them without a filter
    with pytest.raises(UsageError, match="filter_columns"):
        build_clicks(tmp_path, store.place, append=True)


def test_the_list_gives_the_positions_and_events_are_compared_with_it(tmp_path):
    """Events had moved lists, so that positions depended on whether there was a click."""
    records = ubi_records([{**row, "context": "", "arm": ""} for row in ROWS])
    click = next(r for r in records if r.get("action_name") == "click")
    moved = json.loads(json.dumps(click))
    moved["event_attributes"]["position"]["ordinal"] += 1
    unknown = {**click, "query_id": "never"}
    other = {**click, "event_attributes": {"object": {"object_id": 7}}}
    view = next(r for r in records if r.get("action_name") == "view")
    unseen = {**view, "event_attributes": {**click["event_attributes"], "object": {"object_id": 7}}}
    records += [moved, unknown, other, unseen]
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(r) + "\n" for r in records))
    store, facts = build_clicks(tmp_path, output(), ClickLog(form="ubi", max_unmatched=1))
    expected = count_log([{**row, "context": "", "arm": ""} for row in ROWS])[0]
    counts = {key: total[:2] for key, total in content(store)[0].items()}
    assert counts == {key: total[:2] for key, total in expected.items()}
    wrong = {"clicks_without_impressions": 2, "contradicting_positions": 2}
    assert problems_of(facts) == wrong
    with pytest.raises(DataError, match=r"3 of 27 clicks cannot be used, more than 5.0%"):
        build_clicks(tmp_path, output(), ClickLog(form="ubi"))


@pytest.mark.parametrize("form", ["csv", "ndjson", "csv.gz"])
@pytest.mark.parametrize("n_bytes", [1, 61, 997])
def test_one_file_is_read_in_ranges_of_bytes(tmp_path, monkeypatch, form, n_bytes):
    """Queries with line breaks, commas and quotes; records begin where CSV says."""
    names = {"q0": 'a "quoted" one', "q1": 'two\nlines, "\n"', "q2": '"'}
    rows = [{**row, "query": names[row["query"]]} for row in ROWS[:: 6 if n_bytes == 1 else 1]]
    path = tmp_path / f"log.{form}"
    if form == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows).rstrip("\n"))
    else:
        text = io.StringIO()
        table = csv.DictWriter(text, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
        written = text.getvalue().encode()
        path.write_bytes(gzip.compress(written) if form == "csv.gz" else written)
    monkeypatch.setattr(files, "RANGE_BYTES", n_bytes)
    monkeypatch.setattr(read, "CHUNK_BYTES", 1000)
    parts = files.find_logs([path], ())
    assert len(parts) == 1 if form == "csv.gz" else len(parts) > path.stat().st_size / n_bytes / 2
    counts, sessions, _ = count_log(rows)
    store, facts = build_clicks(path, output(), ClickLog(columns=ALL))
    assert content(store) == (counts, sessions)
    assert (facts.n_events, sum(facts.problems.values())) == (len(rows), 0)


@pytest.mark.parametrize("column", ["session", "document", "context", "note"])
@pytest.mark.parametrize("closed", [False, True])
def test_a_quote_that_is_not_closed_loses_no_line_uncounted(tmp_path, column, closed):
    """Its record had counted as one line, and nearly all of the log was gone."""
    n_lines, first = 400, 50
    rows = [{**ROWS[n % len(ROWS)], "session": f"s{n}", "note": "-"} for n in range(n_lines)]
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    lines = path.read_text().split("\n")
    fields = lines[first].split(",")
    place = list(rows[0]).index(column)
    fields[place] = f'"{fields[place]}'
    lines[first] = ",".join(fields)
    n_lost = n_lines - first + 1
    if closed:  # where a field of the same column ends, far below
        fields = lines[300].split(",")
        fields[place] = f'{fields[place]}"'
        lines[300] = ",".join(fields)
        n_lost = 300 - first + 1
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=f"% of 400 events cannot.*\n  {n_lost}: lines that cannot"):
        build_clicks(path, output())
    store, facts = build_clicks(path, output(), ClickLog(max_unmatched=1))
    assert facts.problems["unreadable_lines"] == n_lost
    assert (store.n_impressions, facts.n_events) == (n_lines - n_lost, n_lines)


def test_a_record_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "CHUNK_BYTES", 1000)
    path = write_log(tmp_path / "log", ROWS, "csv")
    text = path.read_text().replace('"', "").replace("s3", '"s3', 1)
    path.write_text(text)
    with pytest.raises(DataError, match=r"1,000 bytes .*quote"):
        build_clicks(path, output())


def test_folders_are_columns(tmp_path):
    for arm in ("a", "b"):
        folder = tmp_path / "date=2026-11-05" / f"ranker={arm}"
        folder.mkdir(parents=True)
        write_log(folder / "log", ROWS, "csv")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "log.csv").write_text("nothing")
    columns = LogColumns(arm="ranker", time="date")
    store, _ = build_clicks(tmp_path, output(), ClickLog(columns=columns))
    assert store.nights.astype(str).tolist() == ["2026-11-05"]
    assert store.n_impressions == 2 * len(ROWS)


def test_logs_that_cannot_be_read_are_named(tmp_path, log_file):
    with pytest.raises(DataError, match=r"no column 'sid'.*'session'"):
        build_clicks(log_file, output(), ClickLog(columns=LogColumns(session="sid")))
    (tmp_path / "log.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="there is no column 'session', 'query'"):
        build_clicks(tmp_path, output())
    with pytest.raises(DataError, match="no such file or folder"):
        build_clicks(tmp_path / "absent", output())
    with pytest.raises(UsageError, match=r"log\.xml.*\.parquet"):
        build_clicks(_file(tmp_path / "log.xml"), output())
    with pytest.raises(DataError, match=r"bad\.csv\.gz"):
        build_clicks(_file(tmp_path / "bad.csv.gz"), output())
    (tmp_path / "lines.ndjson").write_text(json.dumps(ROWS[0]) + "\nnonsense\n[1]\n")
    with pytest.raises(DataError, match=r"66\.7% of 3 events.*\n  2: lines that cannot be read"):
        build_clicks(tmp_path / "lines.ndjson", output())
    with pytest.raises(UsageError, match="max_unmatched is 2"):
        build_clicks(log_file, output(), ClickLog(max_unmatched=2))
    with pytest.raises(UsageError, match="n_buckets is 0"):
        build_clicks(log_file, output(), ClickLog(n_buckets=0))


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_a_log_without_rows_has_no_session(tmp_path, form):
    path = write_column(tmp_path / "log", "position", [1] * len(ROWS), form)
    if form == "parquet":
        pq.write_table(pq.read_table(path).slice(0, 0), path)
    else:
        path.write_text(path.read_text().split("\n")[0] + "\n" if form == "csv" else "")
    with pytest.raises(DataError, match="log is empty"):
        build_clicks(path, output())


def _file(path):
    path.write_bytes(b"nothing of use")
    return path


def test_ids_of_other_types_are_counted(tmp_path):
    rows = [dict(row) for row in ROWS]
    rows[0]["document"], rows[1]["session"], rows[2]["query"] = ["d0"], {"a": 1}, ["x"]
    rows[3]["clicked"], rows[4]["time"] = "maybe", "soon"
    (tmp_path / "a.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, facts = build_clicks(tmp_path, output(), ClickLog(max_unmatched=1))
    found = {name: number for name, number in facts.problems.items() if number}
    assert found == {"ids_of_other_types": 3, "unreadable_times": 1, "unreadable_clicks": 1}


@pytest.mark.parametrize("form", ["parquet", "ndjson"])
def test_fractions_are_no_ids(tmp_path, form):
    ids = [1.5, *(float(n) for n in range(1, len(ROWS)))]
    _, facts = build_clicks(write_column(tmp_path / "log", "document", ids, form), output())
    assert problems_of(facts) == {"ids_of_other_types": 1}


def write_column(path, name, values, form):
    """A log of `ROWS` with other values in one column, as the form's own libraries write them."""
    rows = [{**row, name: value} for row, value in zip(ROWS, values, strict=True)]
    path = path.with_name(f"{path.name}.{form}")
    if form == "parquet":
        columns = {key: [row[key] for row in rows] for key in ROWS[0] if key != name}
        kept = values if isinstance(values, pa.Array) else pa.array(values)
        pq.write_table(pa.table({**columns, name: kept}), path)
    elif form == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    return path


def problems_of(facts):
    return {name: number for name, number in facts.problems.items() if number}


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("number", [int, float])
def test_counts_of_clicks_are_clicks(tmp_path, form, number):
    """In CSV, 2 clicks had been no click, and unreadable."""
    clicks = [number(row["clicked"] * (2 + n % 12)) for n, row in enumerate(ROWS)]
    clicks[1], clicks[2] = number(-1), number(0)
    path = write_column(tmp_path / "log", "clicked", clicks, form)
    store, facts = build_clicks(path, output(), ClickLog(columns=ALL))
    left = [{**row, "clicked": n > 0} for row, n in zip(ROWS, clicks, strict=True) if n >= 0]
    assert problems_of(facts) == {"unreadable_clicks": 1}
    assert content(store)[0] == count_log(left)[0]


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_times_in_other_zones_are_counted_in_every_form(tmp_path, form):
    """Texts of parquet are read as dictionaries, of which none had been counted."""
    zones = ["Z", "+00:00", "", "-05:00", "+0530", "+02"]
    times = [f"2026-11-01T10:00:00{zones[n % len(zones)]}" for n in range(len(ROWS))]
    times[3] = "2026-11-31T10:00:00-05:00"
    _, facts = build_clicks(write_column(tmp_path / "log", "time", times, form), output())
    assert facts.notes["times_in_other_zones"] == len(ROWS) // 2 - 1
    assert problems_of(facts) == {"unreadable_times": 1}


SECONDS = pa.array([1793527200] * len(ROWS), pa.int64())


def with_first(values, *first):
    """Values of a column whose first ones are others."""
    return pa.array([*first, *values.to_pylist()[len(first) :]], values.type)


def not_text(kind):
    """Ids of documents, the first of bytes that are not UTF-8."""
    ids = [b"\xff\xfe", *(row["document"].encode() for row in ROWS[1:])]
    binary = pa.array(ids, pa.binary())
    if pa.types.is_binary(kind):
        return binary
    return pa.Array.from_buffers(kind, len(ids), binary.buffers())


WRONG_COLUMNS = {
    "time of -2^60": ("time", with_first(SECONDS, -(2**60)), "unreadable_times"),
    "time with null": ("time", with_first(SECONDS, None, -(2**60)), "unreadable_times"),
    "time of 10^300": ("time", with_first(SECONDS.cast(pa.float64()), 1e300), "unreadable_times"),
    "year 36 million": (
        "time",
        with_first(pa.array([1793527200_000] * len(ROWS)), 2**60 + 12_345).cast(pa.timestamp("ms")),
        "unreadable_times",
    ),
    "year -1199": (
        "time",
        with_first(SECONDS, -100_000_000_000).cast(pa.timestamp("s")),
        "unreadable_times",
    ),
    "year 0": (
        "time",
        with_first(pa.array([row["time"] for row in ROWS]), "0000-01-01T00:00:00Z"),
        "unreadable_times",
    ),
    "day 2^31": (
        "time",
        pa.array([2**31 - 1, *[20_758] * (len(ROWS) - 1)], pa.int32()).cast(pa.date32()),
        "unreadable_times",
    ),
    "click of -2^60": (
        "clicked",
        with_first(pa.array([int(row["clicked"]) for row in ROWS]), -(2**60)),
        "unreadable_clicks",
    ),
    "bytes": ("document", not_text(pa.binary()), "ids_of_other_types"),
    "string of bytes": ("document", not_text(pa.string()), "ids_of_other_types"),
}


@pytest.mark.parametrize("name", WRONG_COLUMNS)
def test_values_beyond_their_range_are_counted(tmp_path, name):
    """Each had ended the build with a traceback."""
    column, values, problem = WRONG_COLUMNS[name]
    n_wrong = 2 if name == "time with null" else 1
    path = write_column(tmp_path / "log", column, values, "parquet")
    store, facts = build_clicks(path, output())
    assert problems_of(facts) == {problem: n_wrong}
    assert store.n_impressions == len(ROWS) - n_wrong


def test_weights_and_clicks_of_large_integers_are_read(tmp_path):
    weights = pa.array([2**60] * len(ROWS))
    path = write_column(tmp_path / "log", "weight", weights, "parquet")
    store, _ = build_clicks(path, output(), ClickLog(columns=ALL))
    counts, _, _ = count_log([{**row, "weight": 2.0**60} for row in ROWS])
    assert content(store)[0] == counts
    path = write_column(tmp_path / "log", "clicked", weights, "parquet")
    assert build_clicks(path, output())[0].n_clicks == len(ROWS)


@pytest.mark.parametrize("column", ["session", "query", "document", "time", "note"])
@pytest.mark.parametrize("n_bytes", [100, 1 << 26])
def test_a_wrong_byte_in_csv_is_of_one_line(tmp_path, monkeypatch, column, n_bytes):
    """It had refused the whole file; in a column that is not read, it says nothing."""
    rows = [{**row, "note": "é"} for row in ROWS]
    path = tmp_path / "log.csv"
    path.write_text(",".join(rows[0]) + "\n", encoding="utf-8")
    with path.open("ab") as file:
        for n, row in enumerate(rows):
            fields = [str(value).encode() for value in row.values()]
            if n == 7:
                fields[list(row).index(column)] += b"\xe9"
            file.write(b",".join(fields) + b"\n")
        file.write(b"\xe9,1\n")
    monkeypatch.setattr(files, "RANGE_BYTES", n_bytes)
    monkeypatch.setattr(utf8, "PIECE_BYTES", 61)
    store, facts = build_clicks(path, output())
    n_wrong = column != "note"
    assert problems_of(facts) == {"unreadable_lines": n_wrong + 1}
    assert store.n_impressions == len(ROWS) - n_wrong


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("has_null", [False, True])
def test_positions_too_deep_are_counted(tmp_path, form, has_null):
    """One impression at position 2,000,000,000 had asked later steps for terabytes."""
    positions = [row["position"] for row in ROWS]
    positions[:6] = [10_000, 10_001, 2_000_000_000, 2**60, -(2**62), 0]
    if has_null:
        positions[6] = None
    path = write_column(tmp_path / "log", "position", positions, form)
    store, facts = build_clicks(path, output(), ClickLog(columns=ALL, max_unmatched=0.5))
    missing = {"missing_positions": 1} if has_null else {}
    assert problems_of(facts) == {
        "positions_too_deep": 3,
        "positions_of_0": 1,
        "negative_positions": 1,
        **missing,
    }
    kept = [
        {**row, "position": position}
        for row, position in zip(ROWS, positions, strict=True)
        if position is not None and 1 <= position <= 10_000
    ]
    assert content(store)[0] == count_log(kept)[0]


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_positions_from_0_count_like_positions_from_1(tmp_path, form):
    lower = [row["position"] - 1 for row in ROWS]
    path = write_column(tmp_path / "log", "position", lower, form)
    columns = replace(ALL, first_position=0)
    assert (
        content(build_clicks(path, output(), ClickLog(columns=columns))[0])[0] == count_log(ROWS)[0]
    )
    with pytest.raises(DataError, match=r"at position 0\..*--first-position 0"):
        build_clicks(path, output(), ClickLog(columns=ALL, max_unmatched=1))
    whole = write_column(tmp_path / "whole", "position", [row["position"] for row in ROWS], form)
    with pytest.raises(DataError, match=r"none of \d+ events is at position 0"):
        build_clicks(whole, output(), ClickLog(columns=columns))


def test_unsigned_positions_of_a_byte_from_0_do_not_wrap(tmp_path):
    positions = [*range(256)]
    table = pa.table(
        {
            "session": ["s"] * 256, "query": ["q"] * 256, "document": [str(p) for p in positions],
            "position": pa.array(positions, pa.uint8()), "clicked": [False] * 256,
            "time": ["2026-11-01"] * 256,
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet")
    columns = LogColumns(first_position=0)
    store, _ = build_clicks(tmp_path / "log.parquet", output(), ClickLog(columns=columns))
    assert sorted(key[5] for key in content(store)[0]) == [*range(1, 257)]


def test_lists_in_order_begin_at_the_first_position_whatever_its_number(tmp_path):
    table = pa.table(
        {
            "session": ["s", "t"], "query": ["q", "q"], "document": [["a", "b"], ["b", "a"]],
            "clicked": [[True, False], [False, True]], "time": ["2026-11-01"] * 2,
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet")
    found = [
        content(
            build_clicks(
                tmp_path / "log.parquet",
                output(),
                ClickLog(form="lists", columns=LogColumns(first_position=first)),
            )[0]
        )[0]
        for first in (0, 1)
    ]
    places = [{key[1::4]: sums[:2] for key, sums in each.items()} for each in found]
    expected = {("a", 1): [1, 1], ("b", 2): [1, 0], ("b", 1): [1, 0], ("a", 2): [1, 1]}
    assert places == [expected, expected]


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_times_of_common_tools_are_read(tmp_path, form):
    ends = ["10:00:00.123456789Z", "10:00:00.123456789", "10:00:00 UTC", "10:00:00.5UTC",
            "10:00:00.1234567+02:00", "10:00:00Z"]  # fmt: skip
    times = [f"2026-11-01T{ends[n % len(ends)]}" for n in range(len(ROWS))]
    times[5] = "2026-11-01 23:59:59.9999999 UTC"
    store, facts = build_clicks(write_column(tmp_path / "log", "time", times, form), output())
    assert problems_of(facts) == {}
    assert store.nights.astype(str).tolist() == ["2026-11-01"]
    assert facts.notes["times_in_other_zones"] == len(ROWS) // 6


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_numbers_of_nanoseconds_are_times(tmp_path, form):
    """The last of them is a microsecond before midnight."""
    moments = [datetime(2026, 11, 1 + n // 4 % 3, tzinfo=UTC).timestamp() for n in range(48)]
    times = [int(moment) * 10**9 + 86_399_999_999_000 for moment in moments]
    store, facts = build_clicks(write_column(tmp_path / "log", "time", times, form), output())
    assert problems_of(facts) == {}
    assert store.nights.astype(str).tolist() == ["2026-11-01", "2026-11-02", "2026-11-03"]


def test_whole_numbers_of_csv_are_the_ids_without_a_point(tmp_path):
    """A column of numbers with a gap is written as 12.0 by pandas."""
    ids = [None, *(float(row["document"][1:]) for row in ROWS[1:])]
    path = write_column(tmp_path / "log", "document", ids, "csv")
    store, facts = build_clicks(path, output(), ClickLog(columns=ALL))
    assert problems_of(facts) == {"missing_ids": 1}
    kept = [{**row, "document": row["document"][1:]} for row in ROWS[1:]]
    assert content(store)[0] == count_log(kept)[0]
    names = [f"{n}.5" for n in range(len(ROWS) - 1)]
    path = write_column(tmp_path / "log", "document", ["v1.0", *names], "csv")
    assert "v1.0" in build_clicks(path, output())[0].counts(0).document_ids


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session", "sid"),
        ("query", "normalised"),
        ("document", "doc"),
        ("position", "rank"),
        ("clicked", "click"),
        ("time", "date"),
        ("clicked_ids", True),
    ],
)
def test_columns_that_a_form_has_not_are_refused(log_file, name, value):
    log = ClickLog(form="ubi", columns=LogColumns(**{name: value}))
    with pytest.raises(UsageError, match=f"have a {name.replace('_', ' ')} of their own"):
        build_clicks(log_file, output(), log)


def test_options_of_other_forms_are_refused(log_file):
    with pytest.raises(UsageError, match="of the form lists only"):
        build_clicks(log_file, output(), ClickLog(columns=LogColumns(clicked_ids=True)))
    for form in ("rows", "lists"):
        with pytest.raises(UsageError, match=f"the form {form} has no actions"):
            build_clicks(log_file, output(), ClickLog(form=form, ubi=UbiRules(("buy",))))


WRONG_WEIGHTS = [-1.0, "abc", 1e300, float("inf")]


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("wrong", WRONG_WEIGHTS)
def test_weights_that_cannot_be_read_are_counted(tmp_path, form, wrong):
    """They had become 0; one infinite weight makes every sum infinite."""
    clicked = [n for n, row in enumerate(ROWS) if row["clicked"]]
    weights = [row["weight"] for row in ROWS]
    missing = clicked[4]
    weights[missing] = None
    for n in (*clicked[:2], 1):  # row 1 has no click, and its weight is not used
        weights[n] = wrong
    if wrong == "abc" and form == "parquet":
        weights = [None if weight is None else str(weight) for weight in weights]
    path = write_column(tmp_path / "log", "weight", weights, form)
    told = r"2 of 12 clicks cannot be used, more than 5.0%.*\n  2: other causes"
    with pytest.raises(DataError, match=told):
        build_clicks(path, output(), ClickLog(columns=ALL))
    store, facts = build_clicks(path, output(), ClickLog(columns=ALL, max_unmatched=0.2))
    assert problems_of(facts) == {"unreadable_weights": 2}
    left = [dict(row) for n, row in enumerate(ROWS) if n not in clicked[:2]]
    left[missing - 2]["weight"] = 0.0
    assert content(store)[0] == count_log(left)[0]


def test_a_cluster_counts_to_the_bit(client, tmp_path):
    files = [write_log(tmp_path / f"log{n}", ROWS[n::3], form) for n, form in
             enumerate(("parquet", "csv", "ndjson"))]  # fmt: skip
    log = ClickLog(columns=ALL, salt="x", users=True, n_buckets=2)
    digests = []
    for name, executor in (("threads", "threads"), ("cluster", client)):
        store, _ = build_clicks(files, tmp_path / name, log, executor=executor)
        digests.append(
            [
                (t.bucket, t.checksum, t.users_checksum)
                for n in store.manifest.nights
                for t in n.tables
            ]
        )
    assert digests[0] == digests[1]
    assert not list((tmp_path / "cluster").rglob("*scratch*"))
