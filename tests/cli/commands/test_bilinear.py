"""`train bilinear`, and `evaluate` and `predict` of what it writes."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import dranking as dr
from tests.bilinear.test_trained_queries import stored

TEXTS = {
    "pet": ["cat and mouse", "the cat saw a dog", "dog with a bone", "mouse and bone", "cat dog"],
    "money": [
        "stock and bond",
        "bond or share",
        "share of stock",
        "money in a bond",
        "money share",
    ],
}
SHORT = ("--steps", 400, "--learning-rate", 1, "--regularization", "1e-3")


@pytest.fixture
def docs(tmp_path):
    """A parquet table of texts of two classes."""
    rows = [(text, label) for label, texts in TEXTS.items() for text in texts]
    texts, labels = zip(*rows, strict=True)
    ids = [f"d{i}" for i in range(len(rows))]
    path = tmp_path / "docs.parquet"
    pq.write_table(pa.table({"id": ids, "text": texts, "label": labels}), path)
    return path


def test_info_knows_the_model_and_export_says_that_it_wants_another(dranking, docs, tmp_path):
    model = tmp_path / "m"
    assert dranking("train", "bilinear", docs, "--labels", *SHORT, "-o", model)[0] == 0
    code, out, err = dranking("info", model, "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["kind"], facts["n_words"], facts["takes_text"]) == ("bilinear", 9, True)
    assert facts["n_entries"] == dr.load_model(model).weights.nnz
    code, out, _ = dranking("info", model)
    assert code == 0
    assert "bilinear" in out

    code, out, err = dranking("export", model, "--format", "solr", "-o", tmp_path / "solr.json")
    assert (code, out) == (3, "")
    assert "is a directory; give the file of a linear model" in err


def test_labels(dranking, docs, tmp_path):
    code, out, err = dranking(
        "train", "bilinear", docs, "--labels", *SHORT, "-o", tmp_path / "m", "--json"
    )
    assert code == 0, err
    facts = json.loads(out)
    documents = dr.open_collection(docs)
    ranker = dr.BilinearRanker(1e-3, n_steps=400, learning_rate=1.0).fit(documents)
    model = dr.load_model(tmp_path / "m")
    np.testing.assert_array_equal(model.weights.toarray(), ranker.weights_.toarray())
    assert facts["model"] == "bilinear"
    assert facts["n_features"] == 9
    assert facts["n_entries"] == ranker.weights_.nnz

    code, out, _ = dranking("evaluate", tmp_path / "m", docs, "--metric", "map", "--json")
    result = json.loads(out)
    assert (code, result["n_queries"]) == (0, 10)
    wanted = dr.evaluate_bilinear(model, documents, dr.same_class(documents))
    assert result["metrics"]["map"] == wanted.metrics["map"]
    assert result["error"] == wanted.error

    code, _, _ = dranking(
        "predict", tmp_path / "m", docs, "--top", 3, "-o", tmp_path / "run.txt", "--json"
    )
    assert code == 0
    lines = [line.split() for line in (tmp_path / "run.txt").read_text().splitlines()]
    assert len(lines) == 30
    scores = model.scores(documents, documents)
    for query, _, document, rank, score, _ in lines:
        q, d = int(query[1:]), int(document[1:])
        assert q != d
        assert float(score) == scores[q, d]
        better = (np.delete(scores[q], q) > scores[q, d]).sum()
        assert int(rank) > better


@pytest.mark.parametrize("form", ["qrels", "tuples"])
def test_queries(dranking, docs, tmp_path, form):
    queries = tmp_path / "queries.parquet"
    pq.write_table(pa.table({"id": ["q0", "q1"], "text": ["mouse", "money"]}), queries)
    if form == "qrels":
        file = tmp_path / "qrels.txt"
        file.write_text("q0 0 d0 2\nq0 0 d5 0\nq1 0 d8 1\nq1 0 d2 0\n")
    else:
        file = tmp_path / "tuples.parquet"
        table = {"query": ["q0", "q1"], "preferred": ["d0", "d8"], "other": ["d5", "d2"]}
        pq.write_table(pa.table(table), file)
    arguments = ("train", "bilinear", docs, "--queries", queries, f"--{form}", file, *SHORT)
    code, _, err = dranking(*arguments, "--start", "zero", "-o", tmp_path / "m")
    assert code == 0, err
    model = dr.load_model(tmp_path / "m")
    scores = model.scores(["mouse", "money"], list(TEXTS["pet"] + TEXTS["money"]))
    assert scores[0, 0] > scores[0, 5]
    assert scores[1, 8] > scores[1, 2]
    if form == "qrels":
        evaluate = ("evaluate", tmp_path / "m", docs, "--queries", queries)
        code, out, _ = dranking(*evaluate, "--qrels", file, "--json")
        assert (code, json.loads(out)["metrics"]["map"]) == (0, 1.0)
        assert json.loads(out)["error"] == 0.0
        code, _, err = dranking(*evaluate)
        assert (code, "name them with --qrels" in err) == (2, True)
    code, out, err = dranking(*arguments, "-o", tmp_path / "m")
    assert (code, "exists" in err) == (2, True)


def test_other_forms_of_documents(dranking, docs, tmp_path):
    documents = dr.open_collection(docs, n_words=4)
    documents.save(tmp_path / "docs")
    sparse.save_npz(tmp_path / "docs.npz", documents.vectors)
    train = ("train", "bilinear", "--labels", *SHORT)
    code, _, err = dranking(*train, tmp_path / "docs", "-o", tmp_path / "m1")
    assert code == 0, err
    code, _, err = dranking(*train, docs, "--words", 4, "-o", tmp_path / "m2")
    assert code == 0, err
    one, other = dr.load_model(tmp_path / "m1"), dr.load_model(tmp_path / "m2")
    assert (one.weights != other.weights).nnz == 0
    code, _, err = dranking(*train, tmp_path / "docs.npz", "-o", tmp_path / "m3")
    assert (code, "no classes" in err) == (3, True)
    code, _, err = dranking(*train, tmp_path / "docs", "--words", 4, "-o", tmp_path / "m3")
    assert (code, "only for text" in err) == (2, True)


def test_what_is_missing_or_wrong(dranking, docs, tmp_path):
    output = ("-o", tmp_path / "m")
    code, _, err = dranking("train", "bilinear", docs, *output)
    assert (code, "exactly one of --qrels, --tuples and --labels" in err) == (2, True)
    code, _, err = dranking("train", "bilinear", docs, "--labels", "--queries", docs, *output)
    assert (code, "--labels applies only without --queries" in err) == (2, True)
    code, _, err = dranking("train", "bilinear", tmp_path / "nothing", "--labels", *output)
    assert (code, "no such file" in err) == (3, True)
    (tmp_path / "wrong.npz").write_text("wrong")
    code, _, err = dranking("train", "bilinear", tmp_path / "wrong.npz", "--labels", *output)
    assert (code, "no sparse matrix" in err) == (3, True)
    (tmp_path / "wrong.parquet").write_text("wrong")
    code, _, err = dranking("train", "bilinear", tmp_path / "wrong.parquet", "--labels", *output)
    assert (code, "no parquet table" in err) == (3, True)
    pq.write_table(pa.table({"words": ["cat"]}), tmp_path / "no_text.parquet")
    code, _, err = dranking("train", "bilinear", tmp_path / "no_text.parquet", "--labels", *output)
    assert (code, "no column text" in err) == (3, True)
    (tmp_path / "folder").mkdir()
    code, _, err = dranking("train", "bilinear", tmp_path / "folder", "--labels", *output)
    assert (code, "no collection" in err) == (3, True)


def test_evaluate_counts_the_judged_texts_that_were_trained_on(dranking, tmp_path):
    train = stored(tmp_path / "train.parquet", range(40))
    shared = stored(tmp_path / "shared.parquet", range(37, 97))
    anew = stored(tmp_path / "anew.parquet", range(37, 97), seed=1)
    nameless = stored(tmp_path / "nameless.parquet", range(37, 97), named=False)
    model = tmp_path / "m"
    assert dranking("train", "bilinear", train, "--labels", *SHORT, "-o", model)[0] == 0
    assert (tmp_path / "m.queries").exists()

    said = "3 of 60 judged queries were trained on"
    for judged in (shared, nameless):
        assert said in dranking("evaluate", model, judged)[1].splitlines()
    found = json.loads(dranking("evaluate", model, shared, "--json")[1])["trained_on"]
    assert found == {"n_judged": 60, "n_trained_on": 3, "n_other_documents": 0}
    out = dranking("evaluate", model, anew)[1]
    assert "0 of 60 judged queries were trained on; 3 more have ids that were trained on" in out
    assert "with other texts" in out

    (tmp_path / "m.queries").unlink()
    out = dranking("evaluate", model, shared)[1]
    assert "not known whether the model was trained on these queries" in out
    found = json.loads(dranking("evaluate", model, shared, "--json")[1])["trained_on"]
    assert found["n_trained_on"] is None


def test_evaluate_counts_queries_of_their_own(dranking, docs, tmp_path):
    queries = tmp_path / "queries.parquet"
    pq.write_table(pa.table({"id": ["q0", "q1"], "text": ["mouse", "money"]}), queries)
    (tmp_path / "one.txt").write_text("q0 0 d0 2\nq0 0 d5 0\n")
    (tmp_path / "both.txt").write_text("q0 0 d0 2\nq0 0 d5 0\nq1 0 d8 1\nq1 0 d2 0\n")
    sides = (docs, "--queries", queries, "--qrels")
    call = ("train", "bilinear", *sides, tmp_path / "one.txt", *SHORT, "-o", tmp_path / "m")
    assert dranking(*call)[0] == 0
    out = dranking("evaluate", tmp_path / "m", *sides, tmp_path / "both.txt")[1]
    assert "1 of 2 judged queries were trained on" in out
    out = dranking("evaluate", tmp_path / "m", docs)[1]
    assert "0 of 10 judged queries were trained on" in out
