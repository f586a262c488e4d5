"""Measures by group of queries against plain loops, in all forms of data and of groups."""

import json

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.cli.app import run as run_command
from dranking.errors import DataError, UsageError
from dranking.metrics.query_groups import read_query_groups

pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.ComparisonWarning")

N_QUERIES = 24
SEGMENTS = [("head", "tail", None)[q % 3] for q in range(N_QUERIES)]


def random_table():
    rng = np.random.default_rng(7)
    qid = np.repeat(np.arange(N_QUERIES), 5)
    return pd.DataFrame({
        "qid": qid, "relevance": rng.integers(0, 3, len(qid)), "arm": qid % 2 + 0.5,
        "f1": rng.normal(size=len(qid)), "f2": rng.normal(size=len(qid)),
        "segment": [SEGMENTS[q] for q in qid],
    })  # fmt: skip


def plain_means(values, labels):
    """Mean and number of the values of each label."""
    found = {}
    for value, label in zip(values, labels, strict=True):
        found.setdefault(label, []).append(value)
    return {label: (sum(these) / len(these), len(these)) for label, these in found.items()}


def forms_of_data(tmp_path):
    """The same rows in all forms, with a column of groups and the groups that it makes."""
    table = random_table()
    table.to_parquet(tmp_path / "rows.parquet")
    features = table.drop(columns="segment")
    dr.ingest(features, tmp_path / "rows.zarr")
    segments = [segment or "(no value)" for segment in SEGMENTS]
    arms = [f"{q % 2}.5" for q in range(N_QUERIES)]
    by_query = pd.Series(SEGMENTS, index=range(N_QUERIES), name="segment")
    return [
        (table, "segment", segments),
        (tmp_path / "rows.parquet", "segment", segments),
        (dd.from_pandas(table, npartitions=1), "segment", segments),
        (dd.from_pandas(features, npartitions=1), "arm", arms),
        (tmp_path / "rows.zarr", "arm", arms),
        (dr.from_table(features), "arm", arms),
        (features, dict(enumerate(SEGMENTS)), segments),
        (features, by_query, segments),
    ]


def test_groups_have_the_means_of_loops_in_all_forms(tmp_path):
    for data, by, labels in forms_of_data(tmp_path):
        found = dr.evaluate("f1", data, ["map", "ndcg@3"], "trec", by=by)
        for metric, values in found.per_query.values.items():
            expected = plain_means(values, labels)
            assert {k: one.metrics[metric] for k, one in found.by.items()} == pytest.approx(
                {k: mean for k, (mean, _) in expected.items()}, rel=1e-12
            )
            assert {k: one.n_queries for k, one in found.by.items()} == {
                k: n for k, (_, n) in expected.items()
            }
        assert list(found.by) == sorted({*labels}, key=lambda one: (one[0] == "(", one))
        name = "by" if isinstance(by, dict) else getattr(by, "name", by)
        assert list(found.to_frame()[name]) == labels
        parts = json.loads(json.dumps(found.as_json()))["by"]["groups"]
        assert parts == {k: json.loads(json.dumps(one.as_json())) for k, one in found.by.items()}


def test_groups_change_no_figure_of_the_whole(tmp_path):
    """Rows that could be judgements as well stay rows where one of their columns groups."""
    table = random_table()[["qid", "relevance", "segment"]]
    table["docid"] = [f"d{row}" for row in range(len(table))]
    scores = table[["qid", "docid"]].assign(score=np.arange(len(table)) % 2)  # with ties
    table.to_parquet(tmp_path / "rows.parquet")
    lines = tmp_path / "rows.jsonl"
    table.to_json(lines, orient="records", lines=True)
    groups = read_query_groups(lines, "segment")
    for data, by in ((table, "segment"), (tmp_path / "rows.parquet", "segment"), (lines, groups)):
        plain, grouped = (dr.evaluate(scores, data, "map", by=each) for each in (None, by))
        assert (grouped.metrics, grouped.per_query.convention) == (plain.metrics, "standard")
        assert [*grouped.by] == ["head", "tail", "(no value)"]
    with pytest.raises(DataError, match="there is no column 'segment' to group the queries by"):
        dr.evaluate(scores, lines, "map", by="segment")
    trec = dr.evaluate(scores, table, "map", "trec").metrics
    assert trec != plain.metrics


def random_runs():
    rng = np.random.default_rng(3)
    judged = {f"q{q}": {f"d{d}": int(rng.integers(0, 3)) for d in range(6)} for q in range(60)}
    runs = [{q: {d: rng.normal() for d in found} for q, found in judged.items()} for _ in "abc"]
    return judged, runs, {q: ("x", "y")[int(q[1:]) % 7 > 2] for q in judged}


def test_each_group_of_two_and_of_three_rankers_is_that_group_by_itself():
    judged, runs, groups = random_runs()
    how = {"metric": ["map", "p@2"], "n_resamples": 300, "seed": 4}
    two = dr.compare(*runs[:2], judged, by=groups, **how)
    names = dict(zip("abc", runs, strict=True))
    three = dr.compare_rankers(names, judged, by=groups, **how)
    assert two.metrics == dr.compare(*runs[:2], judged, **how).metrics
    p_values = []
    for label in "xy":
        part = {q: found for q, found in judged.items() if groups[q] == label}
        apart = dr.compare(*runs[:2], part, **how)
        for found, alone in zip(two.by[label], apart.metrics, strict=True):
            figures = ("metric", "difference", "low", "high", "p_value", "p_permutation", "wins")
            assert [getattr(found, f) for f in figures] == [getattr(alone, f) for f in figures]
            p_values.append((found.p_value, found.p_holm))
        all_three = dr.compare_rankers(names, part, **how)
        for found, alone in zip(three.by[label], all_three.metrics, strict=True):
            assert found.n_queries == alone.n_queries
            for one, other in zip(found.rankers, alone.rankers, strict=True):
                assert (one.mean, one.low, one.high) == pytest.approx(
                    (other.mean, other.low, other.high), rel=1e-9
                )
    smallest, adjusted = min(p_values)
    assert adjusted == pytest.approx(min(1.0, 4 * smallest))


def test_groups_may_have_the_names_of_rows_beside_them_and_no_query_that_counts(capsys, tmp_path):
    judged, runs, _ = random_runs()
    names = ["all", "(no value)", None, "none relevant"]
    groups = {q: names[int(q[1:]) % 4] for q in judged}
    judged = {q: found if groups[q] != names[3] else {"d1": 0} for q, found in judged.items()}
    how = {"metric": "map", "convention": "standard", "by": groups, "n_resamples": 50}
    expected = ["(no value)", "all", "none relevant", "((no value))"]
    found = dr.evaluate(runs[0], judged, "map", "standard", by=groups)
    assert {name: one.n_queries for name, one in found.by.items()} == dict.fromkeys(expected, 15)
    three = dr.compare_rankers(dict(zip("abc", runs, strict=True)), judged, **how)
    headings, rows = three.means_by_group(three.metrics[0], "kind")
    assert headings == ["kind", "a a", "b b", "c c", "queries that count"]
    assert [row[0] for row in rows] == [*expected, "(all)"]
    assert rows[2][1:] == ("no query",) * 3 + ("0",)
    two = dr.compare(*runs[:2], judged, **how)
    for result in (found, two, three):
        json.dumps(result.as_json(), allow_nan=False)
    for name, value in zip(("a", "b", "qrels"), (*runs[:2], judged), strict=True):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    rows = [(q, groups[q]) for q in judged]
    pd.DataFrame(rows, columns=["qid", "kind"]).to_csv(tmp_path / "kinds.csv", index=False)
    a, b, qrels = (tmp_path / f"{name}.json" for name in ("a", "b", "qrels"))
    options = "--metric", "map", "--convention", "standard", "--by", f"{tmp_path}/kinds.csv:kind"
    for call in (("evaluate", a, qrels), ("compare", a, b, qrels)):
        assert run_command([str(each) for each in (*call, *options)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert sum(line.startswith("\u2502 (all) ") for line in lines) == 1


def test_a_column_of_judgements_and_a_file_of_queries(capsys, tmp_path):
    def dranking(*arguments):
        code = run_command([str(each) for each in arguments])
        return code, *capsys.readouterr()

    judged, (run, other, _), groups = random_runs()
    rows = [(q, d, grade, groups[q]) for q, found in judged.items() for d, grade in found.items()]
    table = pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance", "kind"])
    table.to_csv(tmp_path / "qrels.csv", index=False)
    queries = tmp_path / "queries.csv"
    pd.DataFrame({"qid": [*groups], "kind": [*groups.values()]}).to_csv(queries, index=False)
    expected = dr.evaluate(run, judged, "map", by=groups).as_json()
    expected["by"]["name"] = "kind"
    assert dr.evaluate(run, table, "map", by="kind").as_json() == expected
    for name, one in (("a.json", run), ("b.json", other)):
        (tmp_path / name).write_text(json.dumps(one))
    table.drop(columns="kind").to_csv(tmp_path / "plain.csv", index=False)
    call = tmp_path / "a.json", tmp_path / "qrels.csv", "--metric", "map", "--by"
    for by, qrels in (("kind", "qrels.csv"), (f"{queries}:kind", "plain.csv")):
        options = "--metric", "map", "--by", by, "--json"
        code, out, err = dranking("evaluate", tmp_path / "a.json", tmp_path / qrels, *options)
        assert code == 0, err
        assert json.loads(out) == json.loads(json.dumps(expected))
    code, out, err = dranking("compare", tmp_path / "b.json", *call, "kind")
    assert code == 0, err
    by_kind = out[out.index("map by kind") :].splitlines()
    cells = [[cell.strip() for cell in line.split("\u2502")[1:-1]] for line in by_kind]
    rows = {row[0]: row[-1] for row in cells if row and row[0]}
    counts = plain_means([0.0] * 60, groups.values())
    assert rows == {"x": str(counts["x"][1]), "y": str(counts["y"][1]), "all": "60"}
    code, _, err = dranking(
        "evaluate", tmp_path / "a.json", tmp_path / "plain.csv", "--by", "no.csv:kind"
    )
    assert (code, "no such file" in err) == (3, True)


def test_refusals(tmp_path):
    table = random_table()
    table.to_parquet(tmp_path / "rows.parquet")
    for data in (table, tmp_path / "rows.parquet", dr.from_table(table.drop(columns="segment"))):
        with pytest.raises(DataError, match=r"query 0 has several values of 'f2', such as"):
            dr.evaluate("f1", data, by="f2")
        with pytest.raises(DataError, match="there is no column 'nothing'"):
            dr.evaluate("f1", data, by="nothing")
    with pytest.raises(DataError, match="none of the queries has a value of 'by'"):
        dr.evaluate("f1", table, by={"q1": "a"})
    with pytest.raises(UsageError, match="by is a list"):
        dr.evaluate("f1", table, by=["segment"])
    found = dr.evaluate("f1", table, "map")
    with pytest.raises(UsageError, match="by='segment' is a column of data"):
        dr.compare(found, found, by="segment")
    (tmp_path / "q.csv").write_text("qid,kind\n1,a\n1,b\n")
    with pytest.raises(DataError, match="query 1 has several values of 'kind'"):
        read_query_groups(tmp_path / "q.csv", "kind")
