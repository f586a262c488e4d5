"""Nights on tables with missing values, against an ingest from scratch and an append."""

import shutil

import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.data.store.dataset import StoredDataset
from dranking.retrain.config.config import load_config
from dranking.retrain.runner import retrain
from tests.data.gaps import table_with_gaps

CONFIG = """
[data]
train = ["in/*.parquet"]
holdout = ["hold.parquet"]
null = "{null}"
null_indicator = {told}
shift = "{shift}"
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


def part(name, seed):
    table = table_with_gaps(seed, n_queries=25)
    table["qid"] += 1_000 * seed
    table.to_parquet(name)


def night(null, told="false", shift="none"):
    with open("retrain.toml", "w") as file:
        file.write(CONFIG.format(null=null, told=told, shift=shift))
    return retrain(load_config("retrain.toml", (), {}))


@pytest.fixture(name="folder")
def parts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    part("in/0.parquet", 0)
    part("in/1.parquet", 1)
    part("hold.parquet", 99)
    return tmp_path


@pytest.mark.parametrize(("null", "told"), [("minimum", "false"), ("mean", "true")])
def test_a_night_an_append_and_a_fresh_ingest_give_one_model(folder, null, told):
    night(null, told)
    part("in/2.parquet", 2)
    night(null, told)
    models = [dr.load_model(f"registry/versions/00000{v}/model.json") for v in (1, 2)]
    stored = [StoredDataset(p) for p in (folder / "work" / "parts").iterdir() if p.is_dir()]
    assert {data.constants.by_policy for data in stored} == {models[0].constants.by_policy}
    rules = dr.RowRules(null=null, null_indicator=told == "true")
    first, _ = dr.ingest(["in/0.parquet", "in/1.parquet"], "grown.zarr", rows=rules)
    assert ("missing(rating)" in models[1].feature_names) == (told == "true")
    assert (
        first.constants.by_policy == models[1].constants.by_policy == models[0].constants.by_policy
    )
    whole = ["in/0.parquet", "in/1.parquet", "in/2.parquet"]
    fresh, _ = dr.ingest(whole, "fresh.zarr", rows=dr.RowRules(null_from=first))
    grown, _ = dr.ingest("in/2.parquet", "grown.zarr", append=True)
    for data in (grown, fresh):
        weights = dr.RankRLS(1.0).fit(data).to_model().weights
        np.testing.assert_allclose(weights, models[1].weights, rtol=1e-9)


def test_another_policy_than_the_champions_is_refused(folder):
    night("mean")
    with pytest.raises(dr.UsageError, match=r"data\.null is zero.*champion"):
        night("zero")


def test_a_champion_without_values_is_refused_before_the_training(folder):
    tables = {name: pd.read_parquet(name) for name in ("in/0.parquet", "in/1.parquet")}
    hold = pd.read_parquet("hold.parquet")
    for name, table in {**tables, "hold.parquet": hold}.items():
        table.fillna(0).to_parquet(name)
    night("error")
    hold.to_parquet("hold.parquet")
    part("in/2.parquet", 2)
    with pytest.raises(dr.UsageError, match=r"^the holdout data lacks values, for"):
        night("mean")


@pytest.mark.filterwarnings("ignore:.*features are kept in float32")
@pytest.mark.parametrize(("before", "now"), [("none", "auto"), ("auto", "none")])
def test_a_champion_with_other_origins_is_refused_before_the_parts_are_ingested(
    folder, before, now
):
    for name in ("in/0.parquet", "in/1.parquet", "hold.parquet"):
        table = pd.read_parquet(name)[["qid", "relevance", "bm25"]]
        table["sec"] = 1_700_000_000 + 128 * table.relevance + np.arange(len(table)) % 97
        table.to_parquet(name)
    night("error", shift=before)
    shutil.rmtree("work")
    with pytest.raises(
        dr.UsageError, match=rf"^data\.shift is {now}, .*'sec'.*no data serves both.*{before}"
    ):
        night("error", shift=now)
    assert not [path for path in (folder / "work" / "parts").glob("*") if path.is_dir()]
