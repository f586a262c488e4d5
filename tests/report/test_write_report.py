"""Reports that are written from Python."""

import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import dranking as dr
from dranking.cli.app import app
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import ColumnForms
from dranking.data.transforms import Log
from dranking.report.card import model_card

NAMES = list("abc")


@pytest.fixture(scope="module")
def table():
    """Judged queries, whose first column says most about the grades."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=NAMES)
    grades = (frame["a"] + rng.normal(size=300) > 0).astype(int)
    return frame.assign(relevance=grades, qid=np.repeat(np.arange(30), 10), title="a text")


def pipeline_of(table):
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = dr.RankRLS().set_fit_request(qid=True)
        return make_pipeline(StandardScaler(), ranker).fit(
            table[NAMES], table["relevance"], qid=table["qid"]
        )


@pytest.mark.parametrize(
    "fitted",
    [
        lambda table: dr.GreedyRankRLS(2).fit(table.drop(columns="title")),
        lambda table: dr.RankRLS().fit(table.drop(columns="title")).to_model(),
        pipeline_of,
    ],
)
def test_the_page_shows_what_evaluate_finds(fitted, table, tmp_path):
    model, page = fitted(table), tmp_path / "report.html"
    table.to_parquet(tmp_path / "judged.parquet")
    for judged in (table, tmp_path / "judged.parquet", dr.from_table(table.drop(columns="title"))):
        dr.write_report(model, judged, page, champion="b", title="Night & day", overwrite=True)
        text = page.read_text()
        assert "<h1>Night &amp; day</h1>" in text
        for scorer in (model, "b"):
            assert f"{dr.evaluate(scorer, table).metrics['ndcg@10']:.4f}" in text
        assert "page written" in text


def test_segments_are_a_column_or_values_of_queries(table, tmp_path):
    judged = table.assign(kind=np.where(table["qid"] < 12, "early", "late"))
    judged.to_parquet(tmp_path / "judged.parquet")
    model, page = dr.RankRLS().fit(table.drop(columns="title")), tmp_path / "report.html"
    kinds = judged.groupby("qid")["kind"].first()
    found = dr.evaluate(model, table, "ndcg@10", by=kinds).by
    counting = judged.groupby("kind").apply(
        lambda own: own.groupby("qid")["relevance"].max().gt(0).sum(), include_groups=False
    )
    for data, by in [
        (judged, "kind"),
        (tmp_path / "judged.parquet", "kind"),
        (table, kinds),
        (table, kinds.to_dict()),
    ]:
        dr.write_report(model, data, page, by=by, overwrite=True)
        rows = [re.findall("<td[^>]*>(.*?)</td>", row) for row in page.read_text().split("<tr>")]
        for kind, n in [("early", "12"), ("late", "18")]:
            assert [kind, n, f"{counting[kind]}", f"{found[kind].metrics['ndcg@10']:.4f}"] in rows
    with pytest.raises(dr.DataError, match=r"no column 'sort' to group the queries by"):
        dr.write_report(model, judged, page, by="sort", overwrite=True)
    model.to_model().save(tmp_path / "model.json")
    call = "report", str(tmp_path / "model.json"), str(tmp_path / "judged.parquet"), "--by", "kind"
    result = CliRunner().invoke(app, [*call, "--output", str(page), "--overwrite"])
    assert result.exit_code == 0, result.output
    assert "<td>early</td>" in page.read_text()


def test_the_training_data_brings_bounds_and_sizes(table, tmp_path):
    train = table.drop(columns="title")
    dr.write_report(dr.GreedyRankRLS(2).fit(train), train, tmp_path / "a.html")
    dr.write_report(dr.GreedyRankRLS(2).fit(train), train, tmp_path / "b.html", train=train)
    alone, studied = ((tmp_path / name).read_text() for name in ("a.html", "b.html"))
    assert len(studied) > len(alone)
    assert "bound" in studied.lower()


def test_why_a_model_of_forms_is_not_trained_again(table, tmp_path):
    raw = dr.from_table(table.drop(columns="title"))
    model = dr.GreedyRankRLS(2, forms=["log", "hinge"]).fit(raw).to_model()
    pages = []
    for train in (raw, dr.with_forms(raw, ["log", "hinge"])):
        page = tmp_path / "report.html"
        dr.write_report(model, raw, page, train=train, overwrite=True)
        pages.append(page.read_text())
    why = "the training data that was given has not the scaling or the forms"
    assert why in pages[0]
    assert "Regularisation path" not in pages[0]
    assert why not in pages[1]
    assert "Regularisation path" in pages[1]


def test_a_product_has_the_missing_values_of_both_factors(table, tmp_path):
    gappy = table.drop(columns="title").assign(b=table["b"].where(table["b"] < 1))
    forms = ColumnForms(sources=("a", "b"), forms=(None, Log()), factors=((0,), (0, 1)))
    known = {"policy": "mean", "values": (0.5, -0.25), "gaps": (False, True)}
    model = dr.LinearModel(
        feature_names=("a", "a * log(b)"),
        weights=(1.0, 2.0),
        constants=ColumnConstants(**known, origins=(0.0, 3.0)),
        transforms=(forms,),
    )
    assert model.of_factors(model.constants.values) == [0.5, "0.5; -0.25"]
    dr.write_report(model, gappy, tmp_path / "report.html", train=gappy)
    text = (tmp_path / "report.html").read_text()
    assert "<td>a * log(b)</td>" in text
    assert "<td>0.5; -0.25</td>" in text
    assert "<td>0; 3</td>" in text
    model.save(tmp_path / "model.json")
    described = CliRunner().invoke(app, ["info", str(tmp_path / "model.json")])
    assert "0.5; -0.25" in described.output
    values = model_card(model, "m", files={})["model"]["missing_values"]["values"]
    assert [(each["feature"], each["value"]) for each in values] == [("a", 0.5), ("b", -0.25)]


def test_errors_come_before_any_work(table, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("mine")
    with pytest.raises(dr.UsageError, match="overwrite=True"):
        dr.write_report("no model", "no data", page)
    assert page.read_text() == "mine"
    with pytest.raises(dr.UsageError, match="neither a linear ranker"):
        dr.write_report("no model", table, tmp_path / "other.html")
    with pytest.raises(dr.UsageError, match=r"load_model\('champion\.json'\)"):
        dr.write_report(
            dr.RankRLS().fit(table[["a", "relevance", "qid"]]),
            table,
            tmp_path / "other.html",
            champion="champion.json",
        )
