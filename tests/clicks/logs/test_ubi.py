"""User Behavior Insights as OpenSearch's own tools write them: with lists, or with impressions."""

import csv
import json

import pytest

from dranking.clicks.counting.click_log import ClickLog
from dranking.clicks.logs.columns import LogColumns, UbiRules
from dranking.errors import DataError, UsageError
from tests.clicks.counting.test_build import ROWS, output, problems_of
from tests.clicks.made_logs import build_with_texts as build_clicks
from tests.clicks.made_logs import content
from tests.reference.click_logs import count_log

PLAIN = [{**row, "context": "", "arm": ""} for row in ROWS]


def expected(rows=PLAIN):
    return {key: sums[:2] for key, sums in count_log(rows)[0].items()}


def counted(store):
    return {key: sums[:2] for key, sums in content(store)[0].items()}


def query_of(row):
    return {
        "application": "sample", "query_id": row["session"], "client_id": row["user"],
        "user_query": row["query"], "query_attributes": {}, "timestamp": row["time"],
    }  # fmt: skip


def event_of(row, action, **attributes):
    return {
        "application": "sample", "action_name": action, "query_id": row["session"],
        "session_id": "browser", "client_id": row["user"], "timestamp": row["time"],
        "message_type": None, "message": None,
        "event_attributes": {
            "object": {"object_id": row["document"], "object_id_field": "asin"}, **attributes,
        },
    }  # fmt: skip


def sample(rows, first=1, action="impression", *, rank=False):
    """Queries without lists, an event for each result, and one for each click."""
    records = [query_of(row) for row in rows if row["position"] == 1]
    for row in rows:
        ordinal = row["position"] - 1 + first
        told = {"rank": ordinal} if rank else {"position": {"ordinal": ordinal}}
        records.append(event_of(row, action, **told))
        if row["clicked"]:
            records.append(event_of(row, "click", **told))
    return [*records, {**event_of(rows[0], "search"), "event_attributes": None}]


def written(path, records, *, bulk=False):
    lines = [json.dumps(record) for record in records]
    if bulk:  # as for OpenSearch's bulk requests: a line of what to do before each record
        names = ["ubi_events" if "action_name" in r else "ubi_queries" for r in records]
        todo = [json.dumps({"index": {"_index": name, "_id": "x"}}) for name in names]
        lines = [line for pair in zip(todo, lines, strict=True) for line in pair]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("rank", [False, True])
@pytest.mark.parametrize("action", ["impression", "view"])
def test_impressions_are_the_results_of_queries_without_lists(tmp_path, action, rank):
    """They had been passed over, so that such a log had no session."""
    path = written(tmp_path / "log.ndjson", sample(PLAIN, 1, action, rank=rank), bulk=True)
    store, facts = build_clicks(path, output(), ClickLog(form="ubi"))
    assert counted(store) == expected()
    assert problems_of(facts) == {}
    assert facts.n_events == len(ROWS) + 12
    assert facts.notes["other_actions"] == 1
    assert store.n_sessions == 12


def test_events_of_both_kinds_of_positions_may_be_in_one_file(tmp_path):
    """How a log is cut into files changes nothing: a newer version may have written half of it."""
    old, new = (sample(PLAIN, rank=rank) for rank in (True, False))
    half = len(old) // 2
    log = written(tmp_path / "log.ndjson", [*old[:half], *new[half:]])
    store, facts = build_clicks([log], tmp_path / "store", ClickLog(form="ubi"))
    assert counted(store) == expected()
    assert not any(facts.problems.values())


@pytest.mark.parametrize("rank", [False, True])
def test_impressions_that_count_from_0_need_the_option(tmp_path, rank):
    """The data generator of OpenSearch counts from 0; its older versions write a rank."""
    path = written(tmp_path / "log.ndjson", sample(PLAIN, 0, rank=rank), bulk=True)
    told = "12 events in 12 sessions are at position 0.*--first-position 0"
    with pytest.raises(DataError, match=told):
        build_clicks(path, output(), ClickLog(form="ubi", max_unmatched=1))
    log = ClickLog(form="ubi", columns=LogColumns(first_position=0))
    store, facts = build_clicks(path, output(), log)
    assert counted(store) == expected()
    assert problems_of(facts) == {}


def test_tables_of_the_data_generator_are_read(tmp_path):
    """Two files of CSV, whose columns are no fields of others."""
    queries = [query_of(row) for row in PLAIN if row["position"] == 1]
    for query in queries:
        del query["query_attributes"]
    events = [
        {"object_id": row["document"], "rank": row["position"] - 1, "object_id_field": "product_id",
         "application": "sample", "action_name": action, "query_id": row["session"],
         "session_id": "browser", "client_id": row["user"], "timestamp": row["time"]}
        for row in PLAIN for action in ("impression", *(["click"] if row["clicked"] else []))
    ]  # fmt: skip
    for name, rows in (("ubi_queries", queries), ("ubi_events", events)):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    log = ClickLog(form="ubi", columns=LogColumns(first_position=0))
    store, facts = build_clicks(tmp_path, output(), log)
    assert counted(store) == expected()
    assert problems_of(facts) == {}


def test_contexts_and_arms_of_the_query_are_those_of_its_impressions(tmp_path):
    records = sample(ROWS)
    of_session = {row["session"]: row for row in ROWS}
    for record in records:
        if "user_query" in record:
            row = of_session[record["query_id"]]
            record["query_attributes"] = {"arm": row["arm"], "device": row["context"]}
    columns = LogColumns(arm="query_attributes.arm", context=("query_attributes.device",))
    log = ClickLog(form="ubi", columns=columns, users=True)
    store, _ = build_clicks(written(tmp_path / "log.ndjson", records), output(), log)
    assert counted(store) == expected(ROWS)


def test_events_may_name_their_query(tmp_path):
    """Some clients use an id of a query again; events without a row of a query name it, too."""
    rows = [dict(row) for row in PLAIN]
    for row in rows:
        row["session"] = f"s{int(row['session'][1:]) // 2}"  # two queries of one id
    records = sample(rows)
    for record, row in zip(records[12:], [r for r in rows for _ in range(1 + r["clicked"])],
                           strict=False):  # fmt: skip
        record["user_query"] = row["query"]
    without = [r for r in records if "action_name" in r or r["query_id"] != "s0"]
    for some in (records, without):
        store, facts = build_clicks(
            written(tmp_path / "log.ndjson", some), output(), ClickLog(form="ubi")
        )
        assert counted(store) == expected(rows)
        assert problems_of(facts) == {}


def test_impressions_beside_lists_are_compared_with_them(tmp_path):
    """A client that counts from 0, and writes 1 for 0, is understood; another place is not."""
    lists = {}
    for row in PLAIN:
        lists.setdefault(row["session"], []).append(row["document"])
    records = sample(PLAIN, 0)
    for record in records:
        if "user_query" in record:
            record["query_response_hit_ids"] = lists[record["query_id"]]
        elif position := (record.get("event_attributes") or {}).get("position"):
            position["ordinal"] = position["ordinal"] or 1
    store, facts = build_clicks(
        written(tmp_path / "log.ndjson", records), output(), ClickLog(form="ubi")
    )
    assert counted(store) == expected()
    assert problems_of(facts) == {}
    event = [r for r in records if r.get("action_name") == "impression"][1]
    event["event_attributes"]["position"]["ordinal"] = 3
    store, facts = build_clicks(
        written(tmp_path / "log.ndjson", records), output(), ClickLog(form="ubi")
    )
    assert counted(store) == expected()
    assert problems_of(facts) == {"contradicting_positions": 3}  # those from 0 of its request, too


def test_impressions_without_positions_are_counted(tmp_path):
    records = sample(PLAIN)
    events = [r for r in records if r.get("action_name") == "impression"]
    for event in events[1:3]:
        del event["event_attributes"]["position"]
    events[3]["query_id"] = "of no query"
    path = written(tmp_path / "log.ndjson", records)
    store, facts = build_clicks(path, output(), ClickLog(form="ubi", max_unmatched=0.1))
    assert problems_of(facts) == {"missing_positions": 2, "missing_ids": 1}
    assert facts.n_events == len(ROWS) + 12
    assert store.n_impressions == len(ROWS) - 3
    with pytest.raises(DataError, match=r"3 of 48 impressions cannot be used, more than 5\.5%"):
        build_clicks(path, output(), ClickLog(form="ubi", max_unmatched=0.055))
    with pytest.raises(UsageError, match="pages is 'last'; it is 'first' or 'all'"):
        UbiRules(pages="last")
