"""Commands on tables: names of columns, extra columns, and tables without labels."""

import json
import re
import shlex

import numpy as np
import pandas as pd
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
    assert "--exclude title (Columns(exclude=[...]), for retrain data.exclude)" in told
    assert not (tmp_path / "m").exists()


def test_commands_on_a_table_with_other_names(dranking, frame, table, tmp_path):
    model, store = tmp_path / "m.json", tmp_path / "d"
    selected(dranking, table, model)
    plain = frame.drop(columns="title").rename(columns={v: k for k, v in RENAMED.items()})
    expected = dr.GreedyRankRLS(2).fit(dr.from_table(plain)).to_model()
    assert dr.load_model(model).weights == expected.weights
    code, out, _ = dranking("evaluate", model, table, *NAMES, "--json", "--metric", "ndcg@10")
    assert code == 0
    code, _, _ = dranking("ingest", table, "--output", store, *NAMES, "--exclude", "title")
    assert code == 0
    again = dranking("evaluate", model, store, "--json", "--metric", "ndcg@10")
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
    for form in ("csv", "parquet"):
        told = tmp_path / f"told.{form}"
        code, _, error = dranking("predict", model, path, "--output", told, "--explain", *options)
        assert code == 0, error
        columns = getattr(pd, f"read_{form}")(told)
        for name, weight in zip(fitted.feature_names, fitted.weights, strict=True):
            products = frame[name].astype(float) * weight
            np.testing.assert_allclose(columns[f"contribution of {name}"], products, rtol=1e-12)
        np.testing.assert_array_equal(columns["score"], found["score"])
    code, _, error = dranking("predict", model, path, "--output", tmp_path / "t.run", "--explain")
    assert code == 2
    assert "--explain writes columns" in error
    holed = bare.copy()
    holed.loc[3, names[0]] = np.nan
    written(path, holed)
    code, _, told = dranking("predict", model, path, "--output", scores, "--overwrite", *options)
    assert code == 3
    assert f"row 3, column '{names[0]}'" in told
    assert "missing" in told


@pytest.mark.parametrize("how", ["predict", "evaluate", "select"])
def test_the_advice_for_rows_that_lie_apart_is_a_whole_command(
    dranking, frame, table, tmp_path, monkeypatch, how
):
    """The command is run as it stands, and then the one that was refused, on its data set."""
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "m.json"
    selected(dranking, table, model)
    mixed = frame.sample(frac=1, random_state=0)
    for day, rows in enumerate(np.array_split(np.arange(len(mixed)), 3)):
        folder = tmp_path / "all days" / f"event-day={day}"
        folder.mkdir(parents=True)
        written(folder / "rows.parquet", mixed.iloc[rows])
    kept = mixed.iloc[np.concatenate(np.array_split(np.arange(len(mixed)), 3)[1:])]
    where = ("--where", "`event-day` >= 1")
    commands = {
        "predict": lambda data: ("predict", model, data, *NAMES, "--output", "scores.run"),
        "evaluate": lambda data: ("evaluate", model, data, *NAMES, "--json"),
        "select": lambda data: (
            *("select", data, "--n-features", 2, *NAMES, "--output", "m2.json"),
            *(() if data == "ordered.zarr" else ("--exclude", "title")),
        ),
    }
    code, _, told = dranking(*commands[how]("all days"), *where)
    assert code == 3
    advice = re.search(
        r"in place of the files and their condition: dranking (.*) \(in Python", told
    )
    code, _, told = dranking(*shlex.split(advice[1]))
    assert code == 0, told
    assert re.search(r"note: this took about .*B of scratch space\.", told)
    stored = dr.open_dataset(tmp_path / "ordered.zarr")
    assert stored.n_documents == len(kept)
    assert set(stored.query_ids().to_pylist()) == set(kept.query_id)
    code, _, told = dranking(*commands[how]("ordered.zarr"))
    assert code == 0, told
    if how == "predict":
        scores = dr.read_scores(tmp_path / "scores.run")
        found = {
            str(doc): score
            for block in stored.read_blocks(0, stored.n_blocks)
            for doc, score in zip(block.doc_ids.to_pylist(), scores.of_block(block), strict=True)
        }
        fitted = dr.load_model(model)
        features = kept[list(fitted.feature_names)].to_numpy(np.float32).astype(np.float64)
        expected = dict(zip(map(str, kept["item"]), features @ fitted.weights, strict=True))
        assert found == pytest.approx(expected)


@pytest.mark.usefixtures("short_search")
def test_the_advice_of_info_on_scales_repeats_how_the_table_is_read(
    dranking, tmp_path, monkeypatch
):
    frame = frame_of((6,) * 12).rename(columns=RENAMED).assign(title="a title")
    path = written(tmp_path / "my table.parquet", frame.assign(x0=np.exp(9 * frame.x0)))
    code, _, said = dranking("info", path, *NAMES, "--exclude", "title")
    assert code == 0, said
    commands = re.search(r"try (dranking tune .*), or (dranking select .*)\.$", said.strip())
    monkeypatch.chdir(tmp_path)
    for words in map(shlex.split, commands.groups()):  # as they stand
        code, _, error = dranking(*words[1:])
        assert code == 0, error
        (tmp_path / "model.json").unlink()


def figures(text):
    """The figures of a command's JSON, without what is known of the training queries."""
    found = json.loads(text)
    del found["trained_on"]
    return found


def test_scores_of_anything_are_evaluated_and_compared(dranking, frame, table, tmp_path):
    model = tmp_path / "m.json"
    selected(dranking, table, model)
    options = (*NAMES, "--json", "--metric", "ndcg@10,map")
    evaluated = dranking("evaluate", model, table, *options)[1]
    expected, n = figures(evaluated), frame["query_id"].nunique()
    known = {"n_judged": n, "n_trained_on": n, "n_other_documents": 0}
    assert json.loads(evaluated)["trained_on"] == known
    for output in (
        "scores",
        "scores.run",
        "scores.parquet",
        "scores.csv",
        "s.TSV",
        "s.csv.gz",
        "s.run.gz",
    ):
        done = dranking("predict", model, table, "--output", tmp_path / output, *NAMES, "--json")
        assert done[0] == 0, done[2]
        # Files that predict writes have the default names of ids, and the data has its own.
        done = dranking("evaluate", tmp_path / output, table, *options)
        assert done[0] == 0, done[2]
        assert figures(done[1]) == expected
        unknown = {"n_judged": n, "n_trained_on": None, "n_other_documents": 0}
        assert json.loads(done[1])["trained_on"] == unknown
        done = dranking("compare", tmp_path / output, model, table, *options)
        assert done[0] == 0, done[2]
        assert [m["difference"] for m in json.loads(done[1])["metrics"]] == [0.0, 0.0]
    dated = ("predict", model, table, "--output", tmp_path / "out.2026-11-24", *NAMES)
    done = dranking(*dated)
    assert done[0] == 2
    assert "--format directory" in done[2]
    assert dranking(*dated, "--format", "directory")[0] == 0
    assert (tmp_path / "out.2026-11-24" / "_SUCCESS").is_file()
    scores = frame[["query_id", "item"]].assign(score=frame.x0)
    scores.to_csv(tmp_path / "x0.csv", index=False)
    by_file = dranking("evaluate", tmp_path / "x0.csv", table, *options)
    by_column = dranking("evaluate", table, "--score-column", "x0", *options)
    assert figures(by_file[1]) == figures(by_column[1])
    one = dranking("compare", model, tmp_path / "x0.csv", table, *options)
    two = dranking("compare", model, table, "--score-column", "x0", *options)
    assert figures(one[1]) == figures(two[1])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_column_of_scores_in_a_file_has_any_name(dranking, frame, table, tmp_path, ending):
    model, file = tmp_path / "m.json", tmp_path / f"other.{ending}"
    selected(dranking, table, model)
    scores = frame[["query_id", "item"]].assign(score="text", yhat=frame.x0)
    scores.to_csv(file, index=False) if ending == "csv" else scores.to_parquet(file)
    options = (*NAMES, "--json", "--metric", "ndcg@10,map")
    named = ("--score-column", "yhat", *options)
    by_file = dranking("evaluate", file, table, *named)
    assert by_file[0] == 0, by_file[2]
    by_column = dranking("evaluate", table, "--score-column", "x0", *options)
    assert figures(by_file[1]) == figures(by_column[1])
    one = dranking("compare", model, file, table, *named)
    two = dranking("compare", model, table, "--score-column", "x0", *options)
    assert figures(one[1]) == figures(two[1])
    page = ("-o", tmp_path / "page.html", *NAMES, "--champion", file)
    done = dranking("report", model, table, *page, "--score-column", "yhat")
    assert done[0] == 0, done[2]
    code, _, told = dranking("evaluate", file, table, "--score-column", "other", *NAMES)
    assert (code, "no column 'other'" in told) == (3, True)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_of_scores_has_the_names_that_a_dataset_directory_remembers(
    dranking, frame, table, tmp_path, ending
):
    model, store, file = tmp_path / "m.json", tmp_path / "d", tmp_path / f"x0.{ending}"
    selected(dranking, table, model)
    assert dranking("ingest", table, "--output", store, *NAMES, "--exclude", "title")[0] == 0
    scores = frame[["query_id", "item"]].assign(score=frame.x0)
    scores.to_csv(file, index=False) if ending == "csv" else scores.to_parquet(file)
    options = ("--json", "--metric", "ndcg@10,map")
    by_file = dranking("evaluate", file, store, *options)
    assert by_file[0] == 0, by_file[2]
    by_column = dranking("evaluate", store, "--score-column", "x0", *options)
    assert figures(by_file[1]) == figures(by_column[1])
    one = dranking("compare", model, file, store, *options)
    two = dranking("compare", model, store, "--score-column", "x0", *options)
    assert figures(one[1]) == figures(two[1])
    done = dranking("report", model, store, "--champion", file, "-o", tmp_path / "page.html")
    assert done[0] == 0, done[2]
    predicted = scores.rename(columns={"query_id": "qid", "item": "docid"})
    predicted.to_csv(tmp_path / "default.csv", index=False)
    by_default = dranking("evaluate", tmp_path / "default.csv", store, *options)
    assert figures(by_default[1]) == figures(by_column[1])


def test_the_option_of_one_name_leaves_the_other_name_that_a_dataset_directory_remembers(
    dranking, frame, table, tmp_path
):
    """The rows of the file stand in another order than those of the data: their ids count."""
    store, file = tmp_path / "d", tmp_path / "x0.csv"
    assert dranking("ingest", table, "--output", store, *NAMES, "--exclude", "title")[0] == 0
    scores = frame[["query_id", "item"]].assign(score=frame.x0)
    scores.iloc[::-1].to_csv(file, index=False)
    options = ("--json", "--metric", "ndcg@10,map")
    by_column = dranking("evaluate", store, "--score-column", "x0", *options)
    by_file = dranking("evaluate", file, store, "--qid-column", "query_id", *options)
    assert by_file[0] == 0, by_file[2]
    assert figures(by_file[1]) == figures(by_column[1])


def test_scores_of_a_statistics_store_are_told_that_it_has_no_documents(
    dranking, frame, table, tmp_path
):
    store, file = tmp_path / "stats", tmp_path / "scores.csv"
    assert (
        dranking("ingest", table, "--output", tmp_path / "d", *NAMES, "--exclude", "title")[0] == 0
    )
    assert dranking("stats", "build", tmp_path / "d", "--output", store)[0] == 0
    frame.assign(qid=frame.query_id, score=frame.x0)[["qid", "score"]].to_csv(file, index=False)
    code, _, told = dranking("evaluate", file, store)
    assert (code, "statistics stores hold no documents" in told) == (3, True)


@pytest.mark.parametrize("command", ["evaluate", "compare", "report"])
def test_a_score_column_that_is_not_there(dranking, frame, table, tmp_path, command):
    """The error speaks of the score column, and names those that exist."""
    model = tmp_path / "m.json"
    selected(dranking, table, model)
    scored = {"evaluate": (), "compare": (model,), "report": (model,)}[command]
    output = ("-o", tmp_path / "page.html") if command == "report" else ()
    call = (command, *scored, table, *output, *NAMES, "--score-column")
    others = ", ".join(repr(name) for name in frame.columns if name.startswith("x"))
    code, _, told = dranking(*call, "typo")
    assert code == 3
    assert f"there is no score column 'typo'. The columns to rank by are {others}." in told
    assert "feature" not in told
    code, _, told = dranking(*call, "title")
    assert code == 3
    assert re.search("the score column 'title' is .*string; a score column holds numbers", told)
    code, _, told = dranking(*call, "item")
    assert (code, "the score column 'item' has another role" in told) == (3, True)


def test_a_report_compares_with_scores(dranking, table, tmp_path):
    model, page = tmp_path / "m.json", tmp_path / "report.html"
    selected(dranking, table, model)
    done = dranking("report", model, table, "--score-column", "x1", "-o", page, *NAMES)
    assert done[0] == 0, done[2]
    assert "champion" in page.read_text()
    code, _, told = dranking(
        "report", model, table, "--score-column", "x1", "--champion", model, "-o", page
    )
    assert (code, "--score-column x1: leave out --champion" in told) == (2, True)


def test_arguments_that_do_not_go_together(dranking, table, tmp_path):
    code, _, told = dranking("evaluate", table)
    assert (code, "two arguments are needed" in told) == (2, True)
    model = tmp_path / "m.json"
    selected(dranking, table, model)
    code, _, told = dranking("evaluate", model, table, "--score-column", "x0")
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


@pytest.mark.parametrize(
    ("form", "name"), [("trec", "p.csv"), ("csv", "p.txt"), ("parquet", "a.tsv")]
)
def test_scores_that_no_command_could_read_are_not_written(dranking, table, tmp_path, form, name):
    model = tmp_path / "m.json"
    selected(dranking, table, model)
    output = tmp_path / name
    code, _, told = dranking("predict", model, table, "-o", output, "--format", form, *NAMES)
    assert (code, "end in .csv or .tsv" in told) == (2, True)
    assert not output.exists()
