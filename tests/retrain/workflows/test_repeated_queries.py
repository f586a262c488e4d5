"""Nights whose parts have queries in common, against one training on all rows."""

import json

import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.data.store.dataset import StoredDataset
from dranking.engine.executor import ThreadExecutor
from dranking.errors import DataError
from dranking.retrain.config.config import load_config
from dranking.retrain.runner import retrain

CONFIG = """
[data]
train = ["in/*.parquet"]
holdout = ["hold.parquet"]
docid = "docid"
[model]
kind = "rankrls"
regularization = [1.0]
[export]
report = false
[registry]
location = "registry"
[run]
work = "work"
"""


def part(name, seed, ids, weight=None):
    rng = np.random.default_rng(seed)
    qid = np.repeat(ids, 6)
    X = rng.normal(size=(len(qid), 3))
    grades = np.digitize(X @ [1.0, 0.5, 0.0] + rng.normal(0, 0.5, len(qid)), [0.0, 1.0])
    columns = {f"x{i}": X[:, i] for i in range(3)}
    docid = [f"{seed}-{row}" for row in range(len(qid))]
    table = pd.DataFrame({"qid": qid, "docid": docid, "relevance": grades, **columns})
    if weight is not None:
        table["weight"] = weight
    table.to_parquet(name)


def weights(version):
    return dr.load_model(f"registry/versions/00000{version}/model.json").weights


def night(*settings):
    return retrain(load_config("retrain.toml", settings, {}))


def test_a_query_of_several_parts_is_one_query(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "retrain.toml").write_text(CONFIG)
    part("hold.parquet", 99, range(1000, 1020))
    part("in/0.parquet", 0, range(30))
    night()
    part("in/1.parquet", 1, range(15, 45))
    night()
    both, _ = dr.ingest(["in/0.parquet", "in/1.parquet"], "both.zarr")
    assert both.n_queries == 45
    np.testing.assert_allclose(weights(2), dr.RankRLS(1.0).fit(both).coef_, rtol=1e-9)
    part("in/2.parquet", 2, range(10, 20))
    (tmp_path / "in" / "0.parquet").unlink()
    night()
    left, _ = dr.ingest(["in/1.parquet", "in/2.parquet"], "left.zarr")
    np.testing.assert_allclose(weights(3), dr.RankRLS(1.0).fit(left).coef_, rtol=1e-9)
    stored = [StoredDataset(p) for p in (tmp_path / "work" / "parts").iterdir() if p.is_dir()]
    assert sum(data.n_queries for data in stored) == 60  # 20 of them to judge on
    assert left.n_queries == 35
    assert weights(2) != pytest.approx(weights(3))


@pytest.mark.parametrize("n_bytes", [2**30, 2**10])
def test_a_ranker_that_reads_documents_takes_it_as_one_query(tmp_path, monkeypatch, n_bytes):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ThreadExecutor, "memory_bytes", n_bytes)
    (tmp_path / "in").mkdir()
    (tmp_path / "retrain.toml").write_text(CONFIG)
    part("hold.parquet", 99, range(1000, 1020))
    part("in/0.parquet", 0, range(30))
    part("in/1.parquet", 1, range(15, 45))
    part("in/2.parquet", 2, range(10, 20))
    [note] = night("model.kind=ranksvm").notes
    assert "20 of 45 training queries are in several parts: each is one query" in note
    rows = pd.concat([pd.read_parquet(f"in/{i}.parquet") for i in range(3)])
    whole = dr.from_table(rows.sort_values("qid", kind="stable").reset_index(drop=True))
    expected = dr.RankSVM(regularization=1.0).fit(whole).coef_
    np.testing.assert_allclose(weights(1), expected, rtol=1e-6)
    lineage = json.loads((tmp_path / "registry/versions/000001/manifest.json").read_text())
    assert lineage["lineage"]["data"]["train"]["n_queries"] == 45


@pytest.mark.parametrize(
    ("settings", "weight", "message"),
    [
        (
            ["data.normalize=rank"],
            None,
            "query 15 comes again, and the scaling rank of",
        ),
        ([], 2.0, "query 15 comes again with the weight 2, and had the weight 1 before"),
    ],
)
@pytest.mark.parametrize("kind", ["rankrls", "ranksvm"])
def test_what_cannot_be_one_query_is_refused(
    tmp_path, monkeypatch, settings, weight, message, kind
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "retrain.toml").write_text(CONFIG)
    part("hold.parquet", 99, range(1000, 1020))
    part("in/0.parquet", 0, range(30))
    part("in/1.parquet", 1, range(15, 45), weight)
    with pytest.raises(DataError, match=message):
        night(*settings, f"model.kind={kind}")
