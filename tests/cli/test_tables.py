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
