"""Counts from logs equal plain loops, whatever the files, the chunks and the order of rows."""

import csv
import gzip
import hashlib
import io
import json
import secrets
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dranking.clicks.build import build
from dranking.clicks.build.build import build_clicks
from dranking.clicks.build.click_log import ClickLog
from dranking.clicks.logs import files, read
from dranking.clicks.logs.columns import LogColumns
from dranking.errors import DataError, UsageError
from tests.clicks.made_logs import content, logs, rows_of, write_log
from tests.reference.click_logs import count_log

ALL = LogColumns(user="user", arm="arm", weight="weight", context=("context",))
FORMS = st.lists(st.sampled_from(["parquet", "ndjson", "csv"]), min_size=1, max_size=3)


def output():
    """A new place in memory, where nothing is synchronised to a disk."""
    return f"memory://{secrets.token_hex(8)}/clicks.store"


@pytest.fixture(scope="module")
def small_chunks():
    """Chunks and buckets of few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "EVENTS_PER_BUCKET", 7)
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
@pytest.mark.usefixtures("small_chunks")
def test_counts_equal_plain_loops(rows, forms, rules, n_buckets, data, tmp_path_factory):
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
    if counts:
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
def test_times_near_1970_are_moments_like_others(tmp_path, low, high, unit):
    """Anonymised logs count from 0; columns of such small integers are sent in few bytes."""
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
    assert facts.notes["sessions_of_other_nights"] == 4
    with pytest.raises(DataError, match="the night 2026-11-01 is there already, and 3 nights"):
        build_clicks(log_file, place, append=True)
    with pytest.raises(UsageError, match="hashed_queries False, and this call has True"):
        build_clicks(log_file, place, ClickLog(hash_queries=True), append=True)


def test_a_window_keeps_the_newest_nights(log_file):
    place = output()
    build_clicks(log_file, place, ClickLog(until="2026-11-02"))
    kept, _ = build_clicks(log_file, place, ClickLog(since="2026-11-03"), append=True, window="2d")
    assert kept.nights.astype(str).tolist() == ["2026-11-02", "2026-11-03"]
    at_once, _ = build_clicks(log_file, output(), window="2d")
    assert content(at_once) == content(kept)
    with pytest.raises(UsageError, match="number of days such as 28d"):
        build_clicks(log_file, output(), window="4 weeks")


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

    store, _ = build_clicks(log_file, output(), ClickLog(hash_queries=True))
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
        assert facts.notes["other_actions"] == len(ROWS)


def test_a_later_page_begins_where_its_events_say(tmp_path):
    rows = [{**row, "position": row["position"] + 10} for row in ROWS]
    shown = {row["session"] for row in rows if row["clicked"]}
    records = [r for r in ubi_records(rows) if r["query_id"] in shown]
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(r) + "\n" for r in records))
    store, _ = build_clicks(tmp_path, output(), ClickLog(form="ubi"))
    counts, _, _ = count_log(
        [{**r, "context": "", "arm": ""} for r in rows if r["session"] in shown]
    )
    assert {key: total[:2] for key, total in content(store)[0].items()} == {
        key: total[:2] for key, total in counts.items()
    }
    for record in records:
        if record.get("action_name") == "click" and record["query_id"] == "s0":
            record["event_attributes"]["position"]["ordinal"] += 1
            break
    unknown = {**records[1], "query_id": "never", "action_name": "click"}
    extra = {**records[1], "action_name": "click", "event_attributes": {"object": {"object_id": 7}}}
    records += [unknown, extra]
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(r) + "\n" for r in records))
    _, facts = build_clicks(tmp_path, output(), ClickLog(form="ubi", max_unmatched=1))
    assert facts.problems["clicks_without_impressions"] == 2
    assert facts.problems["contradicting_positions"] == 2  # the click of s0 is there twice


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
    parts = files.find_logs([path], ())
    assert len(parts) == 1 if form == "csv.gz" else len(parts) > path.stat().st_size / n_bytes / 2
    counts, sessions, _ = count_log(rows)
    store, facts = build_clicks(path, output(), ClickLog(columns=ALL))
    assert content(store) == (counts, sessions)
    assert (facts.n_events, sum(facts.problems.values())) == (len(rows), 0)


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
    with pytest.raises(DataError, match="there is no column 'sid'; the columns are 'session'"):
        build_clicks(log_file, output(), ClickLog(columns=LogColumns(session="sid")))
    (tmp_path / "log.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="there is no column 'session', 'query'"):
        build_clicks(tmp_path, output())
    with pytest.raises(DataError, match="no such file or folder"):
        build_clicks(tmp_path / "absent", output())
    with pytest.raises(UsageError, match=r"the name of a log ends in \.parquet"):
        build_clicks(_file(tmp_path / "log.xml"), output())
    with pytest.raises(DataError, match=r"bad\.csv\.gz: cannot be read as csv"):
        build_clicks(_file(tmp_path / "bad.csv.gz"), output())
    (tmp_path / "lines.ndjson").write_text(json.dumps(ROWS[0]) + "\nnonsense\n[1]\n")
    with pytest.raises(DataError, match=r"66\.7% of 3 events.*\n  2: lines that cannot be read"):
        build_clicks(tmp_path / "lines.ndjson", output())
    with pytest.raises(UsageError, match="max_unmatched is 2"):
        build_clicks(log_file, output(), ClickLog(max_unmatched=2))
    with pytest.raises(UsageError, match="n_buckets is 0"):
        build_clicks(log_file, output(), ClickLog(n_buckets=0))


def _file(path):
    path.write_bytes(b"nothing of use")
    return path


def test_ids_of_other_types_are_counted(tmp_path):
    rows = [dict(row) for row in ROWS]
    rows[0]["document"], rows[1]["session"], rows[2]["query"] = 1.5, {"a": 1}, ["x"]
    rows[3]["clicked"], rows[4]["time"] = "maybe", "soon"
    (tmp_path / "a.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, facts = build_clicks(tmp_path, output(), ClickLog(max_unmatched=1))
    found = {name: number for name, number in facts.problems.items() if number}
    assert found == {"ids_of_other_types": 3, "unreadable_times": 1, "unreadable_clicks": 1}


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
