"""The table of `docs/data.md` on data that comes after other data: every row in every way."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.reference.greedy import centred_queries, ridge_weights

NAMES = ["x0", "x1", "x2"]
NIGHT = """
[data]
train = ["in/*.parquet"]
holdout = ["hold.parquet"]
null = "{null}"
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


def table(seed, ids):
    """Six documents for each query, with features that are whole numbers."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(ids, 6)
    values = rng.integers(-50, 50, size=(len(qid), 3)) * 1.0
    grades = np.digitize(values @ [1, 0.5, 0] + rng.normal(0, 9, len(qid)), [0, 30])
    docid = [f"{seed}-{row}" for row in range(len(qid))]
    columns = {name: values[:, i] for i, name in enumerate(NAMES)}
    return pd.DataFrame({"qid": qid, "docid": docid, "relevance": grades, **columns})


FIRST, LATER = table(0, range(30)), table(1, range(30, 50))
AGAIN = FIRST[:60].assign(x0=lambda rows: rows.x0 + 3)
GAPS = LATER.assign(x1=LATER.x1.where(LATER.index % 7 > 0))
WITHOUT_IDS = FIRST.drop(columns="docid")


@dataclass
class Row:
    """What comes in, and what happens: the rows that count, or the error, and a line, by way."""

    later: pd.DataFrame | pa.Table
    counts: dict = field(default_factory=dict)
    errors: dict = field(default_factory=dict)
    lines: dict = field(default_factory=dict)
    first: pd.DataFrame = field(default_factory=lambda: FIRST)
    null: str = "error"


WAYS = ("folder", "append", "stats append", "retrain")


def everywhere(value):
    return dict.fromkeys(WAYS, value)


def null_typed(rows, name):
    found = pa.Table.from_pandas(rows, preserve_index=False)
    return found.set_column(found.column_names.index(name), name, pa.nulls(len(rows)))


def filled(later, mean):
    return pd.concat([FIRST, later.assign(x1=later.x1.fillna(mean))])


BOTH = pd.concat([FIRST, LATER])
MEAN, MEAN_OF_ALL = FIRST.x1.mean(), pd.concat([FIRST, GAPS]).x1.mean()
IN_IT = "has query 0 already, and 10 queries of the new data"
TWICE = "A document that comes again counts twice"
OTHERS = table(1, range(15, 45))
CONSTANT = filled(LATER.assign(x1=np.nan), MEAN)
OF_AGAIN = pd.concat([FIRST, LATER, AGAIN])
NO_IDS = pd.concat([LATER, AGAIN]).drop(columns="docid")

ROWS = {
    "ids of queries again": Row(
        OTHERS,
        everywhere(pd.concat([FIRST, OTHERS])),
        {"append": "has query 15 already, and 15 queries .*--overwrite"},
        {
            "folder": "the rows of 15 queries .* were brought together",
            "stats append": "15 of 30 queries are in .*st already: each stays one query",
            "retrain": "15 of 45 training queries are in several parts: each is one query",
        },
    ),
    "columns in another order": Row(
        LATER[["x2", "relevance", "x0", "docid", "qid", "x1"]], everywhere(BOTH)
    ),
    "a new column": Row(
        LATER.assign(x9=1.5), everywhere(BOTH), lines=everywhere("left out 'x9', which .* not have")
    ),
    "a new column of texts": Row(
        LATER.assign(x9="a"), everywhere(BOTH), lines=everywhere("left out 'x9', which .* not have")
    ),
    "a missing column": Row(
        LATER.drop(columns="x1"),
        errors=everywhere("lacks 'x1' of the 3 features that .* has.*--null"),
    ),
    "a missing column, with a policy": Row(
        LATER.drop(columns="x1"), everywhere(CONSTANT), null="mean"
    ),
    "a column of nulls": Row(
        null_typed(LATER, "x1"), errors=everywhere("column 'x1'.*the value is missing")
    ),
    "a column of nulls, with a policy": Row(
        null_typed(LATER, "x1"), everywhere(CONSTANT), null="mean"
    ),
    "a NaN": Row(GAPS, errors=everywhere("column 'x1'.*the value is missing")),
    "a NaN, with a policy": Row(
        GAPS,
        everywhere(filled(GAPS, MEAN))
        | {"folder": filled(GAPS, pd.concat([FIRST, GAPS]).x1.mean())},
        null="mean",
    ),
    "other types of numbers": Row(
        LATER.astype({"qid": "int32", "x0": "int8", "x1": "int64", "x2": "float32"}),
        everywhere(BOTH),
    ),
    "no rows": Row(
        LATER[:0], {"folder": FIRST}, dict.fromkeys(WAYS[1:], r"b\.parquet: there are no rows")
    ),
    "the same file again": Row(
        FIRST,
        {"folder": FIRST, "retrain": FIRST},
        {
            "append": "has query 0 already, and 30 queries of the new data",
            "stats append": "rows of the new data are in .*st already: they were appended before",
        },
        {
            "folder": "180 rows gave way to later rows",
            "retrain": "in/b.parquet is left out: it has the content of in/a.parquet",
        },
    ),
    "documents again": Row(
        pd.concat([LATER, AGAIN]),
        everywhere(OF_AGAIN) | {"folder": pd.concat([FIRST[60:], LATER, AGAIN])},
        {"append": IN_IT},
        {
            "folder": "60 rows gave way to later rows of the same query and document",
            "stats append": TWICE,
            "retrain": TWICE,
        },
    ),
    "documents again, without ids": Row(
        NO_IDS,
        everywhere(OF_AGAIN),
        {"append": IN_IT},
        {
            "folder": "the rows of 10 queries .* were brought together",
            "stats append": TWICE,
            "retrain": TWICE,
        },
        first=WITHOUT_IDS,
    ),
}


def save(rows, path):
    path = Path(path)
    path.parent.mkdir(exist_ok=True)
    found = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
    pq.write_table(found, path)


def expected_weights(rows):
    """Weights of RankRLS from raw rows, a query with all of its rows."""
    rows = rows.sort_values("qid", kind="stable")
    starts = np.flatnonzero(np.diff(rows.qid, prepend=-1))
    values = rows[NAMES].to_numpy(np.float32)
    queries = centred_queries(values, rows.relevance, np.append(starts, len(rows)))
    return ridge_weights(queries, range(3), 1.0)


def trained(dranking, data):
    train = ("train", "rankrls", data, "--regularization", "1", "--output", "m.json")
    assert dranking(*train)[0] == 0
    return Path("m.json")


def folder(dranking, row, null):
    save(row.first, "all/a.parquet")
    save(row.later, "all/b.parquet")
    code, _, err = dranking("ingest", "all", "--output", "d", *null)
    return code, err, lambda: trained(dranking, "d")


def append(dranking, row, null):
    save(row.first, "a.parquet")
    save(row.later, "b.parquet")
    assert dranking("ingest", "a.parquet", "--output", "d", *null)[0] == 0
    code, _, err = dranking("ingest", "b.parquet", "--output", "d", "--append", *null)
    return code, err, lambda: trained(dranking, "d")


def stats_append(dranking, row, null):
    save(row.first, "a.parquet")
    save(row.later, "b.parquet")
    assert dranking("stats", "build", "a.parquet", "--output", "st", *null)[0] == 0
    code, _, err = dranking("stats", "append", "st", "b.parquet", *null)
    return code, err, lambda: trained(dranking, "st")


def retrain(dranking, row, null):
    has_ids = "docid" in row.first
    judged = table(99, range(1000, 1040))
    save(judged if has_ids else judged.drop(columns="docid"), "hold.parquet")
    save(row.first, "in/a.parquet")
    Path("night.toml").write_text(NIGHT.format(null=row.null))
    assert dranking("retrain", "night.toml")[0] == 0
    save(row.later, "in/b.parquet")
    code, out, err = dranking("retrain", "night.toml")
    newest = max(Path("registry/versions").iterdir())
    return code, out + err, lambda: newest / "model.json"


HOW = dict(zip(WAYS, (folder, append, stats_append, retrain), strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ROWS)
def test_what_comes_in_and_what_happens(tmp_path, monkeypatch, dranking, name, way):
    monkeypatch.chdir(tmp_path)
    row = ROWS[name]
    null = () if row.null == "error" else ("--null", row.null)
    code, said, model = HOW[way](dranking, row, null)
    error = row.errors.get(way)
    if error is not None:
        assert code == 3
        assert re.search(error, said), said
        return
    assert code == 0, said
    assert re.search(row.lines.get(way, ""), said), said
    found = json.loads(model().read_text())
    assert found["feature_names"] == NAMES
    np.testing.assert_allclose(found["weights"], expected_weights(row.counts[way]), rtol=1e-6)


def test_the_table_of_the_documentation_has_these_rows():
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    lines = re.findall(r"^\| (.*?) \|", text.partition("| what comes in |")[2], re.MULTILINE)
    assert [line for line in lines if line in ROWS] == [*ROWS]


def text(path, width, ids):
    rng = np.random.default_rng([width, ids[0]])
    lines = []
    for query in ids:
        for grade in range(3):
            values = " ".join(f"{i}:{rng.integers(1, 9)}" for i in range(1, width + 1))
            lines.append(f"{grade} qid:{query} {values}\n")
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("".join(lines))


def test_text_that_names_fewer_or_more_features(tmp_path, monkeypatch, dranking):
    monkeypatch.chdir(tmp_path)
    text("in/a.txt", 4, range(9))
    text("hold.txt", 4, range(100, 109))
    config = NIGHT.replace("parquet", "txt").format(null="error")
    Path("night.toml").write_text(config)
    assert dranking("stats", "build", "in/a.txt", "--output", "st")[0] == 0
    assert dranking("ingest", "in/a.txt", "--output", "d")[0] == 0
    assert dranking("retrain", "night.toml")[0] == 0
    for width, ids in ((3, range(20, 29)), (5, range(30, 39))):
        text("in/b.txt", width, ids)
        for call in (
            ("ingest", "in/b.txt", "--output", "d", "--append"),
            ("stats", "append", "st", "in/b.txt"),
            ("retrain", "night.toml"),
        ):
            code, out, err = dranking(*call)
            assert (code == 3) == (width == 5), out + err
            assert ("feature index 5 exceeds the 4 features" in err) == (width == 5)
    both = ("ingest", "in/a.txt", "in/b.txt", "--output", "e")
    code, _, err = dranking(*both)
    assert code == 3
    assert "the largest feature index of this file is 5" in err
    assert dranking(*both, "--n-features", "5")[0] == 0
