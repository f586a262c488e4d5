"""Commands on tables: names of columns, extra columns, and tables without labels."""

import json

import numpy as np
import pyarrow as pa
import pytest

import dranking as dr
from tests.data.tables.flat_tables import frame_of, written

NAMES = ("--qid-column", "query_id", "--relevance-column", "label", "--docid-column", "item")
RENAMED = {"qid": "query_id", "relevance": "label", "docid": "item"}


@pytest.fixture(scope="module")
def frame():
    frame = frame_of((5, 4, 6, 3, 5))
    frame["relevance"] = np.round(np.clip(2 * frame.x0 + frame.x2, 0, 4))
    return frame.rename(columns=RENAMED).assign(title="a title")


@pytest.fixture
def table(frame, tmp_path):
    return written(tmp_path / "table.parquet", frame)


def selected(dranking, table, output):
    done = dranking(
        *("select", table, "--n-features", 2, "--output", output, "--json", "--overwrite"),
        *(*NAMES, "--exclude", "title"),
    )
    assert done[0] == 0, done[2]
    return json.loads(done[1])


def test_columns_that_vanish_are_an_error_of_the_command(dranking, table, tmp_path):
    code, _, told = dranking("select", table, "--n-features", 1, "--output", tmp_path / "m", *NAMES)
    assert code == 3
    assert "1 column(s) cannot be features: 'title' (" in told
    assert "--exclude title" in told
    assert not (tmp_path / "m").exists()


def test_commands_on_a_table_with_other_names(dranking, frame, table, tmp_path):
    model, store = tmp_path / "m.json", tmp_path / "d"
    selected(dranking, table, model)
    plain = frame.drop(columns="title").rename(columns={v: k for k, v in RENAMED.items()})
    expected = dr.GreedyRankRLS(2).fit(dr.from_table(plain)).to_model()
    assert dr.load_model(model).weights == expected.weights
    code, out, _ = dranking("evaluate", model, table, *NAMES, "--json", "--metrics", "ndcg@10")
    assert code == 0
    code, _, _ = dranking("ingest", table, "--output", store, *NAMES, "--exclude", "title")
    assert code == 0
    again = dranking("evaluate", model, store, "--json", "--metrics", "ndcg@10")
    assert json.loads(again[1]) == json.loads(out)
    facts = json.loads(dranking("info", store, "--json")[1])
    assert facts["columns"] == {**RENAMED, "weight": None}


def test_predict_needs_neither_labels_nor_other_columns(dranking, frame, table, tmp_path):
    model = tmp_path / "m.json"
    names = selected(dranking, table, model)["names"]
    unused = next(name for name in ("x0", "x1", "x2") if name not in names)
    bare = frame.drop(columns="label").assign(**{unused: np.nan})
    path = written(tmp_path / "bare.parquet", bare)
    scores = tmp_path / "scores.parquet"
    options = ("--qid-column", "query_id", "--docid-column", "item")
    code, _, told = dranking("predict", model, path, "--output", scores, *options)
    assert code == 0, told
    fitted = dr.load_model(model)
    expected = frame[list(fitted.feature_names)].astype(float) @ fitted.weights
    found = pa.parquet.read_table(scores).to_pandas()
    np.testing.assert_allclose(found["score"], expected, rtol=1e-12)
    holed = bare.copy()
    holed.loc[3, names[0]] = np.nan
    written(path, holed)
    code, _, told = dranking("predict", model, path, "--output", scores, "--overwrite", *options)
    assert code == 3
    assert f"row 3, column '{names[0]}'" in told
    assert "missing" in told


def test_scores_of_anything_are_evaluated_and_compared(dranking, frame, table, tmp_path):
    model = tmp_path / "m.json"
    selected(dranking, table, model)
    options = (*NAMES, "--json", "--metrics", "ndcg@10,map")
    expected = json.loads(dranking("evaluate", model, table, *options)[1])
    for output in ("scores", "scores.run", "scores.parquet"):
        done = dranking("predict", model, table, "--output", tmp_path / output, *NAMES, "--json")
        assert done[0] == 0, done[2]
        columns = NAMES[2:4]  # files that predict writes have the default names of ids
        plain = frame.rename(columns={"query_id": "qid", "item": "docid"})
        data = written(tmp_path / "plain.parquet", plain)
        done = dranking("evaluate", tmp_path / output, data, *columns, *options[-3:])
        assert done[0] == 0, done[2]
        assert json.loads(done[1]) == expected
        done = dranking("compare", tmp_path / output, model, data, *columns, *options[-3:])
        assert [m["difference"] for m in json.loads(done[1])["metrics"]] == [0.0, 0.0]
    scores = frame[["query_id", "item"]].assign(score=frame.x0)
    scores.to_csv(tmp_path / "x0.csv", index=False)
    by_file = dranking("evaluate", tmp_path / "x0.csv", table, *options)
    by_column = dranking("evaluate", table, "--score-column", "x0", *options)
    assert json.loads(by_file[1]) == json.loads(by_column[1])
    one = dranking("compare", model, tmp_path / "x0.csv", table, *options)
    two = dranking("compare", model, table, "--score-column", "x0", *options)
    assert json.loads(one[1]) == json.loads(two[1])


def test_a_report_compares_with_scores(dranking, table, tmp_path):
    model, page = tmp_path / "m.json", tmp_path / "report.html"
    selected(dranking, table, model)
    done = dranking("report", model, table, "--score-column", "x1", "-o", page, *NAMES)
    assert done[0] == 0, done[2]
    assert "champion" in page.read_text()
    code, _, told = dranking(
        "report", model, table, "--score-column", "x1", "--champion", model, "-o", page
    )
    assert (code, "only one of --champion" in told) == (2, True)


def test_arguments_that_do_not_go_together(dranking, table, tmp_path):
    code, _, told = dranking("evaluate", table)
    assert (code, "two arguments are needed" in told) == (2, True)
    code, _, told = dranking("evaluate", table, table, "--score-column", "x0")
    assert (code, "give DATA alone" in told) == (2, True)
    code, _, told = dranking("compare", table, tmp_path / "none.csv", table)
    assert (code, "not a table of per-query values" in told) == (3, True)


def test_a_model_of_forms_reads_their_features(dranking, frame, table, tmp_path):
    model, scores = tmp_path / "m.json", tmp_path / "s.parquet"
    done = dranking(
        *("select", table, "--n-features", 2, "--output", model, "--forms", "raw,query-minmax"),
        *(*NAMES, "--exclude", "title"),
    )
    assert done[0] == 0, done[2]
    done = dranking("predict", model, table, "--output", scores, *NAMES)
    assert done[0] == 0, done[2]
    plain = frame.drop(columns="title").rename(columns={v: k for k, v in RENAMED.items()})
    expected = dr.load_model(model).predict(dr.from_table(plain))
    np.testing.assert_array_equal(pa.parquet.read_table(scores)["score"], expected)
    assert dranking("evaluate", model, table, *NAMES)[0] == 0
