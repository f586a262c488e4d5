"""`dranking evaluate` and `compare` of TREC runs beside qrels."""

import json

import numpy as np
import pandas as pd
import pytest
import pytrec_eval

import dranking as dr
from dranking.errors import DataError, UsageError


@pytest.fixture
def files(tmp_path):
    """Two runs, judgements, and their paths."""
    rng = np.random.default_rng(2)
    a, b, judged = {}, {}, {}
    for q in range(60):
        documents = [f"d{n}" for n in rng.permutation(20)]
        judged[f"q{q}"] = {d: int(rng.integers(-1, 3)) for d in documents[:8]} | {"d0": 1}
        for run in (a, b):
            retrieved = rng.choice(documents, 10, replace=False)
            run[f"q{q}"] = {d: float(rng.integers(0, 9)) for d in retrieved}
    del a["q3"], b["q3"]
    for name, run in (("a", a), ("b", b)):
        lines = [f"{q} Q0 {d} 1 {s!r} t\n" for q, found in run.items() for d, s in found.items()]
        (tmp_path / name).write_text("".join(lines))
    lines = [f"{q} 0 {d} {g}\n" for q, found in judged.items() for d, g in found.items()]
    (tmp_path / "qrels").write_text("".join(lines))
    return (a, b, judged), [tmp_path / name for name in ("a", "b", "qrels")]


def test_a_run_is_evaluated_on_judgements(dranking, files, tmp_path):
    (a, _, judged), (run, _, qrels) = files
    call = "evaluate", run, qrels, "--metric", "map,ndcg@5"
    options = "-c", "-l", "2", "--unjudged", "skip", "--per-query", tmp_path / "values.parquet"
    code, out, err = dranking(*call, *options, "--json")
    assert code == 0, err
    tool = pytrec_eval.RelevanceEvaluator(judged, {"map", "ndcg_cut_5"}, 2, True)
    theirs = tool.evaluate(a).values()
    found = json.loads(out)
    expected = {
        name: sum(values[other] for values in theirs) / 60
        for name, other in (("map", "map"), ("ndcg@5", "ndcg_cut_5"))
    }
    assert found["metrics"] == pytest.approx(expected, rel=1e-12)
    assert found["n_queries"] == 60
    assert found["counts"]["n_queries_not_in_run"] == 1
    code, out, _ = dranking("compare", tmp_path / "values.parquet", tmp_path / "values.parquet")
    assert code == 0
    code, out, _ = dranking(*call, "--gain", "0,1,3")
    assert "59 queries, trec, gains 0 1 3 convention" in out
    table = tmp_path / "gains.csv"
    outputs = [dranking(*call, "--gain", g, "--json")[1] for g in ("0,1,3", "1=1,2=3")]
    for content in (
        "grade,gain\n1,1\n2,3\n",
        "\ufeffgrade,gain\r\n1,1\r\n2,3\r\n",
        '"grade", "gain"\n1, 1\n2, 3\n',
        '"gain","grade"\n"1","1"\n"3","2"\n',
    ):
        table.write_bytes(content.encode())
        outputs.append(dranking(*call, "--gain", table, "--json")[1])
    parquet = tmp_path / "gains.parquet"
    pd.DataFrame({"grade": [1, 2], "gain": [1.0, 3.0]}).to_parquet(parquet)
    outputs.append(dranking(*call, "--gain", parquet, "--json")[1])
    assert len({*outputs}) == 1
    assert outputs[0]
    for content, said in (
        (b"grade,gain\n1,1,1\n", "gains.csv: cannot be read as csv"),
        (b"grade,gain\n1,\xff3\n", "gains.csv: cannot be read as csv"),
        (b"grade,gain\n1,\n", "gains.csv, row 1: a grade and a gain are finite numbers"),
        (b"grade,gains\n1,1\n", "the columns are 'grade', 'gains'; gains have the columns"),
    ):
        table.write_bytes(content)
        code, _, err = dranking(*call, "--gain", table)
        assert (code, said in " ".join(err.split())) == (3, True), err
    for gains, said in (("1=1,1=2", "has two gains"), ("no.csv", "nor a file")):
        code, _, err = dranking(*call, "--gain", gains)
        assert (code, said in " ".join(err.split())) == (2, True), err
    assert "judged queries that are not in the run (left out): 1" in out


def test_runs_are_compared_on_judgements(dranking, files):
    (a, b, judged), (one, other, qrels) = files
    code, out, err = dranking("compare", one, other, qrels, "--metric", "map", "--json")
    assert code == 0, err
    assert "judged queries that are not in the run (left out): 1" in err
    tool = pytrec_eval.RelevanceEvaluator(judged, {"map"})
    means = [np.mean([v["map"] for v in tool.evaluate(run).values()]) for run in (a, b)]
    [found] = json.loads(out)["metrics"]
    assert [found["mean_a"], found["mean_b"]] == pytest.approx(means, rel=1e-12)
    assert dr.compare(a, b, judged, metric="map")["map"].p_value == found["p_value"]


def test_what_is_no_run_beside_judgements(dranking, files, tmp_path):
    _, (run, _, qrels) = files
    code, _, err = dranking("evaluate", run, qrels, "--scheduler", "local", "--qrels", qrels)
    assert code == 2
    assert "--qrels, --scheduler: has no effect on a run beside judgements" in err
    on_cluster = "--cluster", "n_workers=1", "--performance-report", tmp_path / "page.html"
    for call in (("evaluate", run, qrels), ("compare", run, run, qrels)):
        code, _, err = dranking(*call, *on_cluster)
        assert code == 2
        assert "--cluster, --performance-report: has no effect on a run beside" in err
    near = tmp_path / "near.csv"
    near.write_text("query_id,doc_id,relevance,comment\nq1,d1,1,x\n")
    code, _, err = dranking("evaluate", run, near)
    assert code != 0
    assert "Judgements are lines of query, iteration, document and grade" in " ".join(err.split())
    with pytest.raises(DataError, match="Judgements are lines of query"):
        dr.evaluate(dr.read_scores(run), near)
    with pytest.raises(DataError, match="Judgements are lines of query"):
        dr.evaluate(str(run), near)


def test_scores_without_document_ids_belong_to_labels_in_their_order(dranking, tmp_path):
    labels = pd.DataFrame({"qid": list("aabb"), "docid": list("cdef"), "relevance": [1, 0, 1, 0]})
    labels.to_parquet(tmp_path / "labels.parquet")
    scores = tmp_path / "scores.csv"
    scores.write_text("qid,score\na,2\na,1\nb,1\nb,2\n")
    call = "--metric", "map", "--json"
    code, out, err = dranking("evaluate", scores, tmp_path / "labels.parquet", *call)
    assert code == 0, err
    assert json.loads(out)["metrics"] == {"map": 0.75}
    code, out, err = dranking("compare", scores, scores, tmp_path / "labels.parquet", *call)
    assert json.loads(out)["metrics"][0]["mean_a"] == 0.75


def test_options_of_judgements_do_not_go_with_rows_of_features(dranking, letor):
    data = letor()
    code, _, err = dranking("evaluate", data, "--score-column", "2", "--unjudged", "skip")
    assert code == 2
    assert "go with judgements" in err
    with pytest.raises(UsageError, match="rules are those of a run"):
        dr.evaluate("2", data, rules=dr.RunRules())
