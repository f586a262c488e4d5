"""Builds that are killed and run again, builds in an object store, and documents of the data."""

import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.cli.app import run
from dranking.clicks.counting.build import build_clicks
from dranking.clicks.counting.click_log import ClickLog
from dranking.clicks.labels.label_dataset import label_dataset
from dranking.clicks.labels.labels import LabelRules
from dranking.clicks.propensities.propensities import power_propensities
from dranking.clicks.store.click_store import open_click_store
from dranking.errors import DataError
from dranking.files.reading import list_files
from dranking.files.writing.clean import clean
from tests.clicks.counting.test_build import ALL, ROWS, output
from tests.clicks.made_logs import content, write_log
from tests.reference.click_logs import count_log

MOMENTS = ("read", "count", "table", "last")
DRIVER = """
import os, signal, sys
from dranking.clicks.counting import build, build_tasks
from dranking.clicks.rows import split_files
from dranking.clicks.store import night_tables, write_store
from dranking.files.writing import commit
from tests.clicks.counting.test_build_places import built

log, output, moment, append = sys.argv[1:]

def dies(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

def dies_after(function, number):
    done = []
    def called(*arguments, **options):
        done.append(function(*arguments, **options))
        if len(done) == number:
            dies()
        return done[-1]
    return called

if moment == "read":
    build_tasks.put_split = dies_after(build_tasks.put_split, 1)
elif moment == "count":
    build_tasks.put_split = dies_after(build_tasks.put_split, 2)
elif moment == "table":
    write_store.write_table = dies_after(write_store.write_table, 2)
else:
    commit.DirectoryCommit.finish = dies
built(log, output, append=append == "append")
"""


def built(log, place, *, append=False):
    """A store whose bytes do not depend on chance, in two buckets; the third night appended."""
    rules = {"since": "2026-11-03"} if append else {"until": "2026-11-02"}
    wanted = ClickLog(columns=ALL, users=True, salt="x", n_buckets=2, **rules)
    return build_clicks(log, place, wanted, append=append, executor="threads")[0]


def tables(store):
    """Checksums of all tables, in order."""
    return [
        (night.date, table.bucket, table.checksum, table.users_checksum, table.n_rows)
        for night in store.manifest.nights
        for table in night.tables
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("where", ["disk", "store"])
def test_a_killed_build_leaves_nothing_half_written(tmp_path, bucket, where):
    """Killed at several moments, then run again: the bytes of a build that was never killed."""
    log = write_log(tmp_path / "log", ROWS, "parquet")
    expected = tables(built(log, tmp_path / "expected"))
    both = tables(built(log, tmp_path / "expected", append=True))
    for moment in MOMENTS:
        place = f"{tmp_path if where == 'disk' else bucket}/{moment}.store"
        for append, before, after in ((False, None, expected), (True, expected, both)):
            arguments = [str(log), place, moment, "append" if append else "new"]
            killed = subprocess.run([sys.executable, "-c", DRIVER, *arguments], env=os.environ)
            assert killed.returncode == -signal.SIGKILL
            if before is None:
                with pytest.raises(DataError):
                    open_click_store(place)
            else:
                assert tables(open_click_store(place)) == before
            assert tables(built(log, place, append=append)) == after
            assert tables(open_click_store(place)) == after
        clean(place, grace=0)
        assert not [name for name in map(str, list_files(dr.as_place(place))) if "scratch" in name]


def test_a_store_in_an_object_store_is_that_on_disk(tmp_path, bucket):
    log = write_log(tmp_path / "log", ROWS, "parquet")
    dr.as_place(f"{bucket}/logs/log.parquet").write_bytes(log.read_bytes())
    options = {"default_block_size": 6 * 2**20}
    wanted = ClickLog(columns=ALL, users=True, salt="x", n_buckets=2)
    here, _ = build_clicks(log, tmp_path / "clicks.store", wanted)
    there, _ = build_clicks(
        f"{bucket}/logs", f"{bucket}/clicks.store", wanted, storage_options=options
    )
    assert tables(there) == tables(here)
    assert content(open_click_store(f"{bucket}/clicks.store")) == content(here)
    assert there.place.storage_options["default_block_size"] == 6 * 2**20


def documents(rows):
    """A data set with the documents of some rows, in the order of queries."""
    pairs = sorted({(row["query"], row["document"]) for row in rows})
    queries, names = zip(*pairs, strict=True)
    return dr.from_arrays(
        np.zeros((len(pairs), 1)),
        np.zeros(len(pairs)),
        list(queries),
        doc_ids=list(names),
    )


@pytest.mark.parametrize("hashed", [False, True])
def test_documents_that_the_data_lacks_are_counted(tmp_path, hashed):
    log = write_log(tmp_path / "log", ROWS, "parquet")
    kept = [r for r in ROWS if (r["query"], r["document"]) != ("q1", "d2") and r["query"] != "q2"]
    wanted = ClickLog(columns=ALL, max_unmatched=0.5, users=True, keep_queries=not hashed)
    store, facts = build_clicks(log, output(), wanted, data=documents(kept))
    n_absent = len(ROWS) - len(kept)
    assert facts.problems["absent_documents"] == n_absent == sum(facts.problems.values())
    assert facts.n_events == len(ROWS)
    assert store.n_impressions == len(kept)
    if not hashed:
        assert content(store)[0] == count_log(kept)[0]
    told = r"(?s)% of 48 events \(48 in the nights kept\) cannot.*documents that the data"
    with pytest.raises(DataError, match=told):
        build_clicks(log, output(), ClickLog(columns=ALL), data=documents(kept))


@pytest.mark.parametrize("n_absent", [1, 2])
def test_absent_documents_are_a_share_of_the_nights_kept(tmp_path, n_absent):
    """Other nights of the log had hidden them."""
    last = {row["session"] for row in ROWS if row["time"].startswith("2026-11-03")}
    rows = [dict(row) for row in ROWS]
    for row in rows:
        if row["session"] in last and row["position"] <= n_absent:
            row["document"] = "new"
    log = write_log(tmp_path / "log", rows, "parquet")
    data = documents(ROWS)
    share = n_absent / 4
    wanted = ClickLog(since="2026-11-03", max_unmatched=share)
    _, facts = build_clicks(log, output(), wanted, data=data)
    assert facts.unmatched_share == share
    assert facts.problems["absent_documents"] == len(last) * n_absent
    refused = ClickLog(since="2026-11-03", max_unmatched=share - 0.01)
    with pytest.raises(DataError, match=rf"{share:.1%} of 48 events \(16 in the nights kept\)"):
        build_clicks(log, output(), refused, data=data)


def test_a_store_without_nights_replaces_none(tmp_path):
    log = write_log(tmp_path / "log", ROWS, "parquet")
    place = tmp_path / "clicks.store"
    good, _ = build_clicks(log, place)
    other = [{**row, "document": "other"} for row in ROWS]
    for wanted, data in (
        (ClickLog(min_sessions=100), None),
        (ClickLog(max_unmatched=1), documents(other)),
    ):
        with pytest.raises(DataError, match="no night"):
            build_clicks(log, place, wanted, data=data, overwrite=True)
    assert content(open_click_store(place)) == content(good)


def test_no_file_of_a_store_has_an_id_or_a_query(tmp_path):
    names = ("session", "user", "query")
    rows = [{**row, **{name: f"SECRET {row[name]}" for name in names}} for row in ROWS]
    log = write_log(tmp_path / "log", rows, "csv")
    place = tmp_path / "clicks.store"
    found = {}
    for keep in (False, True):
        wanted = ClickLog(columns=ALL, users=True, keep_queries=keep)
        build_clicks(log, place, wanted, overwrite=True)
        content = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
        tables = [pq.read_table(path).to_pylist() for path in place.rglob("*.parquet")]
        assert tables
        found[keep] = "SECRET" in str(tables) or b"SECRET" in content
    assert found == {False: False, True: True}


def test_labels_find_the_queries_of_both_kinds_of_stores(tmp_path):
    log = write_log(tmp_path / "log", ROWS, "parquet")
    data, labels = documents(ROWS), []
    other = dr.from_arrays(np.zeros((1, 1)), np.zeros(1), ["SECRET"], doc_ids=["d0"])
    for keep in (False, True):
        store, _ = build_clicks(log, output(), ClickLog(keep_queries=keep))
        given, ips = power_propensities(1.0, 4), LabelRules("ips")
        made = label_dataset(store, data, tmp_path / f"{keep}.zarr", given, ips)
        assert (made.n_labelled, made.n_unmatched) == (12, 0)
        labels.append(np.concatenate([block.relevance for block in made.dataset.read_blocks()]))
        told = "it lacks 3 queries, such as q0" if keep else r"it lacks 3 queries\. Compare"
        with pytest.raises(DataError, match=told):
            label_dataset(store, other, tmp_path / "none.zarr", given, ips)
    np.testing.assert_allclose(labels[0], labels[1], rtol=1e-12)
    assert len(set(labels[0].tolist())) > 3


def test_the_command_names_documents_that_the_data_lacks(tmp_path, capsys):
    log = write_log(tmp_path / "log", ROWS, "parquet")
    columns = {
        "qid": [f"q{q}" for q in range(3) for _ in range(3)],
        "docid": [f"d{d}" for _ in range(3) for d in range(3)],
        "relevance": [0] * 9,
        "x": [1.0] * 9,
    }
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    call = ["clicks", "build", str(log), "-o", str(tmp_path / "clicks.store")]
    assert run([*call, "--data", str(tmp_path / "data.parquet")]) == 3
    assert "12: impressions of documents that the data lacks" in capsys.readouterr().err
    assert run([*call, "--data", str(tmp_path / "data.parquet"), "--max-unmatched", "0.25"]) == 0
    assert "impressions of documents" in capsys.readouterr().out
