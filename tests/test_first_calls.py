"""Calls that new users try first: each works, or the error says what to do."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold

import dranking as dr
from dranking.data.transforms import Log

NAMES = list("abcd")


@pytest.fixture(scope="module")
def table():
    """A frame with grades and adjacent rows of each query."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(240, 4)), columns=NAMES)
    return frame.assign(relevance=rng.integers(0, 3, 240), qid=np.repeat(np.arange(24), 10))


@pytest.fixture(scope="module")
def ranker(table):
    return dr.RankRLS().fit(table)


def test_estimators_models_and_scores_are_evaluated_on_tables(table, ranker):
    expected = dr.evaluate(ranker.to_model(), dr.from_table(table)).metrics
    for scorer in (ranker, ranker.to_model(), ranker.predict(table[NAMES])):
        assert dr.evaluate(scorer, table).metrics == pytest.approx(expected)
    assert dr.compare(dr.evaluate(ranker, table), dr.evaluate("a", table))["map"].n_queries == 24


def test_a_duckdb_relation_is_a_table(table, ranker):
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.from_df(table)
    np.testing.assert_array_equal(dr.RankRLS().fit(relation).coef_, ranker.coef_)
    assert dr.evaluate(ranker, relation).metrics == dr.evaluate(ranker, table).metrics
    assert dr.open_dataset(relation).feature_names == dr.open_dataset(table).feature_names


def test_searches_and_validation_take_tables(table):
    data = dr.from_table(table)
    found, expected = (dr.tune(d, [1.0, 8.0], validation=d, model="rankrls") for d in (table, data))
    assert found.grid == expected.grid
    steps = dr.SGD(n_epochs=1, steps_per_epoch=20)
    found, expected = (dr.SPD(sgd=steps).fit(d, validation=d) for d in (table, data))
    [point], [same] = found.learning_curve_, expected.learning_curve_
    assert point.validation == same.validation is not None
    unlabelled = dr.LCRA(sgd=steps)
    bits = [unlabelled.fit(data, unlabelled=d).coef_.tobytes() for d in (table, data)]
    assert bits[0] == bits[1]


def test_dask_frames_are_judged_queries_too(table, ranker):
    import dask.dataframe as dd

    frame = dd.from_pandas(table, npartitions=2)
    assert dr.evaluate(ranker, frame).metrics == dr.evaluate(ranker, table).metrics
    found, expected = (
        dr.tune(data, [1.0, 8.0], validation=data, model="rankrls") for data in (frame, table)
    )
    assert found.grid == expected.grid


def test_csv_is_refused_with_the_way_to_read_it(table, tmp_path):
    table.to_csv(tmp_path / "judged.csv", index=False)
    with pytest.raises(dr.DataError, match=r"CSV .* is not read.*read_csv.*from_table"):
        dr.open_dataset(tmp_path / "judged.csv")


def test_a_ranker_is_exported_as_its_model(ranker):
    assert dr.export_model(ranker, "sql") == dr.export_model(ranker.to_model(), "sql")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, r: dr.open_dataset(t.rename(columns={"qid": "query"})), r"Columns\(qid=\.\.\."),
        (lambda t, r: dr.RankRLS().fit(t[NAMES], t["relevance"], qid=[10] * 24), "np.repeat"),
        (lambda t, r: dr.open_dataset(t.to_numpy()), r"from_arrays\(X, y, qid\)"),
        (lambda t, r: dr.evaluate(r, t.to_numpy()), r"from_arrays\(X, y, qid\)"),
        (lambda t, r: dr.evaluate(r, t[[*NAMES, "qid"]]), r"Columns\(relevance=\.\.\."),
        (
            lambda t, r: dr.evaluate(r, t.rename(columns={"qid": "query", "relevance": "label"})),
            r"dr\.from_table\(table, dr\.Columns\(qid=\.\.\., relevance=\.\.\.\)\)\.$",
        ),
        (
            lambda t, r: dr.RankRLS().fit(dd.from_pandas(t.rename(columns={"relevance": "label"}))),
            r"fit\(frame, y=\.\.\.\)",
        ),
        (lambda t, r: dr.evaluate("m.json", t), r"load_model\('m\.json'\)"),
        (lambda t, r: dr.compare(dr.evaluate(r, t), r), r"dranking\.evaluate\(a, data\)"),
        (lambda t, r: dr.RankRLS().fit(t.sample(frac=1, random_state=0)), "sort them by query"),
        (lambda t, r: dr.RankRLS().fit(t.assign(title="x")), r"Columns\(exclude="),
        (
            lambda t, r: dr.RankRLS().fit(
                t[NAMES].assign(a=t["a"].gt(0).astype("category")), t["relevance"], qid=t["qid"]
            ),
            "get_dummies",
        ),
        (lambda t, r: dr.RankRLS().fit(t.assign(b=t["b"].where(t["b"] > 0))), "fillna"),
        (lambda t, r: r.predict(t[NAMES].iloc[0]), "Reshape your data"),
        (lambda t, r: r.predict({"a": 1.0}), r"must be \(n_documents, n_features\)"),
        (lambda t, r: dr.tune(t, [1.0], validation="test.zarr"), "give judged queries"),
    ],
)
def test_errors_say_what_to_do(table, ranker, call, message):
    with pytest.raises(dr.DrankingError, match=message):
        call(table, ranker)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": [10] * 24}, r"qid=np\.repeat\(np\.arange\(len\(group\)\), group\)"),
        ({"groups": [0] * 240}, "as qid="),
        ({"sample_weight": np.ones(240)}, "query_weights="),
        ({"eval_set": [(np.ones((2, 3)), [0, 1])]}, r"dr\.tune\(train, grid, validation=later\)"),
    ],
)
@pytest.mark.parametrize("ranker", [dr.RankRLS(), dr.GreedyRankRLS(2), dr.SPD()], ids=repr)
def test_arguments_of_other_libraries_are_named_with_what_to_pass(table, ranker, options, message):
    with pytest.raises(TypeError, match=message):
        ranker.fit(table[NAMES], table["relevance"], **options)


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
@pytest.mark.parametrize("form", [pd.DataFrame, np.asarray])
def test_a_search_of_scikit_learn_without_routing_says_what_is_missing(table, form):
    search = GridSearchCV(dr.RankRLS(), {"regularization": [1.0]}, cv=GroupKFold(2))
    X, y, qid = form(table[NAMES]), table["relevance"], table["qid"]
    said = r"(?s)Scoring failed.*enable_metadata_routing=True"
    with pytest.warns(UserWarning, match=said):
        search.fit(X, y, groups=qid, qid=qid)


def test_a_dask_frame_is_scored_as_the_table_is(table, ranker):
    import dask.dataframe as dd

    frame = dd.from_pandas(table, npartitions=2)
    expected = ranker.score(table)
    assert ranker.score(frame) == expected
    assert ranker.score(frame, "relevance", qid="qid") == expected
    for rows, names in ((table, NAMES), (frame, NAMES), (table, [*table]), (frame, [*table])):
        assert ranker.score(rows[names], rows["relevance"], qid=rows["qid"]) == expected


def test_values_of_queries_are_a_frame(table):
    weighted = table.assign(weight=np.where(table["qid"] < 12, 2.0, 1.0), a=-table["relevance"])
    frame = dr.evaluate("a", weighted, ["map", "hit@10"]).to_frame()
    assert frame.index.name == "query_id"
    assert list(frame.index) == list(range(24))
    assert list(frame.columns) == ["weight", "map", "hit@10"]
    assert list(frame["weight"]) == [2.0] * 12 + [1.0] * 12
    has_relevant = table.groupby("qid")["relevance"].max() > 0
    assert list(frame["hit@10"].fillna(0.0)) == list(has_relevant * 1.0)
    compared = dr.compare(dr.evaluate("a", table), dr.evaluate("b", table)).to_frame()
    assert compared.loc["map", "n_queries"] == 24


def test_objects_say_in_a_line_what_they_hold(table, tmp_path):
    memory = dr.from_table(table)
    sizes = "24 queries, 240 documents, 4 features"
    stored = dr.write_dataset(memory, tmp_path / "judged.zarr")
    model = dr.LinearModel(feature_names=tuple("abcdefg"), weights=(1, -9, 3, 0.5, 2, 1e-6, 4.25))
    evaluated = dr.evaluate("a", table.assign(a=table["relevance"]), ["ndcg"])
    expected = {
        f"MemoryDataset({sizes})": memory,
        f"StoredDataset({tmp_path / 'judged.zarr'}, {sizes})": stored,
        f"QuerySubset(2 queries, of MemoryDataset({sizes}))": memory.select_queries(
            np.arange(24) < 2
        ),
        "LinearModel(7 features, -9 b, 4.25 g, 3 c, 2 e, 1 a, ... 2 more)": model,
        "Evaluation(ndcg 1.0000; 24 queries, 0 excluded)": evaluated,
        "Comparison(A - B: ndcg +0.0000 [0.0000, 0.0000]; 24 queries)": dr.compare(
            evaluated, evaluated
        ),
        "PerQuery(24 queries: ndcg)": evaluated.per_query,
    }
    for text, each in expected.items():
        assert repr(each) == text
    log = dr.RankRLS(normalize="log").fit(table.assign(**{n: table[n] ** 2 for n in NAMES}))
    assert repr(log.to_model()).startswith("LinearModel(4 features, scaling: log, ")


def test_a_data_set_is_written_as_it_is(table, tmp_path):
    named = table.rename(columns={"qid": "query", "relevance": "grade"})
    dataset = dr.open_dataset(named, columns=dr.Columns(qid="query", relevance="grade"))
    scaled = dataset.transformed([Log()])
    stored = dr.write_dataset(scaled, tmp_path / "judged.zarr")
    assert (stored.fingerprint, stored.roles) == (scaled.fingerprint, dataset.roles)
    assert stored.transforms == (Log(),)
    np.testing.assert_array_equal(stored.block(0).features, scaled.block(0).features)
