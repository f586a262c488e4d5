"""Pages of results, and two documents at one place."""

import json
import random
from collections import Counter, defaultdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dranking.cli.app import run
from dranking.clicks.counting.click_log import ClickLog
from dranking.clicks.logs.columns import LogColumns, UbiRules
from dranking.errors import DataError, UsageError
from tests.clicks.counting.test_build import ALL, ROWS, output, problems_of
from tests.clicks.made_logs import build_with_texts as build_clicks
from tests.clicks.made_logs import content, write_log
from tests.reference.click_logs import count_log

HITS = 5


def visits(seed, n_visits):
    """Users who look at position k of a page with probability 1 / k, and go on if nothing is good.

    Records of User Behavior Insights; and, by page and position, impressions and clicks.
    """
    rng = random.Random(seed)
    records, counts = [], defaultdict(Counter)
    for visit in range(n_visits):
        for page in (1, 2, 3):
            name = f"{visit}-{page}"
            hits = [f"d{(page - 1) * HITS + k}" for k in range(HITS)]
            request = {"from": (page - 1) * HITS, "size": HITS, "query": {"range": {"from": 9}}}
            if page == 1 and visit % 2:
                del request["from"]
            shown = {"query_id": name, "user_query": "cats", "timestamp": "2026-11-01T10:00:00Z"}
            records.append(
                {**shown, "query_response_hit_ids": hits, "query": json.dumps(request),
                 "query_attributes": {"page": page}}
            )  # fmt: skip
            clicked = [
                k for k in range(HITS) if rng.random() < (0.6 if page == 1 else 0.2) / (k + 1)
            ]
            for k in range(HITS):
                counts[page, k + 1].update(shown=1, clicks=k in clicked)
            for k in clicked:
                click = {**shown, "action_name": "click", "event_attributes": {
                    "object": {"object_id": hits[k]},
                    "position": {"ordinal": k + 1 + (page - 1) * HITS}}}  # fmt: skip
                records.append(click)
            if clicked:
                break
    return records, {key: (each["shown"], each["clicks"]) for key, each in counts.items()}


def written(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("kind", ["request", "column", "parquet"])
def test_later_pages_are_left_out_whether_they_were_clicked_or_not(tmp_path, kind):
    """Unclicked ones had counted as first pages, clicked ones further down: .458 for .589 at 1."""
    records, counts = visits(1, 300)
    page = "query_attributes.page" if kind == "column" else None
    path = tmp_path / "log.ndjson"
    if kind == "column":
        records = [{k: v for k, v in record.items() if k != "query"} for record in records]
    written(path, records)
    if kind == "parquet":
        path = tmp_path / "log.parquet"
        pq.write_table(pa.Table.from_struct_array(pa.array(records)), path)
    log = ClickLog(form="ubi", ubi=UbiRules(page=page))
    store, facts = build_clicks(path, output(), log)
    assert problems_of(facts) == {}
    first = {key[5]: tuple(sums[:2]) for key, sums in content(store)[0].items()}
    assert first == {k: own for (of_page, k), own in counts.items() if of_page == 1}
    assert first[1][0] == 300
    later = sum(shown for (of_page, _), (shown, _) in counts.items() if of_page > 1)
    assert facts.notes["later_pages"] == later > 300
    assert store.n_sessions == 300
    every, facts = build_clicks(
        path, output(), ClickLog(form="ubi", ubi=UbiRules(pages="all", page=page))
    )
    assert problems_of(facts) == {}
    found = {(int(key[2][-1]), key[5]): tuple(sums[:2]) for key, sums in content(every)[0].items()}
    assert found == counts
    assert {key[2] for key in content(every)[0]} == {"page 1", "page 2", "page 3"}
    assert every.manifest.context_columns == ("page",)
    with pytest.raises(UsageError, match="context_columns"):
        build_clicks(path, every.place, log, append=True)


def test_pages_that_nothing_tells_are_refused_with_the_option(tmp_path, capsys):
    records, _ = visits(2, 100)
    path = written(
        tmp_path / "log.ndjson", [{k: v for k, v in r.items() if k != "query"} for r in records]
    )
    call = ["clicks", "build", str(path), "-o", str(tmp_path / "clicks.store"), "--form", "ubi"]
    assert run(call) == 3
    told = capsys.readouterr().err
    assert "clicks cannot be used, more than 5.0% (--max-unmatched):" in told
    assert "(those of later pages: --page-column)" in told
    assert run([*call, "--page-column", "query_attributes.page"]) == 0
    assert "results of later pages, left out (--pages all counts them)" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_two_documents_at_one_place_are_refused_by_row(tmp_path, form):
    """Positions that begin again on page two had counted twice at each place."""
    rows = [dict(row, context="") for row in ROWS]
    for n, row in enumerate(rows):
        row["page"] = 1 + (n % 4 > 1)
        row["position"] = 1 + n % 2
    rows[:] = [row for row in rows if row["page"] == 1 or row["session"] in ("s3", "s7")]
    path = tmp_path / f"log.{form}"
    if form == "ndjson":
        written(path, rows)
    else:
        table = pa.Table.from_pylist(rows)
        pa.csv.write_csv(table, path) if form == "csv" else pq.write_table(table, path)
    told = rf"{form}, row 1?7 and .*{form}, row 1?9: two documents are at position 1 .* 4 such"
    with pytest.raises(DataError, match=told):
        build_clicks(path, output())
    columns = LogColumns(context=("page",))
    store, _ = build_clicks(path, output(), ClickLog(columns=columns))
    assert store.n_impressions == len(rows)
    first, facts = build_clicks(path, output(), ClickLog(where="page == 1"))
    assert first.n_impressions == 24
    assert facts.problems["places_taken"] == 0


def test_the_rows_of_two_documents_are_those_of_the_file(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    write_log(folder / "a", ROWS[:12], "csv")
    again = {**ROWS[21], "document": "d9"}
    write_log(folder / "b", [*ROWS[12:], again], "parquet")
    told = r"b\.parquet, row 10 and .*b\.parquet, row 37: two documents are at position 2 .*1 such"
    with pytest.raises(DataError, match=told):
        build_clicks(folder, output(), ClickLog(columns=ALL))
    lists = [
        {"session": "s", "query": "q", "document": ["a", "b"], "position": [1, 1 + (n != 2)],
         "clicked": [False, False], "time": "2026-11-01"} for n in range(1, 3)
    ]  # fmt: skip
    lists[1]["session"] = "t"
    pq.write_table(pa.Table.from_pylist(lists), tmp_path / "lists.parquet")
    with pytest.raises(DataError, match=r"lists\.parquet, row 2: two documents are at position 1"):
        build_clicks(tmp_path / "lists.parquet", output(), ClickLog(form="lists"))


def test_lists_of_one_request_that_differ_are_counted(tmp_path):
    """In User Behavior Insights, an id of a query is used again by some clients."""
    lists = [["a", "b"], ["a", "c"], *([["a", "b"]] * 40)]
    records = [
        {"query_id": f"s{max(n - 1, 0)}", "user_query": "cats", "timestamp": "2026-11-01",
         "query_response_hit_ids": hits} for n, hits in enumerate(lists)
    ]  # fmt: skip
    store, facts = build_clicks(
        written(tmp_path / "log.ndjson", records), output(), ClickLog(form="ubi")
    )
    assert problems_of(facts) == {"places_taken": 1}
    assert facts.notes["repeated_events"] == 1
    assert (store.n_sessions, store.n_impressions) == (41, 82)


def test_clicks_are_compared_with_clicks(tmp_path):
    """Each first result has no position: 2 % of the events, and a third of the clicks."""
    rows = [
        {"session": f"s{s}", "query": "q", "document": f"d{d}", "position": d + 1 if d else None,
         "clicked": d < 3 and s % 4 == 0, "time": "2026-11-01T10:00:00Z", "user": "u", "arm": "",
         "context": "", "weight": 1.0}
        for s in range(20) for d in range(50)
    ]  # fmt: skip
    path = write_log(tmp_path / "log", rows, "csv")
    with pytest.raises(DataError, match=r"5 of 15 clicks cannot be used, more than 5\.0%"):
        build_clicks(path, output())
    store, facts = build_clicks(path, output(), ClickLog(max_unmatched=0.34))
    assert problems_of(facts) == {"missing_positions": 20}
    counts, _, _ = count_log(rows)
    assert content(store)[0] == {key: [*sums[:2], 0.0, 0.0] for key, sums in counts.items()}
