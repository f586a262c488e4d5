"""The benchmark of counts on a small log: the counts are those of pandas, and of the peer."""

import pandas as pd
import pytest

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from pipelines.benchmarks import clicks


def test_the_log_is_counted_as_by_a_group_by_of_pandas(tmp_path, monkeypatch):
    monkeypatch.setattr(clicks, "FILE_EVENTS", 3_000)
    clicks.write_log(tmp_path / "log", 8_000)
    assert len(list((tmp_path / "log").iterdir())) == 3
    log = pd.read_parquet(tmp_path / "log")
    assert len(log) == 8_000
    assert set(log["session"].value_counts()) == {10}
    clicks.build(tmp_path, "ours.store", ThreadExecutor(1))
    shown = log.groupby(["session", "query", "document", "position"]).agg(
        clicked=("clicked", "max"), time=("time", "min")
    )
    first = log.groupby("session")["time"].min().dt.date.rename("night")
    results = shown.reset_index().merge(first, left_on="session", right_index=True)
    rows = results.groupby(["query", "document", "position", "night"])["clicked"]
    store = dr.open_click_store(tmp_path / "ours.store")
    assert store.n_rows == rows.ngroups
    assert store.n_impressions == rows.size().sum()
    assert store.n_clicks == rows.sum().sum()


def test_the_peer_has_the_same_counts(tmp_path, capsys):
    pytest.importorskip("duckdb")
    call = ["--events", "20000", "--rounds", "1", "--topics", "peer", "--folder", str(tmp_path)]
    options = clicks.add_topics(clicks.parser("Counts."), clicks.TOPICS)
    options.add_argument("--events", type=int)
    options.add_argument("--folder", type=clicks.Path)
    figures = clicks.measure(options.parse_args(call))
    assert [each.peer for each in figures[:2]] == ["DuckDB, group-by", "DuckDB, the same counts"]
    assert all(each.value > 0 for each in figures)
    clicks.write_log(tmp_path / "other" / "log", 4_000)
    clicks.build(tmp_path / "other", "ours.store", ThreadExecutor(1))
    clicks.duckdb(tmp_path / "other", "same", clicks.GROUP_BY + " LIMIT 100")
    with pytest.raises(SystemExit, match="other counts"):
        clicks.check(tmp_path / "other")
