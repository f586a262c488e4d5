"""A log that is appended in pieces is the log that is counted at once."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dranking.cli.app import run
from dranking.clicks.counting import build
from dranking.clicks.counting.click_log import ClickLog
from dranking.clicks.logs.columns import LogColumns
from dranking.clicks.logs.values import DAY
from dranking.clicks.store.click_store import open_click_store
from dranking.clicks.store.write_store import write_click_store
from dranking.errors import DataError, UsageError
from tests.clicks.counting.test_build import ALL, ROWS, output, small_chunks
from tests.clicks.made_logs import build_with_texts as build_clicks
from tests.clicks.made_logs import content, rows_of, without_taken, write_log
from tests.reference.click_logs import count_log

FIRST = datetime(2026, 11, 1)
LONGEST = 7_200


@st.composite
def sessions(draw, early=0):
    """Rows of sessions of at most two hours in two days, each with the second it arrives in.

    Two sessions of the first hour are there in any case, so that no store is without a night. The
    last event of the first session to arrive is `early` seconds before the session begins.
    """
    rows = [
        {"session": name, "query": "cats", "document": "1", "position": 1, "clicked": False,
         "user": "u1", "arm": "a", "context": "tv", "weight": 0.0, "second": 0, "arrives": 0}
        for name in ("first", "second")
    ]  # fmt: skip
    for number in range(draw(st.integers(1, 8))):
        begin, latest = draw(st.integers(early if number == 0 else 0, 172_800)), 0
        for _ in range(draw(st.integers(1, 4))):
            second = begin + draw(st.integers(0, LONGEST))
            rows.append(
                {
                    "session": f"s{number}",
                    "query": draw(st.sampled_from(["cats", "dogs"])),
                    "document": draw(st.sampled_from(["1", "2", "d"])),
                    "position": draw(st.integers(1, 3)),
                    "clicked": draw(st.booleans()),
                    "user": f"u{number % 2}",
                    "arm": draw(st.sampled_from(["a", ""])),
                    "context": draw(st.sampled_from(["tv", ""])),
                    "weight": draw(st.sampled_from([0.5, 2.0])),
                    "second": second,
                    "arrives": second + draw(st.sampled_from([0, 0, LONGEST])),
                }
            )
            latest = max(latest, rows[-1]["arrives"])
        if early and number == 0:
            more = {"position": 4, "second": begin - early, "arrives": latest}
            rows.append({**rows[-1], **more})
    for row in rows:
        row["time"] = (FIRST + timedelta(seconds=row["second"])).isoformat()
    return sorted(without_taken(rows), key=lambda row: row["arrives"])


def in_pieces(rows, borders, folder, log, **options):
    """The store of rows that are appended in pieces, each of them two files."""
    place, start = output(), 0
    for number, stop in enumerate([*borders, len(rows)]):
        piece, start = rows[start:stop], stop
        files = [
            write_log(folder / f"{number}-{n}", piece[n::2], form)
            for n, form in enumerate(("parquet", "csv"))
            if piece[n::2]
        ]
        store, _ = build_clicks(files, place, log, append=number > 0, **options)
    return store


@settings(max_examples=12)
@given(
    rows=sessions(),
    cuts=st.lists(st.integers(2, 30), max_size=4, unique=True).map(sorted),
    rules=st.fixed_dictionaries(
        {"max_clicks": st.sampled_from([None, 1]), "min_sessions": st.sampled_from([1, 2])}
    ),
)
def test_a_log_in_pieces_is_the_log_at_once(rows, cuts, rules, tmp_path_factory):
    """Events arrive up to two hours late, and sessions go on over the borders of the pieces."""
    given_rules = {name: value for name, value in rules.items() if value is not None}
    folder = tmp_path_factory.mktemp("logs")
    log = ClickLog(columns=ALL, users=True, salt="x", n_buckets=2, **rules)
    with small_chunks():
        store = in_pieces(rows, [cut for cut in cuts if cut < len(rows)], folder, log)
        at_once, _ = build_clicks(write_log(folder / "all", rows, "parquet"), output(), log)
    counts, of_queries, _ = count_log(rows, **given_rules)
    assert content(store) == (counts, of_queries)
    nights = {night.date: night.n_sessions for night in at_once.manifest.nights}
    assert {night.date: night.n_sessions for night in store.manifest.nights} == nights
    users = [{}, {}]
    for one, own in ((store, users[0]), (at_once, users[1])):
        for bucket in one.buckets:
            own |= rows_of(*one.user_counts(bucket))
    assert users[0] == users[1]
    by_user, _, _ = count_log(rows, users=True, **given_rules)
    assert sorted(users[0].values()) == sorted(by_user.values())


@settings(max_examples=25)
@given(
    rows=sessions(early=100_000),
    cuts=st.lists(st.integers(2, 30), max_size=4, unique=True).map(sorted),
)
def test_a_late_event_of_an_earlier_night_loses_no_session(rows, cuts, tmp_path_factory):
    """The night of its session may differ from that of the log at once, the sums do not."""
    folder, log = tmp_path_factory.mktemp("logs"), ClickLog(columns=ALL)
    cuts = sorted({*cuts, *(n for n, row in enumerate(rows) if row["position"] == 4)})
    try:
        with small_chunks():
            store = in_pieces(rows, [cut for cut in cuts if cut < len(rows)], folder, log)
    except DataError as error:
        if "is there already" not in str(error):  # no piece before told of a session
            raise
        return
    assert store.n_sessions == len({row["session"] for row in rows})
    names = ("session", "query", "document", "position", "arm", "context")
    assert store.n_impressions == len({tuple(row[name] for name in names) for row in rows})


def pages(name, *times):
    """Rows of sessions with these times, which see one result each."""
    return [
        {**ROWS[0], "session": f"{name}{n}", "time": f"2026-11-{time}"}
        for n, time in enumerate(times)
    ]


def appended(folder, *pieces, log=None, windows=(None,) * 9):
    """Sessions and impressions by night after each append of rows, and the facts of the last."""
    place, found = output(), []
    for number, (rows, window) in enumerate(zip(pieces, windows, strict=False)):
        path = write_log(folder / f"piece{number}", rows, "csv")
        store, facts = build_clicks(path, place, log, append=number > 0, window=window)
        found.append(
            {
                night.date[-2:]: (night.n_sessions, sum(t.n_impressions for t in night.tables))
                for night in store.manifest.nights
            }
        )
    return found, facts


def test_a_late_event_of_a_night_that_is_over_stays_with_its_session(tmp_path):
    """It had replaced the whole night with its session; the event was kept with a time of then."""
    first = pages("a", *["01T10:00"] * 9)
    second = pages("b", *["02T12:00"] * 5, "02T21:00")
    late = {**second[-1], "time": "2026-11-01T23:50", "position": 2, "document": "d9"}
    third = [*pages("c", *["02T21:30"] * 4), late]
    fourth = [*pages("d", "02T22:00"), {**late, "time": "2026-11-02T21:40", "position": 3}]
    found, _ = appended(tmp_path, first, second, third, fourth)
    assert found[2] == {"01": (9, 9), "02": (10, 11)}
    assert found[3] == {"01": (9, 9), "02": (11, 13)}


def test_a_night_that_a_window_dropped_does_not_come_back(tmp_path):
    """The events of its last sessions were counted by the next append without a window."""
    first = pages("a", *["01T22:00"] * 4, *["01T23:00"] * 5)
    more = {**first[-1], "time": "2026-11-02T00:30", "position": 2, "document": "d9"}
    pieces = [first, pages("b", *["02T00:10"] * 6), [*pages("c", *["02T01:00"] * 3), more]]
    pieces.append(pages("d", "02T01:30"))
    found, facts = appended(tmp_path, *pieces[:3], windows=(None, "1d", None))
    assert found[1:] == [{"02": (6, 6)}, {"02": (9, 9)}]
    assert facts.notes["sessions_before_window"] == 1
    found, facts = appended(tmp_path, *pieces, windows=(None, "1d", None, None))
    assert found[3] == {"02": (10, 10)}
    assert facts.notes["sessions_before_window"] == 0


def test_events_of_a_night_that_a_window_dropped_are_dropped(tmp_path):
    """Of its open sessions the hashes and the times stay: later events are of a dropped night."""
    first = [{**row, "document": "gone"} for row in pages("a", *["01T22:00"] * 4, "01T23:00")]
    more = {**first[-1], "time": "2026-11-02T00:30", "position": 2, "document": "late"}
    pieces = (first, pages("b", *["02T00:10"] * 6), [*pages("c", "02T01:00"), more])
    place, log, kept = tmp_path / "clicks.store", ClickLog(columns=ALL), []
    for number, (rows, window) in enumerate(zip(pieces, (None, "1d", None), strict=True)):
        path = write_log(tmp_path / f"{number}", rows, "csv")
        store, facts = build_clicks(path, place, log, append=number > 0, window=window)
        files = [pq.read_table(place / file.name) for file in store.manifest.open.files]
        kept.append({tuple(row.values()) for table in files for row in table.to_pylist()})
    names = files[0].column_names
    own = [{(row[names.index("query")], row[names.index("document")]) for row in k} for k in kept]
    theirs = (ROWS[0]["query"], ROWS[0]["document"])
    assert own == [{(ROWS[0]["query"], "gone")}, {("", ""), theirs}, {("", ""), theirs}]
    assert len(kept[1]) == 5 + 6
    assert facts.notes["sessions_before_window"] == 1
    late = [{**row, "document": "late"} for row in pages("z", *["01T23:30"] * 2)]
    for number, rows in enumerate((late, pages("d", "02T02:00")), start=3):
        path = write_log(tmp_path / f"{number}", rows, "csv")
        store, _ = build_clicks(path, place, log, append=True)
    counts, of_queries = content(store)
    assert of_queries == {(theirs[0], "2026-11-01"): 2, (theirs[0], "2026-11-02"): 8}
    assert {key[:2] for key in counts} == {theirs, (theirs[0], "late")}


def test_sessions_longer_than_the_longest_are_said(tmp_path):
    rows = [
        {**row, "session": name, "position": position, "document": f"d{position}"}
        for name, last in (("a", "11:59:59"), ("b", "12:00:00"), ("c", "12:00:01"))
        for position, row in enumerate(pages(name, "01T10:00:00", f"01T{last}"), 1)
    ]
    path = write_log(tmp_path / "log", rows, "csv")
    for longest, n_long in (("2h", 1), ("60m", 3), ("1d", 0)):
        _, facts = build_clicks(path, output(), longest_session=longest)
        assert facts.notes["long_sessions"] == n_long


def test_files_of_nights_that_a_window_drops_can_be_counted_later(tmp_path):
    """They had counted as taken until the newest night of then left the window."""
    old, new = pages("a", *["01T10:00"] * 5), pages("b", *["05T10:00"] * 6)
    found, facts = appended(tmp_path, new, old, old, old, windows=(None, "2d", None, None))
    assert found[1:] == [{"05": (6, 6)}, *[{"01": (5, 5), "05": (6, 6)}] * 2]
    assert facts.notes["files_taken_before"] == 1
    newest = pages("c", *["06T10:00"] * 7)
    pieces, windows = (old, new, newest, old), (None, None, "2d", None)
    found, facts = appended(tmp_path, *pieces, windows=windows)
    assert found[2:] == [{"05": (6, 6), "06": (7, 7)}, {"01": (5, 5), "05": (6, 6), "06": (7, 7)}]


@pytest.mark.parametrize(("n_fast", "late"), [(1, "01T10:30"), (9, "01T11:30")])
def test_clocks_that_run_ahead_close_no_night(tmp_path, monkeypatch, n_fast, late):
    """A single one in a small store had; the last hour that can be over is that of the build."""
    now = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)
    monkeypatch.setattr(build, "latest_time", lambda: int(now.timestamp() * 1e6) + DAY)
    first = [*pages("a", *["01T10:00"] * 9), *pages("fast", *["01T22:00"] * n_fast)]
    found, _ = appended(tmp_path, first, pages("b", *[late] * 5))
    assert found[1] == {"01": (14 + n_fast, 14 + n_fast)}


def test_open_sessions_hide_no_log_that_counts_from_0(tmp_path):
    """Fifteen first results were lost, beside 400 sessions that the store had counted."""
    first = write_log(tmp_path / "first", pages("a", *["01T10:00"] * 400), "csv")
    place = output()
    build_clicks(first, place)
    rows = [
        {**row, "position": position, "document": f"d{position}"}
        for row in pages("b", *["01T11:00"] * 15)
        for position in range(25)
    ]
    path = write_log(tmp_path / "from0", rows, "csv")
    for append, output_place in ((False, output()), (True, place)):
        with pytest.raises(DataError, match="15 events in 15 sessions are at position 0"):
            build_clicks(path, output_place, append=append)


@pytest.mark.parametrize("users", [False, True])
def test_users_of_open_sessions_are_kept_for_counts_by_user_only(tmp_path, users):
    """Of User Behavior Insights, which name a user in any case."""
    page = {
        "query_id": "s", "user_query": "cats", "timestamp": "2026-11-01T10:00:00Z",
        "query_response_hit_ids": ["a", "b"], "client_id": "u1",
    }  # fmt: skip
    path = tmp_path / "log.ndjson"
    path.write_text("".join(json.dumps({**page, "query_id": f"s{n}"}) + "\n" for n in range(9)))
    place = tmp_path / "clicks.store"
    store, _ = build_clicks(path, place, ClickLog(form="ubi", users=users))
    (kept,) = store.manifest.open.files
    assert ("user" in pq.read_schema(place / kept.name).names) is users


def test_clicks_meet_their_results_in_the_next_piece(tmp_path):
    """Of User Behavior Insights: the click of a page before midnight comes after it, or before."""
    page = {
        "query_id": "s", "user_query": "cats", "timestamp": "2026-11-01T23:59:00Z",
        "query_response_hit_ids": ["a", "b"],
    }  # fmt: skip
    others = [{**page, "query_id": f"s{n}", "client_id": "u"} for n in range(20)]
    click = {
        "query_id": "s", "action_name": "click", "timestamp": "2026-11-02T00:01:00Z",
        "event_attributes": {"object": {"object_id": "b"}},
    }  # fmt: skip
    early = [{**click, "query_id": record["query_id"]} for record in others]
    log = ClickLog(form="ubi", max_unmatched=1)
    pieces = ([*others, page], [click, *early]), ([*others, click], [page, *early])
    for number, pair in enumerate(pieces):
        place = output()
        for n, records in enumerate(pair):
            path = tmp_path / f"{number}-{n}.ndjson"
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
            store, facts = build_clicks(path, place, log, append=n > 0)
        assert {key[1:6:2]: sums[:2] for key, sums in content(store)[0].items()} == {
            ("a", "2026-11-01", 1): [21, 0],
            ("b", "2026-11-01", 2): [21, 21],
        }
        assert facts.problems["clicks_without_impressions"] == 0


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_the_same_append_again_changes_nothing(tmp_path, capsys, form):
    """After a kill behind the commit, the command that runs again had been refused."""
    nights = [[r for r in ROWS if r["time"].startswith(f"2026-11-0{n}")] for n in (1, 2, 3)]
    logs = [str(write_log(tmp_path / f"log{n}", rows, form)) for n, rows in enumerate(nights)]
    call = ["clicks", "build", "-o", str(tmp_path / "clicks.store")]
    assert run([*call, logs[0], logs[1]]) == 0
    assert run([*call, "--append", logs[2], logs[1]]) == 0
    capsys.readouterr()
    manifest = (tmp_path / "clicks.store" / "manifest.json").read_bytes()
    files = sorted(path.name for path in (tmp_path / "clicks.store").rglob("*"))
    for given_logs in ([logs[2]], logs[::-1]):
        assert run([*call, "--append", *given_logs, "--window", "1d"]) == 0
        told = capsys.readouterr().err
        assert f"all {len(given_logs)} files were counted before; nothing is changed" in told
    assert (tmp_path / "clicks.store" / "manifest.json").read_bytes() == manifest
    assert sorted(path.name for path in (tmp_path / "clicks.store").rglob("*")) == files
    store = open_click_store(tmp_path / "clicks.store")
    assert store.n_impressions == len(ROWS)


def test_what_a_window_drops_is_said_before(tmp_path, capsys, monkeypatch):
    from dranking.files.writing.commit import DirectoryCommit

    def killed(*_):
        raise KeyboardInterrupt

    logs = [
        str(write_log(tmp_path / f"{n}", [r for r in ROWS if f"-0{n}T" in r["time"]], "csv"))
        for n in (1, 2, 3)
    ]
    call = ["clicks", "build", "-o", str(tmp_path / "clicks.store")]
    assert run([*call, *logs[:2]]) == 0
    n_rows = open_click_store(tmp_path / "clicks.store").n_rows
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryCommit, "finish", killed)
        assert run([*call, "--append", logs[2], "--window", "1d"]) != 0
    told = capsys.readouterr().err
    assert "the window of 1d up to 2026-11-03 drops 2 nights of the store" in told
    assert f"2026-11-01 to 2026-11-02, with {n_rows} rows" in told
    store = open_click_store(tmp_path / "clicks.store")
    assert store.nights.astype(str).tolist() == ["2026-11-01", "2026-11-02"]
    assert run([*call, "--append", logs[2], "--window", "3d"]) == 0
    assert "drops" not in capsys.readouterr().err


def test_a_night_that_is_over_is_not_counted_again(tmp_path):
    """Its file differs from that which was counted, so that the digest says nothing."""
    place = output()
    first = write_log(tmp_path / "first", ROWS, "parquet")
    build_clicks(first, place)
    again = write_log(tmp_path / "again", [{**row, "user": "u2"} for row in ROWS], "parquet")
    with pytest.raises(DataError, match="the night 2026-11-01 is there already, and 2 nights"):
        build_clicks(again, place, append=True)
    with pytest.raises(UsageError, match="longest_session 2h, and this call has 3h"):
        build_clicks(again, place, longest_session="3h", append=True)
    with pytest.raises(UsageError, match=r"longest_session is '2 hours'.*90m, 2h or 1d"):
        build_clicks(again, output(), longest_session="2 hours")


def test_columns_that_one_log_lacks_are_those_of_their_default(tmp_path):
    """Sessions over midnight, with an arm in one of the two nights."""
    rows = [
        {**row, "time": f"2026-11-0{1 + (row['position'] > 2)}T{23 * (row['position'] < 3):02}:30",
         "arm": "" if row["position"] < 3 else "a", "session": f"s{n // 4}"}
        for n, row in enumerate(ROWS)
    ]  # fmt: skip
    counts, of_queries, _ = count_log(rows)
    parts = [write_log(tmp_path / f"{n}", [r for r in rows if (r["position"] < 3) == (n == 0)],
             "parquet") for n in (0, 1)]  # fmt: skip
    for columns in ((ALL, ALL), (replace(ALL, arm=None), ALL)):
        place = output()
        for n, part in enumerate(parts):
            store, _ = build_clicks(part, place, ClickLog(columns=columns[n]), append=n > 0)
        assert content(store) == (counts, of_queries)
    assert {night.date for night in store.manifest.nights} == {"2026-11-01"}
    assert LogColumns().arm is None


def test_nights_that_came_from_no_log_stay_as_they_are(tmp_path):
    """An append two hours after midnight, to counts of which no session is known."""
    rows = [{**row, "session": f"t{row['session']}", "time": "2026-11-04T01:00"} for row in ROWS]
    whole, _ = build_clicks(write_log(tmp_path / "first", ROWS, "parquet"), output())
    place = output()
    write_click_store(whole.counts(0), place)
    log = write_log(tmp_path / "next", rows, "parquet")
    build_clicks(log, place, longest_session="2h", append=True)
    late = [{**row, "time": "2026-11-03T23:30", "session": f"u{row['session']}"} for row in ROWS]
    with pytest.raises(DataError, match="the night 2026-11-03 is there already"):
        build_clicks(write_log(tmp_path / "late", late, "parquet"), place, append=True)
    older = open_click_store(place).within(until="2026-11-03")
    assert content(older)[0] == content(whole)[0]
