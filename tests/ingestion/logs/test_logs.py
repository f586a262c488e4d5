"""Feature logs of search engines and JSON rows become data sets."""

import gzip
import json

import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dranking as dr
from dranking.errors import DataError, DataWarning, UsageError
from dranking.ingestion import open_logs
from dranking.ingestion.letor import text_source
from dranking.ingestion.logs import rows as log_rows
from tests.ingestion.logs import engine_logs as logs
from tests.reference import feature_logs as reference

NULLS = dr.RowRules(null="zero")
UNLABELLED = dr.Columns(relevance=None)


def rules(judgements):
    return dr.RowRules(null="zero", judgements=judgements)


def documents_of(dataset):
    """Query, document, grade and features of every document, in the order of the data set."""
    found = []
    for b in range(dataset.n_blocks):
        block = dataset.block(b)
        queries = np.repeat(block.query_ids.to_pylist(), np.diff(block.query_ptr))
        documents = [None] * len(queries) if block.doc_ids is None else block.doc_ids.to_pylist()
        found += zip(
            queries.tolist(), documents, block.relevance, block.features.tolist(), strict=True
        )
    return found


def assert_holds(dataset, expected):
    """The documents are those of a plain reader; None stands for 0, and for no grade."""
    found = documents_of(dataset)
    assert [(q, d) for q, d, _, _ in found] == [(q, d) for q, d, _, _ in expected]
    grades = [np.nan if grade is None else grade for _, _, grade, _ in expected]
    np.testing.assert_array_equal([grade for _, _, grade, _ in found], grades)
    values = np.array([[v or 0 for v in each] for *_, each in expected], dtype=np.float32)
    np.testing.assert_array_equal([each for *_, each in found], values)


def written(tmp_path, text, name="log.jsonl"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


@pytest.mark.parametrize("form", logs.NAMED)
def test_elasticsearch_in_the_forms_that_users_store(tmp_path, form):
    for name in ("log.jsonl", "log.json.gz"):
        path = written(tmp_path, logs.NAMED[form], name)
        stored, facts = dr.ingest(
            path, tmp_path / "d", rows=rules(logs_qrels(tmp_path)), overwrite=True
        )
        assert stored.feature_names == ("title_query", "body_query")
        expected = [(q, d, 4 if q == "rocky" else 3, v) for q, d, v in logs.EXPECTED]
        assert_holds(stored, expected)
        assert (facts.n_judged, facts.n_judged_absent) == (3, 2)
        opened = dr.open_dataset(path, columns=UNLABELLED, null="zero")
        assert_holds(opened, [(q, d, None, v) for q, d, v in logs.EXPECTED])


def logs_qrels(tmp_path, text=logs.QRELS):
    return str(written(tmp_path, text, "qrels.txt"))


@pytest.mark.filterwarnings("ignore:.*the responses name no queries")
@pytest.mark.parametrize("form", logs.UNNAMED)
def test_responses_without_ids_come_in_the_order_of_the_judged_queries(tmp_path, form):
    path = written(tmp_path, logs.UNNAMED[form])
    with pytest.warns(DataWarning, match=r"log\.jsonl: the responses name no queries.*qrels\.txt"):
        stored, _ = dr.ingest(path, tmp_path / "d", rows=rules(logs_qrels(tmp_path)))
    assert_holds(stored, [(q, d, 4 if q == "rocky" else 3, v) for q, d, v in logs.EXPECTED])
    for qrels, line in (
        ("rocky 0 4241 4\njaws 0 578 4\nrambo 0 1370 3\n", r"response 1 .* of query rocky"),
        ("rambo 0 1370 3\nrocky 0 4241 4\n", "3 responses .* has 2 queries"),
    ):
        with pytest.raises(DataError, match=line):
            dr.ingest(path, tmp_path / "e", rows=rules(logs_qrels(tmp_path, qrels)))
    with pytest.raises(DataError, match=r"log\.jsonl:\d: the response names no query.*beside it"):
        dr.ingest(path, tmp_path / "e", columns=UNLABELLED, rows=NULLS)


def test_first_form_of_the_plugin(tmp_path):
    stored, _ = dr.ingest(
        written(tmp_path, logs.lines(logs.FIRST_FORM)), tmp_path / "d", columns=UNLABELLED
    )
    assert_holds(stored, [(q, d, None, v) for q, d, v in logs.EXPECTED[:1] + logs.EXPECTED[2:]])


def test_solr(tmp_path):
    stored, _ = dr.ingest(written(tmp_path, logs.SOLR), tmp_path / "d", columns=UNLABELLED)
    assert stored.feature_names == ("documentRecency", "isBook", "originalScore")
    assert_holds(stored, [(q, d, None, v) for q, d, v in logs.SOLR_EXPECTED])


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (["a=0.5,b=2.0", "a=1.5,b=NaN"], [[0.5, 2], [1.5, None]]),  # dense
        (
            ["featureA:0.1 featureB:0.2", "featureB:0.3", ""],
            [[0.1, 0.2], [None, 0.3], [None, None]],
        ),
        (["a=1.0", "b=2.0,a=-1.0E-3"], [[1, None], [-0.001, 2]]),
        (["a=1.0;b=2.0", "b=4.0"], [[1, 2], [None, 4]]),
        (["a=1.0,b=0.0", "a=2.0"], [[1, 0], [2, None]]),
        ([{"a": 1.5, "b": 2}, {"a": 3}], [[1.5, 2], [3, None]]),
    ],
)
def test_dense_and_sparse_features_of_solr(tmp_path, features, expected):
    text = logs.solr({f"d{i}": each for i, each in enumerate(features)})
    path = written(tmp_path, text)
    data = dr.open_dataset(path, columns=UNLABELLED, null="zero")
    assert_holds(data, [("1", f"d{i}", None, each) for i, each in enumerate(expected)])
    if any(None in each for each in expected):
        with pytest.raises(DataError, match=r"log\.jsonl:1, column '.*' .*missing"):
            dr.ingest(path, tmp_path / "d", columns=UNLABELLED)


def test_stored_fields_of_solr_are_no_grades(tmp_path):
    docs = [{"id": "d", "doc_id": 9, "weight": 2.5, "label": "sale", "[features]": "a=1.0"}]
    docs.append({"id": "e", "weight": 3.5, "stars": 4, "[features]": "a=2.0"})
    text = logs.lines([{"query_id": "q", "response": {"docs": docs}}])
    path = written(tmp_path, text)
    assert_holds(
        dr.open_dataset(path, columns=UNLABELLED), [("q", "d", None, [1]), ("q", "e", None, [2])]
    )
    stars = dr.open_dataset(path, columns=dr.Columns(relevance="stars"))
    assert_holds(stars, [("q", "d", None, [1]), ("q", "e", 4, [2])])


def test_rows_with_nested_features(tmp_path):
    text = logs.lines(
        [
            {"query_id": 7, "doc_id": 1, "label": 2, "url": "u",
             "features": {"bm25": 1.5, "title": {"bm25": 2, "embedding": [1, 2.5]}}},
            {"query_id": 7, "doc_id": 2, "label": None, "url": "v",
             "features": {"title": {"embedding": [3, None]}, "bm25": True}},
            {"query_id": 8, "doc_id": 3, "label": 0,
             "features": {"bm25": 0, "title": {"bm25": "NaN", "embedding": None}}},
        ]
    )  # fmt: skip
    path = written(tmp_path, text)
    expected = [
        (7, 1, 2, [1.5, 2, 1, 2.5]),
        (7, 2, None, [1, None, 3, None]),
        (8, 3, 0, [0, None, None, None]),
    ]
    stored, _ = dr.ingest(path, tmp_path / "d", rows=NULLS)
    names = ("bm25", "title.bm25", "title.embedding_0", "title.embedding_1")
    for dataset in (stored, dr.open_dataset(path, null="zero")):
        assert dataset.feature_names == names
        assert_holds(dataset, expected)
    chosen = dr.Columns(features=["title.embedding", "bm25"])
    assert dr.open_dataset(path, columns=chosen, null="zero").feature_names == (
        *names[2:],
        names[0],
    )
    left = dr.Columns(exclude=["title.embedding"])
    assert dr.open_dataset(path, columns=left, null="zero").feature_names == names[:2]
    left = dr.Columns(exclude=["title"])
    assert dr.open_dataset(path, columns=left, null="zero").feature_names == names[:1]
    with pytest.raises(DataError, match=r"no feature 'titel' to leave out.*'title.bm25'"):
        dr.open_dataset(path, columns=dr.Columns(exclude=["titel"]), null="zero")


@pytest.mark.filterwarnings("ignore:.*left out 'name', 'tags', 'size'")
def test_rows_to_append(tmp_path):
    """Features are found by name; what is new is left out with a line, whatever it holds."""
    first = {"qid": 1, "docid": 1, "relevance": 1, "a": 1.5, "v": [1, 2]}
    later = {"qid": 2, "docid": 1, "relevance": 0, "v": [3, 4], "name": "n", "tags": ["x"], "a": 2}
    rows = [{**later, "size": 3}, {**later, "docid": 2, "v": None}]
    stored, _ = dr.ingest(written(tmp_path, logs.lines([first])), tmp_path / "d", rows=NULLS)
    path = written(tmp_path, logs.lines(rows))
    stored, _ = dr.ingest(path, tmp_path / "d", rows=NULLS, append=True)
    expected = [(1, 1, 1, [1.5, 1, 2]), (2, 1, 0, [2, 3, 4]), (2, 2, 0, [2, None, None])]
    assert_holds(stored, expected)


def test_rows_without_an_object_of_features(tmp_path):
    text = logs.lines(
        [{"q": "a", "docid": "x", "relevance": 1, "price": 3, "text": {"length": 5}, "name": "n"}]
    )
    path = written(tmp_path, text)
    with pytest.raises(DataError, match=r"jsonl:1: the row names no query .*--qid-column"):
        dr.open_dataset(path)
    with pytest.raises(DataError, match=r"jsonl:1: feature 'name' is a text.*--exclude name"):
        dr.open_dataset(path, columns=dr.Columns(qid="q"))
    data = dr.open_dataset(path, columns=dr.Columns(qid="q", exclude=["name"]))
    assert data.feature_names == ("price", "text.length")
    text = logs.lines([{"qid": 1, "relevance": 0, "features": [1, 2]}])
    data, _ = dr.ingest(written(tmp_path, text), tmp_path / "d")
    assert data.feature_names == ("f1", "f2")


HIT = {"_id": "d", "fields": {"_ltrlog": [{"log": [{"name": "a", "value": 1}]}]}}
HOSTILE = {
    '{"qid": 1, "features": {"a": "Infinity"}}': "1: feature 'a' is infinite",
    '{"qid": 1, "features": {"a": Infinity}}': "1: feature 'a' is infinite",
    '{"qid": 1, "features": {"a": 1e999}}': "1: feature 'a' is infinite",
    '{"qid": 1, "features": {"a": 1' + "0" * 400 + "}}": "1: feature 'a' is infinite",
    '{"qid": 1, "features": {"a": "1.5"}}': "1: feature 'a' is a text, '1.5'",
    '{"qid": 1, "features": {"a": [[1]]}}': "1: feature 'a' is a list of lists",
    '{"qid": 1, "features": {"a": []}}': "1: list 'a' is empty",
    '{"qid": 1, "features": {"a": [1]}}\n{"qid": 1, "features": {"a": [1, 2]}}': (
        "2: list 'a' has 2 numbers, and 1 in documents before it"
    ),
    '{"qid": 1, "features": {"a": [1]}}\n{"qid": 1, "features": {"a": 1}}': (
        "2: feature 'a' is a number, and a list"
    ),
    '{"qid": 1, "features": {"a": 1}}\n{"qid": 1, "features": {"a": [1]}}': (
        "2: feature 'a' is a list, and a number"
    ),
    '{"qid": 1, "features": {"a": {"b": 1}, "a.b": 2}}': "1: feature 'a.b' has two values, 1.0 and",
    '{"qid": 1, "features": {"qid": 1}}': "log.jsonl: feature 'qid' has the name of the column",
    '{"qid": 1.5, "features": {"a": 1}}': "1: a query id is 1.5; ids are texts or whole numbers",
    '{"qid": 1, "features": {"\\ud800": 1}}': "1: the name of feature .* is no text of Unicode",
    '{"qid": 1, "weight": "high", "features": {"a": 1}}': "1: a weight is 'high'",
    '{"qid": 1, "features": {"a": 1}}\n{"qid": 1,': "2: the line is no JSON",
    '{"qid": 1,\n "features": {"a": 1,}}': "2: is no JSON",
    "[" * 100_000: r"1: is no JSON \(it is nested too deep",
    "[1]": "1: is 1, and must be an object",
    "[]": "there are no documents",
    logs.EMPTY: "there are no documents",
    '{"qid": 1, "weight": 1' + "0" * 400 + ', "features": {"a": 1}}': "1: a weight is beyond float",
    json.dumps({"qid": 1, "_id": "d", "fields": {"_ltrlog": [{"m": [{"name": ["a"]}]}]}}): (
        r"1: document 'd': the name of a feature is \['a'\], and must be a text"
    ),
    json.dumps({"qid": 1, "hits": []}): "no rows|no documents",
    json.dumps({"qid": 1, "hits": {"hits": [{"_id": "d", "fields": {"_ltrlog": [{"m": []}]}}]}}): (
        "log.jsonl: no document has a feature. Does the search log them"
    ),
    json.dumps(HIT): "1: document 'd' belongs to no response and names no query",
    json.dumps({"qid": 1, "hits": {"hits": [HIT, {"_id": "e"}]}}): "1: document 'e' has no logged",
    json.dumps({"responses": [{"error": {"type": "parse"}, "status": 400}]}): (
        "1: is no response but an error of the engine"
    ),
    json.dumps(
        {"qid": 1, **HIT, "fields": {"_ltrlog": [{"one": [{"name": "a", "value": 1}],
                                                  "two": [{"name": "a", "value": 2}]}]}}
    ): "1: document 'd': feature 'a' has two values",
    json.dumps({"qid": 1, "response": {"docs": [{"id": 5, "[features]": "a=1,b"}]}}): (
        r"1: document 5: \[features\] is 'a=1,b', and reads name=value"
    ),
    json.dumps({"qid": 1, "response": {"docs": [{"[features]": "a=1"}]}}): (
        "1: a document of query 1 has no id"
    ),
}  # fmt: skip


@pytest.mark.parametrize("columns", [UNLABELLED, dr.Columns(relevance="judged")])
def test_a_label_is_no_feature_whatever_key_holds_the_grade(tmp_path, columns):
    path = written(tmp_path, '{"qid": 1, "docid": "a", "label": 2, "judged": 1, "bm25": 3.5}\n')
    names = dr.open_dataset(path, columns=columns).feature_names
    assert names == (("judged", "bm25") if columns is UNLABELLED else ("bm25",))


def test_json_in_one_long_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text_source, "MAX_LINE_BYTES", 1_000)
    rows = [{"qid": 1, "docid": d, "relevance": 0, "features": {"a": d}} for d in range(3)]
    text = "[" + " " * (1 << 21) + json.dumps(rows)[1:]
    for name in ("log.json", "log.json.gz"):
        data = dr.open_dataset(written(tmp_path, text, name))
        assert_holds(data, [(1, d, 0, [d]) for d in range(3)])


def test_an_empty_response_among_others_that_name_their_query(tmp_path):
    named = {"hits": {"hits": [{"query_id": "q1", **HIT}]}}
    path = written(tmp_path, logs.lines([named, {"hits": {"hits": []}}]))
    assert_holds(dr.open_dataset(path, columns=UNLABELLED), [("q1", "d", None, [1])])
    path = written(tmp_path, logs.lines([{"hits": {"hits": []}}]))
    with pytest.raises(DataError, match="there are no documents"):
        dr.ingest(path, tmp_path / "d", rows=rules({"q1": {"d": 1}}))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:60])
def test_hostile_logs(tmp_path, text):
    path = written(tmp_path, text)
    with pytest.raises(DataError, match=HOSTILE[text]) as found:
        dr.ingest(path, tmp_path / "d", columns=UNLABELLED)
    assert "log.jsonl" in str(found.value)
    with pytest.raises(DataError, match=HOSTILE[text]):
        dr.open_dataset(path, columns=UNLABELLED)


def test_a_document_that_comes_twice_in_a_query(tmp_path):
    path = written(tmp_path, logs.solr({"d": "a=1.0"}) + logs.solr({"d": "a=2.0", "e": "a=3.0"}))
    with pytest.warns(DataWarning, match="1 rows gave way to later rows"):
        data, _ = dr.ingest(path, tmp_path / "d", columns=UNLABELLED)
    assert [(d, v) for _, d, _, v in documents_of(data)] == [("d", [2]), ("e", [3])]


values = st.one_of(st.none(), st.integers(-3, 3), st.floats(-1e6, 1e6, width=32))
names = st.sampled_from(["a", "b", "title.bm25", "recency of x", "é"])


@st.composite
def logged(draw):
    """Queries in order, each with documents and their features, and judgements of some of them."""
    queries = []
    for query in range(draw(st.integers(1, 5))):
        documents = draw(st.lists(st.dictionaries(names, values, min_size=1), max_size=4))
        queries.append((f"q{query}", [(f"d{i}", each) for i, each in enumerate(documents)]))
    pairs = [(query, document) for query, found in queries for document, _ in found]
    judged = draw(st.lists(st.sampled_from([*pairs, ("q0", "no")]), unique=True))
    return queries, [(*pair, draw(st.integers(-1, 3))) for pair in judged]


@settings(max_examples=40)
@given(logged(), st.sampled_from(["elasticsearch", "solr", "rows"]), st.integers(20, 400))
def test_logs_equal_a_plain_reader(tmp_path_factory, log, engine, range_bytes):
    queries, qrels = log
    n_documents = sum(len(found) for _, found in queries)
    text = {"elasticsearch": es_text, "solr": solr_text, "rows": rows_text}[engine](queries)
    expected = getattr(reference, engine)(text)
    order = [*dict.fromkeys(name for each in expected for name in each["features"])]
    if engine != "rows":
        expected = reference.judged(expected, qrels)
    rows = [
        (each["query"], each["document"], each["grade"],
         [each["features"].get(name) for name in order])
        for each in expected
    ]  # fmt: skip
    if not n_documents or not order or all(grade is None for _, _, grade, _ in rows):
        return
    folder = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_logs.open_rows, "RANGE_BYTES", range_bytes)
        patch.setattr(open_logs.open_rows, "MIN_RANGE_BYTES", range_bytes)
        patch.setattr(log_rows, "PIECE_BYTES", 2 * range_bytes)
        stored, _ = dr.ingest(
            written(folder, text),
            folder / "d",
            rows=rules(None if engine == "rows" else grades_of(qrels)),
        )
    assert stored.feature_names == tuple(order)
    assert_holds(stored, rows)


def grades_of(qrels):
    found = {}
    for query, document, grade in qrels:
        found.setdefault(query, {})[document] = grade
    return found


def es_text(queries):
    def hit(document, features):
        entries = [
            {"name": name} if value is None else {"name": name, "value": value}
            for name, value in features.items()
        ]
        return {"_id": document, "fields": {"_ltrlog": [{"main": entries}]}}

    return logs.lines(
        [
            {"query_id": query, "response": {"hits": {"hits": [hit(*each) for each in found]}}}
            for query, found in queries
        ]
    )


def solr_text(queries):
    return "".join(
        logs.solr(
            {d: ",".join(f"{n}={float(v or 1)}" for n, v in f.items()) for d, f in found}, query
        )
        for query, found in queries
    )


def rows_text(queries):
    return logs.lines(
        [
            {"query_id": query, "doc_id": document, "relevance": 1, "features": features}
            for query, found in queries
            for document, features in found
        ]
    )


TABLE = pa.table(
    {
        "qid": ["b", "a", "b"],
        "docid": [1, 2, 3],
        "x": [0.5, None, 2.0],
        "n": pa.array([1, 2, 3], pa.int8()),
    }
)


def test_tables_and_arrow_files_with_judgements(tmp_path):
    """Grades join by ids as texts; a document without one has no label."""
    pq.write_table(TABLE, tmp_path / "t.parquet")
    pa.feather.write_feather(TABLE, tmp_path / "t.feather")
    with pa.ipc.new_stream(tmp_path / "t.arrows", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)
    qrels = {"b": {"1": 2, "9": 1}, "a": {"2": 1}}
    expected = [("b", 1, 2, [0.5, 1]), ("b", 3, None, [2, 3]), ("a", 2, 1, [None, 2])]
    files = [tmp_path / name for name in ("t.parquet", "t.feather", "t.arrows")]
    for source in (TABLE, *files):
        stored, facts = dr.ingest(source, tmp_path / "d", rows=rules(qrels), overwrite=True)
        assert_holds(stored, expected)
        assert (facts.n_judged, facts.n_judged_absent) == (2, 1)
    for source in files[1:]:
        with pytest.raises(DataError, match=rf"{source.name}: row 1, column 'x'.*missing"):
            dr.ingest(source, tmp_path / "e", rows=dr.RowRules(judgements=qrels))
        sorted_rows = TABLE.sort_by("qid")
        pa.feather.write_feather(sorted_rows, source)
        data = dr.open_dataset(source, columns=UNLABELLED, null="zero")
        assert [d for _, d, _, _ in documents_of(data)] == [2, 1, 3]
        source.write_bytes(source.read_bytes()[:-40])
        with pytest.raises(DataError, match=rf"{source.name}: cannot be read as an Arrow file"):
            dr.ingest(source, tmp_path / "e", rows=dr.RowRules(judgements=qrels))


def test_odd_columns_of_arrow_files(tmp_path):
    """A column that is left out may have any type; types that differ are an error."""
    gaps = pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval())
    table = TABLE.append_column("gap", gaps).append_column("relevance", [[1, 0, 1]])
    path = tmp_path / "gap.feather"
    pa.feather.write_feather(table, path)
    columns = dr.Columns(exclude=["gap", "x"])
    stored, _ = dr.ingest(path, tmp_path / "d", columns=columns)
    assert stored.feature_names == ("n",)
    other = tmp_path / "other.feather"
    pa.feather.write_feather(table.set_column(0, "qid", [[1, 2, 1]]), other)
    with pytest.raises(DataError, match=r"gap\.feather.* columns of different types"):
        dr.open_dataset([path, other], columns=columns)


def test_judgements_that_do_not_fit(tmp_path):
    pq.write_table(TABLE.append_column("relevance", [[1, 0, 0]]), tmp_path / "t.parquet")
    (tmp_path / "t.txt").write_text("1 qid:1 1:2\n")
    qrels = {"b": {"1": 2}}
    lazy = dd.from_pandas(TABLE.to_pandas(), npartitions=2)
    for source, judgements, columns, kind, message in (
        (lazy, qrels, {}, UsageError, "not for a Dask collection"),
        (TABLE, {"b": {"7": 2}}, {}, DataError, "no document of the data is judged in"),
        (TABLE.drop_columns("docid"), qrels, {}, DataError, "no document ids, by which"),
        (TABLE, qrels, {"relevance": None}, UsageError, "leave out --no-relevance"),
        (tmp_path / "t.parquet", qrels, {}, UsageError, "has grades already.*--exclude relevance"),
        (tmp_path / "t.txt", qrels, {}, UsageError, "judgements: only for tables and logs"),
        (TABLE, tmp_path / "none.txt", {}, DataError, "none.txt: there is no such file"),
    ):
        with pytest.raises(kind, match=message):
            dr.ingest(source, tmp_path / "d", rows=rules(judgements), columns=columns)
        assert not (tmp_path / "d").exists()
    again = dr.Columns(relevance="judged", exclude=["relevance"])
    stored, _ = dr.ingest(tmp_path / "t.parquet", tmp_path / "d", columns=again, rows=rules(qrels))
    assert stored.n_unlabelled == 2


def test_exported_models_name_the_features_of_the_log(tmp_path):
    """Log, training and export end to end; the engine's model names what the engine logs."""
    es, solr = logs.NAMED["responses in lines"], logs.SOLR
    qrels = {"rambo": {"1370": 3, "1369": 1}, "q7": {"GB18030TEST": 1, "UTF8TEST": 0}}
    for text, kind in ((es, "opensearch"), (solr, "solr")):
        path = written(tmp_path, text)
        data, _ = dr.ingest(path, tmp_path / kind, rows=rules(qrels))
        model = dr.RankRLS().fit(data).to_model()
        exported = json.loads(dr.export_model(model, kind))
        if kind == "solr":
            wanted = ["documentRecency", "originalScore"]  # isBook is constant
            assert [each["name"] for each in exported["features"]] == wanted
            assert [*exported["params"]["weights"]] == wanted
        else:
            definition = json.loads(exported["model"]["model"]["definition"])
            assert [*definition] == ["title_query", "body_query"]
        scores = model.predict(dr.open_dataset(path, columns=UNLABELLED, null="zero"))
        assert len(scores) == data.n_documents
